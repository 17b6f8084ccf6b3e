// Feature maps. Maps of entries: four entries a thread; maps of rows: a warp a row. FAVOR+: the product with
// omega is a tiled product whose tiles are exponentiated as they are stored, so that O x is never written;
// |x|^2 is summed from the tiles of x that pass through shared memory anyway.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/feature_map/feature_entry.cuh"
#include "kernels/matmul/gemm.cuh"

namespace crosstalk {
namespace {
using namespace device;

constexpr int kThreads = 256, kWarps = kThreads / 32;

// Maps of single entries: four neighbours a thread.
template <class Real>
__global__ void __launch_bounds__(kThreads) map_entries(const __grid_constant__ MapFeatures<Real> a) {
  const std::int64_t i = 4 * (std::int64_t{blockIdx.x} * kThreads + threadIdx.x), n = a.x.value.size();
  if (i >= n) return;
  const int r = blockIdx.y, valid = n - i >= 4 ? 4 : static_cast<int>(n - i);
  Real x[4];
  load4(a.x.value.at(r) + i, valid, true, x);
  Real* y = a.y.value.at(r) + i;
  CT_FOR(k, 4) x[k] = map_entry(a.map, x[k]);
  if (valid == 4)
    *reinterpret_cast<Four<Real>*>(y) = {{x[0], x[1], x[2], x[3]}};
  else
    for (int k = 0; k < valid; ++k) y[k] = x[k];
}

template <class Real>
__global__ void __launch_bounds__(kThreads)
    map_entries_backward(const __grid_constant__ MapFeatures<Real> a) {
  const std::int64_t i = 4 * (std::int64_t{blockIdx.x} * kThreads + threadIdx.x), n = a.x.gradient.size();
  if (i >= n) return;
  const int r = blockIdx.y, valid = n - i >= 4 ? 4 : static_cast<int>(n - i);
  Real x[4] = {}, y[4] = {}, d_y[4], d_x[4] = {};
  if (a.x.value) load4(a.x.value.at(r) + i, valid, true, x);
  if (a.y.value) load4(a.y.value.at(r) + i, valid, true, y);
  load4(a.y.gradient.at(r) + i, valid, true, d_y);
  if (a.x.write == Write::add) load4(a.x.gradient.at(r) + i, valid, true, d_x);
  CT_FOR(k, 4) d_x[k] += map_entry_backward(a.map, x[k], y[k], d_y[k]);
  Real* out = a.x.gradient.at(r) + i;
  if (valid == 4)
    *reinterpret_cast<Four<Real>*>(out) = {{d_x[0], d_x[1], d_x[2], d_x[3]}};
  else
    for (int k = 0; k < valid; ++k) out[k] = d_x[k];
}

/// A warp that makes a row.
struct WarpTeam {
  static constexpr int kLanes = 32;
  int lane = 0;
  CT_HD void sync() const {
#ifdef __CUDA_ARCH__
    __syncwarp();
#endif
  }
  template <class Real>
  CT_HD Real sum(Real x) const {
#ifdef __CUDA_ARCH__
    return warp_sum(x);
#else
    return x;
#endif
  }
  template <class Real>
  CT_HD Real max(Real x) const {
#ifdef __CUDA_ARCH__
    return warp_max(x);
#else
    return x;
#endif
  }
  CT_HD void each(int begin, int end, auto&& f) const {
    for (int i = begin + ((lane - begin) & 31); i < end; i += kLanes) f(i);
  }
};

template <class Map, class Real>
CT_DEVICE auto row_of(const MapFeatures<Real>& a, int r, std::int64_t n, int p, unsigned char* shared) {
  const int d = a.x.value.columns();
  maps::MapRow<Real> row;
  row.d = d, row.p = p, row.number = a.number, row.x = a.x.value.at(r) + n * d;
  row.work = reinterpret_cast<Real*>(shared) + (threadIdx.x / 32) * Map::work(d, WarpTeam::kLanes);
  return row;
}

// Maps of whole rows: a warp a row.
template <class Map, class Real>
__global__ void __launch_bounds__(kThreads) map_rows(const __grid_constant__ MapFeatures<Real> a) {
  extern __shared__ __align__(16) unsigned char raw[];
  const std::int64_t n = std::int64_t{blockIdx.x} * (blockDim.x / 32) + threadIdx.x / 32;
  const int r = static_cast<int>(blockIdx.y), p = a.y.value.columns();
  if (n >= a.x.value.rows()) return;
  const WarpTeam team{CT_LANE};
  Map::forward(team, row_of<Map>(a, r, n, p, raw), a.y.value.at(r) + n * p);
}

template <class Map, class Real>
__global__ void __launch_bounds__(kThreads) map_rows_backward(const __grid_constant__ MapFeatures<Real> a) {
  extern __shared__ __align__(16) unsigned char raw[];
  const std::int64_t n = std::int64_t{blockIdx.x} * (blockDim.x / 32) + threadIdx.x / 32;
  const int r = static_cast<int>(blockIdx.y), d = a.x.gradient.columns(), p = a.y.gradient.columns();
  if (n >= a.x.gradient.rows()) return;
  const WarpTeam team{CT_LANE};
  const maps::RowGradient<Real> d_x{a.x.gradient.at(r) + n * d, a.x.write};
  Map::backward(team, row_of<Map>(a, r, n, p, raw), a.y.value.at(r) + n * p, a.y.gradient.at(r) + n * p, d_x);
}

/// Launches as many warps a block as their work fits shared memory.
template <class Map, class Real>
void launch_rows(const Exec& exec, const MapFeatures<Real>& a, const char* name,
                 void (*kernel)(MapFeatures<Real>)) {
  const std::size_t work = static_cast<std::size_t>(Map::work(a.x.value.columns(), WarpTeam::kLanes)) *
                           sizeof(Real),
                    limit = shared_memory_limit();
  if (work > limit)
    refuse_shape(name, "columns", a.x.value.columns(), static_cast<int>(a.x.value.columns() * limit / work));
  int warps = kWarps;
  while (work * static_cast<std::size_t>(warps) > limit) --warps;
  launch(exec, name, kernel, per_replica(blocks_for(a.x.value.rows(), warps), a.x.value.R), 32 * warps,
         work * static_cast<std::size_t>(warps), a);
}

// y = exp(x O^T - |x|^2 / 2 - log(p) / 2), and exp(- x O^T ...) beside it for the hyperbolic map; |x|^2 is
// summed beside the product.
template <class Real>
struct FavorForward : Product<Real, true, true> {
  static constexpr bool kSide = true;
  Real shift = 0;
  bool both = false;

  __device__ bool wants_side(int) const { return true; }
  __device__ static void add_side(const Real (&v)[4], Real* squares) {
    CT_FOR(i, 4) squares[0] += v[i] * v[i];
  }
  __device__ void load_a(int row, int k, Real (&v)[4], Real* squares) const {
    Product<Real, true, true>::load_a(row, k, v, squares);
    add_side(v, squares);
  }
  template <int W>
  __device__ void store(int row, int column, Real (&u)[W], Real squares) const {
    if (row >= this->M) return;
    const Real offset = shift - squares / 2;
    Real* y = this->c_ + (std::int64_t{row} * this->c.ld + column);
    Real plus[W], minus[W];
    CT_FOR(j, W) plus[j] = exp(u[j] + offset), minus[j] = exp(offset - u[j]);
    if (column + W <= this->N && this->aligned_c && this->N % 4 == 0) {
      put_all(y, plus);
      if (both) put_all(y + this->N, minus);
      return;
    }
    CT_FOR(j, W) {
      if (column + j >= this->N) return;
      y[j] = plus[j];
      if (both) y[this->N + j] = minus[j];
    }
  }
};

// d_x = d_u O - x sum(y d_y), with d_u = y+ d_y+ - y- d_y- made, and y d_y summed, while tiles are loaded.
template <class Real>
struct FavorBackward : Product<Real, true, false, Mask::none, false> {
  static constexpr bool kSide = true;
  bool both = false;
  Operand<const Real> x, y;  // a is d_y, b omega, c d_x

  const Real *x_, *y_;

  __device__ void bind(int r, int batch) {
    Product<Real, true, false, Mask::none, false>::bind(r, batch);
    x_ = x.at(r, batch);
    y_ = y.at(r, batch);
    this->aligned_a = is_aligned16(this->a_) && is_aligned16(y_) && this->a.ld % 4 == 0 && this->K % 4 == 0;
  }
  __device__ void load_a(int row, int k, Real (&v)[4], Real* total) const {
    const int valid = row < this->M ? this->K - k : 0, at = valid > 0 ? row * this->a.ld + k : 0;
    Real g[4];
    load4(y_ + at, valid, this->aligned_a, v);
    load4(this->a_ + at, valid, this->aligned_a, g);
    CT_FOR(i, 4) {
      v[i] *= g[i];
      total[0] += v[i];
    }
    if (!both) return;
    Real minus[4];
    load4(y_ + at + this->K, valid, this->aligned_a, minus);
    load4(this->a_ + at + this->K, valid, this->aligned_a, g);
    CT_FOR(i, 4) {
      minus[i] *= g[i];
      total[0] += minus[i];
      v[i] -= minus[i];
    }
  }
  __device__ bool wants_side(int) const { return true; }
  template <int W>
  __device__ void store(int row, int column, Real (&v)[W], Real total) const {
    if (row >= this->M) return;
    const int at = row * this->N + column;
    CT_FOR(j, W)
      if (column + j < this->N) put(this->mode, this->c_ + at + j, v[j] - x_[at + j] * total);
  }
};

template <class Real>
void favor_forward(const Exec& exec, const MapFeatures<Real>& a) {
  FavorForward<Real> op;
  const int d = a.x.value.columns(), p = a.y.value.columns();
  op.M = static_cast<int>(a.x.value.rows()), op.N = a.omega.value.dim(0), op.K = d;
  op.a = {a.x.value.data, a.x.value.replica_stride, 0, d};
  op.b = {a.omega.value.data, a.omega.value.replica_stride, 0, d};
  op.c = {a.y.value.data, a.y.value.replica_stride, 0, p};
  op.shift = -std::log(static_cast<Real>(p)) / 2;
  op.both = p == 2 * op.N;
  gemm<Real>(exec, "feature map", op, 1, a.x.value.R);
}

template <class Real>
void favor_backward(const Exec& exec, const MapFeatures<Real>& a) {
  FavorBackward<Real> op;
  op.M = static_cast<int>(a.x.gradient.rows()), op.N = a.x.gradient.columns(), op.K = a.omega.value.dim(0);
  op.both = a.y.gradient.columns() == 2 * op.K;
  op.a = {a.y.gradient.data, a.y.gradient.replica_stride, 0, a.y.gradient.columns()};
  op.b = {a.omega.value.data, a.omega.value.replica_stride, 0, op.N};
  op.c = {a.x.gradient.data, a.x.gradient.replica_stride, 0, op.N};
  op.x = {a.x.value.data, a.x.value.replica_stride, 0, op.N};
  op.y = {a.y.value.data, a.y.value.replica_stride, 0, a.y.gradient.columns()};
  op.mode = a.x.write;
  gemm<Real>(exec, "feature map backward", op, 1, a.x.gradient.R);
}

}  // namespace

template <class Real>
void forward_cuda(const Exec& exec, const MapFeatures<Real>& a) {
  if (a.x.value.rows() == 0 || a.x.value.R == 0) return;
  visit_map(a.map, [&]<class Map>() {
    if constexpr (Map::kFamily == maps::Family::entry)
      launch(exec, "feature map", map_entries<Real>,
             per_replica(blocks_for(a.x.value.size(), 4 * kThreads), a.x.value.R), kThreads, 0, a);
    else if constexpr (Map::kFamily == maps::Family::row)
      launch_rows<Map>(exec, a, "feature map", map_rows<Map, Real>);
    else
      favor_forward(exec, a);
  });
}

template <class Real>
void backward_cuda(const Exec& exec, const MapFeatures<Real>& a) {
  if (!a.x.wanted() || a.x.gradient.rows() == 0 || a.x.gradient.R == 0) return;
  visit_map(a.map, [&]<class Map>() {
    if constexpr (Map::kFamily == maps::Family::entry)
      launch(exec, "feature map backward", map_entries_backward<Real>,
             per_replica(blocks_for(a.x.gradient.size(), 4 * kThreads), a.x.gradient.R), kThreads, 0, a);
    else if constexpr (Map::kFamily == maps::Family::row)
      launch_rows<Map>(exec, a, "feature map backward", map_rows_backward<Map, Real>);
    else
      favor_backward(exec, a);
  });
}

CROSSTALK_INSTANTIATE(cuda, MapFeatures)

}  // namespace crosstalk
