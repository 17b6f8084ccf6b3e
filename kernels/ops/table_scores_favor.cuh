// FAVOR+ from table rows: exp(+-z_t + shift_t) of z_t = O k_t, which is a sum of rows of projected tables.
//
// Two exponentials a feature pair in base 2: exp(z + shift) must not be split, since exp(z) alone overflows
// where the feature does not. Projected tables are large (rows x m), so the backward kernels take 64 of their
// columns a block, which stay in the first cache while the block walks many tokens. SPDX-License-Identifier:
// Apache-2.0
#pragma once
#include "kernels/ops/table_scores.cuh"

namespace crosstalk::device {

__host__ __device__ constexpr bool is_favor(FeatureMap map) {
  return map == FeatureMap::favor_hyperbolic || map == FeatureMap::favor_positive;
}

// exp(z + shift) and exp(shift - z), as exact as the rounding of their exponents; results below the smallest
// normal number are 0.
__device__ __forceinline__ float power_of_two(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
constexpr float kLog2E = 1.4426950408889634f;
__device__ __forceinline__ float exp_up(float z, float shift) {
  return power_of_two(fmaf(z, kLog2E, shift * kLog2E));
}
__device__ __forceinline__ float exp_down(float z, float shift) {
  return power_of_two(fmaf(-z, kLog2E, shift * kLog2E));
}
__device__ __forceinline__ double exp_up(double z, double shift) { return exp(z + shift); }
__device__ __forceinline__ double exp_down(double z, double shift) { return exp(shift - z); }

/// A warp a token. shift is made on the way.
template <class Real>
__global__ void __launch_bounds__(kScoreThreads)
    favor_scores(const __grid_constant__ TableScoresForward<Real> a, int rows_per_block, int slice) {
  using Whole = Team<Real, 32, 1>;
  const int r = blockIdx.z, warp = threadIdx.x / 32, lane = threadIdx.x % 32, Q = a.a.dim(1), T = a.a.dim(2);
  const int p = a.q.columns(), m = a.keys.projected[0].columns();
  const KeyReader<Whole, Real, false> reader{a.keys, r, a.keys.table[0].columns()};
  const int begin = blockIdx.x * slice, end = min(T, begin + slice);
  const Real base = -log(static_cast<Real>(p)) / 2, scale = static_cast<Real>(a.scale);
  const int rows = a.a.dim(0) * Q, row_end = min(rows, static_cast<int>(blockIdx.y + 1) * rows_per_block);
  for (int row = blockIdx.y * rows_per_block; row < row_end; ++row) {
    const Real* q = a.q.at(r) + static_cast<std::int64_t>(row) * p;
    const int seen = a.position.at(r)[row];
    const std::int64_t n0 = static_cast<std::int64_t>(row / Q) * T;
    Real* out = a.a.at(r) + static_cast<std::int64_t>(row) * T;
    for (int t = begin + warp; t < end; t += kScoreWarps) {
      const auto ids = reader.ids(n0 + t, true);
      typename Whole::Quads x;
      typename Whole::Heads head;
      reader.read(ids, x, head);
      Real square = 0;
#pragma unroll
      for (int k = 0; k < 4; ++k) square += x[0][k] * x[0][k];
      const Real shift = base - Whole::sum(square) / 2;
      if (lane == 0 && row % Q == 0) a.shift.at(r)[n0 + t] = shift;
      Real score = 0;
      if (t < seen) {
        const bool aligned = m % 4 == 0;
#pragma unroll 2
        for (int c = 4 * lane; c < m; c += 128) {
          Real z[4] = {}, y[4], up[4], down[4] = {};
          load4(q + c, m - c, aligned, up);
          if (p > m) load4(q + m + c, m - c, aligned, down);
#pragma unroll
          for (int i = 0; i < kMaxTables; ++i) {
            if (ids.id[i] < 0) continue;
            load4(a.keys.projected[i].at(r) + static_cast<std::int64_t>(ids.id[i]) * m + c, m - c, aligned,
                  y);
#pragma unroll
            for (int k = 0; k < 4; ++k) z[k] += y[k];
          }
#pragma unroll
          for (int k = 0; k < 4; ++k) {
            if (c + k >= m) break;
            score += up[k] * exp_up(z[k], shift);
            if (p > m) score += down[k] * exp_down(z[k], shift);
          }
        }
      }
      score = Whole::sum(score);
      if (lane == 0) out[t] = t < seen ? scale * score : Real(0);
    }
  }
}

constexpr int kFavorColumns = 64;  // of m, a block
template <class Real>
using FavorTeam = Team<Real, 8, 2>;

/// Columns column .. column + 63 of a token's z.
template <class Real>
struct ProjectedReader {
  const TableKeys<Real>& keys;
  int r, m, column;
  using T_ = FavorTeam<Real>;

  __device__ __forceinline__ void add(int table, int id, typename T_::Quads& z) const {
    typename T_::Quads y;
    load(keys.projected[table].at(r) + static_cast<std::int64_t>(id) * m, y);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
#pragma unroll
      for (int k = 0; k < 4; ++k) z[h][k] += y[h][k];
    }
  }
  __device__ __forceinline__ void load(const Real* row, typename T_::Quads& y) const {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int c = column + T_::column(h);
      load4(row + c, m - c, m % 4 == 0, y[h]);
    }
  }
};

/// d_q = scale sum_t d_a_t phi(k_t): blockIdx.x is the slice of columns. Teams walk the tokens of a sequence,
/// then teams and warps are added in their order.
template <class Real>
__global__ void __launch_bounds__(kScoreThreads)
    favor_query_gradient(const __grid_constant__ TableScoresBackward<Real> a, int rows_per_block) {
  using T_ = FavorTeam<Real>;
  __shared__ Real sums[kScoreWarps][2][kFavorColumns];
  const int r = blockIdx.z, warp = threadIdx.x / 32, Q = a.d_a.dim(1), T = a.d_a.dim(2), p = a.q.columns();
  const int m = a.keys.projected[0].columns(), column0 = blockIdx.x * kFavorColumns;
  const bool both = p > m;
  const KeyReader<T_, Real, false> reader{a.keys, r, a.keys.table[0].columns()};
  const ProjectedReader<Real> projected{a.keys, r, m, column0};
  const int rows = a.d_a.dim(0) * Q, row_end = min(rows, static_cast<int>(blockIdx.y + 1) * rows_per_block);
  for (int row = blockIdx.y * rows_per_block; row < row_end; ++row) {
    const int seen = clamped(a.position.at(r)[row], T);
    const std::int64_t n0 = static_cast<std::int64_t>(row / Q) * T;
    const Real* d_a = a.d_a.at(r) + static_cast<std::int64_t>(row) * T;
    const Real* shift = a.shift.at(r) + n0;
    typename T_::Quads up, down;
    T_::clear(up), T_::clear(down);
#pragma unroll 2
    for (int t = warp * T_::kTeams + T_::team(); t < seen; t += kScoreWarps * T_::kTeams) {
      const auto ids = reader.ids(n0 + t, true);
      const Real weight = d_a[t], s = shift[t];
      typename T_::Quads z;
      T_::clear(z);
#pragma unroll
      for (int i = 0; i < kMaxTables; ++i) {
        if (ids.id[i] >= 0) projected.add(i, ids.id[i], z);
      }
#pragma unroll
      for (int h = 0; h < 2; ++h) {
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          up[h][k] += weight * exp_up(z[h][k], s);
          if (both) down[h][k] += weight * exp_down(z[h][k], s);
        }
      }
    }
    __syncwarp();
#pragma unroll
    for (int h = 0; h < 2; ++h) {
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const Real sum_up = T_::sum_teams(up[h][k]), sum_down = T_::sum_teams(down[h][k]);
        if (T_::team() == 0) {
          sums[warp][0][T_::column(h) + k] = sum_up;
          sums[warp][1][T_::column(h) + k] = sum_down;
        }
      }
    }
    __syncthreads();
    const int half = threadIdx.x / kFavorColumns, c = threadIdx.x % kFavorColumns;
    if (half < (both ? 2 : 1) && column0 + c < m) {
      Real total = 0;
#pragma unroll
      for (int w = 0; w < kScoreWarps; ++w) total += sums[w][half][c];
      put(a.write_q, a.d_q.at(r) + static_cast<std::int64_t>(row) * p + half * m + column0 + c,
          static_cast<Real>(a.scale) * total);
    }
    __syncthreads();
  }
}

/// d_projected: blockIdx.y is the slice of columns, blockIdx.z replica and table. As team_table_gradient.
template <class Real>
__global__ void __launch_bounds__(kScoreThreads)
    favor_table_gradient(const __grid_constant__ TableScoresBackward<Real> a,
                         const __grid_constant__ RowShares shares) {
  using T_ = FavorTeam<Real>;
  __shared__ Real sums[kScoreWarps][kFavorColumns];
  const int r = blockIdx.z / a.keys.tables, table = blockIdx.z % a.keys.tables;
  if (a.write_projected[table] == Write::none) return;
  const int warp = threadIdx.x / 32, p = a.q.columns();
  const int m = a.keys.projected[0].columns(), column0 = blockIdx.y * kFavorColumns;
  const bool both = p > m;
  const KeyReader<T_, Real, false> reader{a.keys, r, a.keys.table[0].columns()};
  const ProjectedReader<Real> projected{a.keys, r, m, column0};
  const int rows = static_cast<int>(a.d_projected[table].rows());
  const int pieces = shares.pieces[table], some_rows = shares.rows_per_block[table];
  const int at_once = kScoreWarps / pieces, piece = warp % pieces;
  const Real scale = static_cast<Real>(a.scale);
  const int row0 = blockIdx.x * some_rows, row_end = min(rows, row0 + some_rows);
  for (int first = row0; first < row_end; first += at_once) {
    const int row = first + warp / pieces;
    const int begin = row < row_end ? a.start[table].at(r)[row] : 0,
              end = row < row_end ? a.start[table].at(r)[row + 1] : 0;
    typename T_::Quads total, known;
    T_::clear(total), T_::clear(known);
    if (begin < end) projected.add(table, row, known);
    const auto weigh = [&](std::int64_t at) { return scale * a.d_a.at(r)[at]; };
    const auto visit = [&](const auto& ids, int query_row, int token, Real weight) {
      if (query_row < 0) return;
      const Real* q = a.q.at(r) + static_cast<std::int64_t>(query_row) * p;
      const Real shift = a.shift.at(r)[token];
      typename T_::Quads z, g;
#pragma unroll
      for (int h = 0; h < 2; ++h) {
#pragma unroll
        for (int k = 0; k < 4; ++k) z[h][k] = known[h][k];
      }
#pragma unroll
      for (int i = 0; i < kMaxTables; ++i) {
        if (i != table && ids.id[i] >= 0) projected.add(i, ids.id[i], z);
      }
      projected.load(q, g);
#pragma unroll
      for (int h = 0; h < 2; ++h) {
#pragma unroll
        for (int k = 0; k < 4; ++k) g[h][k] *= exp_up(z[h][k], shift);
      }
      if (both) {
        typename T_::Quads down;
        projected.load(q + m, down);
#pragma unroll
        for (int h = 0; h < 2; ++h) {
#pragma unroll
          for (int k = 0; k < 4; ++k) g[h][k] -= down[h][k] * exp_down(z[h][k], shift);
        }
      }
#pragma unroll
      for (int h = 0; h < 2; ++h) {
#pragma unroll
        for (int k = 0; k < 4; ++k) total[h][k] += weight * g[h][k];
      }
    };
    walk_list<T_, 2>(a, reader, table, begin, end, piece * T_::kTeams + T_::team(), pieces * T_::kTeams,
                     weigh, visit);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const Real sum = T_::sum_teams(total[h][k]);
        if (T_::team() == 0) sums[warp][T_::column(h) + k] = sum;
      }
    }
    __syncthreads();
    const int some = min(at_once, row_end - first) * kFavorColumns;
    for (int i = threadIdx.x; i < some; i += kScoreThreads) {
      const int local = i / kFavorColumns, c = i % kFavorColumns;
      if (column0 + c >= m) continue;
      Real sum = 0;
      for (int w = 0; w < pieces; ++w) sum += sums[local * pieces + w][c];
      put(a.write_projected[table],
          a.d_projected[table].at(r) + static_cast<std::int64_t>(first + local) * m + column0 + c, sum);
    }
    __syncthreads();
  }
}

}  // namespace crosstalk::device
