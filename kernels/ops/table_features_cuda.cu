// Normalised features of looked-up keys: a warp a row, kRows rows one after the other. x (or f = [relu(x);
// relu(-x)] for DPFP) lies in shared memory and phi is made from it whenever it is wanted: twice in each
// pass.
//
// Bytes: forward writes p numbers a row, backward reads p and writes d; tables come from the caches. With p =
// 128 a row costs about 60 instructions a lane forward and 100 backward, near what those bytes take.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/cuda_launch.cuh"
#include "kernels/ops/table_features.h"

namespace crosstalk {
namespace {
using namespace device;

constexpr int kWarps = 8, kRows = 4;

template <class Real>
__device__ __forceinline__ Real positive(Real x) {
  return x < 0 ? Real(0) : x;  // NaN stays NaN: a diverged model must not look finite
}

// The row of one warp: x in shared memory, and phi of it.
template <class Real, bool kDpfp>
struct Row {
  FeatureMap map;
  int d, nu, lane;
  Real* x;  // shared: x [d], or f [2 d]

  __device__ void load(const TableFeatures<Real>& a, int r, std::int64_t n) {
    const std::int32_t* ids = a.ids.at(r) + n * a.ids.columns();
    const Real* rows[kMaxTables];
#pragma unroll
    for (int t = 0; t < kMaxTables; ++t) {
      rows[t] = nullptr;
      if (t >= a.tables) continue;
      const std::int32_t id = ids[a.channel[t]];
      if (id >= 0) rows[t] = a.table[t].at(r) + static_cast<std::int64_t>(id) * d;
    }
    __syncwarp();  // the row before has been read
    for (int i = lane; i < d; i += 32) {
      Real sum = 0;
#pragma unroll
      for (int t = 0; t < kMaxTables; ++t) {
        if (rows[t]) sum += rows[t][i];
      }
      if constexpr (kDpfp) {
        x[i] = positive(sum);
        x[d + i] = sum > 0 ? Real(0) : 0 - sum;
      } else {
        x[i] = sum;
      }
    }
    __syncwarp();
  }
  __device__ Real entry(int i) const {  // maps of single entries
    switch (map) {
      case FeatureMap::identity:
        return x[i];
      case FeatureMap::elu1:
        return x[i] > 0 ? x[i] + 1 : exp(x[i]);
      case FeatureMap::relu:
        return positive(x[i]);
      default:
        return tanh(x[i]);
    }
  }
  /// Calls f(e, phi_e) for this lane's entries e of phi.
  template <class F>
  __device__ void each(F&& f) const {
    if constexpr (kDpfp) {
      const int w = 2 * d;
      for (int j = 1, first = 0; j <= nu; ++j, first += w) {
        for (int i = lane; i < w; i += 32) f(first + i, x[i] * x[i >= j ? i - j : i + w - j]);
      }
    } else {
      for (int i = lane; i < d; i += 32) f(i, entry(i));
    }
  }
};

template <class Real, bool kDpfp>
__global__ void __launch_bounds__(32 * kWarps)
    table_features(const __grid_constant__ TableFeaturesForward<Real> a) {
  extern __shared__ __align__(16) unsigned char raw[];
  const int r = static_cast<int>(blockIdx.y), warp = static_cast<int>(threadIdx.x) / 32, p = a.y.columns(),
            d = a.from.table[0].columns(), rows = static_cast<int>(a.y.rows());
  const Row<Real, kDpfp> unset{a.from.map, d, a.from.nu, static_cast<int>(threadIdx.x) % 32,
                               reinterpret_cast<Real*>(raw) + warp * d * (kDpfp ? 2 : 1)};
  Row<Real, kDpfp> row = unset;
  const Real eps = static_cast<Real>(a.from.eps);
  const int first = (static_cast<int>(blockIdx.x) * kWarps + warp) * kRows, end = min(rows, first + kRows);
  for (int n = first; n < end; ++n) {
    row.load(a.from, r, n);
    Real inverse = 1;
    if (a.from.normalised) {
      Real total = 0;
      const bool sum = a.from.norm == RowNorm::sum;
      row.each([&](int, Real phi) { total += sum ? phi : phi * phi; });
      total = warp_sum(total) + eps;
      inverse = 1 / (sum ? total : sqrt(total));
      if (row.lane == 0) a.inverse.at(r)[n] = inverse;
    }
    Real* y = a.y.at(r) + static_cast<std::int64_t>(n) * p;
    row.each([&](int e, Real phi) { y[e] = phi * inverse; });
  }
}

template <class Real, bool kDpfp>
__global__ void __launch_bounds__(32 * kWarps)
    table_features_backward(const __grid_constant__ TableFeaturesBackward<Real> a) {
  extern __shared__ __align__(16) unsigned char raw[];
  const int r = static_cast<int>(blockIdx.y), warp = static_cast<int>(threadIdx.x) / 32, p = a.d_y.columns(),
            d = a.d_x.columns(), rows = static_cast<int>(a.d_y.rows()), w = 2 * d;
  Real* shared = reinterpret_cast<Real*>(raw) + warp * (kDpfp ? w + p : d);
  Row<Real, kDpfp> row{a.from.map, d, a.from.nu, static_cast<int>(threadIdx.x) % 32, shared};
  Real* d_phi = shared + w;  // DPFP only: neighbours need each other's
  const bool normalised = a.from.normalised, sum = a.from.norm == RowNorm::sum;
  const int first = (static_cast<int>(blockIdx.x) * kWarps + warp) * kRows, end = min(rows, first + kRows);
  for (int n = first; n < end; ++n) {
    const Real* d_y = a.d_y.at(r) + static_cast<std::int64_t>(n) * p;
    row.load(a.from, r, n);
    // sum: d_phi = inverse (d_y - y.d_y);  l2: d_phi = inverse (d_y - y (y.d_y));  y = inverse phi
    Real inverse = 1, along = 0;
    if (normalised) {
      inverse = a.inverse.at(r)[n];
      row.each([&](int e, Real phi) {
        const Real g = d_y[e];
        if constexpr (kDpfp) d_phi[e] = g;
        along += g * phi;
      });
      along = warp_sum(along) * inverse;
    } else if constexpr (kDpfp) {
      for (int e = row.lane; e < p; e += 32) d_phi[e] = d_y[e];
    }
    const auto through = [&](Real g, Real phi) {  // the gradient of an entry of phi
      if (!normalised) return g;
      return inverse * (g - (sum ? along : phi * inverse * along));
    };
    Real* d_x = a.d_x.at(r) + static_cast<std::int64_t>(n) * d;
    if constexpr (kDpfp) {
      __syncwarp();
      const Real* f = row.x;
      for (int i = row.lane; i < d; i += 32) {  // only the half of f that is not 0 passes a gradient to x_i
        const bool up = f[i] > 0, down = f[d + i] > 0;
        const int at = up ? i : d + i;
        const Real own = f[at];
        Real d_f = 0;
        const Real* g = d_phi;
        for (int j = 1; j <= a.from.nu; ++j, g += w) {
          const int before = at >= j ? at - j : at + w - j, after = at + j < w ? at + j : at + j - w;
          d_f += through(g[at], own * f[before]) * f[before];
          d_f += through(g[after], f[after] * own) * f[after];
        }
        d_x[i] = up ? d_f : down ? -d_f : Real(0);
      }
    } else {
      for (int i = row.lane; i < d; i += 32) {
        const Real x = row.x[i], phi = row.entry(i), g = through(d_y[i], phi);
        switch (a.from.map) {
          case FeatureMap::identity:
            d_x[i] = g;
            break;
          case FeatureMap::elu1:  // 1 for x > 0, else exp(x) = phi
            d_x[i] = x > 0 ? g : g * phi;
            break;
          case FeatureMap::relu:
            d_x[i] = x > 0 ? g : Real(0);
            break;
          default:
            d_x[i] = g * (1 - phi * phi);
        }
      }
    }
  }
}

/// kRows rows of x of one warp, in registers.
template <class Real, int M>
__device__ __forceinline__ void load_rows(const TableFeatures<Real>& a, int r, int first, int rows,
                                          Real (&x)[kRows][M]) {
  const int lane = static_cast<int>(threadIdx.x) % 32, c = a.ids.columns();
  const std::int32_t* ids = a.ids.at(r);
  std::int32_t id[kRows][kMaxTables];
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
#pragma unroll
    for (int t = 0; t < kMaxTables; ++t)
      id[i][t] = t < a.tables && first + i < rows ? ids[(first + i) * c + a.channel[t]] : -1;
  }
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
#pragma unroll
    for (int k = 0; k < M; ++k) x[i][k] = 0;
#pragma unroll
    for (int t = 0; t < kMaxTables; ++t) {
      if (id[i][t] < 0) continue;
      const Real* row = a.table[t].at(r) + static_cast<unsigned>(id[i][t] * 32 * M + lane);
#pragma unroll
      for (int k = 0; k < M; ++k) x[i][k] += row[32 * k];
    }
  }
}

/// f = [relu(x); relu(-x)], entry lane + 32 k in f[k].
template <class Real, int M>
__device__ __forceinline__ void rectify(const Real (&x)[M], Real (&f)[2 * M]) {
#pragma unroll
  for (int k = 0; k < M; ++k) {
    f[k] = positive(x[k]);
    f[M + k] = x[k] > 0 ? Real(0) : 0 - x[k];
  }
}

/// Entry i - j (forward) or i + j of what the warp holds, for each entry i of this lane; modulo 32 W.
template <bool kForward, class Real, int W>
__device__ __forceinline__ void neighbours(const Real (&f)[W], int j, Real (&out)[W]) {
  const int lane = static_cast<int>(threadIdx.x) % 32, rest = j % 32, turns = j / 32 % W;
  const int from = kForward ? lane - rest : lane + rest;
  Real moved[W];
#pragma unroll
  for (int k = 0; k < W; ++k) moved[k] = __shfl_sync(kFullWarp, f[k], from & 31);
  const bool same = from >= 0 && from < 32;
#pragma unroll
  for (int k = 0; k < W; ++k) out[k] = same ? moved[k] : moved[(k + (kForward ? W - 1 : 1)) % W];
  for (int n = 0; n < turns; ++n) {  // rolls of a whole register: j >= 32 only
    const Real last = out[kForward ? W - 1 : 0];
#pragma unroll
    for (int k = 0; k < W - 1; ++k) {
      const int to = kForward ? W - 1 - k : k;
      out[to] = out[kForward ? to - 1 : to + 1];
    }
    out[kForward ? 0 : W - 1] = last;
  }
}

template <class Real>
__device__ __forceinline__ Real mapped(FeatureMap map, Real x) {
  switch (map) {
    case FeatureMap::identity:
      return x;
    case FeatureMap::elu1:
      return x > 0 ? x + 1 : exp(x);
    case FeatureMap::relu:
      return positive(x);
    default:
      return tanh(x);
  }
}

template <class Real, int M, bool kDpfp>
__global__ void __launch_bounds__(32 * kWarps)
    table_features_registers(const __grid_constant__ TableFeaturesForward<Real> a) {
  constexpr int W = kDpfp ? 2 * M : M;
  const int r = static_cast<int>(blockIdx.y), lane = static_cast<int>(threadIdx.x) % 32, p = a.y.columns(),
            rows = static_cast<int>(a.y.rows()), nu = kDpfp ? a.from.nu : 1;
  const int first = (static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / 32) * kRows;
  const bool normalised = a.from.normalised, sum = a.from.norm == RowNorm::sum;
  const Real eps = static_cast<Real>(a.from.eps);
  Real x[kRows][M];
  load_rows(a.from, r, first, rows, x);
  Real* out = a.y.at(r) + static_cast<std::int64_t>(first) * p + lane;
#pragma unroll
  for (int i = 0; i < kRows; ++i, out += p) {
    if (first + i >= rows) return;
    Real f[W], other[W];
    if constexpr (kDpfp) {
      rectify(x[i], f);
    } else {
#pragma unroll
      for (int k = 0; k < W; ++k) {
        f[k] = mapped(a.from.map, x[i][k]);
        other[k] = 1;
      }
    }
    Real inverse = 1;
    if (normalised) {
      Real total = 0;
      for (int j = 1; j <= nu; ++j) {
        if constexpr (kDpfp) neighbours<true>(f, j, other);
#pragma unroll
        for (int k = 0; k < W; ++k) {
          const Real phi = f[k] * other[k];
          total += sum ? phi : phi * phi;
        }
      }
      total = warp_sum(total) + eps;
      inverse = 1 / (sum ? total : sqrt(total));
      if (lane == 0) a.inverse.at(r)[first + i] = inverse;
    }
    for (int j = 1; j <= nu; ++j) {
      if constexpr (kDpfp) neighbours<true>(f, j, other);
#pragma unroll
      for (int k = 0; k < W; ++k) out[(j - 1) * 32 * W + 32 * k] = f[k] * other[k] * inverse;
    }
  }
}

template <class Real, int M, bool kDpfp>
__global__ void __launch_bounds__(32 * kWarps)
    table_features_backward_registers(const __grid_constant__ TableFeaturesBackward<Real> a) {
  constexpr int W = kDpfp ? 2 * M : M;
  const int r = static_cast<int>(blockIdx.y), lane = static_cast<int>(threadIdx.x) % 32, p = a.d_y.columns(),
            rows = static_cast<int>(a.d_y.rows()), nu = kDpfp ? a.from.nu : 1;
  const int first = (static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / 32) * kRows;
  const bool normalised = a.from.normalised, sum = a.from.norm == RowNorm::sum;
  Real x[kRows][M];
  load_rows(a.from, r, first, rows, x);
  const Real* in = a.d_y.at(r) + static_cast<std::int64_t>(first) * p + lane;
  Real* out = a.d_x.at(r) + static_cast<std::int64_t>(first) * (32 * M) + lane;
#pragma unroll
  for (int i = 0; i < kRows; ++i, in += p, out += 32 * M) {
    if (first + i >= rows) return;
    Real f[W], other[W], d_y[W];
    if constexpr (kDpfp) {
      rectify(x[i], f);
    } else {
#pragma unroll
      for (int k = 0; k < W; ++k) {
        f[k] = mapped(a.from.map, x[i][k]);
        other[k] = 1;
      }
    }
    // sum: d_phi = inverse (d_y - y.d_y);  l2: d_phi = inverse (d_y - y (y.d_y));  y = inverse phi
    Real inverse = 1, along = 0;
    if (normalised) {
      inverse = a.inverse.at(r)[first + i];
      for (int j = 1; j <= nu; ++j) {
        if constexpr (kDpfp) neighbours<true>(f, j, other);
#pragma unroll
        for (int k = 0; k < W; ++k) along += in[(j - 1) * 32 * W + 32 * k] * (f[k] * other[k]);
      }
      along = warp_sum(along) * inverse;
    }
    Real d_f[W] = {};
    for (int j = 1; j <= nu; ++j) {
      if constexpr (kDpfp) neighbours<true>(f, j, other);
#pragma unroll
      for (int k = 0; k < W; ++k) {
        d_y[k] = in[(j - 1) * 32 * W + 32 * k];  // a second time, from the cache
        if (normalised) d_y[k] = inverse * (d_y[k] - (sum ? along : f[k] * other[k] * inverse * along));
      }
      if constexpr (kDpfp) {
        Real back[W], after[W];
#pragma unroll
        for (int k = 0; k < W; ++k) back[k] = d_y[k] * f[k];
        neighbours<false>(back, j, after);
#pragma unroll
        for (int k = 0; k < W; ++k) {
          d_f[k] += d_y[k] * other[k];
          d_f[k] += after[k];
        }
      }
    }
#pragma unroll
    for (int k = 0; k < M; ++k) {
      if constexpr (kDpfp) {
        out[32 * k] = f[k] > 0 ? d_f[k] : f[M + k] > 0 ? -d_f[M + k] : Real(0);
      } else {
        Real slope = 1;
        if (a.from.map == FeatureMap::elu1 && !(x[i][k] > 0)) slope = f[k];
        if (a.from.map == FeatureMap::relu && !(x[i][k] > 0)) slope = 0;
        if (a.from.map == FeatureMap::tanh) slope = 1 - f[k] * f[k];
        out[32 * k] = a.from.map == FeatureMap::relu && slope == 0 ? Real(0) : d_y[k] * slope;
      }
    }
  }
}

template <class Real, class Args>
void launch(const Exec& exec, const Args& a, const char* name, std::int64_t rows, int R, int numbers_a_warp,
            void (*kernel)(Args)) {
  if (rows == 0 || R == 0) return;
  const std::size_t bytes = static_cast<std::size_t>(kWarps * numbers_a_warp) * sizeof(Real);
  if (bytes > shared_memory_limit()) refuse_shape(name, "numbers a row", numbers_a_warp, 3000);
  allow_shared_memory(kernel, bytes);
  kernel<<<dim3(blocks_for(rows, kWarps * kRows), static_cast<unsigned>(R)), 32 * kWarps, bytes,
           stream_of(exec)>>>(a);
  check_launch(name);
}

}  // namespace

template <class Real>
void run_cuda(const Exec& exec, const TableFeaturesForward<Real>& a) {
  const bool dpfp = a.from.map == FeatureMap::dpfp;
  const int d = a.from.table[0].columns();
  const auto go = [&](int shared, auto with, auto without) {
    launch<Real>(exec, a, "features of tables", a.y.rows(), a.y.R, shared, dpfp ? with : without);
  };
  if (d == 32)
    return go(0, table_features_registers<Real, 1, true>, table_features_registers<Real, 1, false>);
  if (d == 64)
    return go(0, table_features_registers<Real, 2, true>, table_features_registers<Real, 2, false>);
  if (d == 128)
    return go(0, table_features_registers<Real, 4, true>, table_features_registers<Real, 4, false>);
  go(dpfp ? 2 * d : d, table_features<Real, true>, table_features<Real, false>);
}

template <class Real>
void run_cuda(const Exec& exec, const TableFeaturesBackward<Real>& a) {
  const bool dpfp = a.from.map == FeatureMap::dpfp;
  const int d = a.d_x.columns();
  const auto go = [&](int shared, auto with, auto without) {
    launch<Real>(exec, a, "features of tables, backward", a.d_y.rows(), a.d_y.R, shared,
                 dpfp ? with : without);
  };
  if (d == 32)
    return go(0, table_features_backward_registers<Real, 1, true>,
              table_features_backward_registers<Real, 1, false>);
  if (d == 64)
    return go(0, table_features_backward_registers<Real, 2, true>,
              table_features_backward_registers<Real, 2, false>);
  if (d == 128)
    return go(0, table_features_backward_registers<Real, 4, true>,
              table_features_backward_registers<Real, 4, false>);
  go(dpfp ? 2 * d + a.d_y.columns() : d, table_features_backward<Real, true>,
     table_features_backward<Real, false>);
}

CROSSTALK_CUDA_OP(TableFeaturesForward)
CROSSTALK_CUDA_OP(TableFeaturesBackward)

}  // namespace crosstalk
