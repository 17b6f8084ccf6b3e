// FAVOR+ from table rows: exp(+-z_t + shift_t) of z_t = O k_t, which is a sum of rows of projected tables.
//
// Two exponentials a feature pair in base 2: exp(z + shift) must not be split, since exp(z) alone overflows
// where the feature does not. Projected tables are large (rows x m), so the backward kernels take 64 of their
// columns a block, which stay in the first cache while the block walks many tokens.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/fused/table_scores.cuh"

namespace crosstalk::device {

// exp(z + shift) and exp(shift - z), as quick_exp().
CT_DEVICE float exp_up(float z, float shift) { return power_of_two(fmaf(z, kLog2E, shift * kLog2E)); }
CT_DEVICE float exp_down(float z, float shift) { return power_of_two(fmaf(-z, kLog2E, shift * kLog2E)); }
CT_DEVICE double exp_up(double z, double shift) { return exp(z + shift); }
CT_DEVICE double exp_down(double z, double shift) { return exp(shift - z); }

/// A team a token. shift is made on the way. Keys and Features have teams of as many lanes; full: d is the
/// width of Keys, m a multiple of that of Features.
template <class Keys, class Features, int kTables, class Real = typename Keys::Real>
__global__ void __launch_bounds__(kScoreThreads)
    favor_scores(const __grid_constant__ TableScoresForward<Real> a, int pieces, int rows_per_block,
                 int slice) {
  static_assert(Keys::kLanes == Features::kLanes, "a token's lanes");
  constexpr bool kFull = Features::kFull;
  constexpr int kTeams = Keys::kTeams;
  const int r = blockIdx.z, warp = threadIdx.x / 32, Q = a.a.dim(1), T = a.a.dim(2);
  const int p = a.q.columns(), m = a.keys.projected[0].columns(), column = Features::column(0);
  const IdReader<kTables, kFull> id_reader(a.keys, r);
  const RowReader<Keys, kTables> keys(a.keys.table, a.keys.tables, r);
  const RowReader<Features, kTables> projected(a.keys.projected, a.keys.tables, r);
  const int begin = blockIdx.x * slice, end = min(T, begin + slice);
  const Real base = -log(static_cast<Real>(p)) / 2, scale = static_cast<Real>(a.scale);
  const bool aligned = m % 4 == 0, both = p > m;
  const int rows = a.a.dim(0) * Q, row_end = min(rows, static_cast<int>(blockIdx.y + 1) * rows_per_block);
  for (int row = blockIdx.y * rows_per_block + warp / pieces; row < row_end; row += kScoreWarps / pieces) {
    const Real* q = a.q.at(r) + std::int64_t{row} * p + column;
    const int seen = a.position.at(r)[row], n0 = row / Q * T;
    Real* out = a.a.at(r) + std::int64_t{row} * T;
    for (int t0 = begin + warp % pieces * kTeams; t0 < end; t0 += pieces * kTeams) {
      const int t = t0 + Keys::team();
      const auto ids = id_reader(n0 + min(t, end - 1));
      typename Keys::Quads x;
      keys.sum(ids, x);
      const Real* z_row[kTables];
      CT_FOR(i, kTables) z_row[i] = projected.row(i, ids.id[i]);
      Real square = 0;
      Keys::each([&](int h, int k) { square += x[h][k] * x[h][k]; });
      const Real shift = base - Keys::sum(square) / 2;
      Real score = 0;
#pragma unroll 2
      for (int c = 0; c < m - (kFull ? 0 : column); c += Features::kWidth) {
        const int left = m - column - c;
        typename Features::Quads z, y, up, down;
        Features::load(q + c, left, aligned, up);
        if (both) Features::load(q + m + c, left, aligned, down);
        Features::load(ids.id[0] < 0 ? z_row[0] : z_row[0] + c, left, aligned, z);
        CT_UNROLL(int i = 1; i < kTables; ++i) {
          Features::load(ids.id[i] < 0 ? z_row[i] : z_row[i] + c, left, aligned, y);
          Features::each([&](int h, int k) { z[h][k] += y[h][k]; });
        }
        Features::each([&](int h, int k) {
          if (!kFull && 4 * Features::kLanes * h + k >= left) return;
          score += up[h][k] * exp_up(z[h][k], shift);
          if (both) score += down[h][k] * exp_down(z[h][k], shift);
        });
      }
      score = Keys::sum(score);
      if (Keys::lane() == 0 && t < end) {
        if (row % Q == 0) a.shift.at(r)[n0 + t] = shift;
        out[t] = t < seen ? scale * score : Real(0);
      }
    }
  }
}

constexpr int kFavorColumns = 64;  // of m, a block
template <class Real, bool kFull>
using FavorTeam = RowTeam<Real, 8, 2, kFull>;

/// d_q = scale sum_t d_a_t phi(k_t): blockIdx.x is the slice of columns. Teams walk the tokens of a sequence,
/// then teams and warps are added in their order. kFull: m is a multiple of 64.
template <bool kFull, int kTables, class Real>
__global__ void __launch_bounds__(kScoreThreads)
    favor_query_gradient(const __grid_constant__ TableScoresBackward<Real> a, int rows_per_block) {
  using T_ = FavorTeam<Real, kFull>;
  __shared__ Real sums[kScoreWarps][2][kFavorColumns];
  const int r = blockIdx.z, warp = threadIdx.x / 32, Q = a.d_a.dim(1), T = a.d_a.dim(2), p = a.q.columns();
  const int m = a.keys.projected[0].columns(), column0 = blockIdx.x * kFavorColumns;
  const bool both = p > m;
  const IdReader<kTables, kFull> id_reader(a.keys, r);
  const RowReader<T_, kTables> projected(a.keys.projected, a.keys.tables, r, -1, column0);
  const int rows = a.d_a.dim(0) * Q, row_end = min(rows, static_cast<int>(blockIdx.y + 1) * rows_per_block);
  for (int row = blockIdx.y * rows_per_block; row < row_end; ++row) {
    const int seen = clamped(a.position.at(r)[row], T), n0 = row / Q * T;
    const Real* d_a = a.d_a.at(r) + std::int64_t{row} * T;
    const Real* shift = a.shift.at(r) + n0;
    typename T_::Quads up, down;
    T_::clear(up), T_::clear(down);
#pragma unroll 4
    for (int t = warp * T_::kTeams + T_::team(); t < seen; t += kScoreWarps * T_::kTeams) {
      const auto ids = id_reader(n0 + t);
      const Real weight = d_a[t], s = shift[t];
      typename T_::Quads z;
      projected.sum(ids, z);
      T_::each([&](int h, int k) { up[h][k] += weight * exp_up(z[h][k], s); });
      if (both) T_::each([&](int h, int k) { down[h][k] += weight * exp_down(z[h][k], s); });
    }
    __syncwarp();
    T_::each([&](int h, int k) {
      const Real sum_up = T_::sum_teams(up[h][k]), sum_down = T_::sum_teams(down[h][k]);
      if (T_::team() == 0) {
        sums[warp][0][T_::column(h) + k] = sum_up;
        sums[warp][1][T_::column(h) + k] = sum_down;
      }
    });
    __syncthreads();
    const int half = threadIdx.x / kFavorColumns, c = threadIdx.x % kFavorColumns;
    if (half < (both ? 2 : 1) && column0 + c < m) {
      Real total = 0;
      CT_FOR(w, kScoreWarps) total += sums[w][half][c];
      a.d_q.at(r)[std::int64_t{row} * p + half * m + column0 + c] = static_cast<Real>(a.scale) * total;
    }
    __syncthreads();
  }
}

/// d_projected: blockIdx.y is the slice of columns, blockIdx.z replica and table. As team_table_gradient.
template <bool kFull, int kTables, class Real>
__global__ void __launch_bounds__(kScoreThreads)
    favor_table_gradient(const __grid_constant__ TableScoresBackward<Real> a,
                         const __grid_constant__ RowShares shares) {
  using T_ = FavorTeam<Real, kFull>;
  constexpr int kOthers = kTables - 1;
  __shared__ Real sums[kScoreWarps][kFavorColumns];
  const int r = blockIdx.z / a.keys.tables, table = blockIdx.z % a.keys.tables;
  if (a.write_projected[table] == Write::none) return;
  const int warp = threadIdx.x / 32, p = a.q.columns();
  const int m = a.keys.projected[0].columns(), column0 = blockIdx.y * kFavorColumns;
  const bool both = p > m;
  const IdReader<kOthers, kFull> id_reader(a.keys, r, table);
  const RowReader<T_, kOthers> projected(a.keys.projected, a.keys.tables, r, table, column0);
  const Real *own = a.keys.projected[table].at(r) + column0 + T_::column(0),
             *q = a.q.at(r) + column0 + T_::column(0), *shift = a.shift.at(r);
  const int rows = static_cast<int>(a.d_projected[table].rows());
  const int pieces = shares.pieces[table], some_rows = shares.rows_per_block[table];
  const int at_once = kScoreWarps / pieces, piece = warp % pieces;
  const Real scale = static_cast<Real>(a.scale);
  const int row0 = blockIdx.x * some_rows, row_end = min(rows, row0 + some_rows);
  for (int first = row0; first < row_end; first += at_once) {
    const int row = first + warp / pieces, safe = min(row, row_end - 1);
    const int begin = a.start[table].at(r)[safe],
              end = row < row_end ? a.start[table].at(r)[safe + 1] : begin;
    typename T_::Quads total, known;
    T_::clear(total);
    T_::load(own + std::int64_t{safe} * m, projected.left, projected.aligned, known);
    const auto weigh = [&](int at) { return scale * a.d_a.at(r)[at]; };
    const auto visit = [&](const ListEntry<kOthers, Real>(&entry)[kAtOnce]) {
      typename T_::Quads z[kAtOnce], up[kAtOnce], down[kAtOnce];
      Real s[kAtOnce];
      CT_FOR(u, kAtOnce) {
        const Real* g_row = q + std::int64_t{entry[u].query_row} * p;
        s[u] = shift[entry[u].token];
        projected.sum(entry[u].ids, z[u]);
        T_::load(g_row, projected.left, projected.aligned, up[u]);
        if (both) T_::load(g_row + m, projected.left, projected.aligned, down[u]);
      }
      CT_FOR(u, kAtOnce) {
        T_::each([&](int h, int k) { z[u][h][k] += known[h][k]; });
        T_::each([&](int h, int k) { up[u][h][k] *= exp_up(z[u][h][k], s[u]); });
        if (both) T_::each([&](int h, int k) { up[u][h][k] -= down[u][h][k] * exp_down(z[u][h][k], s[u]); });
        T_::each([&](int h, int k) { total[h][k] += entry[u].weight * up[u][h][k]; });
      }
    };
    walk_list<T_>(a, id_reader, r, table, begin, end, piece * T_::kTeams + T_::team(), pieces * T_::kTeams,
                  weigh, visit);
    T_::each([&](int h, int k) {
      const Real sum = T_::sum_teams(total[h][k]);
      if (T_::team() == 0) sums[warp][T_::column(h) + k] = sum;
    });
    __syncthreads();
    const int some = min(at_once, row_end - first) * kFavorColumns;
    for (int i = threadIdx.x; i < some; i += kScoreThreads) {
      const int local = i / kFavorColumns, c = i % kFavorColumns;
      if (column0 + c >= m) continue;
      Real sum = 0;
      for (int w = 0; w < pieces; ++w) sum += sums[local * pieces + w][c];
      put(a.write_projected[table],
          a.d_projected[table].at(r) + std::int64_t{first + local} * m + column0 + c, sum);
    }
    __syncthreads();
  }
}

}  // namespace crosstalk::device
