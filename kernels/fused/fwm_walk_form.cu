// FwmRead token after token with the state in registers: a block a sequence and head, four lanes a row of S (row_cells.cuh), so that a
// token costs no access to global memory beyond its own rows.
//
//   precision   float
//   values      dense, V <= 64
//   keys        K <= 64
//   queries     any; with positions they are no variable of the keys or values
//   memory      up to 98 KiB that a block may share
//
// Forward keeps S at some tokens, and v - S k and the inverse divisor of every token: with these S is walked again without its norm.
// Backward takes a chunk of tokens at a time, the last first, keeps S before each of them in shared memory, and goes back through
// them with dL/dS in registers. The block meets once a token, for the norm or for <dL/dS, S>. Sums over rows are made by each warp,
// and over warps at the chunk's end.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/fused/row_cells.cuh"
#include "kernels/law/fwm.h"

namespace crosstalk {
namespace {
using namespace device;
using Op = FwmRead<float>;

constexpr int kFwmRows = 64, kFwmColumns = 64;  ///< the most of a state: V and K
constexpr int kFwmStaged = 16;                  ///< tokens staged at once forward, and the most of a chunk
constexpr int kFwmFloats =
    98 * 1024 / 4;             ///< of a block of eight warps going back: two on an H100's multiprocessor
constexpr int kFwmFewest = 4;  ///< tokens of a chunk

/// Places of numbers in shared memory on the way back, and how many tokens fit.
struct FwmPlan {
  int C, warps, slot, length, chunks;  ///< slot: numbers of an S; length: tokens of a chunk
  int group, starts;                   ///< chunks between kept states, and how many of these
  std::size_t bytes;
  explicit FwmPlan(const Op& op) : C(row_cells(op.K())), warps((op.V() + 7) / 8), slot(warps * 32 * C) {
    const int fixed = warps * 4 * C + 2 * warps;
    const int token = slot + 8 * C + 2 * kFwmRows + 2 + warps;
    length = (kFwmFloats * warps / 8 - fixed) / token;
    length = length < kFwmFewest ? kFwmFewest : length < kFwmStaged ? length : kFwmStaged;
    bytes = sizeof(float) * static_cast<std::size_t>(fixed + length * token);
    chunks = (op.T() + length - 1) / length;
    group = length < kFwmStaged ? kFwmStaged / length : 1;
    starts = (chunks + group - 1) / group;
  }
};

/// Facts of a sequence and head that both directions know.
template <int C>
struct FwmSequence {
  static constexpr int kWide = 4 * C;
  const Op& op;
  const FwmPlan& plan;
  const RowCells<C> cells = {};
  const int item = static_cast<int>(blockIdx.x), r = static_cast<int>(blockIdx.y), row = cells.row;
  const int T = op.T(), Q = op.Q(), H = op.H(), K = op.K(), V = op.V(), b = item / H, h = item % H;
  const int threads = static_cast<int>(blockDim.x), thread = static_cast<int>(threadIdx.x);
  const law::Rows<float> q{op.q, r, b, h, Q, H, K}, k{op.k, r, b, h, T, H, K}, v{op.v, r, b, h, T, H, V},
      beta{op.beta, r, b, h, T, H, 1};
  const bool inside = row < V, writes = inside && cells.part == 0;
  const std::int32_t* const position =
      op.position ? op.position.value.at(r) + static_cast<std::int64_t>(b) * Q : nullptr;

  __device__ float* state(int number) const {
    return op.states.value.at(r) + (static_cast<std::int64_t>(item) * plan.starts + number) * plan.slot;
  }
  __device__ std::int64_t read_at(int i) const {
    return ((static_cast<std::int64_t>(b) * Q + i) * H + h) * V;
  }
  /// v - S k of token t, and behind it what S' is multiplied by.
  __device__ float* kept(int t) const {
    return op.kept.value.at(r) + ((static_cast<std::int64_t>(b) * T + t) * H + h) * (V + 1);
  }
  /// S [V,K] of an op's tensor, or null.
  __device__ float* whole(const Tensor<float>& x) const {
    return x.data ? x.at(r) + static_cast<std::int64_t>(item) * V * K : nullptr;
  }
  /// x summed over the block, with room for two of these sums in turn.
  __device__ float over_block(float x, float* room, int turn) const {
    float* all = room + turn % 2 * plan.warps;
    x = warp_sum(x);
    if (cells.lane == 0) all[cells.warp] = x;
    __syncthreads();
    float sum = 0;
    for (int w = 0; w < plan.warps; ++w) sum += all[w];
    return sum;
  }
};

/// Tokens staged forward, with the query behind each.
template <int C>
struct FwmStage {
  alignas(16) float keys[kFwmStaged][4 * C], queries[kFwmStaged][4 * C];
  float values[kFwmStaged][kFwmRows], beta[kFwmStaged], sums[2 * 8];
};

template <int C, bool kListed>
__global__ void __launch_bounds__(256, 4)
    fwm_walk_forward(const __grid_constant__ Op op, const __grid_constant__ FwmPlan plan) {
  __shared__ FwmStage<C> stage;
  const FwmSequence<C> at{op, plan};
  const RowCells<C>& cells = at.cells;
  const int T = at.T, K = at.K, V = at.V, row = at.row, apart = plan.length * plan.group;
  float* const o = op.o.value.at(at.r);
  float S[C], x[C];
  cells.load(at.whole(op.start.value), V, K, S);
  const auto read_listed = [&](int seen) {
    each_seeing(at.position, at.Q, T, seen, [&](int i) {
      cells.columns_of(at.q.row(i), K, x);
      const float read = cells.product(S, x);
      if (at.writes) o[at.read_at(i) + row] = read;
    });
  };
  if constexpr (kListed) read_listed(0);
  for (int first = 0; first < T; first += kFwmStaged) {
    const int n = T - first < kFwmStaged ? T - first : kFwmStaged;
    __syncthreads();
    for (int i = at.thread; i < n * at.kWide; i += at.threads) {
      const int s = i / at.kWide, j = i % at.kWide;
      stage.keys[s][j] = j < K ? at.k.row(first + s)[j] : 0.0f;
      stage.queries[s][j] = !kListed && j < K ? at.q.row(first + s)[j] : 0.0f;
    }
    for (int i = at.thread; i < n * kFwmRows; i += at.threads) {
      const int s = i / kFwmRows, a = i % kFwmRows;
      stage.values[s][a] = a < V ? at.v.row(first + s)[a] : 0.0f;
    }
    if (at.thread < n) stage.beta[at.thread] = at.beta.row(first + at.thread)[0];
    __syncthreads();
    for (int s = 0; s < n; ++s) {
      const int t = first + s;
      if (op.states && t % apart == 0) cells.keep(at.state(t / apart), S);
      cells.columns_of(stage.keys[s], x);
      const float error = stage.values[s][row] - cells.product(S, x), write = stage.beta[s] * error;
      float squares = 0;
#pragma unroll
      for (int c = 0; c < C; ++c) S[c] += write * x[c], squares += S[c] * S[c];
      const float norm = sqrtf(at.over_block(squares, stage.sums, t));
      const float inverse = (t > 0 || op.start) && norm > 1 ? 1 / norm : 1.0f;
#pragma unroll
      for (int c = 0; c < C; ++c) S[c] *= inverse;
      if (op.kept) {
        if (at.writes) at.kept(t)[row] = error;
        if (at.thread == 0) at.kept(t)[V] = inverse;
      }
      if constexpr (kListed) {
        read_listed(t + 1);
      } else {
        const float read = cells.product(S, stage.queries[s]);
        if (at.writes) o[at.read_at(t) + row] = read;
      }
    }
  }
  if (float* end = at.whole(op.end.value)) cells.store(Write::overwrite, end, V, K, S);
}

template <int C, bool kListed>
__global__ void __launch_bounds__(256, 2)
    fwm_walk_backward(const __grid_constant__ Op op, const __grid_constant__ FwmPlan plan) {
  extern __shared__ Four<float> walk_memory[];
  const FwmSequence<C> at{op, plan};
  const RowCells<C>& cells = at.cells;
  constexpr int kWide = 4 * C;
  const int T = at.T, K = at.K, V = at.V, row = at.row, warp = cells.warp, lane = cells.lane,
            slot = plan.slot;
  const float* const d_o = op.o.gradient.data ? op.o.gradient.at(at.r) : nullptr;

  // Shared memory, by token of the chunk.
  float* next = walk_memory[0].v;
  const auto take = [&](int numbers) { return next += numbers, next - numbers; };
  float* const slots =
      take(plan.length *
           slot);  // S before the token; then sums over a warp's rows: of its key, of the query before
  float* const keys = take(plan.length * kWide);
  float* const queries = take(plan.length * kWide);
  float* const last_query = take(plan.warps * kWide);  // sums of the query behind the chunk
  float* const errors = take(plan.length * kFwmRows);  // v - S k; then d_v
  float* const d_read = take(plan.length * kFwmRows);  // d_o
  float* const sums = take(plan.length * plan.warps);  // of d_beta, by warp
  float* const room = take(2 * plan.warps);
  float* const numbers = take(plan.length * 2);  // beta, inverse divisor

  float S[C], G[C], x[C];
  cells.load(at.whole(op.end.gradient), V, K, G);
  const auto read_back = [&](int seen) {  // queries that positions brought, at S
    each_seeing(at.position, at.Q, T, seen, [&](int i) {
      const float d = d_o && at.inside ? d_o[at.read_at(i) + row] : 0.0f;
      cells.columns_of(at.q.row(i), K, x);
#pragma unroll
      for (int c = 0; c < C; ++c) G[c] += d * x[c], x[c] = d * S[c];
      __syncthreads();
      cells.over_rows(x, last_query + warp * kWide);
      __syncthreads();
      for (int j = at.thread; at.q.gradient && j < K; j += at.threads) {
        float sum = 0;
        for (int w = 0; w < plan.warps; ++w) sum += last_query[w * kWide + j];
        put(op.q.write, at.q.gradient + i * at.q.apart + j, sum);
      }
    });
  };

  for (int chunk = plan.chunks - 1; chunk >= 0; --chunk) {
    const int first = chunk * plan.length, n = T - first < plan.length ? T - first : plan.length;
    const int base = chunk / plan.group * plan.group;
    cells.recall(at.state(base / plan.group), S);
    for (int from = base * plan.length; from <= first; from += plan.length) {  // to the chunk, and through it
      const bool here = from == first;
      const int count = here ? n : plan.length;
      __syncthreads();
      for (int t = warp; t < count; t += plan.warps) {
        const float *key = at.k.row(from + t), *query = kListed ? nullptr : at.q.row(from + t);
        const float *kept = at.kept(from + t), *d = !kListed && d_o ? d_o + at.read_at(from + t) : nullptr;
#pragma unroll
        for (int j = lane; j < kFwmRows; j += 32) {
          if (j < kWide) {
            keys[t * kWide + j] = j < K ? key[j] : 0.0f;
            queries[t * kWide + j] = !kListed && j < K ? query[j] : 0.0f;
          }
          errors[t * kFwmRows + j] = j < V ? kept[j] : 0.0f;
          d_read[t * kFwmRows + j] = d && j < V ? d[j] : 0.0f;
        }
        if (lane == 0) numbers[2 * t] = at.beta.row(from + t)[0], numbers[2 * t + 1] = kept[V];
      }
      __syncthreads();
      for (int t = 0; t < count; ++t) {
        if (here) cells.keep(slots + t * slot, S);
        const float write = numbers[2 * t] * errors[t * kFwmRows + row], inverse = numbers[2 * t + 1];
        cells.columns_of(keys + t * kWide, x);
#pragma unroll
        for (int c = 0; c < C; ++c) S[c] = (S[c] + write * x[c]) * inverse;
      }
    }

    for (int t = n - 1; t >= 0; --t) {  // S: behind token t
      float* const mine = slots + t * slot + warp * 32 * C;
      if constexpr (kListed) {
        read_back(first + t + 1);
      } else {
        const float d = d_read[t * kFwmRows + row];
        cells.columns_of(queries + t * kWide, x);
#pragma unroll
        for (int c = 0; c < C; ++c) G[c] += d * x[c], x[c] = d * S[c];
        cells.over_rows(x, t + 1 < n ? mine + slot + kWide : last_query + warp * kWide);
      }
      const float rate = numbers[2 * t], inverse = numbers[2 * t + 1], error = errors[t * kFwmRows + row];
      float radial = 0;
#pragma unroll
      for (int c = 0; c < C; ++c) radial += G[c] * S[c];
      radial = at.over_block(radial, room, t);
      if (inverse < 1) {  // S = S' / |S'|
#pragma unroll
        for (int c = 0; c < C; ++c) G[c] = (G[c] - S[c] * radial) * inverse;
      }
      const float along = cells.product(G, keys + t * kWide);
      const float of_rate = warp_sum(cells.part == 0 ? error * along : 0.0f);
      if (lane == 0) sums[t * plan.warps + warp] = of_rate;
      cells.recall(slots + t * slot, S);
      cells.columns_of(keys + t * kWide, x);
#pragma unroll
      for (int c = 0; c < C; ++c) {
        const float of_key = rate * (G[c] * error - S[c] * along);
        G[c] -= rate * along * x[c];
        x[c] = of_key;
      }
      __syncwarp();  // all of the warp have read the token's errors and S before it
      if (cells.part == 0) errors[t * kFwmRows + row] = rate * along;
      cells.over_rows(x, mine);
    }
    if (kListed && chunk == 0) read_back(0);
    __syncthreads();

    // A thread writes a number's gradient of all fields, in their order: they may be one variable's.
    for (int t = warp; t < n; t += plan.warps) {
      const std::int64_t token = first + t;
      const float* of_key = slots + t * slot;
      const float* of_query = t + 1 < n ? of_key + slot + kWide : last_query;
      const int by_warp = t + 1 < n ? 32 * C : kWide;
#pragma unroll
      for (int j = lane; j < kFwmRows; j += 32) {
        float d_query = 0, d_key = 0;
        for (int w = 0; w < plan.warps && j < K; ++w) d_key += of_key[w * 32 * C + j];
        for (int w = 0; w < plan.warps && j < K && !kListed; ++w) d_query += of_query[w * by_warp + j];
        if (!kListed && j < K && at.q.gradient)
          put(op.q.write, at.q.gradient + token * at.q.apart + j, d_query);
        if (j < K && at.k.gradient) put(op.k.write, at.k.gradient + token * at.k.apart + j, d_key);
        if (j < V && at.v.gradient)
          put(op.v.write, at.v.gradient + token * at.v.apart + j, errors[t * kFwmRows + j]);
      }
    }
    if (at.thread < n && at.beta.gradient) {
      float sum = 0;
      for (int w = 0; w < plan.warps; ++w) sum += sums[at.thread * plan.warps + w];
      put(op.beta.write, at.beta.gradient + (first + at.thread) * at.beta.apart, sum);
    }
  }
  if (op.start.wanted()) cells.store(op.start.write, at.whole(op.start.gradient), V, K, G);
}

bool covers(const Op& op) {
  const bool apart = !op.q.memory || (op.q.memory != op.k.memory && op.q.memory != op.v.memory);
  return op.v && (!op.position || apart) && op.T() > 0 && op.K() <= kFwmColumns && op.V() <= kFwmRows &&
         FwmPlan(op).bytes <= shared_memory_limit();
}

void plan(Op& op) {
  const FwmPlan walk(op);
  op.states.value = shaped<float>(op.k.value.R, {op.B(), op.H(), walk.starts, walk.slot});
  op.kept.value = shaped<float>(op.k.value.R, {op.B(), op.T(), op.H(), op.V() + 1});
}

template <bool kBack>
void run(const Exec& exec, const Op& op) {
  const FwmPlan walk(op);
  with_row_cells(op.K(), [&](auto C) {
    const auto start = [&](auto listed) {
      constexpr auto kernel = kBack ? fwm_walk_backward<C(), listed()> : fwm_walk_forward<C(), listed()>;
      launch(exec, kBack ? "fast weight memory backward by registers" : "fast weight memory by registers",
             kernel, per_replica(op.B() * op.H(), op.k.value.R), 32 * walk.warps, kBack ? walk.bytes : 0, op,
             walk);
    };
    op.position ? start(std::true_type{}) : start(std::false_type{});
  });
}

}  // namespace

namespace forms {
void fwm_walk() { add_form<Op>({"registers", covers, plan, run<false>, run<true>}); }
}  // namespace forms

}  // namespace crosstalk
