// StateRead of small states token after token, S in registers: half a warp a sequence and head, a lane a row of S. Products with a
// row end within a lane, and a token costs what its numbers cost, where a chunk of few tokens costs what a whole one does.
//
//   precision   float, products in full precision
//   sizes       K, V <= 16
//   writes      one a token; no erase, or the delta rule after the decay; decays of a token or of its key channels
//   states      none given, none wanted at the end
//   variables   q, k, v, gains and decays are different ones
//
// Forward keeps S at every fourth token. Backward takes these segments from the last to the first, walks each again with its four
// states in registers, and goes back through them with G = dL/dS. With S' the decayed state and u = v - S' k (u = v without an erase):
//
//   dq = S_t^T do,  G += do q^T                               of the queries behind the token
//   dv = w G k,  dw = (G k).u
//   dk = w G^T u - w S'^T G k,  G' = G - w (G k) k^T          the second terms with the erase alone
//   dg = sums of columns of G' S' (number by number),  G <- G' Diag(e^g)
//
// Lane c of a half writes number c of a key, a query and a decay: sums over rows are scattered to these lanes.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/device/cuda_launch.cuh"
#include "kernels/fused/apart.h"
#include "kernels/recurrence/state_read.h"

namespace crosstalk {
namespace {
using namespace device;
using Op = StateRead<float>;

constexpr int kSide = 16;   ///< lanes of a half, the most of K and of V
constexpr int kTokens = 4;  ///< of a segment
constexpr int kThreads = 128, kHalves = kThreads / kSide;
constexpr int kState = kSide * kSide;  ///< numbers of a kept state, a lane's side by side in fours

/// Rows of a segment that all lanes of a half read; the last 16 numbers keep two halves of a warp in different banks.
struct Stage {
  alignas(16) float keys[kTokens][kSide], factors[kTokens][kSide], queries[kTokens][kSide], apart[kSide];
};

struct SmallWalk {
  const Op& op;
  Stage& stage;
  const int lane = CT_THREAD % kSide, r = static_cast<int>(blockIdx.y);
  const int items = op.B() * op.H(), place = static_cast<int>(blockIdx.x) * kHalves + CT_THREAD / kSide;
  const bool inside =
      place < items;  ///< else the half walks the last item with the others and writes nothing
  const int item = inside ? place : items - 1;
  const int T = op.T(), Q = op.Q(), H = op.H(), K = op.K(), V = op.V(), b = item / H, h = item % H;
  const std::int32_t* const position = op.position ? op.position.value.at(r) + std::int64_t{b} * Q : nullptr;
  const bool erases = op.erase == Erase::delta, channels = op.log_decay && op.log_decay.value.dim(3) > 1;

  /// Rows of token t and of query i; numbers of a field follow from them and from what all threads know, so that no lane holds pointers.
  CT_DEVICE int row_of_token(int t) const { return (b * T + t) * H + h; }
  CT_DEVICE int row_of_query(int i) const { return (b * Q + i) * H + h; }
  /// This lane's number of a row of `width` numbers, 0 beyond its end.
  CT_DEVICE float number(const In<float>& in, int row, int width) const {
    return lane < width ? in.value.at(r)[std::int64_t{row} * width + lane] : 0;
  }
  CT_DEVICE float gain(int t) const { return op.write_gain ? op.write_gain.value.at(r)[row_of_token(t)] : 1; }
  CT_DEVICE float factor(int t) const {
    if (!op.log_decay) return 1;
    return exp_(channels ? number(op.log_decay, row_of_token(t), K)
                         : op.log_decay.value.at(r)[row_of_token(t)]);
  }
  /// Gradient of this lane's number of a row.
  CT_DEVICE void write(const In<float>& in, int row, int width, float d) const {
    if (in.wanted() && inside && lane < width)
      put(in.write, in.gradient.at(r) + std::int64_t{row} * width + lane, d);
  }
  CT_DEVICE float* kept(int segment) const {
    return op.states.value.at(r) + (std::int64_t{item} * op.states.value.dim(2) + segment) * kState;
  }
  /// A sum over the half, the same in every lane.
  CT_DEVICE static float over_half(float x) {
    CT_UNROLL(int offset = kSide / 2; offset > 0; offset /= 2) x += __shfl_xor_sync(kFullWarp, x, offset);
    return x;
  }
  CT_DEVICE static void vector_of(const float (&from)[kSide], float (&x)[kSide]) {
    CT_UNROLL(int c = 0; c < kSide; c += 4) {
      const float4 four = *reinterpret_cast<const float4*>(from + c);
      x[c] = four.x, x[c + 1] = four.y, x[c + 2] = four.z, x[c + 3] = four.w;
    }
  }
  CT_DEVICE static float dot(const float (&x)[kSide], const float (&y)[kSide]) {
    float even = 0, odd = 0;
    CT_UNROLL(int c = 0; c < kSide; c += 2) even += x[c] * y[c], odd += x[c + 1] * y[c + 1];
    return even + odd;
  }

  /// Stages the rows of the tokens from `first` on; their gains, and this lane's numbers of their values.
  CT_DEVICE void load(int first, float (&values)[kTokens], float (&gains)[kTokens]) const {
    CT_FOR(t, kTokens) {
      const bool there = first + t < T;
      values[t] = there ? number(op.v, row_of_token(first + t), V) : 0,
      gains[t] = there ? gain(first + t) : 0;
    }
    float key[kTokens], decay[kTokens], query[kTokens];
    CT_FOR(t, kTokens) {
      const bool there = first + t < T;
      key[t] = there ? number(op.k, row_of_token(first + t), K) : 0;
      decay[t] = there ? factor(first + t) : 1;
      query[t] = there && !position ? number(op.q, row_of_query(first + t), K) : 0;
    }
    __syncwarp();
    CT_FOR(t, kTokens) {
      stage.keys[t][lane] = key[t], stage.factors[t][lane] = decay[t];
      if (!position) stage.queries[t][lane] = query[t];
    }
    __syncwarp();
  }
  /// S_t of S_{t-1}, token t of the segment with value v and gain w.
  CT_DEVICE void step(int t, float value, float gain, float (&S)[kSide]) const {
    float key[kSide], decay[kSide];
    vector_of(stage.keys[t], key), vector_of(stage.factors[t], decay);
    CT_FOR(c, kSide) S[c] *= decay[c];
    const float written = gain * (erases ? value - dot(S, key) : value);
    CT_FOR(c, kSide) S[c] += written * key[c];
  }
  /// f(i, row, mine) for the listed queries that see n tokens; the query is staged in `row`. Both halves of a warp come as often
  /// as the half with more of them: what the other then has is not `mine`.
  CT_DEVICE void listed(int n, auto&& f) const {
    for (int first = 0; first < Q; first += kSide) {
      const int i = first + lane, seen = i < Q ? min(max(position[i], 0), T) : -1;
      const unsigned both = __ballot_sync(kFullWarp, seen == n);
      unsigned left = both >> (threadIdx.x & kSide) & 0xffffu,
               other = both >> (~threadIdx.x & kSide) & 0xffffu;
      while (left | other) {
        const bool mine = left != 0;
        const int at = first + (mine ? __ffs(static_cast<int>(left)) - 1 : 0);
        left &= left - 1, other &= other - 1;
        __syncwarp();
        stage.queries[0][lane] = mine ? number(op.q, row_of_query(at), K) : 0;
        __syncwarp();
        f(at, stage.queries[0], mine);
      }
    }
  }
  CT_DEVICE void read(const float (&S)[kSide], const float (&row)[kSide], int i, bool mine) const {
    float query[kSide];
    vector_of(row, query);
    const float o = dot(S, query);
    if (mine && inside && lane < V) op.o.value.at(r)[std::int64_t{row_of_query(i)} * V + lane] = o;
  }
  /// Takes a read of S back: writes the query's gradient and adds to G.
  CT_DEVICE void read_back(const float (&S)[kSide], const float (&row)[kSide], int i, bool mine,
                           float (&G)[kSide]) const {
    float query[kSide], d_query[kSide];
    vector_of(row, query);
    const float d_o = mine && lane < V && op.o.gradient.data
                          ? op.o.gradient.at(r)[std::int64_t{row_of_query(i)} * V + lane]
                          : 0;
    CT_FOR(c, kSide) d_query[c] = S[c] * d_o, G[c] += d_o * query[c];
    scatter_sum<kSide, kSide / 2>(d_query);
    if (mine) write(op.q, row_of_query(i), K, d_query[0]);
  }
  /// Takes token t of the segment, number `at`, back from S, the state before it; behind(S_t) takes its reads back first.
  CT_DEVICE void step_back(int t, int at, float value, float gain, const float (&S)[kSide], float (&G)[kSide],
                           auto&& behind) const {
    float key[kSide], decayed[kSide], sums[kSide];
    vector_of(stage.keys[t], key), vector_of(stage.factors[t], decayed);
    CT_FOR(c, kSide) decayed[c] *= S[c];
    const float u = erases ? value - dot(decayed, key) : value, written = gain * u;
    CT_FOR(c, kSide) sums[c] = decayed[c] + written * key[c];
    behind(sums);
    const float G_k = dot(G, key), d_found = erases ? -gain * G_k : 0;
    write(op.v, row_of_token(at), V, gain * G_k);
    if (op.write_gain.wanted()) {
      const float d_gain = over_half(G_k * u);
      write(op.write_gain, row_of_token(at), 1, d_gain);
    }
    CT_FOR(c, kSide) {
      sums[c] = written * G[c] + d_found * decayed[c];
      G[c] += d_found * key[c];
      decayed[c] *= G[c];
    }
    scatter_sum<kSide, kSide / 2>(sums);
    write(op.k, row_of_token(at), K, sums[0]);
    if (op.log_decay.wanted() && !channels) {
      float sum = 0;
      CT_FOR(c, kSide) sum += decayed[c];
      sum = over_half(sum);
      write(op.log_decay, row_of_token(at), 1, sum);
    } else if (op.log_decay.wanted()) {
      scatter_sum<kSide, kSide / 2>(decayed);
      write(op.log_decay, row_of_token(at), K, decayed[0]);
    }
    vector_of(stage.factors[t], key);
    CT_FOR(c, kSide) G[c] *= key[c];
  }
};

__global__ void __launch_bounds__(kThreads) small_forward(const __grid_constant__ Op op) {
  __shared__ Stage stages[kHalves];
  const SmallWalk walk{op, stages[threadIdx.x / kSide]};
  float S[kSide] = {};
  const auto read_listed = [&](int n) {
    walk.listed(n, [&](int i, const float(&row)[kSide], bool mine) { walk.read(S, row, i, mine); });
  };
  if (walk.position) read_listed(0);
  for (int first = 0; first < walk.T; first += kTokens) {
    if (op.states && walk.inside) {
      float4* const to = reinterpret_cast<float4*>(walk.kept(first / kTokens));
      CT_UNROLL(int c = 0; c < kSide; c += 4)
        to[c / 4 * kSide + walk.lane] = make_float4(S[c], S[c + 1], S[c + 2], S[c + 3]);
    }
    float values[kTokens], gains[kTokens];
    walk.load(first, values, gains);
    CT_FOR(t, kTokens) {
      if (first + t >= walk.T) break;
      if (op.before && !walk.position) walk.read(S, walk.stage.queries[t], first + t, true);
      walk.step(t, values[t], gains[t], S);
      if (walk.position)
        read_listed(first + t + 1);
      else if (!op.before)
        walk.read(S, walk.stage.queries[t], first + t, true);
    }
  }
}

__global__ void __launch_bounds__(kThreads, 3) small_backward(const __grid_constant__ Op op) {
  __shared__ Stage stages[kHalves];
  const SmallWalk walk{op, stages[threadIdx.x / kSide]};
  float G[kSide] = {};
  for (int segment = (walk.T - 1) / kTokens; segment >= 0; --segment) {
    const int first = segment * kTokens;
    float S[kTokens][kSide], values[kTokens], gains[kTokens];
    const float4* const from = reinterpret_cast<const float4*>(walk.kept(segment));
    CT_UNROLL(int c = 0; c < kSide; c += 4) {
      const float4 four = from[c / 4 * kSide + walk.lane];
      S[0][c] = four.x, S[0][c + 1] = four.y, S[0][c + 2] = four.z, S[0][c + 3] = four.w;
    }
    walk.load(first, values, gains);
    CT_UNROLL(int t = 0; t + 1 < kTokens; ++t) {
      CT_FOR(c, kSide) S[t + 1][c] = S[t][c];
      walk.step(t, values[t], gains[t], S[t + 1]);
    }
    CT_UNROLL(int t = kTokens - 1; t >= 0; --t) {
      if (first + t >= walk.T) continue;
      walk.step_back(t, first + t, values[t], gains[t], S[t], G, [&](const float(&after)[kSide]) {
        if (walk.position)
          walk.listed(first + t + 1, [&](int i, const float(&row)[kSide], bool mine) {
            walk.read_back(after, row, i, mine, G);
          });
        else if (!op.before)
          walk.read_back(after, walk.stage.queries[t], first + t, true, G);
      });
      if (op.before && !walk.position) walk.read_back(S[t], walk.stage.queries[t], first + t, true, G);
    }
  }
  if (!walk.position) return;
  const float nothing[kSide] = {};
  walk.listed(0,
              [&](int i, const float(&row)[kSide], bool mine) { walk.read_back(nothing, row, i, mine, G); });
}

bool covers(const Op& op) {
  return op.form == StateForm::chunkwise && op.products == Precision::full && op.K() <= kSide &&
         op.V() <= kSide && op.writes == 1 && (op.erase == Erase::none || op.erase == Erase::delta) &&
         (op.decayed || !op.log_decay) && !op.start && !op.end && op.k.value.R <= 65535 &&
         apart(op.q, op.k, op.v, op.write_gain, op.log_decay);
}
void plan(Op& op) {
  op.states.value = shaped<float>(op.k.value.R, {op.B(), op.H(), (op.T() + kTokens - 1) / kTokens, kState});
}
template <auto kKernel>
void run(const Exec& exec, const Op& op) {
  launch(exec, Op::kName, kKernel, per_replica((op.B() * op.H() + kHalves - 1) / kHalves, op.k.value.R),
         kThreads, 0, op);
}

}  // namespace

namespace forms {
void state_registers() { add_form<Op>({"registers", covers, plan, run<small_forward>, run<small_backward>}); }
}  // namespace forms

}  // namespace crosstalk
