// The way back of network_walk.cuh.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/fused/network_walk.cuh"

namespace crosstalk::device {

template <int C, bool kNorm>
__global__ void __launch_bounds__(256, 2)
    network_walk_backward(const __grid_constant__ NetworkOp op, const __grid_constant__ WalkPlan plan) {
  constexpr int kWide = 4 * C;
  extern __shared__ Four<float> walk_memory[];
  const RowCells<C> cells;
  const int item = static_cast<int>(blockIdx.x), r = static_cast<int>(blockIdx.y), row = cells.row;
  const int warp = cells.warp, lane = cells.lane, warps = plan.warps, slot = plan.slot;
  const int T = op.T(), H = op.H(), K = op.K(), V = op.V(), b = item / H, h = item % H;
  const int threads = static_cast<int>(blockDim.x), thread = static_cast<int>(threadIdx.x);
  const law::Rows<float> q(op.q, r, b, h, T, H, K), k(op.k, r, b, h, T, H, K), v(op.v, r, b, h, T, H, V),
      size(op.step, r, b, h, T, H, 1), momentum(op.momentum, r, b, h, T, H, 1),
      forget(op.forget, r, b, h, T, H, 1), gain(op.gain, r, b, h, 1, H, V), bias(op.bias, r, b, h, 1, H, V);
  const WalkParts parts(op, r, item);
  const bool inside = row < V, writes = inside && cells.part == 0;
  const float* d_o = op.o.gradient.data ? op.o.gradient.at(r) : nullptr;
  const float* e_kept = op.kept.value.at(r);
  const float* states = op.states.value.at(r) + static_cast<std::int64_t>(item) * plan.chunks * plan.kept;
  const auto row_of = [&](int t) { return ((static_cast<std::int64_t>(b) * T + t) * H + h) * V; };

  // Shared memory, by token of the chunk.
  float* next = walk_memory[0].v;
  const auto take = [&](int numbers) { return next += numbers, next - numbers; };
  float* slots = take(plan.length * slot);  // W before the token; then sums over a warp's rows
  float* keys = take(plan.length * kWide);
  float* queries = take(plan.length * kWide);
  float* last_query = take(warps * kWide);         // sums of the query behind the chunk
  float* inner = take(plan.length * kWalkRows);    // e; then the cotangent of f(k) - v
  float* d_read = take(plan.length * kWalkRows);   // do; then dz of the query
  float* offsets = take(plan.length * kWalkRows);  // b before the token
  float* z_query = take(kNorm ? plan.length * kWalkRows : 0);
  float* normals = take(kNorm ? plan.length * kWalkRows : 0);  // z of the key; then (z - mean) scale
  float* errors = take(kNorm ? plan.length * kWalkRows : 0);   // the target; then f(k) - v
  float* exchange = take(2 * kWalkRows);
  float* numbers = take(plan.length * 4);       // step, momentum, 1 - forget
  float* of_norm = take(plan.length * 4);       // scale, mean y, mean y normal
  float* sums = take(plan.length * 4 * warps);  // by warp: of d_step, d_forget, d_momentum

  float W[C], P[C], G[C], G_P[C], x[C];  // P: on the way to W only
  const auto ends = [&](int part) { return walk_end(op, part, r, item, true); };
  cells.load(ends(network_w2), V, K, G);
  cells.load(ends(network_parts + network_w2), V, K, G_P);
  const float *end_w = ends(network_b2), *end_p = ends(network_parts + network_b2);
  float g_w = end_w && inside ? end_w[row] : 0.0f, g_p = end_p && inside ? end_p[row] : 0.0f;
  const Pair gains = kNorm ? Pair::of(gain.value, V) : Pair{},
             biases = kNorm ? Pair::of(bias.value, V) : Pair{};
  Pair d_gain{}, d_bias{};  // this warp's share
  const float width = static_cast<float>(V);

  for (int chunk = plan.chunks - 1; chunk >= 0; --chunk) {
    const int first = chunk * plan.length, n = T - first < plan.length ? T - first : plan.length;
    const float* start = states + static_cast<std::int64_t>(chunk) * plan.kept;
    const float* start_p = start + slot + kWalkRows;
    cells.recall(start, W);
    float c_w = start[slot + row], c_p = 0;
    if constexpr (!kNorm) cells.recall(start_p, P), c_p = start_p[slot + row];
    __syncthreads();
    for (int i = thread; i < n * kWide; i += threads) {
      const int t = first + i / kWide, j = i % kWide;
      keys[i] = j < K ? k.row(t)[j] : 0.0f, queries[i] = j < K ? q.row(t)[j] : 0.0f;
    }
    for (int i = thread; i < n * kWalkRows; i += threads) {
      const int t = first + i / kWalkRows, a = i % kWalkRows;
      inner[i] = a < V ? e_kept[row_of(t) + a] : 0.0f, d_read[i] = a < V && d_o ? d_o[row_of(t) + a] : 0.0f;
      if constexpr (kNorm)
        errors[i] = a < V ? v.row(t)[a] - (op.residual && a < K ? k.row(t)[a] : 0.0f) : 0.0f;
    }
    if (thread < n) {
      const int t = first + thread;
      numbers[4 * thread] = size.row(t)[0], numbers[4 * thread + 1] = momentum.number(t, 0);
      numbers[4 * thread + 2] = 1 - forget.number(t, 0);
    }
    __syncthreads();

    for (int t = 0; t < n; ++t) {  // from the chunk's start to W behind it
      const float step = -numbers[4 * t] * inner[t * kWalkRows + row], speed = numbers[4 * t + 1];
      const float keeps = numbers[4 * t + 2];
      cells.keep(slots + t * slot, W);
      if (cells.part == 0) offsets[t * kWalkRows + row] = c_w;
      if constexpr (kNorm) {
        const float z = cells.product(W, keys + t * kWide) + c_w;
        if (cells.part == 0) normals[t * kWalkRows + row] = z;
      }
      cells.columns_of(keys + t * kWide, x);
#pragma unroll
      for (int c = 0; c < C; ++c) {
        const float moved = kNorm ? step * x[c] : speed * P[c] + step * x[c];
        W[c] = keeps * W[c] + moved;
        if constexpr (!kNorm) P[c] = moved;
      }
      if (op.biases) c_p = speed * c_p + step, c_w = keeps * c_w + c_p;
      if constexpr (kNorm) {
        const float z = cells.product(W, queries + t * kWide) + c_w;
        if (cells.part == 0) z_query[t * kWalkRows + row] = z;
      }
    }
    if constexpr (kNorm) {
      __syncthreads();
      for (int i = warp; i < 2 * n; i += warps) {
        const int t = i / 2 * kWalkRows;
        if (i % 2 == 0) {
          const Normed of(normals + t, V);
          const Pair target = Pair::of(errors + t, V),
                     error = Pair::make(
                         V, [&](int j) { return of.normal.x[j] * gains.x[j] + biases.x[j] - target.x[j]; });
          const Pair y = {{error.x[0] * gains.x[0], error.x[1] * gains.x[1]}};
          const float mean = total(y) / width, along = total(y, of.normal) / width;
          __syncwarp();
          of.normal.put(normals + t), error.put(errors + t);
          if (lane == 0) of_norm[2 * i] = of.scale, of_norm[2 * i + 1] = mean, of_norm[2 * i + 2] = along;
        } else {
          const Normed of(z_query + t, V);
          const Pair d = Pair::of(d_read + t, V), y = {{d.x[0] * gains.x[0], d.x[1] * gains.x[1]}};
          const float mean = total(y) / width, along = total(y, of.normal) / width;
          for (int j = 0; j < 2; ++j) d_gain.x[j] += d.x[j] * of.normal.x[j], d_bias.x[j] += d.x[j];
          __syncwarp();
          Pair::make(V, [&](int j) {
            return of.scale * (y.x[j] - mean - of.normal.x[j] * along);
          }).put(d_read + t);
        }
      }
      __syncthreads();
    }

    for (int t = n; t >= 0; --t) {  // W: before token t, which the query behind token t - 1 reads
      float* mine = slots + t * slot + warp * 32 * C;
      if (t < n) {
        const float step = numbers[4 * t], speed = numbers[4 * t + 1], keeps = numbers[4 * t + 2];
        const float e = inner[t * kWalkRows + row], offset = offsets[t * kWalkRows + row];
        cells.recall(slots + t * slot, W);
        float partial[4] = {};
        if (forget.gradient) {
          if (cells.part == 0) partial[1] = offset * g_w;
#pragma unroll
          for (int c = 0; c < C; ++c) partial[1] += W[c] * G[c];
        }
#pragma unroll
        for (int c = 0; c < C; ++c) G_P[c] = kNorm ? G[c] : G[c] + G_P[c];  // dL/dP_t
        g_p += g_w;
        if constexpr (!kNorm) {
          if (momentum.gradient) {
            const float before = t > 0 ? numbers[4 * t - 2] : 0.0f;  // P = W - before * W of a token less
            cells.recall(t > 0 ? slots + (t - 1) * slot : start_p, x);
#pragma unroll
            for (int c = 0; c < C; ++c) partial[2] += (t > 0 ? W[c] - before * x[c] : x[c]) * G_P[c];
            if (cells.part == 0 && op.biases)
              partial[2] +=
                  (t > 0 ? offset - before * offsets[(t - 1) * kWalkRows + row] : start_p[slot + row]) * g_p;
          }
        }
        const float across = cells.product(G_P, keys + t * kWide) + (op.biases ? g_p : 0.0f);
        if (cells.part == 0) partial[0] = e * across;
        float d_e = -step * across, d_z = d_e, d_error = d_e;
        if constexpr (kNorm) {
          float* all = exchange + t % 2 * kWalkRows;
          if (cells.part == 0) all[row] = d_e;
          __syncthreads();
          const Pair d = Pair::of(all, V), normal = Pair::of(normals + t * kWalkRows, V),
                     error = Pair::of(errors + t * kWalkRows, V);
          const Pair y = {{error.x[0] * gains.x[0], error.x[1] * gains.x[1]}};
          const float scale = of_norm[4 * t], mean = of_norm[4 * t + 1], along = of_norm[4 * t + 2];
          const float mean_d = total(d) / width * scale, d_along = -total(d, normal) * scale;
          float d_scale =
              total(d, {{y.x[0] - mean - normal.x[0] * along, y.x[1] - mean - normal.x[1] * along}});
          Pair d_y, d_err, d_normal;
#pragma unroll
          for (int j = 0; j < 2; ++j) {
            d_y.x[j] = scale * d.x[j] - mean_d + d_along * normal.x[j] / width;
            d_err.x[j] = d_y.x[j] * gains.x[j];
            d_normal.x[j] = d_err.x[j] * gains.x[j] - scale * d.x[j] * along + d_along * y.x[j] / width;
            if (warp == 0) {
              d_gain.x[j] += d_y.x[j] * error.x[j] + d_err.x[j] * normal.x[j];
              d_bias.x[j] += d_err.x[j];
            }
          }
          const float mean_normal = total(d_normal) / width * scale;  // the normals' own sum is 0
          d_scale += total(d_normal, normal) / scale;
          const Pair d_all = {
              {d_normal.x[0] * scale - d_scale * scale * scale * normal.x[0] / width - mean_normal,
               d_normal.x[1] * scale - d_scale * scale * scale * normal.x[1] / width - mean_normal}};
          d_z = d_all.at(warp, row), d_error = d_err.at(warp, row);
          if (!inside) d_z = d_error = 0;
        }
        scatter_sum<4>(partial);
        if (lane % 8 == 0) sums[(4 * t + lane / 8) * warps + warp] = partial[0];
        cells.columns_of(keys + t * kWide, x);
        float to_key[C];
#pragma unroll
        for (int c = 0; c < C; ++c) {
          to_key[c] = d_z * W[c] - step * e * G_P[c];
          G[c] = keeps * G[c] + d_z * x[c];
          G_P[c] *= speed;
        }
        if (op.biases) g_w = keeps * g_w + d_z, g_p *= speed;
        __syncwarp();  // all of the warp have read e, and W before this token
        if (cells.part == 0) inner[t * kWalkRows + row] = d_error;
        cells.over_rows(to_key, mine);
      }
      if (t > 0) {
        const float d_z = d_read[(t - 1) * kWalkRows + row];
        cells.columns_of(queries + (t - 1) * kWide, x);
#pragma unroll
        for (int c = 0; c < C; ++c) G[c] += d_z * x[c], x[c] = d_z * W[c];
        if (op.biases) g_w += d_z;
        cells.over_rows(x, t < n ? mine + kWide : last_query + warp * kWide);
      }
    }
    __syncthreads();

    // A thread writes a number's gradient of all fields, in their order: they may be one variable's.
    for (int i = thread; i < n * kWalkRows; i += threads) {
      const int t = i / kWalkRows, j = i % kWalkRows;
      if (j < K) {
        const float* of_query = t + 1 < n ? slots + (t + 1) * slot + kWide : last_query;
        const int apart = t + 1 < n ? 32 * C : kWide;
        float d_query = op.residual && j < V && d_o ? d_o[row_of(first + t) + j] : 0.0f;
        float d_key = op.residual && j < V ? inner[i] : 0.0f;
        for (int w = 0; w < warps; ++w)
          d_query += of_query[w * apart + j], d_key += slots[t * slot + w * 32 * C + j];
        if (q.gradient) put(op.q.write, q.gradient + (first + t) * q.apart + j, d_query);
        if (k.gradient) put(op.k.write, k.gradient + (first + t) * k.apart + j, d_key);
      }
      if (j < V && v.gradient) put(op.v.write, v.gradient + (first + t) * v.apart + j, -inner[i]);
    }
    if (thread < n) {
      float of[3] = {};
      for (int w = 0; w < warps; ++w) {
        for (int j = 0; j < 3; ++j) of[j] += sums[(4 * thread + j) * warps + w];
      }
      const std::int64_t at = first + thread;
      if (size.gradient) put(op.step.write, size.gradient + at * size.apart, -of[0]);
      if (momentum.gradient) put(op.momentum.write, momentum.gradient + at * momentum.apart, of[2]);
      if (forget.gradient) put(op.forget.write, forget.gradient + at * forget.apart, -of[1]);
    }
  }

  if constexpr (kNorm) {
    __syncthreads();
    d_gain.put(slots + 2 * warp * kWalkRows), d_bias.put(slots + (2 * warp + 1) * kWalkRows);
    __syncthreads();
    if (thread < kWalkRows / 2) {
      for (int a = thread; a < V; a += kWalkRows / 2) {
        float of_gain = 0, of_bias = 0;
        for (int w = 0; w < warps; ++w)
          of_gain += slots[2 * w * kWalkRows + a], of_bias += slots[(2 * w + 1) * kWalkRows + a];
        if (gain.gradient) put(op.gain.write, gain.gradient + a, of_gain);
        if (bias.gradient) put(op.bias.write, bias.gradient + a, of_bias);
      }
    }
  }
  if (parts.gradient[0]) cells.store(parts.mode[0], parts.gradient[0], V, K, G);
  if (parts.gradient[1] && writes) put(parts.mode[1], parts.gradient[1] + row, g_w);
  if (parts.gradient[2]) cells.store(parts.mode[2], parts.gradient[2], V, K, G_P);
  if (parts.gradient[3] && writes) put(parts.mode[3], parts.gradient[3] + row, g_p);
}

}  // namespace crosstalk::device
