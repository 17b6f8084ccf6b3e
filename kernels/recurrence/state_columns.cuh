// Gradients of the recurrence engine by columns of the state: where it is known what every write adds and
// what every erase's gradient is, columns (key channels) know nothing of each other. A group of lanes holds a
// column, up to a tile of it.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/recurrence/state_walk.cuh"

namespace crosstalk::device {

template <class Real>
constexpr int kColumnEntries = 32 / static_cast<int>(sizeof(Real));

/// How the columns of a state lie in blocks.
struct ColumnWalk {
  Cut cut;      ///< of a tile of a column of V numbers
  int columns;  ///< of a block
  int tiles;    ///< blocks of a sequence and head
  int steps;    ///< micro-steps that are staged at a time; a chunk is walked anew in such pieces
  int chunk, chunks;
  int pieces;  ///< of a chunk
};

/// Micro-steps in shared memory: what is written along k and taken out along y, the gradient of what the
/// erase found, and the columns' entries of keys.
template <class Real>
struct ColumnStage {
  Real *added, *taken, *d_found, *k, *x, *y, *fade;
  Real* history;  ///< states before the micro-steps of a piece, and before the pieces
  std::int64_t size;

  CT_HD ColumnStage(const StateRead<Real>& op, const ColumnWalk& walk, Real* base, int threads,
                    bool backward) {
    Real* next = base;
    const auto take = [&](bool wanted, std::int64_t numbers) {
      Real* p = next;
      if (wanted) next += numbers;
      return p;
    };
    added = take(true, walk.steps * walk.cut.width());
    taken = take(op.erase == Erase::free, walk.steps * walk.cut.width());
    d_found = take(erases(op.erase) && backward, walk.steps * walk.cut.width());
    k = take(true, walk.steps * walk.columns);
    x = take(static_cast<bool>(op.erase_read), walk.steps * walk.columns);
    y = take(static_cast<bool>(op.erase_write), walk.steps * walk.columns);
    fade = take(static_cast<bool>(op.log_decay), walk.steps * walk.columns);
    history =
        take(backward, static_cast<std::int64_t>(walk.steps + walk.pieces) * walk.cut.entries * threads);
    size = next - base;
    if (!op.erase_read) x = k;
    if (!op.erase_write) y = k;
  }

  __device__ void fill(const StateRead<Real>& op, const ColumnWalk& walk, const Place<Real>& at, int begin,
                       int count, int first_row, int first_column, bool backward) const {
    __syncthreads();
    const int width = walk.cut.width(), gates = op.log_decay ? op.log_decay.value.dim(3) : 0;
    for (int i = threadIdx.x; i < count * width; i += blockDim.x) {
      const int row = first_row + i % width;
      const bool inside = row < at.V;
      const std::int64_t m = at.write(begin + i / width), from = m * at.V + row;
      const Real w = op.write_gain ? op.write_gain.value.at(at.r)[m] : Real(1);
      Real change = inside ? w * op.v.value.at(at.r)[from] : Real(0);
      if (erases(op.erase)) {
        const Real e = op.erase == Erase::delta ? w
                       : op.erase_gain          ? op.erase_gain.value.at(at.r)[m]
                                                : Real(1);
        const Real out = inside ? e * op.solved.value.at(at.r)[from] : Real(0);
        if (op.erase == Erase::free) {
          taken[i] = out;
        } else {
          change -= out;
        }
        if (backward) d_found[i] = inside ? -e * BackwardWork<Real>(op, at.r).G_y[from] : Real(0);
      }
      added[i] = change;
    }
    for (int i = threadIdx.x; i < count * walk.columns; i += blockDim.x) {
      const int m = begin + i / walk.columns, c = first_column + i % walk.columns;
      const bool inside = c < at.K;
      const std::int64_t from = at.write(m) * at.K + c;
      k[i] = inside ? op.k.value.at(at.r)[from] : Real(0);
      if (op.erase_read) x[i] = inside ? op.erase_read.value.at(at.r)[from] : Real(0);
      if (op.erase_write) y[i] = inside ? op.erase_write.value.at(at.r)[from] : Real(0);
      if (gates && m % at.N == 0)
        fade[i] = inside ? exp(op.log_decay.value.at(at.r)[at.token(m / at.N) * gates + (gates == 1 ? 0 : c)])
                         : Real(0);
    }
    __syncthreads();
  }
};

/// One column of a state in the lanes of a group, and a step of it.
template <class Real, int N>
struct ColumnState {
  int lanes, entries, lane;
  Real x[N];

  __device__ explicit ColumnState(const ColumnWalk& walk)
      : lanes(walk.cut.lanes),
        entries(walk.cut.entries),
        lane(static_cast<int>(threadIdx.x) % walk.cut.lanes) {}

  /// From memory [V,K]; zero where there is none.
  __device__ void load(const Real* state, int first_row, int V, int K, int c) {
    for_entries<N>(entries, [&](int i) {
      const int row = first_row + lane + i * lanes;
      x[i] = state && row < V && c < K ? state[static_cast<std::int64_t>(row) * K + c] : Real(0);
    });
  }
  __device__ void add(Real factor, const Real* vector) {
    for_entries<N>(entries, [&](int i) { x[i] += factor * vector[lane + i * lanes]; });
  }
  __device__ void scale(Real factor) {
    for_entries<N>(entries, [&](int i) { x[i] *= factor; });
  }
  __device__ Real dot(const Real* vector) const {
    Real sum = 0;
    for_entries<N>(entries, [&](int i) { sum += x[i] * vector[lane + i * lanes]; });
    return lane_sum(sum, lanes);
  }
  /// A micro-step forward.
  __device__ void step(const StateRead<Real>& op, const ColumnStage<Real>& stage, const ColumnWalk& walk,
                       int s, int own, bool first) {
    if (first && op.log_decay) scale(stage.fade[s * walk.columns + own]);
    add(stage.k[s * walk.columns + own], stage.added + s * walk.cut.width());
    if (op.erase == Erase::free) add(-stage.y[s * walk.columns + own], stage.taken + s * walk.cut.width());
  }
};

/// Gradients of the queries, in a walk forward.
template <class Real, int N>
__global__ void __launch_bounds__(128) state_columns_queries(const __grid_constant__ StateRead<Real> op,
                                                             const __grid_constant__ ColumnWalk walk) {
  extern __shared__ __align__(16) unsigned char shared[];
  const Place<Real> at(op, static_cast<int>(blockIdx.x) / walk.tiles);
  const ColumnStage<Real> stage(op, walk, reinterpret_cast<Real*>(shared), blockDim.x, false);
  const int own = static_cast<int>(threadIdx.x) / walk.cut.lanes,
            first_column = static_cast<int>(blockIdx.x) % walk.tiles * walk.columns, c = first_column + own;
  ColumnState<Real, N> S(walk);
  for (int first_row = 0; first_row < at.V; first_row += walk.cut.width()) {
    S.load(op.start ? op.start.value.at(at.r) + at.state() : nullptr, first_row, at.V, at.K, c);
    Queries<Real> queries(op, at, true);
    const auto read = [&](int t) {
      queries.at(t, [&](int query) {
        Real sum = 0;
        if (op.o.gradient) {
          const Real* d_o = op.o.gradient.at(at.r) + at.query(query) * at.V + first_row;
          for_entries<N>(S.entries, [&](int i) {
            const int row = S.lane + i * S.lanes;
            if (first_row + row < at.V) sum += S.x[i] * d_o[row];
          });
          sum = lane_sum(sum, S.lanes);
        }
        if (S.lane == 0 && c < at.K)
          put(first_row ? Write::add : op.q.write, op.q.gradient.at(at.r) + at.query(query) * at.K + c, sum);
      });
    };
    for (int begin = 0; begin < at.M; begin += walk.steps) {
      const int count = min(walk.steps, at.M - begin);
      stage.fill(op, walk, at, begin, count, first_row, first_column, false);
      for (int s = 0; s < count; ++s) {
        const bool first = (begin + s) % at.N == 0;
        if (first) read((begin + s) / at.N);
        S.step(op, stage, walk, s, own, first);
      }
    }
    read(at.T);
  }
}

/// Gradients of keys, of erase_read and erase_write and of the gates: chunk after chunk from the last, the
/// states of a chunk walked anew from what forward saved, piece after piece.
template <class Real, int N>
__global__ void __launch_bounds__(128) state_columns_backward(const __grid_constant__ StateRead<Real> op,
                                                              const __grid_constant__ ColumnWalk walk) {
  extern __shared__ __align__(16) unsigned char shared[];
  const Place<Real> at(op, static_cast<int>(blockIdx.x) / walk.tiles);
  const ColumnStage<Real> stage(op, walk, reinterpret_cast<Real*>(shared), blockDim.x, true);
  const BackwardWork<Real> work(op, at.r);
  const int own = static_cast<int>(threadIdx.x) / walk.cut.lanes,
            first_column = static_cast<int>(blockIdx.x) % walk.tiles * walk.columns, c = first_column + own;
  const bool erase = erases(op.erase);
  const int gates = op.log_decay ? op.log_decay.value.dim(3) : 0;
  ColumnState<Real, N> S(walk), G(walk);
  const bool writer = S.lane == 0 && c < at.K;
  const auto slot = [&](int which, int i) -> Real& {
    return stage
        .history[(static_cast<std::int64_t>(which) * walk.cut.entries + i) * blockDim.x + threadIdx.x];
  };
  const auto keep = [&](int which) { for_entries<N>(S.entries, [&](int i) { slot(which, i) = S.x[i]; }); };

  for (int first_row = 0; first_row < at.V; first_row += walk.cut.width()) {
    const auto mode = [&](Write write) { return first_row ? Write::add : write; };
    G.load(op.end && op.end.gradient ? op.end.gradient.at(at.r) + at.state() : nullptr, first_row, at.V, at.K,
           c);
    Queries<Real> queries(op, at, false);
    for (int chunk = walk.chunks - 1; chunk >= 0; --chunk) {
      const int begin = chunk * walk.chunk, end = min(at.M, begin + walk.chunk),
                pieces = (end - begin + walk.steps - 1) / walk.steps;
      S.load(op.states.value.at(at.r) + at.state() * walk.chunks +
                 static_cast<std::int64_t>(chunk) * at.V * at.K,
             first_row, at.V, at.K, c);
      for (int piece = 0; piece < pieces; ++piece) {
        keep(walk.steps + piece);
        if (piece + 1 == pieces) break;
        stage.fill(op, walk, at, begin + piece * walk.steps, walk.steps, first_row, first_column, false);
        for (int s = 0; s < walk.steps; ++s)
          S.step(op, stage, walk, s, own, (begin + piece * walk.steps + s) % at.N == 0);
      }
      for (int piece = pieces - 1; piece >= 0; --piece) {
        const int from = begin + piece * walk.steps, count = min(walk.steps, end - from);
        stage.fill(op, walk, at, from, count, first_row, first_column, true);
        for_entries<N>(S.entries, [&](int i) { S.x[i] = slot(walk.steps + piece, i); });
        for (int s = 0; s < count; ++s) {
          keep(s);
          if (s + 1 < count) S.step(op, stage, walk, s, own, (from + s) % at.N == 0);
        }
        for (int s = count - 1; s >= 0; --s) {
          const int m = from + s, t = m / at.N;
          const bool first = m % at.N == 0, late = first && !op.decayed;
          if ((m + 1) % at.N == 0 && op.o.gradient) {
            queries.at(t + 1, [&](int query) {
              const Real q = c < at.K ? op.q.value.at(at.r)[at.query(query) * at.K + c] : Real(0);
              const Real* d_o = op.o.gradient.at(at.r) + at.query(query) * at.V + first_row;
              for_entries<N>(G.entries, [&](int i) {
                const int row = G.lane + i * G.lanes;
                if (first_row + row < at.V) G.x[i] += q * d_o[row];
              });
            });
          }
          const int sc = s * walk.columns + own;
          Real d_k = G.dot(stage.added + s * walk.cut.width()), d_x = 0, d_y = 0, d_g = 0;
          if (op.erase == Erase::free) d_y = -G.dot(stage.taken + s * walk.cut.width());
          for_entries<N>(S.entries, [&](int i) { S.x[i] = slot(s, i); });
          if (erase && late) d_x = S.dot(stage.d_found + s * walk.cut.width());
          if (first && gates) S.scale(stage.fade[sc]);  // S' from here on
          if (erase && !late) {
            d_x = S.dot(stage.d_found + s * walk.cut.width());
            G.add(stage.x[sc], stage.d_found + s * walk.cut.width());
          }
          if (first && gates) {
            for_entries<N>(S.entries, [&](int i) { d_g += G.x[i] * S.x[i]; });
            d_g = lane_sum(d_g, S.lanes);
            G.scale(stage.fade[sc]);
          }
          if (erase && late) G.add(stage.x[sc], stage.d_found + s * walk.cut.width());
          if (!writer) continue;
          const std::int64_t to = at.write(m) * at.K + c;
          if (op.erase == Erase::delta) d_k += d_x;
          if (op.k.wanted()) put(mode(op.k.write), op.k.gradient.at(at.r) + to, d_k);
          if (first && gates == 1) put(mode(Write::overwrite), work.gates + at.token(t) * at.K + c, d_g);
          if (first && gates > 1 && op.log_decay.wanted())
            put(mode(op.log_decay.write), op.log_decay.gradient.at(at.r) + at.token(t) * at.K + c, d_g);
          if (op.erase_read.wanted())
            put(mode(op.erase_read.write), op.erase_read.gradient.at(at.r) + to, d_x);
          if (op.erase_write.wanted())
            put(mode(op.erase_write.write), op.erase_write.gradient.at(at.r) + to, d_y);
        }
      }
    }
  }
}

/// Gradients of values and gains, and of gates for all channels: a warp a write.
template <class Real>
__global__ void __launch_bounds__(128) state_values_backward(const __grid_constant__ StateRead<Real> op) {
  const std::int64_t m = static_cast<std::int64_t>(blockIdx.x) * 4 + threadIdx.x / 32;
  const int r = blockIdx.y, lane = threadIdx.x % 32, M = op.M(), H = op.H(), K = op.K(), V = op.V();
  if (m >= static_cast<std::int64_t>(op.B()) * M * H) return;
  const BackwardWork<Real> work(op, r);
  const Real *G_k = work.G_k + m * V, *G_y = work.G_y + m * V, *v = op.v.value.at(r) + m * V;
  const Real w = op.write_gain ? op.write_gain.value.at(r)[m] : Real(1);
  const bool delta = op.erase == Erase::delta;
  Real d_w = 0, d_e = 0;
  for (int i = lane; i < V; i += 32) {
    if (op.v.wanted()) put(op.v.write, op.v.gradient.at(r) + m * V + i, w * G_k[i]);
    const Real found = erases(op.erase) ? op.solved.value.at(r)[m * V + i] : Real(0);
    d_w += G_k[i] * (delta ? v[i] - found : v[i]);
    d_e -= G_y[i] * found;
  }
  d_w = warp_sum(d_w);
  d_e = warp_sum(d_e);
  if (lane == 0 && op.write_gain.wanted()) put(op.write_gain.write, op.write_gain.gradient.at(r) + m, d_w);
  const std::int64_t bt = m / H / op.writes;
  if (m / H % op.writes == 0 && op.log_decay.wanted() && op.log_decay.value.dim(3) == 1) {
    const std::int64_t token = bt * H + m % H;
    Real d_g = 0;
    for (int c = lane; c < K; c += 32) d_g += work.gates[token * K + c];
    d_g = warp_sum(d_g);
    if (lane == 0) put(op.log_decay.write, op.log_decay.gradient.at(r) + token, d_g);
  }
  if (lane == 0 && op.erase_gain.wanted()) put(op.erase_gain.write, op.erase_gain.gradient.at(r) + m, d_e);
}

}  // namespace crosstalk::device
