// Scores from table rows: three kernels, each of which makes keys and features anew in registers
// (ops/table_scores.cuh). Tables and queries are small and stay in the first cache; a token costs tables x d
// reads and a few instructions a feature in each.
//
//   scores    a team of lanes a token
//   query     the warps that share a sequence walk its tokens; their teams, then warps, are added in order
//   tables    the warps that share a row walk its list, each team every so-manieth entry; added likewise
// How many warps share is a function of T, or of tokens a row. Blocks take several sequences or rows where
// there are more than the GPU holds at once, for the cache's sake; no sum depends on that.
// SPDX-License-Identifier: Apache-2.0
#include <type_traits>

#include "kernels/ops/table_scores_favor.cuh"

namespace crosstalk {
namespace {
using namespace device;

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
    q.load(a.q.at(r) + static_cast<std::int64_t>(row) * p, d);
    const int seen = a.position.at(r)[row], n0 = row / Q * T;
    Real* out = a.a.at(r) + static_cast<std::int64_t>(row) * T;
    const int step = pieces * kAtOnce * Team::kTeams;
    TokenIds<kTables> ids[kAtOnce];
    const auto look_up = [&](int t0) {
#pragma unroll
      for (int u = 0; u < kAtOnce; ++u)
        ids[u] = id_reader(n0 + min(t0 + u * Team::kTeams + Team::team(), end - 1));
    };
    look_up(begin + piece * kAtOnce * Team::kTeams);
    for (int t0 = begin + piece * kAtOnce * Team::kTeams; t0 < end; t0 += step) {
      typename Team::Quads x[kAtOnce];
      TokenIds<kTables> now[kAtOnce];
#pragma unroll
      for (int u = 0; u < kAtOnce; ++u) {
        now[u] = ids[u];
        reader.sum(now[u], x[u]);
      }
      look_up(t0 + step);  // of the next turn, on its way during this one
#pragma unroll
      for (int u = 0; u < kAtOnce; ++u) {
        if (t0 + u * Team::kTeams >= end) break;
        Real score = 0;
        if constexpr (kNu > 0) {
          Ring<Team, kNu> ring;
          ring.make(x[u], d, [&](int c) { return reader.column(now[u], c); });
#pragma unroll
          for (int h = 0; h < Team::kGroups; ++h) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
              Real f[kNu + 4];
              ring.rectified(h, half, f);
#pragma unroll
              for (int k = 0; k < 4; ++k) {
                Real along = q.v[0][half][h][k] * f[kNu + k - 1];
#pragma unroll
                for (int j = 2; j <= kNu; ++j) along += q.v[j - 1][half][h][k] * f[kNu + k - j];
                score += f[kNu + k] * along;
              }
            }
          }
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
    const Real* d_a = a.d_a.at(r) + static_cast<std::int64_t>(row) * T;
    Row sum;
    sum.clear();
    const int step = pieces * kAtOnce * Team::kTeams;
    TokenIds<kTables> ids[kAtOnce];
    Real weights[kAtOnce];
    const auto look_up = [&](int t0) {
#pragma unroll
      for (int u = 0; u < kAtOnce; ++u) {
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
#pragma unroll
      for (int u = 0; u < kAtOnce; ++u) {
        now[u] = ids[u], weight[u] = weights[u];
        reader.sum(now[u], x[u]);
      }
      look_up(t0 + step);  // of the next turn, on its way during this one
#pragma unroll
      for (int u = 0; u < kAtOnce; ++u) {
        if constexpr (kNu > 0) {
          Ring<Team, kNu> ring;
          ring.make(x[u], d, [&](int c) { return reader.column(now[u], c); });
#pragma unroll
          for (int h = 0; h < Team::kGroups; ++h) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
              Real f[kNu + 4];
              ring.rectified(h, half, f);
#pragma unroll
              for (int k = 0; k < 4; ++k) {
                const Real weighted = weight[u] * f[kNu + k];
#pragma unroll
                for (int j = 1; j <= kNu; ++j) sum.v[j - 1][half][h][k] += weighted * f[kNu + k - j];
              }
            }
          }
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
      put(a.write_q, a.d_q.at(r) + static_cast<std::int64_t>(first) * p + i,
          static_cast<Real>(a.scale) * total);
    }
    __syncthreads();
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
    const Real* own_row = own + static_cast<std::int64_t>(safe) * d;
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
#pragma unroll
      for (int u = 0; u < kAtOnce; ++u) {
        reader.sum(entry[u].ids, x[u]);
        if (kNu != kLengthOnly)
          g[u].load(q + static_cast<std::uint64_t>(static_cast<unsigned>(entry[u].query_row)) *
                            static_cast<unsigned>(p),
                    d);
      }
#pragma unroll
      for (int u = 0; u < kAtOnce; ++u) {
        const Real weight = entry[u].weight;
        Team::each([&](int h, int k) { x[u][h][k] += known[h][k]; });
        if constexpr (kNu > 0) {
          Ring<Team, kNu> ring;
          ring.make(x[u], d, [&](int c) { return own_row[c] + reader.column(entry[u].ids, c); });
          // The score has q_i x_i x_{i-j} where both have the sign of the half: each is the other's
          // derivative.
#pragma unroll
          for (int h = 0; h < kGroups; ++h) {
            Real d_e[kNu + 4] = {};
            const auto& e = ring.e[h];
#pragma unroll
            for (int j = 1; j <= kNu; ++j) {
#pragma unroll
              for (int k = 0; k < 4; ++k) {
                const Real y = e[kNu + k] > 0 ? g[u].v[j - 1][0][h][k] : g[u].v[j - 1][1][h][k];
                const Real same = e[kNu + k] * e[kNu + k - j] > 0 ? y : Real(0);
                d_e[kNu + k] += same * e[kNu + k - j];
                d_e[kNu + k - j] += same * e[kNu + k];
              }
            }
#pragma unroll
            for (int k = 0; k < 4; ++k) total[h][k] += weight * d_e[kNu + k];
#pragma unroll
            for (int j = 1; j <= kNu; ++j) before_total[h][j - 1] += weight * d_e[kNu - j];
          }
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
      Real* out = a.d_table[table].at(r) + static_cast<std::int64_t>(safe) * d;
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
#pragma unroll
    for (int j = 1; j <= kNu; ++j) {  // one owner a column for each j and h
#pragma unroll
      for (int h = 0; h < kGroups; ++h) {
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
      put(a.write_table[table], a.d_table[table].at(r) + static_cast<std::int64_t>(first + local) * d + c,
          sum);
    }
    __syncthreads();
  }
}

constexpr std::int64_t kMultiprocessors = 132;

/// How many of `rounds` a block takes, `groups` times as many in all, such that blocks fill a large GPU
/// evenly; many rather than few, since tables stay in the cache of a block's multiprocessor. Changes no sum.
int per_block(std::int64_t rounds, std::int64_t groups, int residents) {
  const std::int64_t slots = kMultiprocessors * residents;
  std::int64_t best = 1, least = INT64_MAX;
  for (std::int64_t some = 1; some <= 16 && some <= rounds; ++some) {
    const std::int64_t blocks = (rounds + some - 1) / some * groups, waves = (blocks + slots - 1) / slots,
                       cost = waves * (2 * some + 1);  // half a round is what a block's start costs
    if (cost <= least) best = some, least = cost;
  }
  return static_cast<int>(best);
}

/// Warps that share a sequence of T tokens, so many at once a warp: a function of these alone.
int warps_for(int T, int at_once) {
  int warps = 1;
  while (warps < kScoreWarps && T > 8 * at_once * warps) warps *= 2;
  return warps;
}

/// Forward pass, whose sums depend on nothing here: a block takes `some` sequences at a time of a slice of T.
template <class Real, class Launch>
void launch_forward(const TableScoresForward<Real>& a, int at_once, int residents, Launch&& launch) {
  const int T = a.a.dim(2), rows = a.a.dim(0) * a.a.dim(1), R = a.a.R;
  const std::int64_t slots = kMultiprocessors * residents;
  int pieces = warps_for(T, at_once);
  while (pieces < kScoreWarps && static_cast<std::int64_t>(rows) * R * pieces < slots * kScoreWarps)
    pieces *= 2;
  const int together = kScoreWarps / pieces, rounds = (rows + together - 1) / together,
            some = per_block(rounds, R, residents);
  const std::int64_t blocks = static_cast<std::int64_t>(blocks_for(rounds, some)) * R;
  const int turn = pieces * at_once, turns = (T + turn - 1) / turn, most = (turns + 1) / 2;
  const int wanted = static_cast<int>(blocks >= slots ? 1 : slots / blocks),
            slices = wanted < most ? wanted : most;
  const int slice = (turns + slices - 1) / slices * turn;
  launch(dim3(blocks_for(T, slice), blocks_for(rounds, some), static_cast<unsigned>(R)), pieces,
         some * together, slice);
  check_launch("table scores");
}

template <class Team, int kNu, int kTables, class Real>
void forward(const Exec& exec, const TableScoresForward<Real>& a) {
  launch_forward(a, kAtOnce * Team::kTeams, residents(kNu), [&](dim3 grid, int pieces, int rows, int slice) {
    team_scores<Team, kNu, kTables><<<grid, kScoreThreads, 0, stream_of(exec)>>>(a, pieces, rows, slice);
  });
}

template <class Real>
void forward_favor(const Exec& exec, const TableScoresForward<Real>& a) {
  if (a.keys.table[0].columns() > kTableScoresColumns)
    refuse_shape("table scores", "columns", a.keys.table[0].columns(), kTableScoresColumns);
  const bool full = a.keys.projected[0].columns() % 128 == 0;
  launch_forward(a, 1, residents(0), [&](dim3 grid, int pieces, int rows, int slice) {
    const auto launch = [&](auto kernel) {
      kernel<<<grid, kScoreThreads, 0, stream_of(exec)>>>(a, pieces, rows, slice);
    };
    if (full && a.keys.tables == 2) {
      launch(favor_scores<true, 2, Real>);
    } else if (full && a.keys.tables == 3) {
      launch(favor_scores<true, 3, Real>);
    } else {
      launch(favor_scores<false, 3, Real>);
    }
  });
}

template <class Team, int kNu, int kTables, class Real>
void backward_query(const Exec& exec, const TableScoresBackward<Real>& a) {
  const int rows = a.d_a.dim(0) * a.d_a.dim(1), pieces = warps_for(a.d_a.dim(2), kAtOnce * Team::kTeams),
            at_once = kScoreWarps / pieces;
  const int some = at_once * per_block(blocks_for(rows, at_once), a.d_a.R, residents(kNu));
  const std::size_t bytes = static_cast<std::size_t>(kScoreWarps * a.q.columns()) * sizeof(Real);
  allow_shared_memory(team_query_gradient<Team, kNu, kTables, Real>, bytes);
  team_query_gradient<Team, kNu, kTables><<<dim3(1, blocks_for(rows, some), static_cast<unsigned>(a.d_a.R)),
                                            kScoreThreads, bytes, stream_of(exec)>>>(a, pieces, some);
  check_launch("table scores backward (q)");
}

/// Shares of the tables whose gradients are wanted; `blocks` of the largest. At least `least` rounds of rows
/// a block.
template <class Real>
RowShares share_rows(const TableScoresBackward<Real>& a, const Write (&write)[kMaxTables],
                     std::int64_t groups, int residents, unsigned& blocks) {
  RowShares shares;
  blocks = 0;
  for (int i = 0; i < a.keys.tables; ++i) {
    const std::int64_t rows = a.keys.table[i].rows(), tokens = a.keys.ids.rows();
    if (write[i] == Write::none || rows == 0) continue;
    int pieces = 1;  // of a list, which so many tokens a row demand
    while (pieces < kScoreWarps && tokens > 64 * pieces * rows) pieces *= 2;
    const int at_once = kScoreWarps / pieces;
    shares.pieces[i] = pieces;
    shares.rows_per_block[i] = at_once * per_block(blocks_for(rows, at_once), groups, residents);
    const unsigned n = blocks_for(rows, shares.rows_per_block[i]);
    blocks = n > blocks ? n : blocks;
  }
  return shares;
}

template <class Team, int kNu, int kTables, class Real>
void backward_tables(const Exec& exec, const TableScoresBackward<Real>& a) {
  unsigned blocks;
  const RowShares shares =
      share_rows(a, a.write_table, a.keys.tables * a.d_a.R, residents_of_tables(kNu), blocks);
  if (blocks == 0) return;
  const std::size_t bytes = static_cast<std::size_t>(kScoreWarps * a.keys.table[0].columns()) * sizeof(Real);
  team_table_gradient<Team, kNu, kTables>
      <<<dim3(blocks, static_cast<unsigned>(a.keys.tables), static_cast<unsigned>(a.d_a.R)), kScoreThreads,
         bytes, stream_of(exec)>>>(a, shares);
  check_launch("table scores backward (tables)");
}

template <class Team, int kNu, int kTables, class Real>
void backward(const Exec& exec, const TableScoresBackward<Real>& a) {
  if constexpr (kNu != kLengthOnly) {
    if (a.write_q != Write::none) backward_query<Team, kNu, kTables>(exec, a);
  }
  backward_tables<Team, kNu, kTables>(exec, a);
}

template <bool kFull, int kTables, class Real>
void backward_favor(const Exec& exec, const TableScoresBackward<Real>& a) {
  const int m = a.keys.projected[0].columns(), rows = a.d_a.dim(0) * a.d_a.dim(1);
  const unsigned slices = blocks_for(m, kFavorColumns), R = static_cast<unsigned>(a.d_a.R);
  if (a.write_q != Write::none) {
    const int some = per_block(rows, static_cast<std::int64_t>(a.d_a.R) * slices, residents(0));
    favor_query_gradient<kFull, kTables>
        <<<dim3(slices, blocks_for(rows, some), R), kScoreThreads, 0, stream_of(exec)>>>(a, some);
    check_launch("table scores backward (q)");
  }
  unsigned blocks;
  const RowShares shares = share_rows(a, a.write_projected,
                                      static_cast<std::int64_t>(a.keys.tables) * a.d_a.R * slices, 2, blocks);
  if (blocks == 0) return;
  favor_table_gradient<kFull, kTables>
      <<<dim3(blocks, slices, R * static_cast<unsigned>(a.keys.tables)), kScoreThreads, 0, stream_of(exec)>>>(
          a, shares);
  check_launch("table scores backward (projected tables)");
}

template <class Real>
void backward_favor(const Exec& exec, const TableScoresBackward<Real>& a) {
  const bool full = a.keys.projected[0].columns() % kFavorColumns == 0;
  if (full && a.keys.tables == 2) {
    backward_favor<true, 2>(exec, a);
  } else if (full && a.keys.tables == 3) {
    backward_favor<true, 3>(exec, a);
  } else {
    backward_favor<false, 3>(exec, a);
  }
}

/// Calls f(team, nu (0: a map of single entries), tables) with types for these keys. kFavor: nu is
/// kLengthOnly. Fast for keys of 64 columns.
template <bool kFavor, class Real, class F>
void with_team(const TableKeys<Real>& keys, F&& f) {
  const int d = keys.table[0].columns();
  if (d > kTableScoresColumns) refuse_shape("table scores", "columns", d, kTableScoresColumns);
  const int nu = keys.map == FeatureMap::dpfp ? keys.nu : 0;
  if (nu > kTableScoresNu) refuse_shape("table scores", "nu", keys.nu, kTableScoresNu);
  const auto with_nu = [&](auto team, auto tables) {
    if constexpr (kFavor) {
      f(team, std::integral_constant<int, kLengthOnly>(), tables);
      return;
    }
    if (nu == 0) f(team, std::integral_constant<int, 0>(), tables);
    if (nu == 1) f(team, std::integral_constant<int, 1>(), tables);
    if (nu == 2) f(team, std::integral_constant<int, 2>(), tables);
    if (nu == 3) f(team, std::integral_constant<int, 3>(), tables);
  };
  const std::integral_constant<int, 2> two;
  const std::integral_constant<int, 3> three;
  if (d == 64 && keys.tables == 2) {
    with_nu(Team<Real, 8, 2, true>(), two);
  } else if (d == 64 && keys.tables == 3) {
    with_nu(Team<Real, 8, 2, true>(), three);
  } else if (d <= 64) {
    with_nu(Team<Real, 8, 2, false>(), three);
  } else {
    with_nu(Team<Real, 32, 1, false>(), three);
  }
}

}  // namespace

template <class Real>
void run_cuda(const Exec& exec, const TableScoresForward<Real>& a) {
  if (a.a.size() == 0 || a.a.R == 0) return;
  if (is_favor(a.keys.map)) {
    forward_favor(exec, a);
    return;
  }
  with_team<false>(a.keys, [&](auto team, auto nu, auto tables) {
    forward<decltype(team), decltype(nu)::value, decltype(tables)::value>(exec, a);
  });
}

template <class Real>
void run_cuda(const Exec& exec, const TableScoresBackward<Real>& a) {
  if (a.d_a.size() == 0 || a.d_a.R == 0) return;
  const auto with = [&](auto team, auto nu, auto tables) {
    backward<decltype(team), decltype(nu)::value, decltype(tables)::value>(exec, a);
  };
  if (is_favor(a.keys.map)) {
    backward_favor(exec, a);
    with_team<true>(a.keys, with);
  } else {
    with_team<false>(a.keys, with);
  }
}

CROSSTALK_CUDA_OP(TableScoresForward)
CROSSTALK_CUDA_OP(TableScoresBackward)

}  // namespace crosstalk
