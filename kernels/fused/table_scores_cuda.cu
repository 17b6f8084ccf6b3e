// Scores from table rows: how the kernels of fused/table_scores_{team,favor}.cuh are launched.
//
// How many warps share a sequence or a row of a table is a function of T, or of tokens a row. Blocks take
// several sequences or rows where there are more than the GPU holds at once, for the cache's sake; no sum
// depends on that.
// SPDX-License-Identifier: Apache-2.0
#include <type_traits>

#include "kernels/fused/table_scores_favor.cuh"
#include "kernels/fused/table_scores_team.cuh"

namespace crosstalk {
namespace {
using namespace device;

/// Warps that share a sequence of T tokens, so many at once a warp: a function of these alone.
int warps_for(int T, int at_once) {
  int warps = 1;
  while (warps < kScoreWarps && T > 8 * at_once * warps) warps *= 2;
  return warps;
}

/// Forward pass, whose sums depend on nothing here: a block takes `some` sequences at a time of a slice of T.
template <class Real>
void launch_forward(const Exec& exec, const TableScoresForward<Real>& a, int at_once, int residents,
                    void (*kernel)(TableScoresForward<Real>, int, int, int)) {
  const int T = a.a.dim(2), rows = a.a.dim(0) * a.a.dim(1), R = a.a.R;
  const std::int64_t slots = std::int64_t{kTunedFor} * residents;
  int pieces = warps_for(T, at_once);
  while (pieces < kScoreWarps && std::int64_t{rows} * R * pieces < slots * kScoreWarps) pieces *= 2;
  const int together = kScoreWarps / pieces, rounds = (rows + together - 1) / together,
            some = per_block(rounds, R, residents);
  const std::int64_t blocks = std::int64_t{blocks_for(rounds, some)} * R;
  const int turn = pieces * at_once, turns = (T + turn - 1) / turn, most = (turns + 1) / 2;
  const int wanted = static_cast<int>(blocks >= slots ? 1 : slots / blocks),
            slices = wanted < most ? wanted : most;
  const int slice = (turns + slices - 1) / slices * turn;
  launch(exec, "table scores", kernel,
         dim3(blocks_for(T, slice), blocks_for(rounds, some), static_cast<unsigned>(R)), kScoreThreads, 0, a,
         pieces, some * together, slice);
}

template <class Keys, class Features, int kTables, class Real>
void forward_favor(const Exec& exec, const TableScoresForward<Real>& a) {
  launch_forward(exec, a, Keys::kTeams, residents(0), favor_scores<Keys, Features, kTables, Real>);
}

template <class Real>
void forward_favor(const Exec& exec, const TableScoresForward<Real>& a) {
  const int d = a.keys.table[0].columns(), m = a.keys.projected[0].columns();
  if (d > kTableScoresColumns) refuse_shape("table scores", "columns", d, kTableScoresColumns);
  using Full = RowTeam<Real, 8, 2, true>;
  using Any = RowTeam<Real, 32, 1, false>;
  if (d != Full::kWidth || m % Full::kWidth != 0) return forward_favor<Any, Any, 3>(exec, a);
  if (a.keys.tables == 2) return forward_favor<Full, Full, 2>(exec, a);
  if (a.keys.tables == 3) return forward_favor<Full, Full, 3>(exec, a);
  forward_favor<Any, Any, 3>(exec, a);
}

/// d_q to d_query.
template <class Real>
void map_queries_back(const Exec& exec, const TableScoresBackward<Real>& a) {
  backward_cuda(
      exec,
      MapFeatures<Real>{a.keys.map, a.keys.nu, {a.query, a.d_query, a.write_query}, {a.omega}, {a.q, a.d_q}});
}

template <class Team, int kNu, int kTables, class Real>
void backward_query(const Exec& exec, const TableScoresBackward<Real>& a) {
  const int rows = a.d_a.dim(0) * a.d_a.dim(1), pieces = warps_for(a.d_a.dim(2), kAtOnce * Team::kTeams),
            at_once = kScoreWarps / pieces;
  const int some = at_once * per_block(blocks_for(rows, at_once), a.d_a.R, residents(kNu));
  const std::size_t bytes = static_cast<std::size_t>(kScoreWarps * a.q.columns()) * sizeof(Real);
  launch(exec, "table scores backward (q)", team_query_gradient<Team, kNu, kTables, Real>,
         dim3(1, blocks_for(rows, some), static_cast<unsigned>(a.d_a.R)), kScoreThreads, bytes, a, pieces,
         some);
  map_queries_back(exec, a);
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
  const std::size_t bytes = static_cast<std::size_t>(kScoreWarps * a.keys.table[0].columns()) * sizeof(Real);
  launch(exec, "table scores backward (tables)", team_table_gradient<Team, kNu, kTables, Real>,
         dim3(blocks, static_cast<unsigned>(a.keys.tables), static_cast<unsigned>(a.d_a.R)), kScoreThreads,
         bytes, a, shares);
}

template <bool kFull, int kTables, class Real>
void backward_favor(const Exec& exec, const TableScoresBackward<Real>& a) {
  const int m = a.keys.projected[0].columns(), rows = a.d_a.dim(0) * a.d_a.dim(1);
  const unsigned slices = blocks_for(m, kFavorColumns), R = static_cast<unsigned>(a.d_a.R);
  if (a.write_query != Write::none) {
    const int some = per_block(rows, std::int64_t{a.d_a.R} * slices, residents(0));
    launch(exec, "table scores backward (q)", favor_query_gradient<kFull, kTables, Real>,
           dim3(slices, blocks_for(rows, some), R), kScoreThreads, 0, a, some);
    map_queries_back(exec, a);
  }
  unsigned blocks;
  const RowShares shares =
      share_rows(a, a.write_projected, std::int64_t{a.keys.tables} * a.d_a.R * slices, 2, blocks);
  launch(exec, "table scores backward (projected tables)", favor_table_gradient<kFull, kTables, Real>,
         dim3(blocks, slices, R * static_cast<unsigned>(a.keys.tables)), kScoreThreads, 0, a, shares);
}

template <class Real>
void backward_favor(const Exec& exec, const TableScoresBackward<Real>& a) {
  const bool full = a.keys.projected[0].columns() % kFavorColumns == 0;
  if (full && a.keys.tables == 2)
    backward_favor<true, 2>(exec, a);
  else if (full && a.keys.tables == 3)
    backward_favor<true, 3>(exec, a);
  else
    backward_favor<false, 3>(exec, a);
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
    const auto of = [&](auto constant) { f(team, constant, tables); };
    if constexpr (kFavor)
      of(std::integral_constant<int, kLengthOnly>());
    else
      with_value<0, 1, 2, 3>(nu, of);
  };
  const std::integral_constant<int, 2> two;
  const std::integral_constant<int, 3> three;
  if (d == 64 && keys.tables == 2)
    with_nu(RowTeam<Real, 8, 2, true>(), two);
  else if (d == 64 && keys.tables == 3)
    with_nu(RowTeam<Real, 8, 2, true>(), three);
  else if (d <= 64)
    with_nu(RowTeam<Real, 8, 2, false>(), three);
  else
    with_nu(RowTeam<Real, 32, 1, false>(), three);
}

}  // namespace

template <class Real>
void run_cuda(const Exec& exec, const TableScoresForward<Real>& a) {
  if (a.a.size() == 0 || a.a.R == 0) return;
  forward_cuda(exec, MapFeatures<Real>{a.keys.map, a.keys.nu, {a.query}, {a.omega}, {a.q}});
  if (a.keys.map == FeatureMap::favor) return forward_favor(exec, a);
  with_team<false>(a.keys, [&](auto team, auto nu, auto tables) {
    using Team = decltype(team);
    launch_forward(exec, a, kAtOnce * Team::kTeams, residents(nu()), team_scores<Team, nu(), tables(), Real>);
  });
}

template <class Real>
void run_cuda(const Exec& exec, const TableScoresBackward<Real>& a) {
  if (a.d_a.size() == 0 || a.d_a.R == 0) return;
  if (a.keys.map == FeatureMap::favor) {
    backward_favor(exec, a);
    with_team<true>(a.keys, [&](auto team, auto nu, auto tables) {
      backward_tables<decltype(team), decltype(nu)::value, decltype(tables)::value>(exec, a);
    });
    return;
  }
  with_team<false>(a.keys, [&](auto team, auto nu, auto tables) {
    constexpr int kNu = decltype(nu)::value, kTables = decltype(tables)::value;
    if (a.write_query != Write::none) backward_query<decltype(team), kNu, kTables>(exec, a);
    backward_tables<decltype(team), kNu, kTables>(exec, a);
  });
}

CROSSTALK_INSTANTIATE_STEP(cuda, TableScoresForward)
CROSSTALK_INSTANTIATE_STEP(cuda, TableScoresBackward)

}  // namespace crosstalk
