// Normalised features of looked-up keys: a warp a row, kRows rows one after the other. x (or f = [relu(x);
// relu(-x)] for DPFP) stays in registers and phi is made from it whenever it is wanted: twice in each pass.
//
// Bytes: forward writes p numbers a row, backward reads p and writes d; tables come from the caches. With p =
// 128 a row costs about 60 instructions a lane forward and 100 backward, near what those bytes take.
// SPDX-License-Identifier: Apache-2.0
#include <stdexcept>

#include "kernels/base/device/cuda_launch.cuh"
#include "kernels/feature_map/feature_entry.cuh"
#include "kernels/fused/table_features.h"

namespace crosstalk {
namespace {
using namespace device;

constexpr int kWarps = 8, kRows = 4;

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

/// A lane's part of phi: f [W], and phi_j = f times its neighbours. Maps of single entries: phi = f.
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
    features(const __grid_constant__ TableFeaturesForward<Real> a) {
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
    features_backward(const __grid_constant__ TableFeaturesBackward<Real> a) {
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

/// Calls f with how many entries of a row of d a lane has, whether the map is DPFP, and whether nu = 1.
template <class Real, class F>
void with_form(const TableKeys<Real>& keys, F&& f) {
  const bool dpfp = keys.map == FeatureMap::dpfp;
  const auto of_map = [&]<int M>() {
    if (!dpfp) return f.template operator()<M, false, true>();
    if (keys.nu == 1) return f.template operator()<M, true, true>();
    f.template operator()<M, true, false>();
  };
  const int d = keys.table[0].columns();
  if (!table_features_cover(keys.map, keys.nu, d))
    throw std::logic_error("[table_features] run the lookup, the feature map and the norm");
  if (d == 32) return of_map.template operator()<1>();
  if (d == 64) return of_map.template operator()<2>();
  of_map.template operator()<4>();
}

/// A grid for rows of R replicas.
dim3 row_grid(std::int64_t rows, int R) { return per_replica(blocks_for(rows, kWarps * kRows), R); }

}  // namespace

template <class Real>
void run_cuda(const Exec& exec, const TableFeaturesForward<Real>& a) {
  with_form(a.from.keys, [&]<int M, bool kDpfp, bool kOne>() {
    launch(exec, "features of tables", features<Real, M, kDpfp, kOne>, row_grid(a.y.rows(), a.y.R),
           32 * kWarps, 0, a);
  });
}

template <class Real>
void run_cuda(const Exec& exec, const TableFeaturesBackward<Real>& a) {
  with_form(a.from.keys, [&]<int M, bool kDpfp, bool kOne>() {
    launch(exec, "features of tables, backward", features_backward<Real, M, kDpfp, kOne>,
           row_grid(a.d_y.rows(), a.d_y.R), 32 * kWarps, 0, a);
  });
}

CROSSTALK_INSTANTIATE_STEP(cuda, TableFeaturesForward)
CROSSTALK_INSTANTIATE_STEP(cuda, TableFeaturesBackward)

}  // namespace crosstalk
