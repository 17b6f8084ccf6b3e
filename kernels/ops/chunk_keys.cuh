// Where the keys of a chunked recurrence come from (ops/recurrence_chunked.cuh). A builder warp calls
//   prepare       what it will need of a chunk, a turn ahead
//   bring         the keys of C tokens into rows of shared memory, in the order of the scan; 0 where t >=
//   seen take_gradient what to do with the gradients that the chain left in those rows (kTakesGradient)
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
  static constexpr bool kTakesGradient = false;
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
  template <bool kReversed, int kRow>
  __device__ void bring(Real* slot, Prepared, int first, int seen) const {
    for (int p = static_cast<int>(threadIdx.x) % 32 * 4; p < P; p += 128) {
#pragma unroll
      for (int i = 0; i < C; ++i) {
        const int t = first + (kReversed ? C - 1 - i : i);
        copy4_async(slot + i * kRow + p, k + static_cast<std::int64_t>(t < seen ? t : 0) * P + p, t < seen);
      }
    }
    commit_copies();
    wait_copies<0>();
  }
  template <int kRow>
  __device__ void take_gradient(Real*, Prepared, int, int) const {}
  __device__ void clear_gradient(int, int, int, int) const {}
};

/// Normalised features of table rows (ops/table_features.h), made here; their gradient becomes d_x, the
/// gradient of the rows' sum. kNu: maps of single entries (0), DPFP with nu = 1, or with nu <= 4. A row of d
/// numbers is held by a team of d / 4 lanes, four columns each.
template <class Real, int kNu>
struct MadeKeys {
  struct Given {
    TableFeatures<Real> from;
    Tensor<Real> d_x;
  };
  static constexpr bool kTakesGradient = true;
  static constexpr int C = kChunk<Real>, kAtOnce = 4;  // rows whose loads a lane has under way
  static constexpr int kHalves = kNu > 0 ? 2 : 1, kMost = kNu > 0 ? kNu : 1;
  static constexpr int kBefore = kNu > 1 ? 0 : kNu == 1 ? 3 : 4;  // the first of the columns looked at

  const Given& given;
  const std::int32_t* ids;
  std::int64_t sequence;
  int r, d, lanes, team, lane;

  /// Ids of token `lane` of the chunk, in the order of the scan.
  struct Prepared {
    int id[kMaxTables];
  };

  __device__ MadeKeys(const Given& g, int replica, std::int64_t from, int)
      : given(g),
        ids(g.from.keys.ids.at(replica) + from * g.from.keys.ids.columns()),
        sequence(from),
        r(replica),
        d(g.from.keys.table[0].columns()),
        lanes(d / 4),
        team(static_cast<int>(threadIdx.x) % 32 / lanes),
        lane(static_cast<int>(threadIdx.x) % lanes) {}

  template <bool kReversed>
  __device__ Prepared prepare(int first, int seen) const {
    const int i = static_cast<int>(threadIdx.x) % 32, t = first + (kReversed ? C - 1 - i : i);
    const TableKeys<Real>& keys = given.from.keys;
    const bool there = i < C && t >= 0 && t < seen;
    Prepared prepared;
#pragma unroll
    for (int n = 0; n < kMaxTables; ++n)
      prepared.id[n] = there && n < keys.tables ? ids[t * keys.ids.columns() + keys.channel[n]] : -1;
    return prepared;
  }

  /// Columns 4 lane - 4 .. 4 lane + 3 of a ring of 2 d columns [x; -x], of which f is the positive part.
  struct Window {
    Real e[8];
  };
  /// Calls visit(row, window) for rows first .. C-1 of the chunk, kAtOnce a lane at once.
  template <class Visit>
  __device__ __forceinline__ void each_row(const Prepared& prepared, Visit&& visit) const {
    const int teams = 32 / lanes;
    const TableKeys<Real>& keys = given.from.keys;
    for (int first = team; first - team < C; first += kAtOnce * teams) {
      Window w[kAtOnce];
#pragma unroll
      for (int u = 0; u < kAtOnce; ++u) {
#pragma unroll
        for (int k = 0; k < 4; ++k) w[u].e[4 + k] = 0;
      }
#pragma unroll
      for (int n = 0; n < kMaxTables; ++n) {
        if (n >= keys.tables) break;
        const Real* table = keys.table[n].at(r) + 4 * lane;
#pragma unroll
        for (int u = 0; u < kAtOnce; ++u) {
          const int id = __shfl_sync(kFullWarp, prepared.id[n], first + u * teams);
          Real row[4];
          take4(table + max(id, 0) * d, id >= 0, row);
#pragma unroll
          for (int k = 0; k < 4; ++k) w[u].e[4 + k] += row[k];
        }
      }
#pragma unroll
      for (int u = 0; u < kAtOnce; ++u) {
        if (first - team + u * teams >= C) break;
#pragma unroll
        for (int k = kBefore; k < 4; ++k) {
          const Real e = __shfl_sync(kFullWarp, w[u].e[4 + k], lane - 1 + lanes, lanes);
          w[u].e[k] = lane == 0 ? -e : e;
        }
        visit(first + u * teams, w[u]);
      }
    }
  }

  /// f of both halves of the ring, or phi of single entries.
  struct Features {
    Real f[kHalves][8];
    __device__ __forceinline__ Features(FeatureMap map, const Window& w) {
#pragma unroll
      for (int k = kBefore; k < 8; ++k) {
        if constexpr (kNu > 0) {
          f[0][k] = rectified(w.e[k]);
          f[1][k] = w.e[k] > 0 ? Real(0) : 0 - w.e[k];
        } else {
          f[0][k] = map_entry(map, w.e[k]);
        }
      }
    }
    __device__ __forceinline__ Real phi(int j, int half, int k) const {
      if constexpr (kNu > 0) return f[half][4 + k] * f[half][4 + k - j];
      return f[0][4 + k];
    }
  };
  /// Calls f(j, half, column of the lane's first entry) for each quad of phi.
  template <class F>
  __device__ __forceinline__ void each_quad(F&& f) const {
#pragma unroll
    for (int j = 1; j <= kMost; ++j) {
      if (j > 1 && j > given.from.keys.nu) break;
#pragma unroll
      for (int half = 0; half < kHalves; ++half) f(j, half, (2 * (j - 1) + half) * d + 4 * lane);
    }
  }
  __device__ __forceinline__ Real sum_of_team(Real x) const {
    for (int offset = lanes / 2; offset > 0; offset /= 2) x += __shfl_xor_sync(kFullWarp, x, offset);
    return x;
  }

  template <bool kReversed, int kRow>
  __device__ void bring(Real* slot, const Prepared& prepared, int first, int seen) const {
    const bool normalised = given.from.normalised, sum = given.from.norm == RowNorm::sum;
    const Real eps = static_cast<Real>(given.from.eps);
    each_row(prepared, [&](int i, const Window& w) {
      const Features features(given.from.keys.map, w);
      Real inverse = 1;
      if (normalised) {
        Real total = 0;
        each_quad([&](int j, int half, int) {
#pragma unroll
          for (int k = 0; k < 4; ++k) {
            const Real phi = features.phi(j, half, k);
            total += sum ? phi : phi * phi;
          }
        });
        total = sum_of_team(total) + eps;
        inverse = 1 / (sum ? total : sqrt(total));
      }
      const bool there = first + (kReversed ? C - 1 - i : i) < seen;
      Real* row = slot + i * kRow;
      each_quad([&](int j, int half, int column) {
        Real y[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) y[k] = there ? features.phi(j, half, k) * inverse : Real(0);
        put4(row + column, true, y);
      });
      if (lane == 0) row[kRow - 1] = inverse;  // for the gradient
    });
  }

  /// d_y in the rows -> d_x. Unlike keys, chunks come in forward time.
  template <int kRow>
  __device__ void take_gradient(Real* slot, const Prepared& prepared, int first, int seen) const {
    const bool normalised = given.from.normalised, sum = given.from.norm == RowNorm::sum;
    Real* d_x = given.d_x.at(r) + (sequence + first) * d + 4 * lane;
    each_row(prepared, [&](int i, const Window& w) {
      const Features features(given.from.keys.map, w);
      const Real* row = slot + i * kRow;
      // sum: d_phi = inverse (d_y - y.d_y);  l2: d_phi = inverse (d_y - y (y.d_y));  y = inverse phi
      Real inverse = 1, along = 0;
      if (normalised) {
        inverse = row[kRow - 1];
        each_quad([&](int j, int half, int column) {
          Real d_y[4];
          take4(row + column, true, d_y);
#pragma unroll
          for (int k = 0; k < 4; ++k) along += d_y[k] * features.phi(j, half, k);
        });
        along = sum_of_team(along) * inverse;
      }
      Real d_f[kHalves][8] = {};
      each_quad([&](int j, int half, int column) {
        Real d_y[4];
        take4(row + column, true, d_y);
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          if (normalised) {
            const Real part = sum ? along : features.phi(j, half, k) * inverse * along;
            d_y[k] = inverse * (d_y[k] - part);
          }
          if constexpr (kNu > 0) {
            d_f[half][4 + k] += d_y[k] * features.f[half][4 + k - j];
            d_f[half][4 + k - j] += d_y[k] * features.f[half][4 + k];
          } else {
            d_f[0][4 + k] = d_y[k];
          }
        }
      });
      Real d_e[8];  // of the window: what lies before the lane's columns is another lane's
#pragma unroll
      for (int k = kBefore; k < 8; ++k) {
        if constexpr (kNu > 0) {
          d_e[k] = features.f[0][k] > 0 ? d_f[0][k] : features.f[1][k] > 0 ? -d_f[1][k] : Real(0);
        } else {
          d_e[k] = map_entry_backward(given.from.keys.map, w.e[k], features.f[0][k], d_f[0][k]);
        }
      }
#pragma unroll
      for (int k = kBefore; k < 4; ++k) {
        const Real e = __shfl_sync(kFullWarp, d_e[k], lane + 1, lanes);
        d_e[4 + k] += lane + 1 == lanes ? -e : e;
      }
      const Real mine[4] = {d_e[4], d_e[5], d_e[6], d_e[7]};
      put4(d_x + i * d, first + i < seen, mine);
    });
  }
  /// Zeros for tokens that no query sees.
  __device__ void clear_gradient(int seen, int T, int thread, int threads) const {
    Real* d_x = given.d_x.at(r) + sequence * d;
    for (int i = seen * d + thread; i < T * d; i += threads) d_x[i] = 0;
  }
};

}  // namespace crosstalk::device
