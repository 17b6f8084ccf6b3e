// Keys of tokens in registers: a team of lanes makes a token's key from table rows, its features and their
// derivatives, without memory in between.
//
// Lane l of a team of kLanes holds columns 4 (l + kLanes h) + k, h < kGroups, k < 4: whole quads, so that a
// team reads a row in accesses of neighbours. DPFP also needs the three columns before each quad: x goes on
// with x_{i-d} = -x_i, since f = [relu(x); relu(-x)] is a ring and relu(-x) its second half.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/base/cuda_launch.cuh"
#include "kernels/ops/table_scores.h"

namespace crosstalk::device {

constexpr int kBefore = kTableScoresNu;  // columns before a quad
constexpr int kScoreThreads = 256, kScoreWarps = kScoreThreads / 32;

// e^x to within 1e-6 (1 + |x|) of itself, in two instructions.
__device__ __forceinline__ float exp_of_key(float x) { return __expf(x); }
__device__ __forceinline__ double exp_of_key(double x) { return exp(x); }

// relu and relu(-x); NaN stays NaN: a diverged model must not look finite.
template <class Real>
__device__ __forceinline__ Real positive_part(Real x) {
  return x < 0 ? Real(0) : x;
}
template <class Real>
__device__ __forceinline__ Real negative_part(Real x) {
  return x > 0 ? Real(0) : 0 - x;
}

template <class Real, int kLanes_, int kGroups_>
struct Team {
  static constexpr int kLanes = kLanes_, kGroups = kGroups_, kWidth = 4 * kLanes * kGroups,
                       kTeams = 32 / kLanes;
  using Quads = Real[kGroups][4];
  using Heads = Real[kGroups][kBefore];  // [j-1]: j columns before the quad

  static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x) % kLanes; }
  /// Of the warp's teams.
  static __device__ __forceinline__ int team() { return static_cast<int>(threadIdx.x) % 32 / kLanes; }
  static __device__ __forceinline__ int column(int h) { return 4 * (lane() + kLanes * h); }

  static __device__ __forceinline__ void load(const Real* row, int d, Quads& x) {
#pragma unroll
    for (int h = 0; h < kGroups; ++h) load4(row + column(h), d - column(h), d % 4 == 0, x[h]);
  }
  static __device__ __forceinline__ void add(const Real* row, int d, Quads& x) {
    Quads y;
    load(row, d, y);
#pragma unroll
    for (int h = 0; h < kGroups; ++h) {
#pragma unroll
      for (int k = 0; k < 4; ++k) x[h][k] += y[h][k];
    }
  }
  static __device__ __forceinline__ void clear(Quads& x) {
#pragma unroll
    for (int h = 0; h < kGroups; ++h) {
#pragma unroll
      for (int k = 0; k < 4; ++k) x[h][k] = 0;
    }
  }

  /// Column c < 0 as a column of the ring: where it lies and its sign.
  static __device__ __forceinline__ int wrapped(int c, int d, Real& sign) {
    sign = 1;
    for (; c < 0; c += d) sign = -sign;
    return c;
  }
  /// The columns before each quad. All lanes of the warp must call it. Rows that fill all lanes: by shuffles;
  /// others: read(column) anew.
  template <class Read>
  static __device__ __forceinline__ void heads(const Quads& x, int d, Heads& head, Read&& read) {
    if (d == kWidth) {
#pragma unroll
      for (int j = 1; j <= kBefore; ++j) {
        Real v[kGroups];
#pragma unroll
        for (int h = 0; h < kGroups; ++h)
          v[h] = __shfl_sync(kFullWarp, x[h][4 - j], lane() + kLanes - 1, kLanes);
#pragma unroll
        for (int h = 0; h < kGroups; ++h)
          head[h][j - 1] = lane() > 0 ? v[h] : h > 0 ? v[h > 0 ? h - 1 : 0] : -v[kGroups - 1];
      }
    } else {
#pragma unroll
      for (int h = 0; h < kGroups; ++h) {
#pragma unroll
        for (int j = 1; j <= kBefore; ++j) {
          Real sign;
          const int c = wrapped(column(h) - j, d, sign);
          head[h][j - 1] = c < d ? sign * read(c) : Real(0);
        }
      }
    }
  }

  /// Sum over the lanes of a team, the same in each.
  static __device__ __forceinline__ Real sum(Real x) {
#pragma unroll
    for (int offset = kLanes / 2; offset > 0; offset /= 2) x += __shfl_xor_sync(kFullWarp, x, offset);
    return x;
  }
  /// Sum over the warp's teams, lane by lane.
  static __device__ __forceinline__ Real sum_teams(Real x) {
#pragma unroll
    for (int offset = 16; offset >= kLanes; offset /= 2) x += __shfl_xor_sync(kFullWarp, x, offset);
    return x;
  }
};

template <class Real, int kGroups, class F>
__device__ __forceinline__ void change_quads(Real (&x)[kGroups][4], F&& f) {
#pragma unroll
  for (int h = 0; h < kGroups; ++h) {
#pragma unroll
    for (int k = 0; k < 4; ++k) x[h][k] = f(x[h][k]);
  }
}

/// phi of quads, in place: maps of single entries.
template <class Real, int kGroups>
__device__ __forceinline__ void map_quads(FeatureMap map, Real (&x)[kGroups][4]) {
  const auto each = [&](auto&& f) { change_quads(x, f); };
  if (map == FeatureMap::elu1) {
    each([](Real e) { return e > 0 ? e + 1 : exp_of_key(e); });
  } else if (map == FeatureMap::relu) {
    each([](Real e) { return positive_part(e); });
  } else if (map == FeatureMap::tanh) {
    each([](Real e) { return static_cast<Real>(tanh(e)); });
  }
}

/// phi' of quads, in place.
template <class Real, int kGroups>
__device__ __forceinline__ void differentiate_quads(FeatureMap map, Real (&x)[kGroups][4]) {
  const auto each = [&](auto&& f) { change_quads(x, f); };
  if (map == FeatureMap::elu1) {
    each([](Real e) { return e > 0 ? Real(1) : exp_of_key(e); });
  } else if (map == FeatureMap::relu) {
    each([](Real e) { return e > 0 ? Real(1) : Real(0); });
  } else if (map == FeatureMap::tanh) {
    each([](Real e) {
      const Real y = tanh(e);
      return 1 - y * y;
    });
  } else {
    each([](Real) { return Real(1); });
  }
}

/// A row of q (or of its gradient) in registers: one quad a group for maps of single entries; for DPFP
/// [roll][half of the ring][group], which lie 2 d, d and 4 kLanes apart.
template <class Team, class Real, bool kDpfp>
struct QueryRow {
  static constexpr int kRolls = kDpfp ? kTableScoresNu : 1, kHalves = kDpfp ? 2 : 1;
  typename Team::Quads v[kRolls][kHalves];

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int j = 0; j < kRolls; ++j) {
#pragma unroll
      for (int half = 0; half < kHalves; ++half) Team::clear(v[j][half]);
    }
  }
  __device__ __forceinline__ void load(const Real* row, int d, int nu) {
    clear();
#pragma unroll
    for (int j = 0; j < kRolls; ++j) {
      if (kDpfp && j >= nu) break;
#pragma unroll
      for (int half = 0; half < kHalves; ++half) Team::load(row + (2 * j + half) * d, d, v[j][half]);
    }
  }
};

/// Tokens' rows and their sums.
template <class Team, class Real, bool kDpfp>
struct KeyReader {
  const TableKeys<Real>& keys;
  int r, d;

  struct Ids {
    int id[kMaxTables];
  };
  /// Of token n; absent ones for a token that is not there.
  __device__ __forceinline__ Ids ids(std::int64_t n, bool there) const {
    Ids ids;
#pragma unroll
    for (int i = 0; i < kMaxTables; ++i)
      ids.id[i] = there && i < keys.tables ? keys.ids.at(r)[n * keys.ids.columns() + keys.channel[i]] : -1;
    return ids;
  }
  __device__ __forceinline__ const Real* row(int table, int id) const {
    return keys.table[table].at(r) + static_cast<std::int64_t>(id) * d;
  }
  /// x and the columns before its quads. `known`: a table whose row x holds already (-1: none, x is cleared).
  __device__ __forceinline__ void read(const Ids& ids, typename Team::Quads& x, typename Team::Heads& head,
                                       int known = -1) const {
    if (known < 0) Team::clear(x);
#pragma unroll
    for (int i = 0; i < kMaxTables; ++i) {
      if (i != known && ids.id[i] >= 0) Team::add(row(i, ids.id[i]), d, x);
    }
    if constexpr (kDpfp) {
      Team::heads(x, d, head, [&](int c) {
        Real sum = 0;
#pragma unroll
        for (int i = 0; i < kMaxTables; ++i) {
          if (ids.id[i] >= 0) sum += row(i, ids.id[i])[c];
        }
        return sum;
      });
    }
  }
};

/// How blocks share the rows of each table: `pieces` warps a row.
struct RowShares {
  int pieces[kMaxTables] = {1, 1, 1}, rows_per_block[kMaxTables] = {1, 1, 1};
};

/// The tokens begin .. end-1 of a table's list for each query: a team takes those at first, first + teams,
/// ... its lanes look up so many of them at once. visit(ids, query row, token, weight): weight = weigh(index
/// of d_a), the same in all lanes of the team; a query row of -1: nothing, but the other teams of the warp
/// have something.
template <class Team, int kUnroll, class Real, class Reader, class Weigh, class Visit>
__device__ __forceinline__ void walk_list(const TableScoresBackward<Real>& a, const Reader& reader, int table,
                                          int begin, int end, int first, int teams, Weigh&& weigh,
                                          Visit&& visit) {
  const int r = reader.r, Q = a.d_a.dim(1), T = a.d_a.dim(2);
  const std::int32_t *order = a.order[table].at(r), *position = a.position.at(r);
  for (int k0 = begin; k0 < end; k0 += Team::kLanes * teams) {
    const int listed = k0 + first + Team::lane() * teams;
    const bool there = listed < end;
    const int token = there ? order[listed] : 0, b = token / T, t = token - b * T;
    const auto ids = reader.ids(token, there);
    const int most = min(Team::kLanes, (end - k0 + teams - 1) / teams);
    for (int i = 0; i < Q; ++i) {
      const int row = b * Q + i;
      const bool seen = there && t < position[row];
      const Real weight = seen ? weigh(static_cast<std::int64_t>(row) * T + t) : Real(0);
#pragma unroll kUnroll
      for (int s = 0; s < most; ++s) {
        auto its = ids;
        const int query_row = __shfl_sync(kFullWarp, seen ? row : -1, s, Team::kLanes);
#pragma unroll
        for (int m = 0; m < kMaxTables; ++m) {
          const int id = __shfl_sync(kFullWarp, ids.id[m], s, Team::kLanes);
          its.id[m] = query_row < 0 ? -1 : id;
        }
        visit(its, query_row, __shfl_sync(kFullWarp, token, s, Team::kLanes),
              __shfl_sync(kFullWarp, weight, s, Team::kLanes));
      }
    }
  }
}

/// visit(half, h, f): f[kBefore + k] and f[kBefore + k - j] are f_i and f_{i-j} for column i = k of quad h in
/// that half of the ring.
template <int kGroups, class Real, class Visit>
__device__ __forceinline__ void rectify(const Real (&x)[kGroups][4], const Real (&head)[kGroups][kBefore],
                                        Visit&& visit) {
#pragma unroll
  for (int h = 0; h < kGroups; ++h) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      Real f[kBefore + 4];
#pragma unroll
      for (int j = 1; j <= kBefore; ++j)
        f[kBefore - j] = half == 0 ? positive_part(head[h][j - 1]) : negative_part(head[h][j - 1]);
#pragma unroll
      for (int k = 0; k < 4; ++k)
        f[kBefore + k] = half == 0 ? positive_part(x[h][k]) : negative_part(x[h][k]);
      visit(half, h, f);
    }
  }
}

}  // namespace crosstalk::device
