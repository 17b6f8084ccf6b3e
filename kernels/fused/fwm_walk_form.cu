// FwmRead token after token with the state in registers: a block a sequence and head, four lanes a row of S (row_walk.cuh), so that a
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
#include "kernels/fused/row_walk.cuh"
#include "kernels/law/fwm.h"

namespace crosstalk {
namespace {
using namespace device;
using Op = FwmRead<float>;

RowPlan fwm_plan(const Op& op) {
  const int warps = RowPlan::warps_of(op.V());
  return {op, 2 * kWalkRows + 2 + warps, 2 * warps};
}

template <int C, bool kListed>
struct FwmSequence : RowWalk<C, kListed, Op, RowPlan> {
  using Base = RowWalk<C, kListed, Op, RowPlan>;
  using Base::op, Base::plan, Base::cells, Base::item, Base::r, Base::K, Base::V;
  const law::Rows<float> beta{op.beta, r, Base::b, Base::h, Base::T, Base::H, 1};

  __device__ float* state(int number) const {
    return op.states.value.at(r) + (std::int64_t{item} * plan.starts + number) * plan.slot;
  }
  /// v - S k of token t, and behind it what S' is multiplied by.
  __device__ float* kept(int t) const { return op.kept.value.at(r) + this->token(t) * (V + 1); }
  /// S [V,K] of an op's tensor, or null.
  __device__ float* whole(const Tensor<float>& x) const {
    return x.data ? x.at(r) + std::int64_t{item} * V * K : nullptr;
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
  alignas(16) float keys[kWalkStaged][4 * C], queries[kWalkStaged][4 * C];
  float values[kWalkStaged][kWalkRows], beta[kWalkStaged], sums[2 * 8];
};

template <int C, bool kListed>
__global__ void __launch_bounds__(256, 4)
    fwm_walk_forward(const __grid_constant__ Op op, const __grid_constant__ RowPlan plan) {
  __shared__ FwmStage<C> stage;
  const FwmSequence<C, kListed> at{{op, plan}};
  const RowCells<C>& cells = at.cells;
  const int T = at.T, K = at.K, V = at.V, row = at.row, apart = plan.length * plan.group;
  float* const o = op.o.value.at(at.r);
  float S[C], x[C];
  cells.load(at.whole(op.start.value), V, K, S);
  const auto read_listed = [&](int seen) {
    each_seeing(at.position, at.Q, T, seen, [&](int i) {
      cells.columns_of(at.q.row(i), K, x);
      const float read = cells.product(S, x);
      if (at.writes) o[at.row_of_query(i) + row] = read;
    });
  };
  if constexpr (kListed) read_listed(0);
  for (int first = 0; first < T; first += kWalkStaged) {
    const int n = T - first < kWalkStaged ? T - first : kWalkStaged;
    __syncthreads();
    for (int i = at.thread; i < n * at.kWide; i += at.threads) {
      const int s = i / at.kWide, j = i % at.kWide;
      stage.keys[s][j] = j < K ? at.k.row(first + s)[j] : 0.0f;
      stage.queries[s][j] = !kListed && j < K ? at.q.row(first + s)[j] : 0.0f;
    }
    for (int i = at.thread; i < n * kWalkRows; i += at.threads) {
      const int s = i / kWalkRows, a = i % kWalkRows;
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
      CT_FOR(c, C) S[c] += write * x[c], squares += S[c] * S[c];
      const float norm = sqrtf(at.over_block(squares, stage.sums, t));
      const float inverse = (t > 0 || op.start) && norm > 1 ? 1 / norm : 1.0f;
      CT_FOR(c, C) S[c] *= inverse;
      if (op.kept) {
        if (at.writes) at.kept(t)[row] = error;
        if (at.thread == 0) at.kept(t)[V] = inverse;
      }
      if constexpr (kListed) {
        read_listed(t + 1);
      } else {
        const float read = cells.product(S, stage.queries[s]);
        if (at.writes) o[at.row_of_query(t) + row] = read;
      }
    }
  }
  if (float* end = at.whole(op.end.value)) cells.store(Write::overwrite, end, V, K, S);
}

/// A thread's part of S, of dL/dS, and a row vector; apart from what has no arrays.
template <int C>
struct FwmCells {
  float S[C], G[C], x[C];
};

/// The way back over one sequence and head, in phases.
template <int C, bool kListed>
struct FwmBack : FwmSequence<C, kListed> {
  using Base = FwmSequence<C, kListed>;
  using Base::op, Base::plan, Base::cells, Base::r, Base::row, Base::K, Base::V, Base::thread, Base::q,
      Base::k, Base::beta, Base::kWide;
  const int warp = cells.warp, lane = cells.lane, slot = plan.slot;
  const float* const d_o = op.o.gradient.data ? op.o.gradient.at(r) : nullptr;

  // Shared memory, by token of the chunk.
  float* slots;  ///< S before the token; then sums over a warp's rows: of its key, of the query before
  float *keys, *queries;
  float* last_query;  ///< sums of the query behind the chunk
  float* errors;      ///< v - S k; then d_v
  float* d_read;      ///< d_o
  float* sums;        ///< of d_beta, by warp
  float* room;
  float* numbers;  ///< beta, inverse divisor

  CT_DEVICE FwmBack(const Op& op_, const RowPlan& plan_, float* next) : Base{{op_, plan_}} {
    const auto take = [&](int count) { return next += count, next - count; };
    slots = take(plan.length * slot);
    keys = take(plan.length * kWide), queries = take(plan.length * kWide);
    last_query = take(plan.warps * kWide);
    errors = take(plan.length * kWalkRows), d_read = take(plan.length * kWalkRows);
    sums = take(plan.length * plan.warps), room = take(2 * plan.warps), numbers = take(plan.length * 2);
  }

  /// Tokens from .. from + count - 1 to shared memory.
  CT_DEVICE void load(int from, int count) const {
    __syncthreads();
    for (int t = warp; t < count; t += plan.warps) {
      const float *key = k.row(from + t), *query = kListed ? nullptr : q.row(from + t);
      const float *kept = this->kept(from + t),
                  *d = !kListed && d_o ? d_o + this->row_of_query(from + t) : nullptr;
      CT_UNROLL(int j = lane; j < kWalkRows; j += 32) {
        if (j < kWide) {
          keys[t * kWide + j] = j < K ? key[j] : 0.0f;
          queries[t * kWide + j] = !kListed && j < K ? query[j] : 0.0f;
        }
        errors[t * kWalkRows + j] = j < V ? kept[j] : 0.0f;
        d_read[t * kWalkRows + j] = d && j < V ? d[j] : 0.0f;
      }
      if (lane == 0) numbers[2 * t] = beta.row(from + t)[0], numbers[2 * t + 1] = kept[V];
    }
    __syncthreads();
  }
  /// S behind `count` tokens; `here`: they are the chunk's, before each of which it is kept.
  CT_DEVICE void advance(int count, bool here, FwmCells<C>& of) const {
    for (int t = 0; t < count; ++t) {
      if (here) cells.keep(slots + t * slot, of.S);
      const float write = numbers[2 * t] * errors[t * kWalkRows + row], inverse = numbers[2 * t + 1];
      cells.columns_of(keys + t * kWide, of.x);
      CT_FOR(c, C) of.S[c] = (of.S[c] + write * of.x[c]) * inverse;
    }
  }
  /// Of a query x, at S, and dL/do of this row: dL/dS; its own, by warp, to `to`.
  CT_DEVICE void read_back(float d, FwmCells<C>& of, float* to) const {
    CT_FOR(c, C) of.G[c] += d * of.x[c], of.x[c] = d * of.S[c];
    if constexpr (kListed) __syncthreads();
    cells.over_rows(of.x, to);
  }
  /// Queries that positions brought behind so many tokens, at S.
  CT_DEVICE void listed_back(int seen, FwmCells<C>& of) const {
    each_seeing(this->position, this->Q, this->T, seen, [&](int i) {
      const float d = d_o && this->inside ? d_o[this->row_of_query(i) + row] : 0.0f;
      cells.columns_of(q.row(i), K, of.x);
      read_back(d, of, last_query + warp * kWide);
      __syncthreads();
      this->put_query(i, last_query, [](int) { return 0.0f; });
    });
  }
  /// Back through token t of a chunk, from S behind it to S before it.
  CT_DEVICE void token_back(int t, FwmCells<C>& of) const {
    float(&S)[C] = of.S, (&G)[C] = of.G, (&x)[C] = of.x;
    const float rate = numbers[2 * t], inverse = numbers[2 * t + 1], error = errors[t * kWalkRows + row];
    float radial = 0;
    CT_FOR(c, C) radial += G[c] * S[c];
    radial = this->over_block(radial, room, t);
    if (inverse < 1)  // S = S' / |S'|
      CT_FOR(c, C) G[c] = (G[c] - S[c] * radial) * inverse;
    const float along = cells.product(G, keys + t * kWide);
    const float of_rate = warp_sum(cells.part == 0 ? error * along : 0.0f);
    if (lane == 0) sums[t * plan.warps + warp] = of_rate;
    cells.recall(slots + t * slot, S);
    cells.columns_of(keys + t * kWide, x);
    CT_FOR(c, C) {
      const float of_key = rate * (G[c] * error - S[c] * along);
      G[c] -= rate * along * x[c];
      x[c] = of_key;
    }
    __syncwarp();  // all of the warp have read the token's errors and S before it
    if (cells.part == 0) errors[t * kWalkRows + row] = rate * along;
    cells.over_rows(x, slots + t * slot + warp * 32 * C);
  }
  /// Writes the gradients of a chunk's tokens from `first` on.
  CT_DEVICE void put_tokens(int first, int n) const {
    __syncthreads();
    this->put_chunk(first, n, slots, last_query,
                    [&](int t, int j, float&, float&) { return errors[t * kWalkRows + j]; });
    if (thread >= n || !beta.gradient) return;
    float sum = 0;
    for (int w = 0; w < plan.warps; ++w) sum += sums[thread * plan.warps + w];
    put(op.beta.write, beta.gradient + (first + thread) * beta.apart, sum);
  }
};

template <int C, bool kListed>
__global__ void __launch_bounds__(256, 2)
    fwm_walk_backward(const __grid_constant__ Op op, const __grid_constant__ RowPlan plan) {
  extern __shared__ Four<float> walk_memory[];
  const FwmBack<C, kListed> at(op, plan, walk_memory[0].v);
  const RowCells<C>& cells = at.cells;
  FwmCells<C> of;
  cells.load(at.whole(op.end.gradient), at.V, at.K, of.G);
  for (int chunk = plan.chunks - 1; chunk >= 0; --chunk) {
    const int first = chunk * plan.length, n = at.T - first < plan.length ? at.T - first : plan.length;
    const int base = chunk / plan.group * plan.group;
    cells.recall(at.state(base / plan.group), of.S);
    for (int from = base * plan.length; from <= first; from += plan.length) {  // to the chunk, and through it
      const bool here = from == first;
      const int count = here ? n : plan.length;
      at.load(from, count);
      at.advance(count, here, of);
    }
    for (int t = n - 1; t >= 0; --t) {  // S: behind token t
      if constexpr (kListed) {
        at.listed_back(first + t + 1, of);
      } else {
        cells.columns_of(at.queries + t * at.kWide, of.x);
        at.read_back(at.d_read[t * kWalkRows + at.row], of,
                     t + 1 < n ? at.slots + (t + 1) * at.slot + at.warp * 32 * C + at.kWide
                               : at.last_query + at.warp * at.kWide);
      }
      at.token_back(t, of);
    }
    if (kListed && chunk == 0) at.listed_back(0, of);
    at.put_tokens(first, n);
  }
  if (op.start.wanted()) cells.store(op.start.write, at.whole(op.start.gradient), at.V, at.K, of.G);
}

bool covers(const Op& op) { return op.v && fwm_plan(op).covers(op); }

void plan(Op& op) {
  const RowPlan walk = fwm_plan(op);
  op.states.value = shaped<float>(op.k.value.R, {op.B(), op.H(), walk.starts, walk.slot});
  op.kept.value = shaped<float>(op.k.value.R, {op.B(), op.T(), op.H(), op.V() + 1});
}

template <bool kBack>
void run(const Exec& exec, const Op& op) {
  const RowPlan walk = fwm_plan(op);
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
