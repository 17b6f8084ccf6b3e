// Normalised features of looked-up keys: a warp a row, kRows rows one after the other. x (or f = [relu(x);
// relu(-x)] for DPFP) lies in shared memory and phi is made from it whenever it is wanted: twice in each
// pass.
//
// Bytes: forward writes p numbers a row, backward reads p and writes d; tables come from the caches. With p =
// 128 a row costs about 60 instructions a lane forward and 100 backward, near what those bytes take.
// SPDX-License-Identifier: Apache-2.0
#include <type_traits>

#include "kernels/base/cuda_launch.cuh"
#include "kernels/feature_map/feature_entry.cuh"
#include "kernels/fused/table_features.h"

namespace crosstalk {
namespace {
using namespace device;

constexpr int kWarps = kTableFeatureWarps, kRows = 4;

// The row of one warp: x in shared memory, and phi of it.
template <class Real, bool kDpfp>
struct Row {
  FeatureMap map;
  int d, nu, lane;
  Real* x;  // shared: x [d], or f [2 d]

  __device__ void load(const TableKeys<Real>& a, int r, std::int64_t n) {
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
        x[i] = rectified(sum);
        x[d + i] = sum > 0 ? Real(0) : 0 - sum;
      } else {
        x[i] = sum;
      }
    }
    __syncwarp();
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
      for (int i = lane; i < d; i += 32) f(i, map_entry(map, x[i]));
    }
  }
};

template <class Real, bool kDpfp>
__global__ void __launch_bounds__(32 * kWarps)
    table_features(const __grid_constant__ TableFeaturesForward<Real> a) {
  extern __shared__ __align__(16) unsigned char raw[];
  const int r = static_cast<int>(blockIdx.y), warp = static_cast<int>(threadIdx.x) / 32, p = a.y.columns(),
            d = a.from.keys.table[0].columns(), rows = static_cast<int>(a.y.rows());
  const Row<Real, kDpfp> unset{a.from.keys.map, d, a.from.keys.nu, static_cast<int>(threadIdx.x) % 32,
                               reinterpret_cast<Real*>(raw) + warp * d * (kDpfp ? 2 : 1)};
  Row<Real, kDpfp> row = unset;
  const Real eps = static_cast<Real>(a.from.eps);
  const int first = (static_cast<int>(blockIdx.x) * kWarps + warp) * kRows, end = min(rows, first + kRows);
  for (int n = first; n < end; ++n) {
    row.load(a.from.keys, r, n);
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
  Row<Real, kDpfp> row{a.from.keys.map, d, a.from.keys.nu, static_cast<int>(threadIdx.x) % 32, shared};
  Real* d_phi = shared + w;  // DPFP only: neighbours need each other's
  const bool normalised = a.from.normalised, sum = a.from.norm == RowNorm::sum;
  const int first = (static_cast<int>(blockIdx.x) * kWarps + warp) * kRows, end = min(rows, first + kRows);
  for (int n = first; n < end; ++n) {
    const Real* d_y = a.d_y.at(r) + static_cast<std::int64_t>(n) * p;
    row.load(a.from.keys, r, n);
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
        for (int j = 1; j <= a.from.keys.nu; ++j, g += w) {
          const int before = at >= j ? at - j : at + w - j, after = at + j < w ? at + j : at + j - w;
          d_f += through(g[at], own * f[before]) * f[before];
          d_f += through(g[after], f[after] * own) * f[after];
        }
        d_x[i] = up ? d_f : down ? -d_f : Real(0);
      }
    } else {
      for (int i = row.lane; i < d; i += 32) {
        const Real x = row.x[i], phi = map_entry(row.map, x);
        d_x[i] = map_entry_backward(row.map, x, phi, through(d_y[i], phi));
      }
    }
  }
}

/// kRows rows of x of one warp, in registers: all loads are under way before the first is waited for.
template <class Real, int M>
__device__ __forceinline__ void load_rows(const TableKeys<Real>& a, int r, int first, int rows,
                                          Real (&x)[kRows][M]) {
  const int c = a.ids.columns();
  const std::int32_t* ids = a.ids.at(r) + static_cast<std::int64_t>(first) * c;
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
#pragma unroll
    for (int k = 0; k < M; ++k) x[i][k] = 0;
  }
#pragma unroll
  for (int t = 0; t < kMaxTables; ++t) {
    if (t >= a.tables) break;
    const Real* table = a.table[t].at(r) + threadIdx.x % 32;
    const std::int32_t* own = ids + a.channel[t];
    int id[kRows];
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      id[i] = first + i < rows ? *own : -1;
      own += c;
    }
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const Real* row = table + (id[i] < 0 ? 0 : id[i]) * (32 * M);
#pragma unroll
      for (int k = 0; k < M; ++k) x[i][k] += id[i] < 0 ? Real(0) : row[32 * k];
    }
  }
}

/// Entry i - j (kBefore) or i + j of what the warp holds, for each entry i of this lane; modulo 32 W, j < 32.
template <bool kBefore, class Real, int W>
__device__ __forceinline__ void neighbours(const Real (&f)[W], int j, Real (&out)[W]) {
  const int lane = static_cast<int>(threadIdx.x) % 32, from = kBefore ? lane - j : lane + j;
  const bool same = from >= 0 && from < 32;
  Real moved[W];
#pragma unroll
  for (int k = 0; k < W; ++k) moved[k] = __shfl_sync(kFullWarp, f[k], from & 31);
#pragma unroll
  for (int k = 0; k < W; ++k) out[k] = same ? moved[k] : moved[(k + (kBefore ? W - 1 : 1)) % W];
}

/// What a lane holds of phi: f [W], and phi_j = f times its neighbours. Maps of single entries: phi = f.
template <class Real, int M, bool kDpfp>
struct Entries {
  static constexpr int W = kDpfp ? 2 * M : M;
  Real f[W];
  __device__ __forceinline__ Entries(FeatureMap map, const Real (&x)[M]) {
#pragma unroll
    for (int k = 0; k < M; ++k) {
      if constexpr (kDpfp) {
        f[k] = rectified(x[k]);
        f[M + k] = x[k] > 0 ? Real(0) : 0 - x[k];
      } else {
        f[k] = map_entry(map, x[k]);
      }
    }
  }
  /// The factors of f in phi_j.
  __device__ __forceinline__ void factors(int j, Real (&g)[W]) const {
    if constexpr (kDpfp) {
      neighbours<true>(f, j, g);
    } else {
#pragma unroll
      for (int k = 0; k < W; ++k) g[k] = 1;
    }
  }
};

/// kOne: nu = 1, so that nothing is made twice.
template <class Real, int M, bool kDpfp, bool kOne>
__global__ void __launch_bounds__(32 * kWarps)
    table_features_registers(const __grid_constant__ TableFeaturesForward<Real> a) {
  constexpr int W = kDpfp ? 2 * M : M;
  const int r = static_cast<int>(blockIdx.y), lane = static_cast<int>(threadIdx.x) % 32, p = a.y.columns(),
            rows = static_cast<int>(a.y.rows()), nu = kOne ? 1 : a.from.keys.nu;
  const int first = (static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / 32) * kRows;
  const bool normalised = a.from.normalised, sum = a.from.norm == RowNorm::sum;
  const FeatureMap map = a.from.keys.map;
  const Real eps = static_cast<Real>(a.from.eps);
  if (first >= rows) return;
  Real x[kRows][M];
  load_rows(a.from.keys, r, first, rows, x);
  Real* out = a.y.at(r) + static_cast<std::int64_t>(first) * p + lane;
  Real* inverses = normalised ? a.inverse.at(r) + first : nullptr;
#pragma unroll
  for (int i = 0; i < kRows; ++i, out += p) {
    if (first + i >= rows) return;
    const Entries<Real, M, kDpfp> entries(map, x[i]);
    Real g[W], inverse = 1;
    if (kOne) entries.factors(1, g);
    if (normalised) {
      Real total = 0;
      for (int j = 1; j <= nu; ++j) {
        if (!kOne) entries.factors(j, g);
#pragma unroll
        for (int k = 0; k < W; ++k) {
          const Real phi = entries.f[k] * g[k];
          total += sum ? phi : phi * phi;
        }
      }
      total = warp_sum(total) + eps;
      inverse = 1 / (sum ? total : sqrt(total));
      if (lane == 0) inverses[i] = inverse;
    }
    Real* at = out;
    for (int j = 1; j <= nu; ++j, at += 32 * W) {
      if (!kOne) entries.factors(j, g);
#pragma unroll
      for (int k = 0; k < W; ++k) at[32 * k] = entries.f[k] * g[k] * inverse;
    }
  }
}

template <class Real, int M, bool kDpfp, bool kOne>
__global__ void __launch_bounds__(32 * kWarps)
    table_features_backward_registers(const __grid_constant__ TableFeaturesBackward<Real> a) {
  constexpr int W = kDpfp ? 2 * M : M;
  const int r = static_cast<int>(blockIdx.y), lane = static_cast<int>(threadIdx.x) % 32, p = a.d_y.columns(),
            rows = static_cast<int>(a.d_y.rows()), nu = kOne ? 1 : a.from.keys.nu;
  const int first = (static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / 32) * kRows;
  const bool normalised = a.from.normalised, sum = a.from.norm == RowNorm::sum;
  const FeatureMap map = a.from.keys.map;
  if (first >= rows) return;
  Real x[kRows][M];
  load_rows(a.from.keys, r, first, rows, x);
  const Real* in = a.d_y.at(r) + static_cast<std::int64_t>(first) * p + lane;
  const Real* inverses = normalised ? a.inverse.at(r) + first : nullptr;
  Real* out = a.d_x.at(r) + static_cast<std::int64_t>(first) * (32 * M) + lane;
#pragma unroll
  for (int i = 0; i < kRows; ++i, in += p, out += 32 * M) {
    if (first + i >= rows) return;
    const Entries<Real, M, kDpfp> entries(map, x[i]);
    const Real(&f)[W] = entries.f;
    Real g[W], d_y[W];
    const auto take = [&](int j) {  // g and d_y of phi_j
      entries.factors(j, g);
#pragma unroll
      for (int k = 0; k < W; ++k) d_y[k] = in[(j - 1) * 32 * W + 32 * k];
    };
    if (kOne) take(1);
    // sum: d_phi = inverse (d_y - y.d_y);  l2: d_phi = inverse (d_y - y (y.d_y));  y = inverse phi
    Real inverse = 1, along = 0;
    if (normalised) {
      inverse = inverses[i];
      for (int j = 1; j <= nu; ++j) {
        if (!kOne) take(j);
#pragma unroll
        for (int k = 0; k < W; ++k) along += d_y[k] * (f[k] * g[k]);
      }
      along = warp_sum(along) * inverse;
    }
    Real d_f[W] = {};
    for (int j = 1; j <= nu; ++j) {
      if (!kOne) take(j);
      if (normalised) {
#pragma unroll
        for (int k = 0; k < W; ++k)
          d_y[k] = inverse * (d_y[k] - (sum ? along : f[k] * g[k] * inverse * along));
      }
      if constexpr (kDpfp) {
        Real back[W], after[W];
#pragma unroll
        for (int k = 0; k < W; ++k) back[k] = d_y[k] * f[k];
        neighbours<false>(back, j, after);
#pragma unroll
        for (int k = 0; k < W; ++k) {
          d_f[k] += d_y[k] * g[k];
          d_f[k] += after[k];
        }
      }
    }
#pragma unroll
    for (int k = 0; k < M; ++k) {
      if constexpr (kDpfp) {
        out[32 * k] = f[k] > 0 ? d_f[k] : f[M + k] > 0 ? -d_f[M + k] : Real(0);
      } else {
        out[32 * k] = map_entry_backward(map, x[i][k], f[k], d_y[k]);
      }
    }
  }
}

template <class Real, class Args>
void launch(const Exec& exec, const Args& a, const char* name, std::int64_t rows, int R, int numbers_a_warp,
            void (*kernel)(Args)) {
  if (rows == 0 || R == 0) return;
  const std::size_t bytes = static_cast<std::size_t>(kWarps * numbers_a_warp) * sizeof(Real);
  if (bytes > shared_memory_limit())
    refuse_shape(name, "numbers a row", numbers_a_warp,
                 static_cast<int>(shared_memory_limit() / (kWarps * sizeof(Real))));
  allow_shared_memory(kernel, bytes);
  kernel<<<dim3(blocks_for(rows, kWarps * kRows), static_cast<unsigned>(R)), 32 * kWarps, bytes,
           stream_of(exec)>>>(a);
  check_launch(name);
}

}  // namespace

/// Calls f(M) if rows of d entries fit registers (entries a lane: M), else g().
template <class F, class G>
void by_width(int d, int nu, F&& f, G&& g) {
  if (nu >= 32) return g();
  if (d == 32) return f(std::integral_constant<int, 1>());
  if (d == 64) return f(std::integral_constant<int, 2>());
  if (d == 128) return f(std::integral_constant<int, 4>());
  g();
}

template <class Real>
void run_cuda(const Exec& exec, const TableFeaturesForward<Real>& a) {
  const bool dpfp = a.from.keys.map == FeatureMap::dpfp;
  const int d = a.from.keys.table[0].columns(), nu = a.from.keys.nu;
  const auto go = [&](int shared, auto kernel) {
    launch<Real>(exec, a, "features of tables", a.y.rows(), a.y.R, shared, kernel);
  };
  by_width(
      d, nu,
      [&](auto width) {
        constexpr int M = decltype(width)::value;
        go(0, !dpfp     ? table_features_registers<Real, M, false, true>
              : nu == 1 ? table_features_registers<Real, M, true, true>
                        : table_features_registers<Real, M, true, false>);
      },
      [&] { go(dpfp ? 2 * d : d, dpfp ? table_features<Real, true> : table_features<Real, false>); });
}

template <class Real>
void run_cuda(const Exec& exec, const TableFeaturesBackward<Real>& a) {
  const bool dpfp = a.from.keys.map == FeatureMap::dpfp;
  const int d = a.d_x.columns(), nu = a.from.keys.nu;
  const auto go = [&](int shared, auto kernel) {
    launch<Real>(exec, a, "features of tables, backward", a.d_y.rows(), a.d_y.R, shared, kernel);
  };
  by_width(
      d, nu,
      [&](auto width) {
        constexpr int M = decltype(width)::value;
        go(0, !dpfp     ? table_features_backward_registers<Real, M, false, true>
              : nu == 1 ? table_features_backward_registers<Real, M, true, true>
                        : table_features_backward_registers<Real, M, true, false>);
      },
      [&] {
        go(dpfp ? 2 * d + a.d_y.columns() : d,
           dpfp ? table_features_backward<Real, true> : table_features_backward<Real, false>);
      });
}

CROSSTALK_INSTANTIATE_STEP(cuda, TableFeaturesForward)
CROSSTALK_INSTANTIATE_STEP(cuda, TableFeaturesBackward)

}  // namespace crosstalk
