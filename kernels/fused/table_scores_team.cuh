// Scores from table rows, maps of single entries and DPFP: three kernels, each of which makes keys and
// features anew in registers (table_scores.cuh). Tables and queries are small and stay in the first
// cache; a token costs tables x d reads and a few instructions a feature in each.
//
//   scores    a team of lanes a token
//   query     the warps that share a sequence walk its tokens; their teams, then warps, are added in order
//   tables    the warps that share a row walk its list: team i of n takes entries i, i + n, ...; sums are
//             added in the order of teams
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/fused/table_scores.cuh"

namespace crosstalk::device {

// kNu: DPFP's; 0: maps of single entries; -1: what FAVOR+ features pass to the key by its length.
constexpr int kLengthOnly = -1;
constexpr int residents(int nu) { return nu > 0 ? 2 : 4; }
constexpr int residents_of_tables(int nu) { return nu > 0 ? 2 : 3; }

template <class Team, int kNu, int kTables, class Real>
__global__ void __launch_bounds__(kScoreThreads, resident<Team>(residents(kNu)))
    team_scores(const __grid_constant__ TableScoresForward<Real> a, int pieces, int rows_per_block,
                int slice) {
  const int r = blockIdx.z, warp = threadIdx.x / 32, piece = warp % pieces, Q = a.a.dim(1), T = a.a.dim(2),
            p = a.q.columns();
  const IdReader<kTables, Team::kFull> id_reader(a.keys, r);
  const RowReader<Team, kTables> reader(a.keys.table, a.keys.tables, r);
  const int d = Team::kFull ? Team::kWidth : reader.stride;
  const int begin = blockIdx.x * slice, end = min(T, begin + slice);
  const Real scale = static_cast<Real>(a.scale);
  const int rows = a.a.dim(0) * Q, row_end = min(rows, static_cast<int>(blockIdx.y + 1) * rows_per_block);
  for (int row = blockIdx.y * rows_per_block + warp / pieces; row < row_end; row += kScoreWarps / pieces) {
    QueryRow<Team, kNu> q;
    q.load(a.q.at(r) + std::int64_t{row} * p, d);
    const int seen = a.position.at(r)[row], n0 = row / Q * T;
    Real* out = a.a.at(r) + std::int64_t{row} * T;
    const int step = pieces * kAtOnce * Team::kTeams;
    TokenIds<kTables> ids[kAtOnce];
    const auto look_up = [&](int t0) {
      CT_FOR(u, kAtOnce) ids[u] = id_reader(n0 + min(t0 + u * Team::kTeams + Team::team(), end - 1));
    };
    look_up(begin + piece * kAtOnce * Team::kTeams);
    for (int t0 = begin + piece * kAtOnce * Team::kTeams; t0 < end; t0 += step) {
      typename Team::Quads x[kAtOnce];
      TokenIds<kTables> now[kAtOnce];
      CT_FOR(u, kAtOnce) {
        now[u] = ids[u];
        reader.sum(now[u], x[u]);
      }
      look_up(t0 + step);  // of the next turn, on its way during this one
      CT_FOR(u, kAtOnce) {
        if (t0 + u * Team::kTeams >= end) break;
        Real score = 0;
        if constexpr (kNu > 0) {
          Ring<Team, kNu> ring;
          ring.make(x[u], d, [&](int c) { return reader.column(now[u], c); });
          ring.each([&](int h, int half, int k, const Real* f) {
            Real along = q.v[0][half][h][k] * f[-1];
            CT_UNROLL(int j = 2; j <= kNu; ++j) along += q.v[j - 1][half][h][k] * f[-j];
            score += f[0] * along;
          });
        } else {
          map_quads<Team>(a.keys.map, x[u]);
          Team::each([&](int h, int k) { score += q.v[0][0][h][k] * x[u][h][k]; });
        }
        score = Team::sum(score);
        const int t = t0 + u * Team::kTeams + Team::team();
        if (t < end && Team::lane() == 0) out[t] = t < seen ? scale * score : Real(0);
      }
    }
  }
}

/// d_q = scale sum_t d_a_t phi(k_t). Shared memory: [warp][p].
template <class Team, int kNu, int kTables, class Real>
__global__ void __launch_bounds__(kScoreThreads, resident<Team>(residents(kNu)))
    team_query_gradient(const __grid_constant__ TableScoresBackward<Real> a, int pieces, int rows_per_block) {
  using Row = QueryRow<Team, kNu>;
  extern __shared__ __align__(16) unsigned char raw[];
  Real* sums = reinterpret_cast<Real*>(raw);
  const int r = blockIdx.z, warp = threadIdx.x / 32, piece = warp % pieces, Q = a.d_a.dim(1),
            T = a.d_a.dim(2), p = a.q.columns();
  const IdReader<kTables, Team::kFull> id_reader(a.keys, r);
  const RowReader<Team, kTables> reader(a.keys.table, a.keys.tables, r);
  const int d = Team::kFull ? Team::kWidth : reader.stride, at_once = kScoreWarps / pieces;
  const int rows = a.d_a.dim(0) * Q, row_end = min(rows, static_cast<int>(blockIdx.y + 1) * rows_per_block);
  for (int first = blockIdx.y * rows_per_block; first < row_end; first += at_once) {
    const int row = min(first + warp / pieces, row_end - 1);
    const int seen = clamped(a.position.at(r)[row], T), n0 = row / Q * T;
    const Real* d_a = a.d_a.at(r) + std::int64_t{row} * T;
    Row sum;
    sum.clear();
    const int step = pieces * kAtOnce * Team::kTeams;
    TokenIds<kTables> ids[kAtOnce];
    Real weights[kAtOnce];
    const auto look_up = [&](int t0) {
      CT_FOR(u, kAtOnce) {
        const int t = t0 + u * Team::kTeams + Team::team(), safe = max(min(t, seen - 1), 0);
        ids[u] = id_reader(n0 + safe);
        const Real loaded = d_a[safe];
        weights[u] = t < seen ? loaded : Real(0);
      }
    };
    look_up(piece * kAtOnce * Team::kTeams);
    for (int t0 = piece * kAtOnce * Team::kTeams; t0 < seen; t0 += step) {
      typename Team::Quads x[kAtOnce];
      TokenIds<kTables> now[kAtOnce];
      Real weight[kAtOnce];
      CT_FOR(u, kAtOnce) {
        now[u] = ids[u], weight[u] = weights[u];
        reader.sum(now[u], x[u]);
      }
      look_up(t0 + step);  // of the next turn, on its way during this one
      CT_FOR(u, kAtOnce) {
        if constexpr (kNu > 0) {
          Ring<Team, kNu> ring;
          ring.make(x[u], d, [&](int c) { return reader.column(now[u], c); });
          ring.each([&](int h, int half, int k, const Real* f) {
            const Real weighted = weight[u] * f[0];
            CT_UNROLL(int j = 1; j <= kNu; ++j) sum.v[j - 1][half][h][k] += weighted * f[-j];
          });
        } else {
          map_quads<Team>(a.keys.map, x[u]);
          Team::each([&](int h, int k) { sum.v[0][0][h][k] += weight[u] * x[u][h][k]; });
        }
      }
    }
    Row::each([&](int j, int half) {
      Team::each([&](int h, int k) {
        const Real total = Team::sum_teams(sum.v[j][half][h][k]);
        const int c = Team::column(h) + k;
        if (Team::team() == 0 && c < d) sums[warp * p + (2 * j + half) * d + c] = total;
      });
    });
    __syncthreads();
    const int some = min(at_once, row_end - first) * p;
    for (int i = threadIdx.x; i < some; i += kScoreThreads) {
      const int local = i / p;
      const Real* part = sums + local * (pieces - 1) * p + i;  // of the first warp of this row
      Real total = 0;
      for (int w = 0; w < pieces; ++w) total += part[w * p];
      a.d_q.at(r)[std::int64_t{first} * p + i] = static_cast<Real>(a.scale) * total;
    }
    __syncthreads();
  }
}

/// Gradients of a row's columns by a query: the score has q_i x_i x_{i-j} where both have the sign of the half,
/// and each is the other's derivative. before_total: what the columns before each quad get.
template <class Team, int kNu, class Real>
CT_DEVICE void pull_ring(const Ring<Team, kNu>& ring, const QueryRow<Team, kNu>& g, Real weight,
                         typename Team::Quads& total, Real (&before_total)[Team::kGroups][kNu]) {
  CT_FOR(h, Team::kGroups) {
    Real d_e[kNu + 4] = {};
    const auto& e = ring.e[h];
    CT_UNROLL(int j = 1; j <= kNu; ++j) {
      CT_FOR(k, 4) {
        const Real y = e[kNu + k] > 0 ? g.v[j - 1][0][h][k] : g.v[j - 1][1][h][k];
        const Real same = e[kNu + k] * e[kNu + k - j] > 0 ? y : Real(0);
        d_e[kNu + k] += same * e[kNu + k - j];
        d_e[kNu + k - j] += same * e[kNu + k];
      }
    }
    CT_FOR(k, 4) total[h][k] += weight * d_e[kNu + k];
    CT_UNROLL(int j = 1; j <= kNu; ++j) before_total[h][j - 1] += weight * d_e[kNu - j];
  }
}

/// d_table; blockIdx.y is the table. Shared memory: [warp][d].
template <class Team, int kNu, int kTables, class Real>
__global__ void __launch_bounds__(kScoreThreads, resident<Team>(residents_of_tables(kNu)))
    team_table_gradient(const __grid_constant__ TableScoresBackward<Real> a,
                        const __grid_constant__ RowShares shares) {
  constexpr int kOthers = kTables - 1, kGroups = Team::kGroups;
  extern __shared__ __align__(16) unsigned char raw[];
  Real* sums = reinterpret_cast<Real*>(raw);
  const int r = blockIdx.z, table = blockIdx.y;
  if (a.write_table[table] == Write::none) return;
  const int warp = threadIdx.x / 32, p = a.q.columns();
  const IdReader<kOthers, Team::kFull> id_reader(a.keys, r, table);
  const RowReader<Team, kOthers> reader(a.keys.table, a.keys.tables, r, table);
  const int d = Team::kFull ? Team::kWidth : reader.stride, rows = static_cast<int>(a.d_table[table].rows());
  const int pieces = shares.pieces[table], some_rows = shares.rows_per_block[table];
  const int at_once = kScoreWarps / pieces, piece = warp % pieces;
  const Real scale = static_cast<Real>(a.scale);
  const Real *own = a.keys.table[table].at(r), *q = a.q.at(r);
  const int row0 = blockIdx.x * some_rows, row_end = min(rows, row0 + some_rows);
  for (int first = row0; first < row_end; first += at_once) {
    const int row = first + warp / pieces, safe = min(row, row_end - 1);
    const int begin = a.start[table].at(r)[safe],
              end = row < row_end ? a.start[table].at(r)[safe + 1] : begin;
    const Real* own_row = own + std::int64_t{safe} * d;
    typename Team::Quads known, total;
    Team::load(own_row + Team::column(0), d - Team::column(0), d % 4 == 0, known);
    Team::clear(total);
    Real before_total[kGroups][kNu > 0 ? kNu : 1] = {};  // what the columns before each quad get
    const auto weigh = [&](int at) {
      return a.d_a.at(r)[at] * (kNu == kLengthOnly ? -a.a.at(r)[at] : scale);
    };
    const auto visit = [&](const ListEntry<kOthers, Real>(&entry)[kAtOnce]) {
      typename Team::Quads x[kAtOnce];
      QueryRow<Team, (kNu > 0 ? kNu : 0)> g[kAtOnce];
      CT_FOR(u, kAtOnce) {
        reader.sum(entry[u].ids, x[u]);
        if (kNu != kLengthOnly)
          g[u].load(q + static_cast<std::uint64_t>(static_cast<unsigned>(entry[u].query_row)) *
                            static_cast<unsigned>(p),
                    d);
      }
      CT_FOR(u, kAtOnce) {
        const Real weight = entry[u].weight;
        Team::each([&](int h, int k) { x[u][h][k] += known[h][k]; });
        if constexpr (kNu > 0) {
          Ring<Team, kNu> ring;
          ring.make(x[u], d, [&](int c) { return own_row[c] + reader.column(entry[u].ids, c); });
          pull_ring<Team, kNu>(ring, g[u], weight, total, before_total);
        } else if constexpr (kNu == kLengthOnly) {
          Team::each([&](int h, int k) { total[h][k] += weight * x[u][h][k]; });
        } else {
          pull_quads<Team>(a.keys.map, x[u], g[u].v[0][0]);
          Team::each([&](int h, int k) { total[h][k] += weight * g[u].v[0][0][h][k]; });
        }
      }
    };
    walk_list<Team>(a, id_reader, r, table, begin, end, piece * Team::kTeams + Team::team(),
                    pieces * Team::kTeams, weigh, visit);
    if (Team::kFull && kNu <= 0 && pieces == 1) {
      Real* out = a.d_table[table].at(r) + std::int64_t{safe} * d;
      Team::each([&](int h, int k) {
        const Real sum = Team::sum_teams(total[h][k]);
        if (Team::team() == 0 && row < row_end) put(a.write_table[table], out + Team::column(h) + k, sum);
      });
      continue;
    }
    Real* mine = sums + warp * d;
    Team::each([&](int h, int k) {
      const Real sum = Team::sum_teams(total[h][k]);
      if (Team::team() == 0 && Team::column(h) + k < d) mine[Team::column(h) + k] = sum;
    });
    CT_UNROLL(int j = 1; j <= kNu; ++j) {  // one owner a column for each j and h
      CT_FOR(h, kGroups) {
        const Real sum = Team::sum_teams(before_total[h][j > 0 ? j - 1 : 0]);
        Real sign;
        const int c = Ring<Team, kNu>::wrapped(Team::column(h) - j, d, sign);
        __syncwarp();
        if (Team::team() == 0 && Team::column(h) < d) mine[c] += sign * sum;
      }
    }
    __syncthreads();
    const int some = min(at_once, row_end - first) * d;
    for (int i = threadIdx.x; i < some; i += kScoreThreads) {
      const int local = i / d, c = i - local * d;
      Real sum = 0;
      for (int w = 0; w < pieces; ++w) sum += sums[(local * pieces + w) * d + c];
      put(a.write_table[table], a.d_table[table].at(r) + std::int64_t{first + local} * d + c, sum);
    }
    __syncthreads();
  }
}

}  // namespace crosstalk::device
