// Scores from table rows: three kernels, each of which makes keys and features anew in registers
// (ops/table_scores.cuh). Tables and queries are small and stay in the first cache; per token and pass they
// cost tables x d reads and a few instructions a feature.
//
//   scores    a team of lanes a token
//   query     teams walk the tokens of a sequence, then teams and warps are added in their order
//   tables    a row's list is walked by the teams of 1 to 8 warps (as many as tokens a row demand), each of
//   which
//             takes every so-manieth entry; they are added in their order
// Blocks take several sequences or rows where there are more than the GPU holds at once, for the cache's
// sake; no sum depends on that. SPDX-License-Identifier: Apache-2.0
#include <type_traits>

#include "kernels/ops/table_scores_favor.cuh"

namespace crosstalk {
namespace {
using namespace device;

template <class Real, int kLanes, int kGroups, bool kDpfp>
__global__ void __launch_bounds__(kScoreThreads)
    team_scores(const __grid_constant__ TableScoresForward<Real> a, int rows_per_block, int slice) {
  using T_ = Team<Real, kLanes, kGroups>;
  const int r = blockIdx.z, warp = threadIdx.x / 32, Q = a.a.dim(1), T = a.a.dim(2), p = a.q.columns();
  const KeyReader<T_, Real, kDpfp> reader{a.keys, r, a.keys.table[0].columns()};
  const int d = reader.d, nu = a.keys.nu, begin = blockIdx.x * slice, end = min(T, begin + slice);
  const Real scale = static_cast<Real>(a.scale);
  const int rows = a.a.dim(0) * Q, row_end = min(rows, static_cast<int>(blockIdx.y + 1) * rows_per_block);
  for (int row = blockIdx.y * rows_per_block; row < row_end; ++row) {
    QueryRow<T_, Real, kDpfp> q;
    q.load(a.q.at(r) + static_cast<std::int64_t>(row) * p, d, nu);
    const int seen = a.position.at(r)[row];
    const std::int64_t n0 = static_cast<std::int64_t>(row / Q) * T;
    Real* out = a.a.at(r) + static_cast<std::int64_t>(row) * T;
    int t = begin + warp * T_::kTeams + T_::team();
    auto ids = reader.ids(n0 + t, t < end && t < seen);
    for (int t0 = begin + warp * T_::kTeams; t0 < end; t0 += kScoreWarps * T_::kTeams) {
      const int next = t + kScoreWarps * T_::kTeams;
      const auto next_ids = reader.ids(n0 + next, next < end && next < seen);
      typename T_::Quads x;
      typename T_::Heads head;
      reader.read(ids, x, head);
      Real score = 0;
      if constexpr (kDpfp) {
        rectify(x, head, [&](int half, int h, const Real(&f)[kBefore + 4]) {
#pragma unroll
          for (int k = 0; k < 4; ++k) {
            Real along = q.v[0][half][h][k] * f[kBefore + k - 1];
#pragma unroll
            for (int j = 2; j <= kBefore; ++j) along += q.v[j - 1][half][h][k] * f[kBefore + k - j];
            score += f[kBefore + k] * along;
          }
        });
      } else {
        map_quads(a.keys.map, x);
#pragma unroll
        for (int h = 0; h < kGroups; ++h) {
#pragma unroll
          for (int k = 0; k < 4; ++k) score += q.v[0][0][h][k] * x[h][k];
        }
      }
      score = T_::sum(score);
      if (t < end && T_::lane() == 0) out[t] = t < seen ? scale * score : Real(0);
      t = next, ids = next_ids;
    }
  }
}

/// d_q = scale sum_t d_a_t phi(k_t). Shared memory: [warp][p].
template <class Real, int kLanes, int kGroups, bool kDpfp>
__global__ void __launch_bounds__(kScoreThreads)
    team_query_gradient(const __grid_constant__ TableScoresBackward<Real> a, int rows_per_block) {
  using T_ = Team<Real, kLanes, kGroups>;
  using Row = QueryRow<T_, Real, kDpfp>;
  extern __shared__ __align__(16) unsigned char raw[];
  Real* sums = reinterpret_cast<Real*>(raw);
  const int r = blockIdx.z, warp = threadIdx.x / 32, Q = a.d_a.dim(1), T = a.d_a.dim(2), p = a.q.columns();
  const KeyReader<T_, Real, kDpfp> reader{a.keys, r, a.keys.table[0].columns()};
  const int d = reader.d, nu = a.keys.nu;
  const int rows = a.d_a.dim(0) * Q, row_end = min(rows, static_cast<int>(blockIdx.y + 1) * rows_per_block);
  for (int row = blockIdx.y * rows_per_block; row < row_end; ++row) {
    const int seen = clamped(a.position.at(r)[row], T);
    const std::int64_t n0 = static_cast<std::int64_t>(row / Q) * T;
    const Real* d_a = a.d_a.at(r) + static_cast<std::int64_t>(row) * T;
    Row sum;
    sum.clear();
    int t = warp * T_::kTeams + T_::team();
    auto ids = reader.ids(n0 + t, t < seen);
    Real weight = t < seen ? d_a[t] : Real(0);
    for (int t0 = warp * T_::kTeams; t0 < seen; t0 += kScoreWarps * T_::kTeams) {
      const int next = t + kScoreWarps * T_::kTeams;
      const auto next_ids = reader.ids(n0 + next, next < seen);
      const Real next_weight = next < seen ? d_a[next] : Real(0);
      typename T_::Quads x;
      typename T_::Heads head;
      reader.read(ids, x, head);
      if constexpr (kDpfp) {
        rectify(x, head, [&](int half, int h, const Real(&f)[kBefore + 4]) {
#pragma unroll
          for (int k = 0; k < 4; ++k) {
            const Real weighted = weight * f[kBefore + k];
#pragma unroll
            for (int j = 1; j <= kBefore; ++j) sum.v[j - 1][half][h][k] += weighted * f[kBefore + k - j];
          }
        });
      } else {
        map_quads(a.keys.map, x);
#pragma unroll
        for (int h = 0; h < kGroups; ++h) {
#pragma unroll
          for (int k = 0; k < 4; ++k) sum.v[0][0][h][k] += weight * x[h][k];
        }
      }
      t = next, ids = next_ids, weight = next_weight;
    }
    Real* own = sums + warp * p;
#pragma unroll
    for (int j = 0; j < Row::kRolls; ++j) {
      if (kDpfp && j >= nu) break;
#pragma unroll
      for (int half = 0; half < Row::kHalves; ++half) {
#pragma unroll
        for (int h = 0; h < kGroups; ++h) {
#pragma unroll
          for (int k = 0; k < 4; ++k) {
            const Real total = T_::sum_teams(sum.v[j][half][h][k]);
            const int c = T_::column(h) + k;
            if (T_::team() == 0 && c < d) own[(2 * j + half) * d + c] = total;
          }
        }
      }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < p; i += kScoreThreads) {
      Real total = 0;
#pragma unroll
      for (int w = 0; w < kScoreWarps; ++w) total += sums[w * p + i];
      put(a.write_q, a.d_q.at(r) + static_cast<std::int64_t>(row) * p + i,
          static_cast<Real>(a.scale) * total);
    }
    __syncthreads();
  }
}

/// d_table; blockIdx.y is the table. Shared memory: [warp][d].
template <class Real, int kLanes, int kGroups, bool kDpfp>
__global__ void __launch_bounds__(kScoreThreads)
    team_table_gradient(const __grid_constant__ TableScoresBackward<Real> a,
                        const __grid_constant__ RowShares shares) {
  using T_ = Team<Real, kLanes, kGroups>;
  using Row = QueryRow<T_, Real, kDpfp>;
  extern __shared__ __align__(16) unsigned char raw[];
  Real* sums = reinterpret_cast<Real*>(raw);
  const int r = blockIdx.z, table = blockIdx.y;
  if (a.write_table[table] == Write::none) return;
  const int warp = threadIdx.x / 32, p = a.q.columns();
  const KeyReader<T_, Real, kDpfp> reader{a.keys, r, a.keys.table[0].columns()};
  const int d = reader.d, nu = a.keys.nu, rows = static_cast<int>(a.d_table[table].rows());
  const int pieces = shares.pieces[table], some_rows = shares.rows_per_block[table];
  const int at_once = kScoreWarps / pieces, piece = warp % pieces;
  const bool favor = is_favor(a.keys.map);
  const Real scale = static_cast<Real>(a.scale);
  const int row0 = blockIdx.x * some_rows, row_end = min(rows, row0 + some_rows);
  for (int first = row0; first < row_end; first += at_once) {
    const int row = first + warp / pieces;
    const int begin = row < row_end ? a.start[table].at(r)[row] : 0,
              end = row < row_end ? a.start[table].at(r)[row + 1] : 0;
    typename T_::Quads total;
    typename T_::Heads head_total;
    T_::clear(total);
#pragma unroll
    for (int h = 0; h < kGroups; ++h) {
#pragma unroll
      for (int j = 0; j < kBefore; ++j) head_total[h][j] = 0;
    }
    typename T_::Quads known;
    T_::clear(known);
    if (begin < end) T_::load(reader.row(table, row), d, known);
    const auto weigh = [&](std::int64_t at) { return a.d_a.at(r)[at] * (favor ? -a.a.at(r)[at] : scale); };
    const auto visit = [&](const auto& ids, int query_row, int, Real weight) {
      typename T_::Quads x;
      typename T_::Heads head;
#pragma unroll
      for (int h = 0; h < kGroups; ++h) {
#pragma unroll
        for (int k = 0; k < 4; ++k) x[h][k] = known[h][k];
      }
      reader.read(ids, x, head, table);
      const Real* q = a.q.at(r) + static_cast<std::int64_t>(query_row) * p;
      if constexpr (kDpfp) {
        // The score has q_i x_i x_{i-j} where both have the sign of the half: each is the other's derivative.
#pragma unroll
        for (int h = 0; h < kGroups; ++h) {
          Real e[kBefore + 4], g[kBefore + 4] = {};
#pragma unroll
          for (int j = 1; j <= kBefore; ++j) e[kBefore - j] = head[h][j - 1];
#pragma unroll
          for (int k = 0; k < 4; ++k) e[kBefore + k] = x[h][k];
#pragma unroll
          for (int j = 1; j <= kBefore; ++j) {
            if (j > nu) break;
            const int c = T_::column(h), valid = query_row >= 0 ? d - c : 0;
            Real up[4], down[4];
            load4(q + (2 * j - 2) * d + c, valid, d % 4 == 0, up);
            load4(q + (2 * j - 1) * d + c, valid, d % 4 == 0, down);
#pragma unroll
            for (int k = kBefore; k < kBefore + 4; ++k) {
              const Real y = e[k] > 0 ? up[k - kBefore] : down[k - kBefore];
              const Real same = e[k] * e[k - j] > 0 ? y : Real(0);
              g[k] += same * e[k - j];
              g[k - j] += same * e[k];
            }
          }
#pragma unroll
          for (int k = 0; k < 4; ++k) total[h][k] += weight * g[kBefore + k];
#pragma unroll
          for (int j = 1; j <= kBefore; ++j) head_total[h][j - 1] += weight * g[kBefore - j];
        }
      } else if (favor) {
#pragma unroll
        for (int h = 0; h < kGroups; ++h) {
#pragma unroll
          for (int k = 0; k < 4; ++k) total[h][k] += weight * x[h][k];
        }
      } else {
        differentiate_quads(a.keys.map, x);
        typename T_::Quads g;
        T_::clear(g);
        if (query_row >= 0) T_::load(q, d, g);
#pragma unroll
        for (int h = 0; h < kGroups; ++h) {
#pragma unroll
          for (int k = 0; k < 4; ++k) total[h][k] += weight * g[h][k] * x[h][k];
        }
      }
    };
    walk_list<T_, kDpfp ? 1 : 2>(a, reader, table, begin, end, piece * T_::kTeams + T_::team(),
                                 pieces * T_::kTeams, weigh, visit);
    Real* own = sums + warp * d;
#pragma unroll
    for (int h = 0; h < kGroups; ++h) {
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const Real sum = T_::sum_teams(total[h][k]);
        if (T_::team() == 0 && T_::column(h) + k < d) own[T_::column(h) + k] = sum;
      }
    }
    if constexpr (kDpfp) {  // what the columns before quads got: one owner a column for each j
#pragma unroll
      for (int j = 1; j <= kBefore; ++j) {
        if (j > nu) break;
#pragma unroll
        for (int h = 0; h < kGroups; ++h) {
          const Real sum = T_::sum_teams(head_total[h][j - 1]);
          Real sign;
          const int c = T_::wrapped(T_::column(h) - j, d, sign);
          __syncwarp();
          if (T_::team() == 0 && T_::column(h) < d) own[c] += sign * sum;
        }
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

constexpr std::int64_t kFill = 528;  // blocks that keep a large GPU busy

/// Sequences that one block takes one after the other; changes no sum.
int per_block(std::int64_t items, int R) {
  const std::int64_t many = items * R / kFill;
  return static_cast<int>(many < 1 ? 1 : many > 8 ? 8 : many);
}

/// Grid of a forward pass whose blocks make `round` tokens at once, each of some sequences and of a slice of
/// T.
template <class Real>
dim3 token_grid(const TableScoresForward<Real>& a, int round, int& some, int& slice) {
  const int T = a.a.dim(2), rows = a.a.dim(0) * a.a.dim(1), rounds = (T + round - 1) / round;
  some = per_block(rows, a.a.R);
  const std::int64_t blocks = static_cast<std::int64_t>(blocks_for(rows, some)) * a.a.R;
  const int wanted = static_cast<int>(blocks >= kFill ? 1 : kFill / blocks), most = (rounds + 1) / 2;
  const int slices = wanted < most ? wanted : most;
  slice = (rounds + slices - 1) / slices * round;
  return dim3(blocks_for(T, slice), blocks_for(rows, some), static_cast<unsigned>(a.a.R));
}

template <class Real, int kLanes, int kGroups, bool kDpfp>
void forward(const Exec& exec, const TableScoresForward<Real>& a) {
  int some, slice;
  const dim3 grid = token_grid(a, kScoreWarps * (32 / kLanes), some, slice);
  team_scores<Real, kLanes, kGroups, kDpfp><<<grid, kScoreThreads, 0, stream_of(exec)>>>(a, some, slice);
  check_launch("table scores");
}

template <class Real>
void forward_favor(const Exec& exec, const TableScoresForward<Real>& a) {
  if (a.keys.table[0].columns() > kTableScoresColumns)
    refuse_shape("table scores", "columns", a.keys.table[0].columns(), kTableScoresColumns);
  int some, slice;
  const dim3 grid = token_grid(a, kScoreWarps, some, slice);
  favor_scores<<<grid, kScoreThreads, 0, stream_of(exec)>>>(a, some, slice);
  check_launch("table scores");
}

template <class Real, int kLanes, int kGroups, bool kDpfp>
void backward_query(const Exec& exec, const TableScoresBackward<Real>& a) {
  const int rows = a.d_a.dim(0) * a.d_a.dim(1), some = per_block(rows, a.d_a.R);
  const std::size_t bytes = static_cast<std::size_t>(kScoreWarps * a.q.columns()) * sizeof(Real);
  allow_shared_memory(team_query_gradient<Real, kLanes, kGroups, kDpfp>, bytes);
  team_query_gradient<Real, kLanes, kGroups, kDpfp>
      <<<dim3(1, blocks_for(rows, some), static_cast<unsigned>(a.d_a.R)), kScoreThreads, bytes,
         stream_of(exec)>>>(a, some);
  check_launch("table scores backward (q)");
}

/// Shares of the tables whose gradients are wanted; `blocks` of the largest. At least `least` rounds of rows
/// a block.
template <class Real>
RowShares share_rows(const TableScoresBackward<Real>& a, const Write (&write)[kMaxTables], int least,
                     unsigned& blocks) {
  RowShares shares;
  blocks = 0;
  for (int i = 0; i < a.keys.tables; ++i) {
    const std::int64_t rows = a.keys.table[i].rows(), tokens = a.keys.ids.rows();
    if (write[i] == Write::none || rows == 0) continue;
    int pieces = 1;  // of a list, which so many tokens a row demand
    while (pieces < kScoreWarps && tokens > 64 * pieces * rows) pieces *= 2;
    const int at_once = kScoreWarps / pieces;
    const std::int64_t many = blocks_for(rows, at_once) * a.d_a.R / kFill;
    shares.pieces[i] = pieces;
    shares.rows_per_block[i] = at_once * static_cast<int>(many < least ? least : many > 4 ? 4 : many);
    const unsigned n = blocks_for(rows, shares.rows_per_block[i]);
    blocks = n > blocks ? n : blocks;
  }
  return shares;
}

template <class Real, int kLanes, int kGroups, bool kDpfp>
void backward_tables(const Exec& exec, const TableScoresBackward<Real>& a) {
  unsigned blocks;
  const RowShares shares = share_rows(a, a.write_table, 1, blocks);
  if (blocks == 0) return;
  const std::size_t bytes = static_cast<std::size_t>(kScoreWarps * a.keys.table[0].columns()) * sizeof(Real);
  team_table_gradient<Real, kLanes, kGroups, kDpfp>
      <<<dim3(blocks, static_cast<unsigned>(a.keys.tables), static_cast<unsigned>(a.d_a.R)), kScoreThreads,
         bytes, stream_of(exec)>>>(a, shares);
  check_launch("table scores backward (tables)");
}

template <class Real, int kLanes, int kGroups, bool kDpfp>
void backward(const Exec& exec, const TableScoresBackward<Real>& a) {
  if (a.write_q != Write::none && !is_favor(a.keys.map))
    backward_query<Real, kLanes, kGroups, kDpfp>(exec, a);
  backward_tables<Real, kLanes, kGroups, kDpfp>(exec, a);
}

template <class Real>
void backward_favor(const Exec& exec, const TableScoresBackward<Real>& a) {
  const int m = a.keys.projected[0].columns(), rows = a.d_a.dim(0) * a.d_a.dim(1);
  const unsigned slices = blocks_for(m, kFavorColumns), R = static_cast<unsigned>(a.d_a.R);
  if (a.write_q != Write::none) {
    const std::int64_t many = rows * slices * a.d_a.R / 64;
    const int some = static_cast<int>(many < 1 ? 1 : many > 8 ? 8 : many);
    favor_query_gradient<<<dim3(slices, blocks_for(rows, some), R), kScoreThreads, 0, stream_of(exec)>>>(
        a, some);
    check_launch("table scores backward (q)");
  }
  unsigned blocks;
  const RowShares shares = share_rows(a, a.write_projected, 4, blocks);
  if (blocks == 0) return;
  favor_table_gradient<<<dim3(blocks, slices, R * static_cast<unsigned>(a.keys.tables)), kScoreThreads, 0,
                         stream_of(exec)>>>(a, shares);
  check_launch("table scores backward (projected tables)");
}

/// Calls f<lanes of a team, quads of a lane, is DPFP> for these keys.
template <class Real, class F>
void with_team(const TableKeys<Real>& keys, F&& f) {
  const int d = keys.table[0].columns();
  if (d > kTableScoresColumns) refuse_shape("table scores", "columns", d, kTableScoresColumns);
  const bool dpfp = keys.map == FeatureMap::dpfp;
  if (dpfp && keys.nu > kTableScoresNu) refuse_shape("table scores", "nu", keys.nu, kTableScoresNu);
  const auto with_map = [&](auto lanes, auto groups) {
    if (dpfp) {
      f(lanes, groups, std::true_type());
    } else {
      f(lanes, groups, std::false_type());
    }
  };
  if (d <= 32) {
    with_map(std::integral_constant<int, 8>(), std::integral_constant<int, 1>());
  } else if (d <= 64) {
    with_map(std::integral_constant<int, 8>(), std::integral_constant<int, 2>());
  } else {
    with_map(std::integral_constant<int, 32>(), std::integral_constant<int, 1>());
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
  with_team(a.keys, [&](auto lanes, auto groups, auto dpfp) {
    forward<Real, decltype(lanes)::value, decltype(groups)::value, decltype(dpfp)::value>(exec, a);
  });
}

template <class Real>
void run_cuda(const Exec& exec, const TableScoresBackward<Real>& a) {
  if (a.d_a.size() == 0 || a.d_a.R == 0) return;
  if (is_favor(a.keys.map)) backward_favor(exec, a);
  with_team(a.keys, [&](auto lanes, auto groups, auto dpfp) {
    backward<Real, decltype(lanes)::value, decltype(groups)::value, decltype(dpfp)::value>(exec, a);
  });
}

CROSSTALK_CUDA_OP(TableScoresForward)
CROSSTALK_CUDA_OP(TableScoresBackward)

}  // namespace crosstalk
