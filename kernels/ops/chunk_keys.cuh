// Where the keys of a chunked recurrence come from (ops/recurrence_chunked.cuh). A builder warp calls
//   prepare        what it will need of a chunk, a turn ahead
//   bring          the keys of C tokens into a slot, in the order of the scan; 0 where t >= seen
//   take_gradient  what to do with gradients that the chain left in the slot (kMade)
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/ops/chunk_parts.cuh"
#include "kernels/ops/feature_entry.cuh"
#include "kernels/ops/table_features.h"

namespace crosstalk::device {

/// A tensor k [R,B,T,P]; the chain writes its gradient itself.
template <class Real>
struct TensorKeys {
  using Given = Tensor<Real>;
  static constexpr bool kMade = false;
  static constexpr int C = kChunk<Real>;
  struct Prepared {};
  const Real* k;
  int P;

  __device__ TensorKeys(const Given& given, int r, std::int64_t sequence, int columns)
      : k(given.at(r) + sequence * columns), P(columns) {}

  template <bool kReversed>
  __device__ Prepared prepare(int first, int seen) const {
    const char* from = reinterpret_cast<const char*>(k + static_cast<std::int64_t>(first) * P);
    const int bytes = first < 0 ? 0 : min(C, seen - first) * P * static_cast<int>(sizeof(Real));
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x) % 32 * 128; i < bytes; i += 32 * 128)
      asm volatile("prefetch.global.L2 [%0];" ::"l"(from + i));
    return {};
  }
  template <bool kReversed, class Slot>
  __device__ void bring(Slot& slot, Prepared, int first, int seen) const {
    for (int p = static_cast<int>(threadIdx.x) % 32 * 4; p < P; p += 128) {
#pragma unroll
      for (int i0 = 0; i0 < C; i0 += 8) {  // rows whose loads are under way
        Real rows[8][4];
#pragma unroll
        for (int u = 0; u < 8; ++u) {
          const int t = first + (kReversed ? C - 1 - i0 - u : i0 + u);
          take4(k + static_cast<std::int64_t>(t) * P + p, t < seen, rows[u]);
        }
#pragma unroll
        for (int u = 0; u < 8; ++u) put4(slot.keys[i0 + u] + p, true, rows[u]);
      }
    }
  }
};

static __device__ const Four<double> absent_row[16] = {};

/// Features of rows that tables of 64 columns add up to (ops/table_features.h), made here. The slot holds phi
/// and, apart, what normalises it (`scale`, 0 where t >= seen): the chain applies that to a token's scalars.
/// It leaves scale times the gradient of the normalised key, and `along`, the product of gradient and key;
/// this becomes d_x, the gradient of the rows' sum. kNu: of DPFP, 0 for maps of single entries. kSum:
/// normalised by the sum, else by the length or not at all. Half a warp holds a row, four columns a lane.
template <class Real, int kNu, bool kSum>
struct MadeKeys {
  struct Given {
    TableFeatures<Real> from;
    Tensor<Real> d_x;
  };
  static constexpr bool kMade = true;
  static constexpr int kColumns = 64, kLanes = kColumns / 4;
  static constexpr int C = kChunk<Real>, kTurns = C / 2, kAtOnce = 4;  // turns whose loads are under way
  static constexpr int kHalves = kNu > 0 ? 2 : 1, kRolls = kNu > 0 ? kNu : 1;

  const TableFeatures<Real>& from;
  const std::int32_t* ids;
  Real* d_x;
  int r, half, lane;

  /// The rows of token l of the chunk, in the order of the scan, in lane l.
  struct Prepared {
    std::size_t row[kMaxTables];  // an address in global memory
  };

  __device__ MadeKeys(const Given& given, int replica, std::int64_t sequence, int)
      : from(given.from),
        ids(from.keys.ids.at(replica) + sequence * from.keys.ids.columns()),
        d_x(given.d_x ? given.d_x.at(replica) + sequence * kColumns : nullptr),
        r(replica),
        half(static_cast<int>(threadIdx.x) % 32 / kLanes),
        lane(static_cast<int>(threadIdx.x) % kLanes) {}

  template <bool kReversed>
  __device__ Prepared prepare(int first, int seen) const {
    const int i = static_cast<int>(threadIdx.x) % 32, t = first + (kReversed ? C - 1 - i : i);
    const bool there = i < C && t >= 0 && t < seen;
    Prepared prepared;
#pragma unroll
    for (int n = 0; n < kMaxTables; ++n) {
      const Real* row = reinterpret_cast<const Real*>(absent_row);
      const int id =
          there && n < from.keys.tables ? ids[t * from.keys.ids.columns() + from.keys.channel[n]] : -1;
      if (id >= 0) row = from.keys.table[n].at(r) + id * kColumns;
      prepared.row[n] = __cvta_generic_to_global(row);
    }
    return prepared;
  }

  /// x of this lane, and what its features come from: f = [relu(x); relu(-x)] with the kNu entries before it
  /// in either half (the columns of x go round: x_{i-64} = -x_i), or phi.
  struct Entries {
    Real x[kNu + 4], f[kHalves][kNu + 4];
    __device__ __forceinline__ Real phi(int j, int half, int k) const {
      if constexpr (kNu > 0) return f[half][kNu + k] * f[half][kNu + k - j];
      return f[0][k];
    }
  };
  /// Calls f(j, half, the lane's first column of phi) for each quad of phi.
  template <class F>
  __device__ __forceinline__ void each_quad(F&& f) const {
#pragma unroll
    for (int j = 1; j <= kRolls; ++j) {
#pragma unroll
      for (int half = 0; half < kHalves; ++half) f(j, half, (2 * (j - 1) + half) * kColumns + 4 * lane);
    }
  }

  /// Calls visit(turn, u, entries) for row 2 turn + half of the chunk, u = turn % kAtOnce, and finish(turn0)
  /// after kAtOnce of them. Not unrolled: the instruction cache is small.
  template <class Visit, class Finish>
  __device__ __forceinline__ void each_row(const Prepared& prepared, Visit&& visit, Finish&& finish) const {
#pragma unroll 1
    for (int turn0 = 0; turn0 < kTurns; turn0 += kAtOnce) {
      Real x[kAtOnce][4] = {};
#pragma unroll
      for (int n = 0; n < kMaxTables; ++n) {
        if (n >= from.keys.tables) break;
        Real row[kAtOnce][4];
#pragma unroll
        for (int u = 0; u < kAtOnce; ++u) {
          const auto at = __shfl_sync(kFullWarp, prepared.row[n], 2 * (turn0 + u) + half);
          take4(static_cast<const Real*>(__cvta_global_to_generic(at)) + 4 * lane, true, row[u]);
        }
#pragma unroll
        for (int u = 0; u < kAtOnce; ++u) {
#pragma unroll
          for (int k = 0; k < 4; ++k) x[u][k] += row[u][k];
        }
      }
#pragma unroll
      for (int u = 0; u < kAtOnce; ++u) {
        Entries entries;
#pragma unroll
        for (int k = 0; k < 4; ++k) entries.x[kNu + k] = x[u][k];
#pragma unroll
        for (int k = 0; k < kNu; ++k) {
          const Real before = __shfl_sync(kFullWarp, x[u][4 - kNu + k], lane + kLanes - 1, kLanes);
          entries.x[k] = lane == 0 ? -before : before;
        }
        if constexpr (kNu > 0) {
#pragma unroll
          for (int k = 0; k < kNu + 4; ++k) {
            entries.f[0][k] = positive_part(entries.x[k]);
            entries.f[1][k] = positive_part(-entries.x[k]);
          }
        } else {
          with_map(from.keys.map, [&](auto map) {
#pragma unroll
            for (int k = 0; k < 4; ++k) entries.f[0][k] = map_entry(map.value, entries.x[k]);
          });
        }
        visit(turn0 + u, u, entries);
      }
      finish(turn0);
    }
  }

  template <bool kReversed, class Slot>
  __device__ void bring(Slot& slot, const Prepared& prepared, int first, int seen) const {
    const Real eps = static_cast<Real>(from.eps);
    Real totals[kAtOnce];
    each_row(
        prepared,
        [&](int turn, int u, const Entries& entries) {
          totals[u] = 0;
          each_quad([&](int j, int part, int column) {
            Real phi[4];
#pragma unroll
            for (int k = 0; k < 4; ++k) {
              phi[k] = entries.phi(j, part, k);
              totals[u] += kSum ? phi[k] : phi[k] * phi[k];
            }
            put4(slot.keys[2 * turn + half] + column, true, phi);
          });
        },
        [&](int turn0) {
          constexpr int kShare = kLanes / kAtOnce;  // lanes that end with the same sum
          scatter_sum<kAtOnce, kLanes / 2>(totals);
          const int i = 2 * (turn0 + lane / kShare) + half;
          const Real total = totals[0] + eps,
                     inverse = from.normalised ? 1 / (kSum ? total : sqrt(total)) : Real(1);
          if (lane % kShare == 0)
            slot.scale[i] = first + (kReversed ? C - 1 - i : i) < seen ? inverse : Real(0);
        });
  }

  /// first: of the tokens in forward time, in which gradients come.
  template <class Slot>
  __device__ void take_gradient(Slot& slot, const Prepared& prepared, int first, int seen) const {
    const bool normalised = from.normalised;
    const auto pull = [&](int turn, int, const Entries& entries) {
      const int i = 2 * turn + half;
      // sum: d_phi = scale (d_y - y.d_y);  l2: d_phi = scale (d_y - y (y.d_y));  y = scale phi
      const Real scale = slot.scale[i],
                 along = normalised ? (kSum ? scale : scale * scale) * slot.along[i] : Real(0);
      Real d_f[kHalves][kNu + 4] = {};
      each_quad([&](int j, int part, int column) {
        Real d_phi[4];
        take4(slot.keys[i] + column, true, d_phi);
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          d_phi[k] -= kSum ? along : along * entries.phi(j, part, k);
          if constexpr (kNu > 0) {
            d_f[part][kNu + k] += d_phi[k] * entries.f[part][kNu + k - j];
            d_f[part][kNu + k - j] += d_phi[k] * entries.f[part][kNu + k];
          } else {
            d_f[0][k] = d_phi[k];
          }
        }
      });
      Real d[kNu + 4];  // the first kNu belong to the lane before
      if constexpr (kNu > 0) {
#pragma unroll
        for (int k = 0; k < kNu + 4; ++k) {
          const Real x = entries.x[k];
          d[k] = (x > 0 ? d_f[0][k] : Real(0)) - (x < 0 ? d_f[1][k] : Real(0));
        }
      } else {
        with_map(from.keys.map, [&](auto map) {
#pragma unroll
          for (int k = 0; k < 4; ++k)
            d[k] = map_entry_backward(map.value, entries.x[k], entries.f[0][k], d_f[0][k]);
        });
      }
#pragma unroll
      for (int k = 0; k < kNu; ++k) {
        const Real after = __shfl_sync(kFullWarp, d[k], lane + 1, kLanes);
        d[4 + k] += lane == kLanes - 1 ? -after : after;
      }
      const Real mine[4] = {d[kNu], d[kNu + 1], d[kNu + 2], d[kNu + 3]};
      put4(d_x + (first + i) * kColumns + 4 * lane, first + i < seen, mine);
    };
    each_row(prepared, pull, [](int) {});
  }
  /// Zeros for tokens that no query sees.
  __device__ void clear_gradient(int seen, int T, int thread, int threads) const {
    for (int i = seen * kColumns + thread; i < T * kColumns; i += threads) d_x[i] = 0;
  }
};

}  // namespace crosstalk::device
