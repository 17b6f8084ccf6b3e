// NetworkRead without hidden units, token after token, with the state in registers: a block a sequence and
// head, four lanes a row of W, so that a token costs no access to global memory beyond its own rows.
//
// Forward keeps W (and P) at some tokens, and the inner gradient e of every token. Backward takes a chunk at a
// time, the last first: it adds -step_t e_t k_t^T from the kept state before it on, keeps W before each of the
// chunk's tokens in shared memory, and goes back through them with dL/dW and dL/dP in registers.
// A sum that is linear in a column of W (the gradients of q and k) is summed over rows by each warp and over warps
// at the chunk's end. With LayerNorm, rows meet once a token; all that depends on z alone is done for a whole
// chunk at a time, a warp a token. P_t = W_t - (1 - forget_t) W_{t-1} within a chunk.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/fused/row_walk.cuh"
#include "kernels/law/network_read.h"

namespace crosstalk::device {

using NetworkOp = NetworkRead<float>;

/// With kept: numbers of a kept state.
struct WalkPlan : RowPlan {
  int kept;
  explicit WalkPlan(const NetworkOp& op)
      : RowPlan(op, (op.gain ? 6 : 3) * kWalkRows + 12 + 4 * warps_of(op.V()), 4 * kWalkRows),
        kept((op.gain ? 1 : 2) * (slot + kWalkRows)) {}
};

/// A vector [V] over a warp: numbers lane and lane + 32, 0 beyond V.
struct Pair {
  float x[2];
  __device__ static Pair of(const float* p, int n) {
    const int lane = CT_LANE;
    return {{lane < n ? p[lane] : 0.0f, lane + 32 < n ? p[lane + 32] : 0.0f}};
  }
  __device__ static Pair make(int V, auto&& f) {
    const int lane = CT_LANE;
    return {{lane < V ? f(0) : 0.0f, lane + 32 < V ? f(1) : 0.0f}};
  }
  __device__ void put(float* to) const {
    const int lane = CT_LANE;
    to[lane] = x[0], to[lane + 32] = x[1];
  }
};

/// Sums over the warp, each of them in every lane; N a power of two.
template <int N>
__device__ void warp_sums(float (&x)[N]) {
  scatter_sum<N>(x);
  const float mine = x[0];
  CT_FOR(i, N) x[i] = __shfl_sync(kFullWarp, mine, i * (32 / N));
}

/// LayerNorm's gain and bias over a warp, and the sum of gain^2.
struct NormWeights {
  Pair gain, bias;
  float squares;
  __device__ NormWeights(const float* gains, const float* biases, int V)
      : gain(Pair::of(gains, V)), bias(Pair::of(biases, V)) {
    squares = warp_sum(gain.x[0] * gain.x[0] + gain.x[1] * gain.x[1]);
  }
};

/// LayerNorm of z = W k + b and of another z = W q + b. With normal = (z - mean) scale, y = gain (gain
/// normal + bias - target): the means of y and of y normal, and the sums of gain^2 normal and gain^2 normal^2.
/// All are sums of one round: z stands there relative to its first number, so that no common offset cancels.
struct TokenNorm {
  float mean, scale, mean_y, along, first, second, query_mean, query_scale;
  __device__ TokenNorm(const float* z, const float* z_query, const float* target, const NormWeights& of,
                       int V) {
    const float share = 1 / static_cast<float>(V), from = z[0], query_from = z_query[0];
    const Pair key = Pair::of(z, V), query = Pair::of(z_query, V), wanted = Pair::of(target, V);
    const int lane = CT_LANE;
    float sums[8] = {};
    CT_FOR(i, 2) {
      const bool inside = lane + 32 * i < V;
      const float d = inside ? key.x[i] - from : 0.0f, e = inside ? query.x[i] - query_from : 0.0f;
      const float g = of.gain.x[i];
      const float rest = (of.bias.x[i] - wanted.x[i]) * g;
      sums[0] += d, sums[1] += d * d, sums[2] += d * g * g, sums[3] += d * d * g * g;
      sums[4] += d * rest, sums[5] += rest, sums[6] += e, sums[7] += e * e;
    }
    warp_sums(sums);
    const float m = sums[0] * share, m_query = sums[6] * share;
    scale = scale_of(sums[1] * share - m * m), query_scale = scale_of(sums[7] * share - m_query * m_query);
    mean = from + m, query_mean = query_from + m_query;
    first = scale * (sums[2] - m * of.squares);
    second = scale * scale * (sums[3] - 2 * m * sums[2] + m * m * of.squares);
    mean_y = (first + sums[5]) * share;
    along = (second + scale * (sums[4] - m * sums[5])) * share;
  }
  __device__ static float scale_of(float variance) {
    return 1 / sqrtf((variance > 0 ? variance : 0.0f) + 1e-6f);
  }
};

/// The parts of a state of one sequence and head: W and b, P and c.
struct WalkParts {
  const float* value[4];
  float* gradient[4];
  Write mode[4];
  __device__ WalkParts(const NetworkOp& op, int r, int item) {
    constexpr int kPart[] = {network_w2, network_b2, network_parts + network_w2, network_parts + network_b2};
    CT_FOR(i, 4) {
      const In<float>& in = op.start[kPart[i]];
      const std::int64_t first = std::int64_t{item} * op.part_size(kPart[i]);
      value[i] = in ? in.value.at(r) + first : nullptr;
      gradient[i] = in.wanted() ? in.gradient.at(r) + first : nullptr;
      mode[i] = in.write;
    }
  }
};
/// The state behind the last token, or its gradient; null: nobody asks.
__device__ inline float* walk_end(const NetworkOp& op, int part, int r, int item, bool gradient) {
  const Tensor<float>& end = gradient ? op.end[part].gradient : op.end[part].value;
  return op.end[part] && end.data ? end.at(r) + std::int64_t{item} * op.part_size(part) : nullptr;
}

/// Tokens that a walk forward stages at once, and the query that stands behind the token before each.
template <int C>
struct WalkStage {
  alignas(16) float keys[kWalkStaged][4 * C], queries[kWalkStaged][4 * C];
  float targets[kWalkStaged][kWalkRows], numbers[kWalkStaged][3], z[2][2][kWalkRows];
};

/// Facts of a block's sequence and head.
template <int C>
struct NetworkSequence {
  static constexpr int kWide = 4 * C;
  const NetworkOp& op;
  const WalkPlan& plan;
  const RowCells<C> cells = {};
  const int item = static_cast<int>(blockIdx.x), r = static_cast<int>(blockIdx.y), row = cells.row;
  const int warp = cells.warp, lane = cells.lane, warps = plan.warps, slot = plan.slot;
  const int T = op.T(), Q = op.Q(), H = op.H(), K = op.K(), V = op.V(), b = item / H, h = item % H;
  const int threads = static_cast<int>(blockDim.x), thread = CT_THREAD;
  const law::Rows<float> q{op.q, r, b, h, Q, H, K}, k{op.k, r, b, h, T, H, K}, v{op.v, r, b, h, T, H, V},
      size{op.step, r, b, h, T, H, 1}, momentum{op.momentum, r, b, h, T, H, 1},
      forget{op.forget, r, b, h, T, H, 1}, gain{op.gain, r, b, h, 1, H, V}, bias{op.bias, r, b, h, 1, H, V};

  CT_DEVICE NetworkSequence(const NetworkOp& of, const WalkPlan& by) : op(of), plan(by) {}
  __device__ std::int64_t row_of(int t) const { return ((std::int64_t{b} * T + t) * H + h) * V; }
  __device__ std::int64_t row_of_query(int i) const { return ((std::int64_t{b} * Q + i) * H + h) * V; }
  /// Step, momentum and what is kept of token t.
  __device__ void number_token(int t, float* to) const {
    to[0] = size.row(t)[0], to[1] = momentum.number(t, 0), to[2] = 1 - forget.number(t, 0);
  }
  /// P' = speed P + step x^T and W' = keeps W + P' of a token's key x, and so b and its momentum; with LayerNorm no momentum.
  template <bool kNorm>
  CT_DEVICE void move(const float* key, float step, float speed, float keeps, float (&W)[C], float (&P)[C],
                      float (&x)[C], float& c_w, float& c_p) const {
    cells.columns_of(key, x);
    CT_FOR(c, C) {
      const float moved = kNorm ? step * x[c] : speed * P[c] + step * x[c];
      W[c] = keeps * W[c] + moved;
      if constexpr (!kNorm) P[c] = moved;
    }
    if (op.biases) c_p = speed * c_p + step, c_w = keeps * c_w + c_p;
  }
};

/// A walk forward over one sequence and head. kListed: queries stand where their positions say, else one behind every token.
template <int C, bool kNorm, bool kListed>
struct NetworkWalk : NetworkSequence<C> {
  using Base = NetworkSequence<C>;
  using Base::op, Base::plan, Base::cells, Base::item, Base::r, Base::row, Base::T, Base::Q, Base::H, Base::K,
      Base::V, Base::b, Base::h, Base::threads, Base::thread, Base::q, Base::k, Base::v, Base::size,
      Base::momentum, Base::forget, Base::gain, Base::bias, Base::kWide;
  const WalkParts parts{op, r, item};
  const bool inside = row < V, writes = inside && cells.part == 0;
  const std::int32_t* const position = kListed ? op.position.value.at(r) + std::int64_t{b} * Q : nullptr;
  float* const states =
      op.states ? op.states.value.at(r) + std::int64_t{item} * plan.starts * plan.kept : nullptr;
  const NormWeights weights{kNorm ? gain.value : nullptr, kNorm ? bias.value : nullptr, kNorm ? V : 0};
  const float gain_here = kNorm && inside ? gain.value[row] : 0.0f;
  float W[C], P[C], x[C];
  float c_w = 0, c_p = 0;  ///< b, and its momentum

  __device__ float own(const float* from, int a) const { return op.residual && a < K ? from[a] : 0.0f; }
  CT_DEVICE void advance(const float* key, float step, float speed, float keeps) {
    this->template move<kNorm>(key, step, speed, keeps, W, P, x, c_w, c_p);
  }

  // --- forward

  CT_DEVICE void start() {
    cells.load(parts.value[0], V, K, W);
    cells.load(parts.value[2], V, K, P);
    c_w = parts.value[1] && inside ? parts.value[1][row] : 0.0f;
    c_p = parts.value[3] && inside ? parts.value[3][row] : 0.0f;
  }
  /// Tokens first .. first + n - 1 to shared memory.
  CT_DEVICE void load(WalkStage<C>& to, int first, int n) const {
    __syncthreads();
    for (int i = thread; i < n * kWide; i += threads) {
      const int s = i / kWide, j = i % kWide, t = first + s;
      to.keys[s][j] = j < K && t < T ? k.row(t)[j] : 0.0f;
      to.queries[s][j] = !kListed && j < K && t > 0 ? q.row(t - 1)[j] : 0.0f;
    }
    for (int i = thread; i < n * kWalkRows; i += threads) {
      const int s = i / kWalkRows, a = i % kWalkRows, t = first + s;
      to.targets[s][a] = a < V && t < T ? v.row(t)[a] - own(k.row(t), a) : 0.0f;
    }
    if (thread < n && first + thread < T) this->number_token(first + thread, to.numbers[thread]);
    __syncthreads();
  }
  CT_DEVICE void keep_state(int number) const {
    float* to = states + std::int64_t{number} * plan.kept;
    cells.keep(to, W);
    if (cells.part == 0) to[plan.slot + row] = c_w;
    if constexpr (!kNorm) {
      to += plan.slot + kWalkRows;
      cells.keep(to, P);
      if (cells.part == 0) to[plan.slot + row] = c_p;
    }
  }
  /// A query that a position brought.
  CT_DEVICE void read(WalkStage<C>& stage, int i, int s, float bias_here, float* o) {
    cells.columns_of(q.row(i), K, x);
    float read = cells.product(W, x) + c_w;
    if constexpr (kNorm) {
      float* const z = stage.z[0][0];
      __syncthreads();
      if (cells.part == 0) z[row] = read;
      __syncthreads();
      const TokenNorm of(z, z, stage.targets[s], weights, V);
      read = (read - of.query_mean) * of.query_scale * gain_here + bias_here;
      __syncthreads();
    }
    if (writes) o[this->row_of_query(i) + row] = own(q.row(i), row) + read;
  }
  /// The inner gradient of token t, at s, and what the query behind the token before it reads.
  CT_DEVICE void look(WalkStage<C>& stage, int t, int s, float bias_here, float& e, float& read) {
    const float z_query = kListed ? 0.0f : cells.product(W, stage.queries[s]) + c_w,
                z_key = cells.product(W, stage.keys[s]) + c_w;
    read = z_query, e = z_key - stage.targets[s][row];
    if constexpr (kNorm) {
      float(&both)[2][kWalkRows] = stage.z[t % 2];
      if (cells.part == 0) both[0][row] = z_key, both[1][row] = z_query;
      __syncthreads();
      const TokenNorm of(both[0], both[1], stage.targets[s], weights, V);
      read = (z_query - of.query_mean) * of.query_scale * gain_here + bias_here;
      const float normal = (z_key - of.mean) * of.scale;
      const float error = normal * gain_here + bias_here - stage.targets[s][row];
      e = inside ? of.scale * (error * gain_here - of.mean_y - normal * of.along) : 0.0f;
    }
  }
  CT_DEVICE void end() const {
    const auto to = [&](int part) { return walk_end(op, part, r, item, false); };
    if (float* all = to(network_w2)) cells.store(Write::overwrite, all, V, K, W);
    if (float* all = to(network_b2); all && writes) all[row] = c_w;
    if (float* all = to(network_parts + network_w2)) cells.store(Write::overwrite, all, V, K, P);
    if (float* all = to(network_parts + network_b2); all && writes) all[row] = c_p;
  }
};

template <int C, bool kNorm, bool kListed>
__global__ void __launch_bounds__(256, 4)
    network_walk_forward(const __grid_constant__ NetworkOp op, const __grid_constant__ WalkPlan plan) {
  __shared__ WalkStage<C> stage;
  NetworkWalk<C, kNorm, kListed> walk{{op, plan}};
  const int T = walk.T, apart = plan.length * plan.group;
  const float bias_here = kNorm && walk.inside ? walk.bias.value[walk.row] : 0.0f;
  float *o = op.o.value.at(walk.r), *kept = op.kept ? op.kept.value.at(walk.r) : nullptr;
  std::int64_t here = walk.row_of(0) + walk.row;  // of token t in [B,T,H,V]
  walk.start();
  [[maybe_unused]] int due = 0;  // tokens that the next query sees; those beyond 0 and T are read there
  for (int first = 0; first <= T; first += kWalkStaged) {  // token t and the query that stands behind t - 1
    const int n = T + 1 - first < kWalkStaged ? T + 1 - first : kWalkStaged;
    walk.load(stage, first, n);
    for (int s = 0; s < n; ++s) {
      const int t = first + s;
      if (walk.states && t < T && t % apart == 0) walk.keep_state(t / apart);
      if (kListed && (t == due || t == 0 || t == T)) {
        due = next_position(walk.position, walk.Q, t + 1);
        each_seeing(walk.position, walk.Q, T, t, [&](int i) { walk.read(stage, i, s, bias_here, o); });
      }
      float e, read;
      walk.look(stage, t, s, bias_here, e, read);
      if (!kListed && t > 0 && walk.writes)
        o[here - walk.H * walk.V] = walk.own(stage.queries[s], walk.row) + read;
      if (t == T) break;
      if (kept && walk.writes) kept[here] = e;
      here += walk.H * walk.V;
      walk.advance(stage.keys[s], -stage.numbers[s][0] * e, stage.numbers[s][1], stage.numbers[s][2]);
    }
  }
  walk.end();
}

}  // namespace crosstalk::device
