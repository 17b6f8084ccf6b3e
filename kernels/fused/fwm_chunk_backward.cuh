// The backward pass of the fast weight memory chunk by chunk, from the last chunk; the formulas stand in
// fwm_chunk.cuh. While one warp walks the chain of a chunk, the others finish d_k of the chunk behind it and
// do the product with the gradient that does not depend on the chain.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/fused/fwm_chunk_chain.cuh"

namespace crosstalk::device {

/// Gradients of one sequence, in phases.
template <int J, int kWarps>
struct FwmBackward {
  static constexpr int kKeys = FwmWarp<J>::kKeys;
  // Pieces of the state that are read ahead, as registers allow.
  static constexpr int kAhead = J == 4 || kWarps == 3 || kWarps == 11 ? 4 : 2;
  using Numbers = float[2][4];
  const FwmRead<float>& a;
  unsigned char* const raw;
  FwmWarp<J> at{a, a.o.gradient.columns()};
  FwmBackwardShared& shared = *reinterpret_cast<FwmBackwardShared*>(raw);
  const int b = blockIdx.x, r = blockIdx.y, T = at.T, V = at.V, P = at.P, lane = at.lane, g = at.g, q = at.q;
  const int warp = at.warp, warps = at.warps, width = 16 * warps + 4, thread = threadIdx.x;
  float *const keys = reinterpret_cast<float*>(raw + sizeof(FwmBackwardShared)),
               *const errors = keys + 6 * kKeys, *const parts = errors + 2 * 16 * width,
               *const products = parts + warps * kKeys, *const squares = products + warps * 16 * 16;
  const int stride = a.kept.value.columns();
  const std::int64_t size = std::int64_t{V} * P, sequence = std::int64_t{b} * T;
  const float* const checkpoints = a.states.value.at(r) + std::int64_t{b} * a.states.value.dim(2) * size;
  const float* const kept = a.kept.value.at(r) + sequence * stride;
  const float *const query = a.q.value.at(r) + std::int64_t{b} * P, *const d_y = a.o.gradient.at(r) +
                                                                                 std::int64_t{b} * V;
  float* const d_k = a.k.write == Write::none ? nullptr : a.k.gradient.at(r) + sequence * P;
  float* const d_beta = a.beta.write == Write::none ? nullptr : a.beta.gradient.at(r) + sequence;
  float* const d_q = a.q.write == Write::none ? nullptr : a.q.gradient.at(r) + std::int64_t{b} * P;

  /// Rows of one chunk, pairs of two: finish() reads those of the chunk behind.
  __device__ FwmKeys keys_of(int chunk) const { return {keys, keys + (2 + chunk % 2 * 2) * kKeys}; }
  /// Zeros for tokens that the query does not see.
  CT_DEVICE void clear_unseen() const {
    if (d_k && a.k.write == Write::overwrite)  // tokens that the query does not see
      for (int i = at.seen * P + thread; i < T * P; i += static_cast<int>(blockDim.x)) d_k[i] = 0;
    if (d_beta && a.beta.write == Write::overwrite)
      for (int i = at.seen + thread; i < T; i += static_cast<int>(blockDim.x)) d_beta[i] = 0;
  }
  /// Clears the gradients of a query that sees no token.
  CT_DEVICE void clear_query() const {
    if (d_q && a.q.write == Write::overwrite)
      for (int p = thread; p < P; p += static_cast<int>(blockDim.x)) d_q[p] = 0;
  }
  /// Has keys and errors of a chunk copied, in the background.
  CT_DEVICE void fetch(int chunk) const {
    at.fetch(keys_of(chunk), chunk);
    for (int token = warp; token < 16; token += warps) {
      const int t = at.first(chunk) + token;
      const float* from = kept + std::int64_t{t} * stride;
      float* to = errors + (chunk % 2 * 16 + token) * width;
      for (int v = 4 * lane; v < 16 * warps; v += 128) {
        const bool valid = token < at.count(chunk) && v < stride - 4;
        copy4_async(to + v, valid ? from + v : kept, valid);
      }
    }
  }
  /// Has this warp's rows of the state before a chunk brought to the L2 cache.
  CT_DEVICE void prefetch_state(int chunk) const {
    const float* from = checkpoints + chunk * size + 16 * warp * P;
    for (int i = 32 * lane; i < min(16, V - 16 * warp) * P; i += 32 * 32)
      asm volatile("prefetch.global.L2 [%0];" ::"l"(from + i));
  }
  /// The last warp: the chain of divisors, from chunk to chunk, and gradients of beta.
  CT_DEVICE void walk_chain(int last) const {
    const int t = at.first(last) + lane % 16;
    const float* scales = kept + stride - 4;
    float beta = at.beta_at(last, lane % 16),
          scale = lane % 16 < at.count(last) ? scales[std::int64_t{t} * stride] : 1.0f, d = 0;
    int id = at.value(last, lane % 16);
    const auto prepare = [&](int chunk) {
      fwm_prepare(at, shared, chunk, keys_of(chunk), errors + chunk % 2 * 16 * width, width, scales, stride,
                  beta, id, scale);
    };
    __syncthreads();
    prepare(last);
    __syncthreads();
    __syncthreads();
    for (int p = lane; p < P; p += 32) d += parts[p] * query[p];
    d = warp_sum(d);
    for (int chunk = last; chunk >= 0; --chunk) {
      __syncthreads();
      fwm_chain(shared, chunk, d);
      __syncthreads();
      if (chunk > 0) prepare(chunk - 1);
      __syncthreads();
      fwm_theta(shared, chunk, warps, at.count(chunk), products, squares, a.beta.write,
                d_beta ? d_beta + at.first(chunk) : nullptr);
    }
    __syncthreads();
  }
  /// dL/dS behind the last chunk.
  CT_DEVICE void start(float (&x)[J][2][4]) const {
    const float rows[2] = {at.row(0) < V ? d_y[at.row(0)] : 0.0f, at.row(1) < V ? d_y[at.row(1)] : 0.0f};
    CT_FOR(j, J) {
      float four[4];
      take4(query + at.column(j), at.column(j) < P, four);
      CT_FOR(i, 4) {
        x[j][i % 2][i / 2] = rows[0] * four[i];
        x[j][i % 2][2 + i / 2] = rows[1] * four[i];
      }
    }
  }
  /// Sums of this warp's rows of d_q = S^T d_y, with the state behind the last chunk from the one before it.
  CT_DEVICE void query_parts(int last) const {
    for (int token = warp; token < 16; token += warps) {
      const float* error = errors + (last % 2 * 16 + token) * width;
      float dot = 0;
      for (int v = lane; v < V; v += 32) dot += error[v] * d_y[v];
      dot = warp_sum(dot);
      if (lane == 0) shared.dots[token] = dot;
    }
    for (int p = lane; p < P; p += 32) {
      float sum = 0;
      CT_FOR(i, 16) {
        const int v = 16 * warp + i;
        if (v < V && last > 0) sum += checkpoints[last * size + std::int64_t{v} * P + p] * d_y[v];
      }
      products[warp * 256 + p] = sum;
    }
  }
  /// d_q, which the chain reads.
  CT_DEVICE void put_query(int last) const {
    for (int p = thread; p < P; p += 32 * warps) {
      const auto* token = shared.token[last % 2];
      float sum = 0;
      for (int w = 0; w < warps; ++w) sum += products[w * 256 + p];
      sum *= token[0].end;
      CT_FOR(i, 16) {
        const float* row = keys_of(last).rows + at.at(i, p / 16, p % 16 / 4) + (p % 2 * 2 + p % 4 / 2);
        sum += token[i].beta * token[i].end * shared.dots[i] * (row[0] + row[kKeys]);
      }
      if (d_q) put(a.q.write, d_q + p, sum);
      parts[p] = sum;
    }
  }
  /// Errors of tokens g + 8 m: u[m] of rows 2 q, 2 q + 1 and of 2 q + 8, 2 q + 9 of this warp.
  CT_DEVICE void errors_of(const float* error, Numbers& u) const {
    CT_FOR2(m, 2, half, 2) {
      const float2 two =
          *reinterpret_cast<const float2*>(error + (8 * m + g) * width + 16 * warp + 8 * half + 2 * q);
      u[m][2 * half] = two.x, u[m][2 * half + 1] = two.y;
    }
  }
  /// part [16 tokens, columns of j] += w x over the rows of this warp.
  CT_DEVICE static void add_rows(Numbers& part, const FwmFactor (&w)[2], const Numbers& rows) {
    CT_FOR2(half, 2, h, 2) {
      float b0 = rows[h][2 * half], b1 = rows[h][2 * half + 1];
      fwm_transpose(b0, b1);
      fwm_add(part[h], part[h], w[half], b0, b1);
    }
  }
  CT_DEVICE float4* part_at(int half, int j) const {
    return reinterpret_cast<float4*>(parts + warp * kKeys + at.at(g, j, q) + 8 * half * 16 * J);
  }
  /// d_k of a chunk, from the parts of the warps.
  CT_DEVICE void finish(int chunk) const {
    if (!d_k) return;
    const FwmFactor factor[2] = {
        {shared.theta[g * kFwmRow + 2 * q], shared.theta[(g + 8) * kFwmRow + 2 * q],
         shared.theta[g * kFwmRow + 2 * q + 1], shared.theta[(g + 8) * kFwmRow + 2 * q + 1]},
        {shared.theta[g * kFwmRow + 2 * q + 8], shared.theta[(g + 8) * kFwmRow + 2 * q + 8],
         shared.theta[g * kFwmRow + 2 * q + 9], shared.theta[(g + 8) * kFwmRow + 2 * q + 9]}};
    for (int j = warp; j < J; j += warps) {
      float sum[2][4] = {};
      at.add_keys(sum, factor, keys_of(chunk), j);
      CT_FOR(half, 2) {
        const int token = g + 8 * half, t = at.first(chunk) + token;
        if (token >= at.count(chunk) || at.column(j) >= P) continue;
        const float beta = shared.token[chunk % 2][token].beta;
        auto* target = reinterpret_cast<float4*>(d_k + std::int64_t{t} * P + at.column(j));
        float4 old = {};
        if (a.k.write == Write::add) old = *target;
        float4 total = fwm_four(sum, half);
        const float* from = parts + at.at(token, j, q);
        fwm_over_warps(
            warps, [&](int w) { return fwm_float4(from + w * kKeys); },
            [&](const float4& part) {
              total.x += part.x, total.y += part.y, total.z += part.z, total.w += part.w;
            });
        *target = make_float4(old.x + beta * total.x, old.y + beta * total.y, old.z + beta * total.z,
                              old.w + beta * total.w);
      }
    }
  }
  /// Q = N' g_E G_E K^T, and what the chain starts from.
  CT_DEVICE void project(int chunk, const float (&x)[J][2][4], Numbers& Q) const {
    const auto* tokens = shared.token[chunk % 2];
    const int* ids = shared.ids[chunk % 2];
    float y[2][4];
    at.times_keys(x, keys_of(chunk), y);
    CT_FOR2(m, 2, i, 4) y[m][i] *= tokens[8 * m + 2 * q + i % 2].end;
    at.template times_matrix<false>(y, shared.inverse[chunk % 2], Q);
    CT_FOR2(m, 2, i, 4) {
      const int token = 8 * m + 2 * q + i % 2;
      if (ids[token] == at.row(i / 2)) shared.base[token] = Q[m][i];
    }
  }
  /// Squares of errors, and the parts of d_k along the errors.
  CT_DEVICE void put_parts(int chunk, const float (&x)[J][2][4]) const {
    const auto* tokens = shared.token[chunk % 2];
    float u[2][4];
    errors_of(errors + chunk % 2 * 16 * width, u);
    CT_FOR(m, 2) {
      float square = u[m][0] * u[m][0] + u[m][1] * u[m][1] + (u[m][2] * u[m][2] + u[m][3] * u[m][3]);
      square += __shfl_xor_sync(kFullWarp, square, 1);
      square += __shfl_xor_sync(kFullWarp, square, 2);
      if (q == 0) squares[warp * 16 + 8 * m + g] = square;
      const float scale = tokens[8 * m + g].end;
      CT_FOR(i, 4) u[m][i] *= scale;
    }
    const FwmFactor factor[2] = {{u[0][0], u[1][0], u[0][1], u[1][1]}, {u[0][2], u[1][2], u[0][3], u[1][3]}};
    __syncthreads();  // the parts of the chunk behind have been read
    CT_FOR(j, J) {
      float part[2][4] = {};
      add_rows(part, factor, x[j]);
      CT_FOR(half, 2) *part_at(half, j) = fwm_four(part, half);
    }
  }
  /// Q - N' A w once the chain has A; `turned`: Q as u; Q itself times -beta g.
  CT_DEVICE void solve(int chunk, Numbers& Q, Numbers& turned) const {
    const auto* tokens = shared.token[chunk % 2];
    const int* ids = shared.ids[chunk % 2];
    const float* error = errors + chunk % 2 * 16 * width;
    float y[2][4];
    CT_FOR2(m, 2, i, 4) {
      const int token = 8 * m + 2 * q + i % 2, row = at.row(i / 2);
      const float hot = ids[token] == row ? 1.0f : 0.0f;
      y[m][i] = -shared.along[token] * (hot - tokens[token].of_u * error[token * width + row]);
    }
    at.template times_matrix<false>(y, shared.inverse[chunk % 2], Q);
    CT_FOR(m, 2) {
      CT_FOR(half, 2) {
        turned[m][2 * half] = Q[m][2 * half], turned[m][2 * half + 1] = Q[m][2 * half + 1];
        fwm_transpose(turned[m][2 * half], turned[m][2 * half + 1]);
      }
      CT_FOR(i, 4) {
        const auto token = tokens[8 * m + 2 * q + i % 2];
        Q[m][i] *= -token.beta * token.before;
      }
    }
  }
  /// Products of Q and errors over this warp's rows.
  CT_DEVICE void multiply_errors(int chunk, const Numbers& turned) const {
    float product[2][4] = {}, u[2][4];
    errors_of(errors + chunk % 2 * 16 * width, u);
    CT_FOR(half, 2) {
      const FwmFactor factor(turned[0][2 * half], turned[1][2 * half], turned[0][2 * half + 1],
                             turned[1][2 * half + 1]);
      CT_FOR(m, 2) fwm_add(product[m], product[m], factor, u[m][2 * half], u[m][2 * half + 1]);
    }
    CT_FOR2(m, 2, i, 4) products[(warp * 16 + g + 8 * (i / 2)) * 16 + 8 * m + 2 * q + i % 2] = product[m][i];
  }
  /// The parts of d_k along Q, and dL/dS before the chunk. S: pieces of the state that were read ahead.
  CT_DEVICE void step_back(int chunk, float (&x)[J][2][4], float (&S)[kAhead][2][4], const Numbers& Q,
                           Numbers& turned) const {
    const auto* tokens = shared.token[chunk % 2];
    const float* state = checkpoints + chunk * size;
    const float of_state = -shared.along[0], gamma = tokens[0].end;
    CT_FOR(m, 2) {
      const float scale = -tokens[8 * m + g].before;
      CT_FOR(i, 4) turned[m][i] *= scale;
    }
    const FwmFactor factor[2] = {{turned[0][0], turned[1][0], turned[0][1], turned[1][1]},
                                 {turned[0][2], turned[1][2], turned[0][3], turned[1][3]}};
    CT_FOR(j, J) {
      float(&rows)[2][4] = S[j % kAhead];
      float part[2][4];
      CT_FOR(half, 2) {
        const float4 four = *part_at(half, j);
        part[0][2 * half] = four.x, part[1][2 * half] = four.y;
        part[0][2 * half + 1] = four.z, part[1][2 * half + 1] = four.w;
      }
      add_rows(part, factor, rows);
      CT_FOR(half, 2) *part_at(half, j) = fwm_four(part, half);
      CT_FOR2(h, 2, i, 4) x[j][h][i] = fmaf(of_state, rows[h][i], gamma * x[j][h][i]);
      if (j + kAhead < J) at.load(state, j + kAhead, rows);
    }
    at.add_keys(x, Q, keys_of(chunk));
  }
};

template <int J, int kWarps>
__global__ void __launch_bounds__(32 * (kWarps + 1), kWarps <= 3   ? (J == 4 ? 4 : 3)
                                                     : kWarps <= 7 ? 2
                                                                   : 1)
    fwm_backward_chunked(const __grid_constant__ FwmRead<float> a) {
  extern __shared__ __align__(16) unsigned char raw[];
  FwmBackward<J, kWarps> all{a, raw};
  FwmWarp<J>& at = all.at;
  if (at.seen > 0) at.length = fwm_noted_length(all.kept, all.stride);  // as the forward pass chose it
  const int chunks = at.chunks(), last = chunks - 1;
  all.clear_unseen();
  if (chunks == 0) return all.clear_query();
  if (at.warp == at.warps) return all.walk_chain(last);
  all.fetch(last);
  at.split(all.keys_of(last));
  __syncthreads();
  float x[J][2][4];  // dL/dS
  all.start(x);
  all.query_parts(last);
  __syncthreads();  // N' is there, too
  all.put_query(last);
  __syncthreads();
  for (int chunk = last; chunk >= 0; --chunk) {
    float Q[2][4] = {};
    all.project(chunk, x, Q);
    __syncthreads();  // the chain may begin
    if (chunk > 1) all.prefetch_state(chunk - 1);
    if (chunk > 0) all.fetch(chunk - 1);
    if (chunk < last) all.finish(chunk + 1);
    float S[all.kAhead][2][4] = {};
    if (chunk > 0)
      CT_FOR(j, all.kAhead) at.load(all.checkpoints + chunk * all.size, j, S[j]);
    all.put_parts(chunk, x);
    if (chunk > 0) at.split(all.keys_of(chunk - 1));  // over pairs that finish() has read
    __syncthreads();                                  // it has ended
    float turned[2][4];
    all.solve(chunk, Q, turned);
    all.multiply_errors(chunk, turned);
    if (chunk > 0) all.step_back(chunk, x, S, Q, turned);
    __syncthreads();  // the parts are there, and N' of the chunk before
  }
  __syncthreads();
  all.finish(0);
}

}  // namespace crosstalk::device
