// NetworkRead without hidden units, token after token, with the state in registers: a block a sequence and
// head, four lanes a row of W, so that a token costs no access to global memory beyond its own rows.
//
// Forward keeps W (and P) at the start of every chunk of tokens, and the inner gradient e of every token.
// Backward takes a chunk at a time, the last first: it adds -step_t e_t k_t^T from the chunk's start on, keeps
// W before each of its tokens in shared memory, and goes back through them with dL/dW and dL/dP in registers.
// What is linear in a column of W (the gradients of q and k) is summed over rows by each warp and over warps
// at the chunk's end. With LayerNorm, rows meet once a token; all that depends on z alone is done for a whole
// chunk at a time, a warp a token. P_t = W_t - (1 - forget_t) W_{t-1} within a chunk.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/fused/row_cells.cuh"
#include "kernels/law/network_read.h"

namespace crosstalk::device {

using NetworkOp = NetworkRead<float>;

constexpr int kWalkRows = 64;     ///< the most of a state: V
constexpr int kWalkColumns = 64;  ///< K
constexpr int kWalkLargest = 16;  ///< tokens of a chunk, and tokens staged at once forward
/// Shared memory of a block going back, on every GPU, since the cut into chunks is in the bits: two blocks of
/// an H100's multiprocessor, one where a block may have 99 KiB.
constexpr int kWalkFloats = 98 * 1024 / 4;

/// Where numbers lie in shared memory on the way back, and how many tokens fit.
struct WalkPlan {
  int C, warps, length, chunks, slot, kept;  ///< slot: numbers of a W; kept: of a chunk's start
  WalkPlan(const NetworkOp& op)
      : C(op.K() <= 16   ? 4
          : op.K() <= 32 ? 8
                         : 16),
        warps((op.V() + 7) / 8),
        slot(warps * 32 * C) {
    const int fixed = warps * 4 * C + 4 * kWalkRows;
    length = (kWalkFloats - fixed) / of_token(static_cast<bool>(op.gain));
    length = length < kWalkLargest ? length : kWalkLargest;
    chunks = (op.T() + length - 1) / length;
    kept = (op.gain ? 1 : 2) * (slot + kWalkRows);
  }
  int of_token(bool norm) const { return slot + 8 * C + (norm ? 6 : 3) * kWalkRows + 8 + 4 * warps; }
};

/// A vector [V] over a warp: numbers lane and lane + 32, 0 beyond V.
struct Pair {
  float x[2];
  __device__ static Pair of(const float* p, int n) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    return {{lane < n ? p[lane] : 0.0f, lane + 32 < n ? p[lane + 32] : 0.0f}};
  }
  template <class F>
  __device__ static Pair make(int V, F&& f) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    return {{lane < V ? f(0) : 0.0f, lane + 32 < V ? f(1) : 0.0f}};
  }
  __device__ void put(float* to) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    to[lane] = x[0], to[lane + 32] = x[1];
  }
  /// Number `row` of it, of the warp that has rows 8 `warp` ..
  __device__ float at(int warp, int row) const {
    return __shfl_sync(kFullWarp, warp < 4 ? x[0] : x[1], row % 32);
  }
};
__device__ inline float total(const Pair& a) { return warp_sum(a.x[0] + a.x[1]); }
__device__ inline float total(const Pair& a, const Pair& b) {
  return warp_sum(a.x[0] * b.x[0] + a.x[1] * b.x[1]);
}

/// LayerNorm of z: normal = (z - mean) scale.
struct Normed {
  Pair normal;
  float mean, scale;
  __device__ Normed(const float* z, int V) {
    const Pair x = Pair::of(z, V);
    mean = total(x) / static_cast<float>(V);
    const Pair d = Pair::make(V, [&](int i) { return x.x[i] - mean; });
    scale = 1 / sqrtf(total(d, d) / static_cast<float>(V) + law_eps());
    normal = {{d.x[0] * scale, d.x[1] * scale}};
  }
  __device__ static float law_eps() { return 1e-6f; }  // law::Network::kEps
};

/// The parts of a state of one sequence and head: W and b, P and c.
struct WalkParts {
  const float* value[4];
  float* gradient[4];
  Write mode[4];
  __device__ WalkParts(const NetworkOp& op, int r, int item) {
    constexpr int kPart[] = {network_w2, network_b2, network_parts + network_w2, network_parts + network_b2};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const In<float>& in = op.start[kPart[i]];
      const std::int64_t first = static_cast<std::int64_t>(item) * op.part_size(kPart[i]);
      value[i] = in ? in.value.at(r) + first : nullptr;
      gradient[i] = in.wanted() ? in.gradient.at(r) + first : nullptr;
      mode[i] = in.write;
    }
  }
};
/// What stands behind the last token, or its gradient; null: nobody asks.
__device__ inline float* walk_end(const NetworkOp& op, int part, int r, int item, bool gradient) {
  const Tensor<float>& end = gradient ? op.end[part].gradient : op.end[part].value;
  return op.end[part] && end.data ? end.at(r) + static_cast<std::int64_t>(item) * op.part_size(part)
                                  : nullptr;
}

template <int C, bool kNorm>
__global__ void __launch_bounds__(256, 3)
    network_walk_forward(const __grid_constant__ NetworkOp op, const __grid_constant__ WalkPlan plan) {
  constexpr int kWide = 4 * C;
  __shared__ alignas(16) float keys[kWalkLargest][kWide], queries[kWalkLargest][kWide];
  __shared__ float targets[kWalkLargest][kWalkRows], numbers[kWalkLargest][3], z[2][2][kWalkRows];
  const RowCells<C> cells;
  const int item = static_cast<int>(blockIdx.x), r = static_cast<int>(blockIdx.y), row = cells.row;
  const int T = op.T(), H = op.H(), K = op.K(), V = op.V(), b = item / H, h = item % H;
  const int threads = static_cast<int>(blockDim.x), thread = static_cast<int>(threadIdx.x);
  const law::Rows<float> q(op.q, r, b, h, T, H, K), k(op.k, r, b, h, T, H, K), v(op.v, r, b, h, T, H, V),
      size(op.step, r, b, h, T, H, 1), momentum(op.momentum, r, b, h, T, H, 1),
      forget(op.forget, r, b, h, T, H, 1), gain(op.gain, r, b, h, 1, H, V), bias(op.bias, r, b, h, 1, H, V);
  const WalkParts parts(op, r, item);
  const bool inside = row < V;
  const auto own = [&](const float* x, int a) { return op.residual && a < K ? x[a] : 0.0f; };
  float *o = op.o.value.at(r), *kept = op.kept ? op.kept.value.at(r) : nullptr;
  float* states =
      op.states ? op.states.value.at(r) + static_cast<std::int64_t>(item) * plan.chunks * plan.kept : nullptr;

  float W[C], P[C], x[C];
  cells.load(parts.value[0], V, K, W);
  cells.load(parts.value[2], V, K, P);
  float c_w = parts.value[1] && inside ? parts.value[1][row] : 0.0f;  // b, and its momentum
  float c_p = parts.value[3] && inside ? parts.value[3][row] : 0.0f;
  const Pair gains = kNorm ? Pair::of(gain.value, V) : Pair{},
             biases = kNorm ? Pair::of(bias.value, V) : Pair{};
  const float gain_here = kNorm && inside ? gain.value[row] : 0.0f,
              bias_here = kNorm && inside ? bias.value[row] : 0.0f;

  for (int first = 0; first <= T;
       first += kWalkLargest) {  // a slot: token t and the query that stands behind t - 1
    const int n = T + 1 - first < kWalkLargest ? T + 1 - first : kWalkLargest;
    __syncthreads();
    for (int i = thread; i < n * kWide; i += threads) {
      const int s = i / kWide, j = i % kWide, t = first + s;
      keys[s][j] = j < K && t < T ? k.row(t)[j] : 0.0f;
      queries[s][j] = j < K && t > 0 ? q.row(t - 1)[j] : 0.0f;
    }
    for (int i = thread; i < n * kWalkRows; i += threads) {
      const int s = i / kWalkRows, a = i % kWalkRows, t = first + s;
      targets[s][a] = a < V && t < T ? v.row(t)[a] - own(k.row(t), a) : 0.0f;
    }
    if (thread < n && first + thread < T) {
      const int t = first + thread;
      numbers[thread][0] = size.row(t)[0], numbers[thread][1] = momentum.number(t, 0);
      numbers[thread][2] = 1 - forget.number(t, 0);
    }
    __syncthreads();
    for (int s = 0; s < n; ++s) {
      const int t = first + s;
      if (states && t < T && t % plan.length == 0) {
        float* to = states + static_cast<std::int64_t>(t / plan.length) * plan.kept;
        cells.keep(to, W);
        if (cells.part == 0) to[plan.slot + row] = c_w;
        if constexpr (!kNorm) {
          to += plan.slot + kWalkRows;
          cells.keep(to, P);
          if (cells.part == 0) to[plan.slot + row] = c_p;
        }
      }
      const float z_query = cells.product(W, queries[s]) + c_w, z_key = cells.product(W, keys[s]) + c_w;
      float read = z_query, e = z_key - targets[s][row];
      if constexpr (kNorm) {
        float(&both)[2][kWalkRows] = z[t % 2];
        if (cells.part == 0) both[0][row] = z_key, both[1][row] = z_query;
        __syncthreads();
        const Normed of_key(both[0], V), of_query(both[1], V);
        read = (z_query - of_query.mean) * of_query.scale * gain_here + bias_here;
        const Pair target = Pair::of(targets[s], V),
                   y = Pair::make(V, [&](int i) {
                     return (of_key.normal.x[i] * gains.x[i] + biases.x[i] - target.x[i]) * gains.x[i];
                   });
        const float mean = total(y) / static_cast<float>(V),
                    along = total(y, of_key.normal) / static_cast<float>(V);
        const float normal = (z_key - of_key.mean) * of_key.scale;
        const float error = normal * gain_here + bias_here - targets[s][row];
        e = inside ? of_key.scale * (error * gain_here - mean - normal * along) : 0.0f;
      }
      if (t > 0 && inside && cells.part == 0)
        o[((static_cast<std::int64_t>(b) * T + t - 1) * H + h) * V + row] = own(queries[s], row) + read;
      if (t == T) break;
      if (kept && inside && cells.part == 0)
        kept[((static_cast<std::int64_t>(b) * T + t) * H + h) * V + row] = e;
      const float step = -numbers[s][0] * e, speed = numbers[s][1], keeps = numbers[s][2];
      cells.columns_of(keys[s], x);
#pragma unroll
      for (int c = 0; c < C; ++c) {
        const float moved = kNorm ? step * x[c] : speed * P[c] + step * x[c];
        W[c] = keeps * W[c] + moved;
        if constexpr (!kNorm) P[c] = moved;
      }
      if (op.biases) c_p = speed * c_p + step, c_w = keeps * c_w + c_p;
    }
  }
  constexpr int kEnds[] = {network_w2, network_b2, network_parts + network_w2, network_parts + network_b2};
  const bool writes = inside && cells.part == 0;
  if (float* to = walk_end(op, kEnds[0], r, item, false)) cells.store(Write::overwrite, to, V, K, W);
  if (float* to = walk_end(op, kEnds[1], r, item, false); to && writes) to[row] = c_w;
  if (float* to = walk_end(op, kEnds[2], r, item, false)) cells.store(Write::overwrite, to, V, K, P);
  if (float* to = walk_end(op, kEnds[3], r, item, false); to && writes) to[row] = c_p;
}

}  // namespace crosstalk::device
