// Feature maps. Elementwise maps and DPFP: a warp a row. FAVOR+: the product with omega is a tiled product
// whose tiles are exponentiated as they are stored, so that O x is never written; |x|^2 is summed from the
// tiles of x that pass through shared memory anyway. SPDX-License-Identifier: Apache-2.0
#include "kernels/ops/feature_entry.cuh"
#include "kernels/ops/gemm.cuh"

namespace crosstalk {
namespace {
using namespace device;

constexpr int kThreads = 256, kWarps = kThreads / 32;

// Entry i of f = [relu(x); relu(-x)].
template <class Real>
__device__ __forceinline__ Real entry_of_f(const Real* x, int i, int d) {
  return rectified(i < d ? x[i] : -x[i - d]);
}

// Maps of single entries: four neighbours a thread.
template <class Real>
__global__ void __launch_bounds__(kThreads) map_entries(const __grid_constant__ FeatureMapForward<Real> a) {
  const std::int64_t i = 4 * (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x), n = a.x.size();
  if (i >= n) return;
  const int r = blockIdx.y, valid = n - i >= 4 ? 4 : static_cast<int>(n - i);
  Real x[4];
  load4(a.x.at(r) + i, valid, true, x);
  Real* y = a.y.at(r) + i;
#pragma unroll
  for (int k = 0; k < 4; ++k) x[k] = map_entry(a.map, x[k]);
  if (valid == 4) {
    *reinterpret_cast<Four<Real>*>(y) = {{x[0], x[1], x[2], x[3]}};
  } else {
    for (int k = 0; k < valid; ++k) y[k] = x[k];
  }
}

template <class Real>
__global__ void __launch_bounds__(kThreads)
    map_entries_backward(const __grid_constant__ FeatureMapBackward<Real> a) {
  const std::int64_t i = 4 * (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x),
                     n = a.d_x.size();
  if (i >= n) return;
  const int r = blockIdx.y, valid = n - i >= 4 ? 4 : static_cast<int>(n - i);
  Real x[4] = {}, y[4] = {}, d_y[4], d_x[4] = {};
  if (a.x) load4(a.x.at(r) + i, valid, true, x);
  if (a.y) load4(a.y.at(r) + i, valid, true, y);
  load4(a.d_y.at(r) + i, valid, true, d_y);
  if (a.write_x == Write::add) load4(a.d_x.at(r) + i, valid, true, d_x);
#pragma unroll
  for (int k = 0; k < 4; ++k) d_x[k] += map_entry_backward(a.map, x[k], y[k], d_y[k]);
  Real* out = a.d_x.at(r) + i;
  if (valid == 4) {
    *reinterpret_cast<Four<Real>*>(out) = {{d_x[0], d_x[1], d_x[2], d_x[3]}};
  } else {
    for (int k = 0; k < valid; ++k) out[k] = d_x[k];
  }
}

// DPFP of 16 rows a block: f = [relu(x); relu(-x)] once into shared memory, then y_j = f_i f_{i-j} modulo 2
// d.
constexpr int kDpfpRows = 16;
template <class Real>
__global__ void __launch_bounds__(kThreads) dpfp(const __grid_constant__ FeatureMapForward<Real> a) {
  extern __shared__ __align__(16) unsigned char raw[];
  Real* f = reinterpret_cast<Real*>(raw);  // [row][2 d]
  const int r = blockIdx.y, d = a.x.columns(), w = 2 * d, p = a.y.columns();
  const std::int64_t row0 = static_cast<std::int64_t>(blockIdx.x) * kDpfpRows, left = a.x.rows() - row0;
  const int rows = left < kDpfpRows ? static_cast<int>(left) : kDpfpRows;
  const Real* x = a.x.at(r) + row0 * d;
  for (int i = threadIdx.x; i < rows * d; i += kThreads) {
    const int row = i / d, column = i - row * d;
    const Real v = x[i];
    f[row * w + column] = rectified(v);
    f[row * w + d + column] = v > 0 ? Real(0) : 0 - v;
  }
  __syncthreads();
  Real* y = a.y.at(r) + row0 * p;
  for (int i = threadIdx.x; i < rows * p; i += kThreads) {
    const int row = i / p, column = i - row * p, j = column / w + 1, at = column - (j - 1) * w, shift = j % w;
    y[i] = f[row * w + at] * f[row * w + (at >= shift ? at - shift : at + w - shift)];
  }
}

template <class Real>
__global__ void __launch_bounds__(kThreads)
    dpfp_backward(const __grid_constant__ FeatureMapBackward<Real> a) {
  const std::int64_t n = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  const int r = blockIdx.y, d = a.d_x.columns(), p = a.d_y.columns(), lane = threadIdx.x % 32;
  if (n >= a.d_x.rows()) return;
  const Real* x = a.x.at(r) + n * d;
  const Real* d_y = a.d_y.at(r) + n * p;
  Real* d_x = a.d_x.at(r) + n * d;
  // Only the half of f that is not 0 passes a gradient to x_i.
  const int w = 2 * d;
  for (int i = lane; i < d; i += 32) {
    const int at = x[i] > 0 ? i : d + i;
    Real d_f = 0;
    for (int j = 1; j <= a.nu; ++j) {
      const int shift = j % w, before = at >= shift ? at - shift : at + w - shift,
                after = at + shift < w ? at + shift : at + shift - w;
      const Real* row = d_y + (j - 1) * w;
      d_f += row[at] * entry_of_f(x, before, d);
      d_f += row[after] * entry_of_f(x, after, d);
    }
    put(a.write_x, d_x + i, x[i] > 0 ? d_f : x[i] < 0 ? -d_f : Real(0));
  }
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
#pragma unroll
    for (int i = 0; i < 4; ++i) squares[0] += v[i] * v[i];
  }
  __device__ void load_a(int row, int k, Real (&v)[4], Real* squares) const {
    Product<Real, true, true>::load_a(row, k, v, squares);
    add_side(v, squares);
  }
  template <int W>
  __device__ void store(int row, int column, Real (&u)[W], Real squares) const {
    if (row >= this->M) return;
    const Real offset = shift - squares / 2;
    Real* y = this->c_ + (static_cast<std::int64_t>(row) * this->c.ld + column);
    Real plus[W], minus[W];
#pragma unroll
    for (int j = 0; j < W; ++j) plus[j] = exp(u[j] + offset), minus[j] = exp(offset - u[j]);
    if (column + W <= this->N && this->aligned_c && this->N % 4 == 0) {
      put_all(y, plus);
      if (both) put_all(y + this->N, minus);
      return;
    }
#pragma unroll
    for (int j = 0; j < W; ++j) {
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
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      v[i] *= g[i];
      total[0] += v[i];
    }
    if (!both) return;
    Real minus[4];
    load4(y_ + at + this->K, valid, this->aligned_a, minus);
    load4(this->a_ + at + this->K, valid, this->aligned_a, g);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
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
#pragma unroll
    for (int j = 0; j < W; ++j) {
      if (column + j < this->N) put(this->mode, this->c_ + at + j, v[j] - x_[at + j] * total);
    }
  }
};

bool is_favor(FeatureMap map) {
  return map == FeatureMap::favor_hyperbolic || map == FeatureMap::favor_positive;
}

}  // namespace

template <class Real>
void run_cuda(const Exec& exec, const FeatureMapForward<Real>& a) {
  const int rows = static_cast<int>(a.x.rows()), d = a.x.columns(), p = a.y.columns(), R = a.x.R;
  if (rows == 0 || R == 0) return;
  if (is_favor(a.map)) {
    FavorForward<Real> op;
    op.M = rows, op.N = a.omega.dim(0), op.K = d;
    op.a = {a.x.data, a.x.replica_stride, 0, d};
    op.b = {a.omega.data, a.omega.replica_stride, 0, d};
    op.c = {a.y.data, a.y.replica_stride, 0, p};
    op.shift = -std::log(static_cast<Real>(p)) / 2;
    op.both = p == 2 * op.N;
    gemm<Real>(exec, "feature map", op, 1, R);
    return;
  }
  if (a.map == FeatureMap::dpfp) {
    const std::size_t bytes = static_cast<std::size_t>(kDpfpRows * 2 * a.x.columns()) * sizeof(Real);
    allow_shared_memory(dpfp<Real>, bytes);
    dpfp<<<dim3(blocks_for(rows, kDpfpRows), static_cast<unsigned>(R)), kThreads, bytes, stream_of(exec)>>>(
        a);
  } else {
    map_entries<<<dim3(blocks_for(a.x.size(), 4 * kThreads), static_cast<unsigned>(R)), kThreads, 0,
                  stream_of(exec)>>>(a);
  }
  check_launch("feature map");
}

template <class Real>
void run_cuda(const Exec& exec, const FeatureMapBackward<Real>& a) {
  const int rows = static_cast<int>(a.d_x.rows()), R = a.d_x.R;
  if (a.write_x == Write::none || rows == 0 || R == 0) return;
  if (is_favor(a.map)) {
    FavorBackward<Real> op;
    op.M = rows, op.N = a.d_x.columns(), op.K = a.omega.dim(0);
    op.both = a.d_y.columns() == 2 * op.K;
    op.a = {a.d_y.data, a.d_y.replica_stride, 0, a.d_y.columns()};
    op.b = {a.omega.data, a.omega.replica_stride, 0, op.N};
    op.c = {a.d_x.data, a.d_x.replica_stride, 0, op.N};
    op.x = {a.x.data, a.x.replica_stride, 0, op.N};
    op.y = {a.y.data, a.y.replica_stride, 0, a.d_y.columns()};
    op.mode = a.write_x;
    gemm<Real>(exec, "feature map backward", op, 1, R);
    return;
  }
  if (a.map == FeatureMap::dpfp) {
    dpfp_backward<<<dim3(blocks_for(rows, kWarps), static_cast<unsigned>(R)), kThreads, 0, stream_of(exec)>>>(
        a);
  } else {
    map_entries_backward<<<dim3(blocks_for(a.d_x.size(), 4 * kThreads), static_cast<unsigned>(R)), kThreads,
                           0, stream_of(exec)>>>(a);
  }
  check_launch("feature map backward");
}

CROSSTALK_CUDA_OP(FeatureMapForward)
CROSSTALK_CUDA_OP(FeatureMapBackward)

}  // namespace crosstalk
