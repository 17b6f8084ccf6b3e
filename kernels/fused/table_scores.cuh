// Keys of tokens in registers: a team of lanes makes a token's key from table rows, its features and their
// derivatives, without memory in between.
//
// Lane l of a team of kLanes holds columns 4 (l + kLanes h) + k, h < kGroups, k < 4: whole quads, so that a
// team reads a row in accesses of neighbours. DPFP also needs the columns before each quad: x goes on with
// x_{i-d} = -x_i, since f = [relu(x); relu(-x)] is a ring and relu(-x) its second half.
// Absent ids read a row of zeros: without branches the loads overlap.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/base/device/cuda_launch.cuh"
#include "kernels/base/device/quick_exp.cuh"
#include "kernels/base/device/tuned_for.h"
#include "kernels/feature_map/feature_entry.cuh"
#include "kernels/fused/table_scores.h"

namespace crosstalk::device {

constexpr int kScoreWarps = 8, kScoreThreads = 32 * kScoreWarps;

/// Rounds of a block of `rounds`, `groups` times as many in all, such that blocks fill a large GPU
/// evenly; many rather than few, since tables stay in the cache of a block's multiprocessor. Changes no sum.
inline int per_block(std::int64_t rounds, std::int64_t groups, int residents) {
  const std::int64_t slots = std::int64_t{kTunedFor} * residents;
  std::int64_t best = 1, least = INT64_MAX;
  for (std::int64_t some = 1; some <= 16 && some <= rounds; ++some) {
    const std::int64_t blocks = (rounds + some - 1) / some * groups, waves = (blocks + slots - 1) / slots,
                       cost = waves * (2 * some + 1);  // half a round is what a block's start costs
    if (cost <= least) best = some, least = cost;
  }
  return static_cast<int>(best);
}

static __device__ const Four<double> zero_row[32] = {};

// relu(-x); NaN stays NaN, as in rectified().
template <class Real>
CT_DEVICE Real negative_part(Real x) {
  return x > 0 ? Real(0) : 0 - x;
}

/// kFull: rows fill all lanes, aligned; else they are shorter.
template <class Real_, int kLanes_, int kGroups_, bool kFull_>
struct RowTeam {
  using Real = Real_;
  static constexpr int kLanes = kLanes_, kGroups = kGroups_, kWidth = 4 * kLanes * kGroups,
                       kTeams = 32 / kLanes;
  static constexpr bool kFull = kFull_;
  using Quads = Real[kGroups][4];

  static CT_DEVICE int lane() { return CT_THREAD % kLanes; }
  /// This lane's team among the warp's.
  static CT_DEVICE int team() { return CT_LANE / kLanes; }
  static CT_DEVICE int column(int h) { return 4 * (lane() + kLanes * h); }

  /// `row` points to the lane's first column, of which and beyond there are `left`.
  static CT_DEVICE void load(const Real* row, int left, bool aligned, Quads& x) {
    CT_FOR(h, kGroups) {
      if constexpr (kFull) {
        const Four<Real> four = *reinterpret_cast<const Four<Real>*>(row + 4 * kLanes * h);
        CT_FOR(k, 4) x[h][k] = four.v[k];
      } else {
        load4(row + 4 * kLanes * h, left - 4 * kLanes * h, aligned, x[h]);
      }
    }
  }
  static CT_DEVICE void each(auto&& f) {
    CT_FOR2(h, kGroups, k, 4) f(h, k);
  }
  static CT_DEVICE void clear(Quads& x) {
    each([&](int h, int k) { x[h][k] = 0; });
  }

  /// Sum over the lanes of a team, the same in each.
  static CT_DEVICE Real sum(Real x) {
    CT_UNROLL(int offset = kLanes / 2; offset > 0; offset /= 2) x += __shfl_xor_sync(kFullWarp, x, offset);
    return x;
  }
  /// Sum over the warp's teams, lane by lane.
  static CT_DEVICE Real sum_teams(Real x) {
    CT_UNROLL(int offset = 16; offset >= kLanes; offset /= 2) x += __shfl_xor_sync(kFullWarp, x, offset);
    return x;
  }
};

/// The ids of a token in kTables tables: all, or all but one (`skip`; -1: none). kExact: there are so many;
/// else there may be fewer.
template <int kTables>
struct TokenIds {
  int id[kTables];
};
template <int kTables, bool kExact>
struct IdReader {
  const std::int32_t* base[kTables];
  int stride, tables;

  template <class Real>
  CT_DEVICE IdReader(const TableKeys<Real>& keys, int r, int skip = -1)
      : stride(keys.ids.columns()), tables(keys.tables - (skip >= 0 ? 1 : 0)) {
    CT_FOR(i, kTables) {
      const bool there = kExact || i < tables;
      base[i] = keys.ids.at(r) + (there ? keys.channel[i + (skip >= 0 && i >= skip ? 1 : 0)] : 0);
    }
  }
  CT_DEVICE TokenIds<kTables> operator()(int token) const {
    TokenIds<kTables> ids;
    CT_FOR(i, kTables) ids.id[i] = kExact || i < tables ? base[i][token * stride] : -1;
    return ids;
  }
};

/// Rows of those tables, from column column0 on.
template <class Team, int kTables>
struct RowReader {
  using Real = typename Team::Real;
  const char* base[kTables];
  int stride, left;
  bool aligned;

  CT_DEVICE RowReader(const Tensor<Real> (&table)[kMaxTables], int tables, int r, int skip = -1,
                      int column0 = 0)
      : stride(table[0].columns()) {
    const int first = column0 + Team::column(0);
    left = stride - first, aligned = stride % 4 == 0;
    CT_FOR(i, kTables) {
      const int other = i + (skip >= 0 && i >= skip ? 1 : 0);
      base[i] = other < tables ? reinterpret_cast<const char*>(table[other].at(r) + first) : nullptr;
    }
  }
  CT_DEVICE const Real* row(int i, int id) const {
    const auto bytes = static_cast<unsigned>(stride) * static_cast<unsigned>(sizeof(Real));
    const char* at = base[i] + static_cast<std::uint64_t>(static_cast<unsigned>(id)) * bytes;
    return reinterpret_cast<const Real*>(id >= 0 ? at : reinterpret_cast<const char*>(zero_row));
  }
  CT_DEVICE void load(int i, int id, typename Team::Quads& x) const {
    Team::load(row(i, id), left, aligned, x);
  }
  CT_DEVICE void add(const TokenIds<kTables>& ids, typename Team::Quads& x, int first = 0) const {
    CT_UNROLL(int i = first; i < kTables; ++i) {
      typename Team::Quads y;
      load(i, ids.id[i], y);
      Team::each([&](int h, int k) { x[h][k] += y[h][k]; });
    }
  }
  CT_DEVICE void sum(const TokenIds<kTables>& ids, typename Team::Quads& x) const {
    load(0, ids.id[0], x);
    add(ids, x, 1);
  }
  /// One column c of the sum (column0 = 0).
  CT_DEVICE Real column(const TokenIds<kTables>& ids, int c) const {
    Real sum = 0;
    CT_FOR(i, kTables)
      if (ids.id[i] >= 0) sum += row(i, ids.id[i])[c - Team::column(0)];
    return sum;
  }
};

/// DPFP's ring: a quad of x with the kNu columns before it.
template <class Team, int kNu>
struct Ring {
  using Real = typename Team::Real;
  Real e[Team::kGroups][kNu + 4];

  /// Column c < 0 as a column of x: where it lies and its sign.
  static CT_DEVICE int wrapped(int c, int d, Real& sign) {
    sign = 1;
    for (; c < 0; c += d) sign = -sign;
    return c;
  }
  /// All lanes of the warp must call it. Full rows: by shuffles; others: read(column) anew.
  CT_DEVICE void make(const typename Team::Quads& x, int d, auto&& read) {
    Team::each([&](int h, int k) { e[h][kNu + k] = x[h][k]; });
    if constexpr (Team::kFull) {
      CT_UNROLL(int j = 1; j <= kNu; ++j) {
        Real v[Team::kGroups];
        CT_FOR(h, Team::kGroups)
          v[h] = __shfl_sync(kFullWarp, x[h][4 - j], Team::lane() + Team::kLanes - 1, Team::kLanes);
        CT_FOR(h, Team::kGroups)
          e[h][kNu - j] = Team::lane() > 0 ? v[h] : h > 0 ? v[h > 0 ? h - 1 : 0] : -v[Team::kGroups - 1];
      }
    } else {
      CT_FOR(h, Team::kGroups) {
        CT_UNROLL(int j = 1; j <= kNu; ++j) {
          Real sign;
          const int c = wrapped(Team::column(h) - j, d, sign);
          e[h][kNu - j] = c < d ? sign * read(c) : Real(0);
        }
      }
    }
  }
  /// take(h, half, k, f) of every number k of a quad h of each half of f = [relu(x); relu(-x)]: f[0] is that number, f[-j] the
  /// j-th before it.
  CT_DEVICE void each(auto&& take) const {
    CT_FOR2(h, Team::kGroups, half, 2) {
      Real f[kNu + 4];
      CT_FOR(i, kNu + 4) f[i] = half == 0 ? device::rectified(e[h][i]) : negative_part(e[h][i]);
      CT_FOR(k, 4) take(h, half, k, f + kNu + k);
    }
  }
};

struct QuickExp {
  template <class Real>
  static CT_DEVICE Real of(Real x) {
    return quick_exp(x);
  }
};

/// phi of quads, in place: maps of single entries.
template <class Team, class Real>
CT_DEVICE void map_quads(FeatureMap map, Real (&x)[Team::kGroups][4]) {
#define CROSSTALK_QUADS(name)                                                                \
  case FeatureMap::name:                                                                     \
    Team::each([&](int h, int k) { x[h][k] = entry_value<maps::name, QuickExp>(x[h][k]); }); \
    return;
  switch (map) { CROSSTALK_FEATURE_MAPS(CROSSTALK_QUADS) }  // visit_map() costs registers here
#undef CROSSTALK_QUADS
}

/// g phi' of quads, in place in g.
template <class Team, class Real>
CT_DEVICE void pull_quads(FeatureMap map, const Real (&x)[Team::kGroups][4], Real (&g)[Team::kGroups][4]) {
  visit_map(map, [&]<class Map>() {
    Team::each([&](int h, int k) {
      const Real y = entry_value<Map, QuickExp>(x[h][k]);
      g[h][k] = entry_pull<Map>(x[h][k], y, g[h][k]);
    });
  });
}

/// A row of q (or of its gradient) in registers: quads for maps of single entries (kNu = 0); for DPFP quads
/// of each roll and half of the ring, which lie 2 d and d apart.
template <class Team, int kNu>
struct QueryRow {
  static constexpr int kRolls = kNu > 0 ? kNu : 1, kHalves = kNu > 0 ? 2 : 1;
  typename Team::Quads v[kRolls][kHalves];

  static CT_DEVICE void each(auto&& f) {
    CT_FOR2(j, kRolls, half, kHalves) f(j, half);
  }
  CT_DEVICE void clear() {
    each([&](int j, int half) { Team::clear(v[j][half]); });
  }
  CT_DEVICE void load(const typename Team::Real* row, int d) {
    each([&](int j, int half) {
      Team::load(row + (2 * j + half) * d + Team::column(0), d - Team::column(0), d % 4 == 0, v[j][half]);
    });
  }
};

/// Shares of blocks in the rows of each table: `pieces` warps a row.
struct RowShares {
  int pieces[kMaxTables] = {1, 1, 1}, rows_per_block[kMaxTables] = {1, 1, 1};
};

/// An entry of a table's list that a team adds for one query: the same in all lanes of the team; weight 0
/// where there is nothing to add.
template <int kTables, class Real>
struct ListEntry {
  TokenIds<kTables> ids;
  int query_row, token;
  Real weight;
};

constexpr int kAtOnce = 2;  // tokens whose loads a team has under way together

/// The tokens begin .. end-1 of a table's list for each query: a team takes those at first, first + teams,
/// ...; its lanes look up so many of them at once, visit() gets kAtOnce. weight = weigh(index of d_a).
template <class Team, int kTables, bool kExact, class Real, class Weigh, class Visit>
CT_DEVICE void walk_list(const TableScoresBackward<Real>& a, const IdReader<kTables, kExact>& id_reader,
                         int r, int table, int begin, int end, int first, int teams, Weigh&& weigh,
                         Visit&& visit) {
  const int Q = a.d_a.dim(1), T = a.d_a.dim(2);
  const std::int32_t *order = a.order[table].at(r), *position = a.position.at(r);
  for (int k0 = begin; k0 < end; k0 += Team::kLanes * teams) {
    const int listed = k0 + first + Team::lane() * teams;
    const bool there = listed < end;
    const int token = order[there ? listed : begin], b = token / T, t = token - b * T;
    const auto ids = id_reader(token);
    const int most = min(Team::kLanes, (end - k0 + teams - 1) / teams);
    for (int i = 0; i < Q; ++i) {
      const int row = b * Q + i;
      const Real weighed = weigh(row * T + t);
      const Real weight = there && t < position[row] ? weighed : Real(0);
      for (int s = 0; s < most; s += kAtOnce) {  // kLanes is a multiple of kAtOnce
        ListEntry<kTables, Real> entry[kAtOnce];
        CT_FOR(u, kAtOnce) {
          const int lane = s + u;
          CT_FOR(m, kTables) entry[u].ids.id[m] = __shfl_sync(kFullWarp, ids.id[m], lane, Team::kLanes);
          entry[u].query_row = __shfl_sync(kFullWarp, row, lane, Team::kLanes);
          entry[u].token = __shfl_sync(kFullWarp, token, lane, Team::kLanes);
          entry[u].weight = __shfl_sync(kFullWarp, weight, lane, Team::kLanes);
        }
        visit(entry);
      }
    }
  }
}

/// Blocks that a multiprocessor is to hold at least, of the kernels that matter most.
template <class Team>
constexpr int resident(int blocks) {
  return sizeof(typename Team::Real) == 4 && Team::kFull ? blocks : 1;
}

}  // namespace crosstalk::device
