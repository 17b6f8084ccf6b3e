// The recurrence engine by rows of the state: rows (value channels) know nothing of each other, neither
// forward nor in the gradient of the state. A group of lanes holds a row.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/recurrence/state_walk.cuh"

namespace crosstalk::device {

template <class Real>
constexpr int kRowEntries = 64 / static_cast<int>(sizeof(Real));

/// How the rows of a state lie in blocks.
struct RowWalk {
  Cut cut;    ///< of a row of K numbers
  int rows;   ///< of a block
  int tiles;  ///< blocks of a sequence and head
  int steps;  ///< micro-steps that are staged at a time
  int chunk;  ///< micro-steps between saved states
  int chunks;
};

/// Micro-steps in shared memory: keys padded with zeros, factors of decay instead of logarithms.
template <class Real>
struct RowStage {
  Real *k, *x, *y, *fade, *v, *w, *e;
  std::int64_t size;  ///< numbers

  CT_HD RowStage(const StateRead<Real>& op, const RowWalk& walk, Real* base, bool values) {
    Real* next = base;
    const auto take = [&](bool wanted, int width) {
      Real* p = next;
      if (wanted) next += walk.steps * width;
      return p;
    };
    k = take(true, walk.cut.width());
    x = take(static_cast<bool>(op.erase_read), walk.cut.width());
    y = take(static_cast<bool>(op.erase_write), walk.cut.width());
    fade = take(static_cast<bool>(op.log_decay), walk.cut.width());
    v = take(values, walk.rows);
    w = take(true, 1);
    e = take(true, 1);
    size = next - base;
    if (!op.erase_read) x = k;
    if (!op.erase_write) y = k;
  }

  __device__ void fill(const StateRead<Real>& op, const RowWalk& walk, const Place<Real>& at, int begin,
                       int count, int first_row, bool values) const {
    __syncthreads();  // the steps before have been read
    const int width = walk.cut.width(), gates = op.log_decay ? op.log_decay.value.dim(3) : 0;
    for (int i = threadIdx.x; i < count * width; i += blockDim.x) {
      const int m = begin + i / width, c = i % width;
      const bool inside = c < at.K;
      const std::int64_t from = at.write(m) * at.K + c;
      k[i] = inside ? op.k.value.at(at.r)[from] : Real(0);
      if (op.erase_read) x[i] = inside ? op.erase_read.value.at(at.r)[from] : Real(0);
      if (op.erase_write) y[i] = inside ? op.erase_write.value.at(at.r)[from] : Real(0);
      if (gates && m % at.N == 0)
        fade[i] = inside ? exp(op.log_decay.value.at(at.r)[at.token(m / at.N) * gates + (gates == 1 ? 0 : c)])
                         : Real(0);
    }
    for (int i = threadIdx.x; values && i < count * walk.rows; i += blockDim.x) {
      const int row = first_row + i % walk.rows;
      v[i] = row < at.V ? op.v.value.at(at.r)[at.write(begin + i / walk.rows) * at.V + row] : Real(0);
    }
    for (int i = threadIdx.x; i < count; i += blockDim.x) {
      w[i] = op.write_gain ? op.write_gain.value.at(at.r)[at.write(begin + i)] : Real(1);
      e[i] = op.erase == Erase::delta ? w[i]
             : op.erase_gain          ? op.erase_gain.value.at(at.r)[at.write(begin + i)]
                                      : Real(1);
    }
    __syncthreads();
  }
};

/// o, the states before each chunk, and what each erase finds: S'' x.
template <class Real, int N>
__global__ void __launch_bounds__(128)
    state_rows_forward(const __grid_constant__ StateRead<Real> op, const __grid_constant__ RowWalk walk) {
  extern __shared__ __align__(16) unsigned char shared[];
  const Place<Real> at(op, static_cast<int>(blockIdx.x) / walk.tiles);
  const RowStage<Real> stage(op, walk, reinterpret_cast<Real*>(shared), true);
  const int lanes = walk.cut.lanes, n = walk.cut.entries, lane = static_cast<int>(threadIdx.x) % lanes,
            group = static_cast<int>(threadIdx.x) / lanes,
            first_row = static_cast<int>(blockIdx.x) % walk.tiles * walk.rows, row = first_row + group;
  const bool mine = row < at.V;
  Entries<Real, N> S(reinterpret_cast<Real*>(shared) + stage.size);
  const auto dot = [&](const Real* x) {
    Real sum = 0;
    for_entries<N>(n, [&](int i) { sum += S[i] * x[lane + i * lanes]; });
    return lane_sum(sum, lanes);
  };
  const auto copy_out = [&](Real* state) {
    for_entries<N>(n, [&](int i) {
      const int c = lane + i * lanes;
      if (mine && c < at.K) state[static_cast<std::int64_t>(row) * at.K + c] = S[i];
    });
  };
  for_entries<N>(n, [&](int i) {
    const int c = lane + i * lanes;
    S[i] = op.start && mine && c < at.K
               ? op.start.value.at(at.r)[at.state() + static_cast<std::int64_t>(row) * at.K + c]
               : Real(0);
  });
  Queries<Real> queries(op, at, true);
  const auto read = [&](int t) {
    queries.at(t, [&](int query) {
      const Real* q = op.q.value.at(at.r) + at.query(query) * at.K;
      Real sum = 0;
      for_entries<N>(n, [&](int i) {
        const int c = lane + i * lanes;
        if (c < at.K) sum += S[i] * q[c];
      });
      sum = lane_sum(sum, lanes);
      if (lane == 0 && mine) op.o.value.at(at.r)[at.query(query) * at.V + row] = sum;
    });
  };

  const bool erase = erases(op.erase), tied = ties(op.erase);
  for (int begin = 0; begin < at.M; begin += walk.steps) {
    const int count = min(walk.steps, at.M - begin);
    stage.fill(op, walk, at, begin, count, first_row, true);
    for (int s = 0; s < count; ++s) {
      const int m = begin + s;
      const bool first = m % at.N == 0;
      const Real *k = stage.k + s * walk.cut.width(), *x = stage.x + s * walk.cut.width();
      Real found = 0;
      if (first) {
        read(m / at.N);
        if (m % walk.chunk == 0 && op.states)
          copy_out(op.states.value.at(at.r) + at.state() * walk.chunks +
                   static_cast<std::int64_t>(m / walk.chunk) * at.V * at.K);
        if (erase && !op.decayed) found = dot(x);
        if (op.log_decay) {
          const Real* fade = stage.fade + s * walk.cut.width();
          for_entries<N>(n, [&](int i) { S[i] *= fade[lane + i * lanes]; });
        }
      }
      if (erase && !(first && !op.decayed)) found = dot(x);
      Real change = stage.w[s] * stage.v[s * walk.rows + group];
      if (tied) change -= stage.e[s] * found;
      for_entries<N>(n, [&](int i) { S[i] += change * k[lane + i * lanes]; });
      if (op.erase == Erase::free) {
        const Real* y = stage.y + s * walk.cut.width();
        const Real taken = stage.e[s] * found;
        for_entries<N>(n, [&](int i) { S[i] -= taken * y[lane + i * lanes]; });
      }
      if (erase && op.solved && lane == 0 && mine) op.solved.value.at(at.r)[at.write(m) * at.V + row] = found;
    }
  }
  read(at.T);
  if (op.end) copy_out(op.end.value.at(at.r) + at.state());
}

/// The gradient G of the state back through the tokens: each write's part of it, and the start's gradient.
template <class Real, int N>
__global__ void __launch_bounds__(128)
    state_rows_backward(const __grid_constant__ StateRead<Real> op, const __grid_constant__ RowWalk walk) {
  extern __shared__ __align__(16) unsigned char shared[];
  const Place<Real> at(op, static_cast<int>(blockIdx.x) / walk.tiles);
  const RowStage<Real> stage(op, walk, reinterpret_cast<Real*>(shared), false);
  const BackwardWork<Real> work(op, at.r);
  const int lanes = walk.cut.lanes, n = walk.cut.entries, lane = static_cast<int>(threadIdx.x) % lanes,
            group = static_cast<int>(threadIdx.x) / lanes,
            row = static_cast<int>(blockIdx.x) % walk.tiles * walk.rows + group;
  const bool mine = row < at.V;
  const std::int64_t own_state = at.state() + static_cast<std::int64_t>(row) * at.K;
  Entries<Real, N> G(reinterpret_cast<Real*>(shared) + stage.size);
  const auto dot = [&](const Real* x) {
    Real sum = 0;
    for_entries<N>(n, [&](int i) { sum += G[i] * x[lane + i * lanes]; });
    return lane_sum(sum, lanes);
  };
  const auto add = [&](Real factor, const Real* x) {
    for_entries<N>(n, [&](int i) { G[i] += factor * x[lane + i * lanes]; });
  };
  for_entries<N>(n, [&](int i) {
    const int c = lane + i * lanes;
    G[i] = op.end && op.end.gradient && mine && c < at.K ? op.end.gradient.at(at.r)[own_state + c] : Real(0);
  });
  Queries<Real> queries(op, at, false);
  const auto take_back_reads = [&](int t) {
    if (!op.o.gradient) return;
    queries.at(t, [&](int query) {
      const Real* q = op.q.value.at(at.r) + at.query(query) * at.K;
      const Real d_o = mine ? op.o.gradient.at(at.r)[at.query(query) * at.V + row] : Real(0);
      for_entries<N>(n, [&](int i) {
        const int c = lane + i * lanes;
        if (c < at.K) G[i] += d_o * q[c];
      });
    });
  };

  for (int begin = (at.M - 1) / walk.steps * walk.steps; begin >= 0; begin -= walk.steps) {
    const int count = min(walk.steps, at.M - begin);
    stage.fill(op, walk, at, begin, count, 0, false);
    for (int s = count - 1; s >= 0; --s) {
      const int m = begin + s;
      const bool first = m % at.N == 0, late = first && !op.decayed;
      const Real *k = stage.k + s * walk.cut.width(), *x = stage.x + s * walk.cut.width();
      if ((m + 1) % at.N == 0) take_back_reads((m + 1) / at.N);
      const Real along_k = dot(k);
      Real along_y = along_k;
      if (op.erase == Erase::free) along_y = dot(stage.y + s * walk.cut.width());
      if (lane == 0 && mine) {
        work.G_k[at.write(m) * at.V + row] = along_k;
        if (op.erase == Erase::free) work.G_y[at.write(m) * at.V + row] = along_y;
      }
      const Real d_found = -stage.e[s] * along_y;
      if (erases(op.erase) && !late) add(d_found, x);
      if (first && op.log_decay) {
        const Real* fade = stage.fade + s * walk.cut.width();
        for_entries<N>(n, [&](int i) { G[i] *= fade[lane + i * lanes]; });
      }
      if (erases(op.erase) && late) add(d_found, x);
    }
  }
  take_back_reads(0);
  if (!op.start.wanted()) return;
  for_entries<N>(n, [&](int i) {
    const int c = lane + i * lanes;
    if (mine && c < at.K) put(op.start.write, op.start.gradient.at(at.r) + own_state + c, G[i]);
  });
}

}  // namespace crosstalk::device
