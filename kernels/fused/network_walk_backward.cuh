// The way back of network_walk.cuh, a method a phase.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/fused/network_walk.cuh"

namespace crosstalk::device {

/// The largest of position[0..Q) that is at most `from` (-1: none). All lanes of a warp must call it.
CT_DEVICE int previous_position(const std::int32_t* position, int Q, int from) {
  int previous = -1;
  for (int i = CT_LANE; i < Q; i += 32) {
    const int p = position[i];
    if (p <= from && p > previous) previous = p;
  }
  CT_UNROLL(int offset = 16; offset > 0; offset /= 2) {
    const int other = __shfl_xor_sync(kFullWarp, previous, offset);
    previous = other > previous ? other : previous;
  }
  return previous;
}

/// The walk back over one sequence and head. The arrays W to x stand in the kernel: as members they keep all that stands beside them
/// out of registers until loops over them are unrolled, which took up to 1.37 times as long (K = V = 64, an H200).
template <int C, bool kNorm, bool kListed>
struct NetworkBack : NetworkSequence<C> {
  using Base = NetworkSequence<C>;
  using Base::op, Base::plan, Base::cells, Base::item, Base::r, Base::row, Base::warp, Base::lane,
      Base::warps, Base::slot, Base::T, Base::Q, Base::H, Base::K, Base::V, Base::b, Base::h, Base::threads,
      Base::thread, Base::q, Base::k, Base::v, Base::size, Base::momentum, Base::forget, Base::gain,
      Base::bias, Base::kWide, Base::row_of;
  float (&W)[C], (&P)[C];    ///< P: on the way to W only
  float (&G)[C], (&G_P)[C];  ///< dL/dW and dL/dP
  float (&x)[C];
  float* next;  ///< shared memory that nothing has taken
  const bool inside = row < V, writes = inside && cells.part == 0;
  const std::int32_t* const position = kListed ? op.position.value.at(r) + std::int64_t{b} * Q : nullptr;
  const float* const d_o = op.o.gradient.data ? op.o.gradient.at(r) : nullptr;
  const float* const e_kept = op.kept.value.at(r);
  const float* const states = op.states.value.at(r) + std::int64_t{item} * plan.starts * plan.kept;
  float* const start_p = op.work.value.at(r) + item * std::int64_t{slot + kWalkRows};  ///< P before a chunk

  // Shared memory, by token of the chunk.
  float* const slots = take(plan.length * slot);  ///< W before the token; then sums over a warp's rows
  float* const keys = take(plan.length * kWide);
  float* const queries = take(plan.length * kWide);
  float* const last_query = take(warps * kWide);         ///< sums of the query behind the chunk
  float* const inner = take(plan.length * kWalkRows);    ///< e; then the cotangent of f(k) - v
  float* const d_read = take(plan.length * kWalkRows);   ///< do; then dz of the query
  float* const offsets = take(plan.length * kWalkRows);  ///< b before the token
  float* const z_query = take(kNorm ? plan.length * kWalkRows : 0);
  float* const normals = take(kNorm ? plan.length * kWalkRows : 0);  ///< z of the key; then (z - mean) scale
  float* const errors = take(kNorm ? plan.length * kWalkRows : 0);   ///< the target; then f(k) - v
  float* const exchange = take(2 * kWalkRows);
  float* const numbers = take(plan.length * 4);       ///< step, momentum, 1 - forget
  float* const of_norm = take(plan.length * 8);       ///< scale, mean y, mean y normal, ... (TokenNorm)
  float* const sums = take(plan.length * 4 * warps);  ///< by warp: of d_step, d_forget, d_momentum

  float g_w = 0, g_p = 0;  ///< dL/db of this row, and of b's momentum
  float c_w = 0, c_p = 0;  ///< b, and its momentum
  const float gain_here = kNorm && inside ? gain.value[row] : 0.0f;
  float gain_sum = 0, bias_sum = 0;  ///< of this row
  const float share = 1 / static_cast<float>(V);

  __device__ float* take(int count) { return next += count, next - count; }

  /// dL/dW and dL/dP behind the last token.
  CT_DEVICE void start() {
    const auto ends = [&](int part) { return walk_end(op, part, r, item, true); };
    cells.load(ends(network_w2), V, K, G);
    cells.load(ends(network_parts + network_w2), V, K, G_P);
    const float *end_w = ends(network_b2), *end_p = ends(network_parts + network_b2);
    g_w = end_w && inside ? end_w[row] : 0.0f, g_p = end_p && inside ? end_p[row] : 0.0f;
  }
  /// The next chunk is on its way to the cache while a chunk is at work: chunks before `end` that start from one state.
  CT_DEVICE void prefetch(int end) const {
    const auto ask = [](const float* at) { asm volatile("prefetch.global.L2 [%0];" ::"l"(at)); };
    const int begin = (end - 1) / plan.group * plan.group;
    const float* start = states + std::int64_t{begin / plan.group} * plan.kept;
    for (int i = thread; i < plan.kept / 32; i += threads) ask(start + 32 * i);
    for (int i = thread; i < 2 * (end - begin) * plan.length; i += threads) {  // two lines hold a row
      const int t = begin * plan.length + i / 2, at = i % 2 * 32;
      if (at < K) ask(k.row(t) + at), ask((kListed ? k : q).row(t) + at);
      if (at < V) ask(e_kept + row_of(t) + at), ask(kNorm ? v.row(t) + at : e_kept + row_of(t));
      if (!kListed && at < V && d_o) ask(d_o + row_of(t) + at);
    }
  }
  /// W and P that forward kept before chunk `base`.
  CT_DEVICE void recall(int base) {
    const float* start = states + std::int64_t{base / plan.group} * plan.kept;
    cells.recall(start, W);
    c_w = start[slot + row], c_p = 0;
    if constexpr (!kNorm) cells.recall(start + slot + kWalkRows, P), c_p = start[2 * slot + kWalkRows + row];
  }
  /// Tokens from .. from + count - 1 to shared memory.
  CT_DEVICE void load(int from, int count) const {
    __syncthreads();
    for (int t = warp; t < count; t += warps) {
      const float *key = k.row(from + t), *query = kListed ? nullptr : q.row(from + t),
                  *e = e_kept + row_of(from + t);
      const float *value = v.row(from + t), *d = !kListed && d_o ? d_o + row_of(from + t) : nullptr;
      CT_UNROLL(int j = lane; j < kWalkRows; j += 32) {
        const float entry = j < K ? key[j] : 0.0f;
        if (j < kWide)
          keys[t * kWide + j] = entry, queries[t * kWide + j] = !kListed && j < K ? query[j] : 0.0f;
        inner[t * kWalkRows + j] = j < V ? e[j] : 0.0f, d_read[t * kWalkRows + j] = j < V && d ? d[j] : 0.0f;
        if constexpr (kNorm)
          errors[t * kWalkRows + j] = j < V ? value[j] - (op.residual ? entry : 0.0f) : 0.0f;
      }
    }
    if (thread < count) this->number_token(from + thread, numbers + 4 * thread);
    __syncthreads();
  }
  /// P before the chunk, for its first token: P before the others follows from two W.
  CT_DEVICE void keep_p() const {
    cells.keep(start_p, P);
    if (cells.part == 0) start_p[slot + row] = c_p;
  }
  /// `count` tokens on: P_t = momentum P - step e k^T, W_t = (1 - forget) W + P_t. here: they are the chunk's, before each of which W
  /// is kept.
  CT_DEVICE void advance(int count, bool here) {
    for (int t = 0; t < count; ++t) {
      const float step = -numbers[4 * t] * inner[t * kWalkRows + row], speed = numbers[4 * t + 1];
      const float keeps = numbers[4 * t + 2];
      if (here) {
        cells.keep(slots + t * slot, W);
        if (cells.part == 0) offsets[t * kWalkRows + row] = c_w;
        if constexpr (kNorm) {
          const float z = cells.product(W, keys + t * kWide) + c_w;
          if (cells.part == 0) normals[t * kWalkRows + row] = z;
        }
      }
      this->template move<kNorm>(keys + t * kWide, step, speed, keeps, W, P, x, c_w, c_p);
      if constexpr (kNorm) {
        if (here) {
          const float z = cells.product(W, queries + t * kWide) + c_w;
          if (cells.part == 0) z_query[t * kWalkRows + row] = z;
        }
      }
    }
  }
  /// All that depends on z alone, of a chunk's n tokens, a warp a token: normal = (z - mean) scale, y / gain = gain normal + bias -
  /// target, the means that TokenNorm names; and LayerNorm of the read back, from do to dz.
  CT_DEVICE void normalise(int n, const NormWeights& weights, Pair& d_gain, Pair& d_bias) const {
    __syncthreads();
    for (int i = warp; i < n; i += warps) {
      const int t = i * kWalkRows;
      const TokenNorm of(normals + t, z_query + t, errors + t, weights, V);
      const Pair z = Pair::of(normals + t, V), target = Pair::of(errors + t, V),
                 of_read = Pair::of(d_read + t, V), z_read = Pair::of(z_query + t, V);
      Pair normal, error, read;
      float both[2] = {};
      CT_FOR(j, 2) {
        normal.x[j] = (z.x[j] - of.mean) * of.scale,
        read.x[j] = (z_read.x[j] - of.query_mean) * of.query_scale;
        error.x[j] = normal.x[j] * weights.gain.x[j] + weights.bias.x[j] - target.x[j];
        const float y = of_read.x[j] * weights.gain.x[j];
        both[0] += y, both[1] += y * read.x[j];
        d_gain.x[j] += of_read.x[j] * read.x[j], d_bias.x[j] += of_read.x[j];
      }
      warp_sums(both);
      const Pair d_z = Pair::make(V, [&](int j) {
        return of.query_scale *
               (of_read.x[j] * weights.gain.x[j] - both[0] * share - read.x[j] * (both[1] * share));
      });
      __syncwarp();
      normal.put(normals + t), error.put(errors + t), d_z.put(d_read + t);
      if (lane == 0) {
        float* to = of_norm + 8 * i;
        to[0] = of.scale, to[1] = of.mean_y, to[2] = of.along, to[3] = of.first, to[4] = of.second;
      }
    }
    __syncthreads();
  }
  /// e = scale (y - mean y - normal mean(y normal)) of token t back: from dL/de to dL/dz and the cotangent of f(k) - v.
  CT_DEVICE void norm_back(int t, float d_e, const NormWeights& weights, float& d_z, float& d_error) {
    float* all = exchange + t % 2 * kWalkRows;
    if (cells.part == 0) all[row] = d_e;
    __syncthreads();
    const float *of = of_norm + 8 * t, *normals_t = normals + t * kWalkRows,
                *errors_t = errors + t * kWalkRows;
    float over[8] = {};  // sums of d_e, and of it times normal, y, gain^2, gain^2 normal
    const Pair d = Pair::of(all, V), normal_l = Pair::of(normals_t, V), error_l = Pair::of(errors_t, V);
    CT_FOR(j, 2) {
      const float g = weights.gain.x[j], dg = d.x[j] * g;
      over[0] += d.x[j], over[1] += d.x[j] * normal_l.x[j], over[2] += dg * error_l.x[j];
      over[3] += dg * g, over[4] += dg * g * normal_l.x[j];
    }
    warp_sums(over);
    const float scale = of[0], mean = of[1], along = of[2], d_along = -over[1] * scale;
    const float mean_d = over[0] * share * scale, turned = d_along * share;
    // The sum of d_normal, and the sum of its products with normal.
    const float d_sum =
        scale * (over[3] - along * over[0]) - mean_d * weights.squares + turned * of[3] + d_along * mean;
    const float d_across =
        scale * (over[4] - along * over[1]) - mean_d * of[3] + turned * of[4] + d_along * along;
    const float bend = scale * (over[2] - mean * over[0] - along * over[1]) + d_across;
    const float normal = normals_t[row], error = errors_t[row], d_y = scale * d_e - mean_d + turned * normal;
    d_error = d_y * gain_here;
    gain_sum += d_y * error + d_error * normal, bias_sum += d_error;
    const float d_normal = d_error * gain_here - scale * d_e * along + turned * error * gain_here;
    d_z = inside ? scale * (d_normal - (bend * normal + d_sum) * share) : 0.0f;
  }
  /// <P before token t, dL/dP_t>, this thread's share.
  CT_DEVICE float momentum_back(int t, float offset) {
    float sum = 0;
    const float before = t > 0 ? numbers[4 * t - 2] : 0.0f;  // P = W - before * W of a token less
    cells.recall(t > 0 ? slots + (t - 1) * slot : start_p, x);
    CT_FOR(c, C) sum += (t > 0 ? W[c] - before * x[c] : x[c]) * G_P[c];
    if (cells.part == 0 && op.biases)
      sum += (t > 0 ? offset - before * offsets[(t - 1) * kWalkRows + row] : start_p[slot + row]) * g_p;
    return sum;
  }
  /// Token t back, with W before it: dL/dP_t = dL/dW_t + momentum_{t+1} dL/dP_{t+1}, of which G_P is the last term,
  ///   dL/dstep = -<e, dL/dP k>      dL/dforget = -<W, dL/dW_t>      dL/dmomentum = <P, dL/dP>
  ///   dL/de = -step dL/dP k         dL/dk = W^T dz - step dL/dP^T e      dL/dW = (1 - forget) dL/dW_t + dz k^T
  CT_DEVICE void token_back(int t, const NormWeights& weights) {
    const float step = numbers[4 * t], speed = numbers[4 * t + 1], keeps = numbers[4 * t + 2];
    const float e = inner[t * kWalkRows + row], offset = offsets[t * kWalkRows + row];
    cells.recall(slots + t * slot, W);
    float partial[4] = {};
    if (forget.gradient) {
      if (cells.part == 0) partial[1] = offset * g_w;
      CT_FOR(c, C) partial[1] += W[c] * G[c];
    }
    CT_FOR(c, C) G_P[c] = kNorm ? G[c] : G[c] + G_P[c];  // dL/dP_t
    g_p += g_w;
    if (!kNorm && momentum.gradient) partial[2] = momentum_back(t, offset);
    const float across = cells.product(G_P, keys + t * kWide) + (op.biases ? g_p : 0.0f);
    if (cells.part == 0) partial[0] = e * across;
    float d_e = -step * across, d_z = d_e, d_error = d_e;
    if constexpr (kNorm) norm_back(t, d_e, weights, d_z, d_error);
    scatter_sum<4>(partial);
    if (lane % 8 == 0) sums[(4 * t + lane / 8) * warps + warp] = partial[0];
    cells.columns_of(keys + t * kWide, x);
    float to_key[C];
    CT_FOR(c, C) {
      to_key[c] = d_z * W[c] - step * e * G_P[c];
      G[c] = keeps * G[c] + d_z * x[c];
      G_P[c] *= speed;
    }
    if (op.biases) g_w = keeps * g_w + d_z, g_p *= speed;
    __syncwarp();  // all of the warp have read e, and W before this token
    if (cells.part == 0) inner[t * kWalkRows + row] = d_error;
    cells.over_rows(to_key, slots + t * slot + warp * 32 * C);
  }
  /// The read z = W x + b back: dL/dW += dz x^T, dL/db += dz; W^T dz, the warp's share of dL/dx, to `to`.
  CT_DEVICE void read_back(float d_z, float* to) {
    CT_FOR(c, C) G[c] += d_z * x[c], x[c] = d_z * W[c];
    if (op.biases) g_w += d_z;
    cells.over_rows(x, to);
  }
  /// A query that a position brought, at W and b, back.
  CT_DEVICE void listed_back(int i, float offset, const NormWeights& weights) {
    const std::int64_t at = this->row_of_query(i);
    const Pair d_all = Pair::of(d_o ? d_o + at : nullptr, d_o ? V : 0);
    if (!__any_sync(kFullWarp, d_all.x[0] != 0 || d_all.x[1] != 0)) {  // a slot that no query fills, say
      for (int j = thread; q.gradient && j < K; j += threads)
        put(op.q.write, q.gradient + i * q.apart + j, 0.0f);
      return;
    }
    const float d = inside ? d_o[at + row] : 0.0f;
    float d_z = d;
    cells.columns_of(q.row(i), K, x);
    if constexpr (kNorm) {
      const float z = cells.product(W, x) + offset;
      __syncthreads();
      if (cells.part == 0) exchange[row] = z;
      __syncthreads();
      const TokenNorm of(exchange, exchange, exchange, weights, V);
      const Pair z_all = Pair::of(exchange, V);
      float both[2] = {};
      CT_FOR(j, 2) {
        const float y = d_all.x[j] * weights.gain.x[j];
        both[0] += y, both[1] += y * (z_all.x[j] - of.query_mean) * of.query_scale;
      }
      warp_sums(both);
      const float normal = (z - of.query_mean) * of.query_scale;
      d_z = inside ? of.query_scale * (d * gain_here - (both[0] + normal * both[1]) * share) : 0.0f;
      gain_sum += d * normal, bias_sum += d;
    }
    read_back(d_z, last_query + warp * kWide);
    __syncthreads();
    for (int j = thread; q.gradient && j < K; j += threads) {
      float d_query = op.residual && j < V && d_o ? d_o[at + j] : 0.0f;
      for (int w = 0; w < warps; ++w) d_query += last_query[w * kWide + j];
      put(op.q.write, q.gradient + i * q.apart + j, d_query);
    }
    __syncthreads();
  }
  /// Writes the gradients of a chunk's tokens. A thread writes a number's gradient of all fields, in their order: they may be one
  /// variable's.
  CT_DEVICE void put_chunk(int first, int n) const {
    __syncthreads();
    for (int t = warp; t < n; t += warps) {
      const std::int64_t at = first + t;
      const float* of_key = slots + t * slot;
      const float* of_query = t + 1 < n ? of_key + slot + kWide : last_query;
      const int apart = t + 1 < n ? 32 * C : kWide;
      CT_UNROLL(int j = lane; j < kWalkRows; j += 32) {
        const float d_error = inner[t * kWalkRows + j];
        if (j < K) {
          float d_query = !kListed && op.residual && j < V && d_o ? d_o[row_of(first + t) + j] : 0.0f;
          float d_key = op.residual && j < V ? d_error : 0.0f;
          for (int w = 0; w < warps; ++w) d_query += of_query[w * apart + j], d_key += of_key[w * 32 * C + j];
          if (!kListed && q.gradient) put(op.q.write, q.gradient + at * q.apart + j, d_query);
          if (k.gradient) put(op.k.write, k.gradient + at * k.apart + j, d_key);
        }
        if (j < V && v.gradient) put(op.v.write, v.gradient + at * v.apart + j, -d_error);
      }
    }
    if (thread < n) {
      float of[3] = {};
      for (int w = 0; w < warps; ++w)
        for (int j = 0; j < 3; ++j) of[j] += sums[(4 * thread + j) * warps + w];
      const std::int64_t at = first + thread;
      if (size.gradient) put(op.step.write, size.gradient + at * size.apart, -of[0]);
      if (momentum.gradient) put(op.momentum.write, momentum.gradient + at * momentum.apart, of[2]);
      if (forget.gradient) put(op.forget.write, forget.gradient + at * forget.apart, -of[1]);
    }
  }
  /// Writes the gradients of LayerNorm's weights.
  CT_DEVICE void put_weights(const Pair& d_gain, const Pair& d_bias) {
    __syncthreads();
    d_gain.put(slots + 2 * warp * kWalkRows), d_bias.put(slots + (2 * warp + 1) * kWalkRows);
    __syncthreads();
    if (writes) {
      for (int w = 0; w < warps; ++w)
        gain_sum += slots[2 * w * kWalkRows + row], bias_sum += slots[(2 * w + 1) * kWalkRows + row];
      if (gain.gradient) put(op.gain.write, gain.gradient + row, gain_sum);
      if (bias.gradient) put(op.bias.write, bias.gradient + row, bias_sum);
    }
  }
  /// Writes the gradients of W and P before the first token.
  CT_DEVICE void put_start(const WalkParts& parts) const {
    if (parts.gradient[0]) cells.store(parts.mode[0], parts.gradient[0], V, K, G);
    if (parts.gradient[1] && writes) put(parts.mode[1], parts.gradient[1] + row, g_w);
    if (parts.gradient[2]) cells.store(parts.mode[2], parts.gradient[2], V, K, G_P);
    if (parts.gradient[3] && writes) put(parts.mode[3], parts.gradient[3] + row, g_p);
  }
};

template <int C, bool kNorm, bool kListed>
__global__ void __launch_bounds__(256, 2)
    network_walk_backward(const __grid_constant__ NetworkOp op, const __grid_constant__ WalkPlan plan) {
  extern __shared__ Four<float> walk_memory[];
  float W[C], P[C], G[C], G_P[C], x[C];
  const NetworkSequence<C> sequence{op, plan};
  const WalkParts parts(op, sequence.r, sequence.item);
  NetworkBack<C, kNorm, kListed> walk{sequence, W, P, G, G_P, x, walk_memory[0].v};
  const RowCells<C>& cells = walk.cells;
  const int T = walk.T, row = walk.row, slot = walk.slot;
  walk.start();
  const NormWeights weights(kNorm ? walk.gain.value : nullptr, kNorm ? walk.bias.value : nullptr,
                            kNorm ? walk.V : 0);
  Pair d_gain{}, d_bias{};       // this warp's share
  [[maybe_unused]] int due = T;  // tokens that the next query on the way back sees
  for (int chunk = plan.chunks - 1; chunk >= 0; --chunk) {
    const int first = chunk * plan.length, n = T - first < plan.length ? T - first : plan.length;
    const int base = chunk / plan.group * plan.group;
    walk.recall(base);
    for (int from = base * plan.length; from <= first; from += plan.length) {  // to the chunk, and through it
      const bool here = from == first;
      const int count = here ? n : plan.length;
      walk.load(from, count);
      if (here && chunk == base && chunk > 0) walk.prefetch(chunk);
      if (!kNorm && here && walk.momentum.gradient) walk.keep_p();
      walk.advance(count, here);
    }
    if constexpr (kNorm)
      walk.normalise(n, weights, d_gain, d_bias);
    else
      __syncwarp();                 // a lane has written the offsets that four read
    for (int t = n; t >= 0; --t) {  // W: before token t, which the query behind token t - 1 reads
      if (t < n) walk.token_back(t, weights);
      if constexpr (kListed) {
        const int seen = first + t;
        if ((t > 0 || first == 0) && (seen == due || seen == 0 || seen == T)) {
          due = previous_position(walk.position, walk.Q, seen - 1);
          each_seeing(walk.position, walk.Q, T, seen, [&](int i) {
            walk.listed_back(i, t < n ? walk.offsets[t * kWalkRows + row] : walk.c_w, weights);
          });
        }
      } else if (t > 0) {
        const float d_z = walk.d_read[(t - 1) * kWalkRows + row];
        cells.columns_of(walk.queries + (t - 1) * walk.kWide, x);
        walk.read_back(d_z, t < n ? walk.slots + t * slot + walk.warp * 32 * C + walk.kWide
                                  : walk.last_query + walk.warp * walk.kWide);
      }
    }
    walk.put_chunk(first, n);
  }
  if constexpr (kNorm) walk.put_weights(d_gain, d_bias);
  walk.put_start(parts);
}

}  // namespace crosstalk::device
