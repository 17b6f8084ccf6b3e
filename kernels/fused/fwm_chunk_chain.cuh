// Work of single warps in the fast weight memory's backward pass: what belongs to the tokens of a chunk, and the chain of
// radial gradients; the formulas stand in fwm_chunk.cuh.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/fused/fwm_chunk.cuh"

namespace crosstalk::device {

struct FwmBackwardShared {
  alignas(16) float inverse[2][16 * kFwmRow], gram[16 * 16], theta[16 * kFwmRow], sums[16 * 16],
      psi[16 * 20];  // what A of each token takes from h_t[v_t], a row a t
  struct Token {
    float beta, before, end, of_u;  // g_t, g_E / g_t, 2 - beta |k|^2
  } token[2][16];
  float4 step[2][16];  // s^2, r, beta of the value's product
  int ids[2][16];
  float base[16], along[16], dots[16], carried;
};

template <int J>
std::size_t fwm_chunked_backward_bytes(int warps) {
  return sizeof(FwmBackwardShared) +
         sizeof(float) * static_cast<std::size_t>(6 * FwmWarp<J>::kKeys + 2 * 16 * (16 * warps + 4) +
                                                  warps * (FwmWarp<J>::kKeys + 16 * 16 + 16));
}

/// N' of a chunk and what belongs to its tokens; by one warp. errors [16][width]. beta, id, scale: of this
/// lane's token, and then of the chunk's before.
template <int J>
__device__ void fwm_prepare(const FwmWarp<J>& at, FwmBackwardShared& shared, int chunk, const FwmKeys& keys,
                            const float* errors, int width, const float* scales, int stride, float& beta,
                            int& id, float& scale) {
  const int lane = at.lane, i = lane % 16, buffer = chunk % 2;
  const bool more = chunk > 0;  // of the next token to prepare
  const float next_beta = more ? at.beta_at(chunk - 1, i) : 0.0f,
              next_scale =
                  more && i < at.length ? scales[std::int64_t{at.first(chunk - 1) + i} * stride] : 1.0f;
  const int next_id = more ? at.value(chunk - 1, i) : -1;
  __syncwarp();
  const float square = at.gram(keys, beta, shared.gram);
  float through = scale;  // product of scales up to this token
  CT_UNROLL(int offset = 1; offset < 16; offset *= 2) {
    const float other = __shfl_up_sync(kFullWarp, through, offset, 16);
    if (i >= offset) through *= other;
  }
  const float end = __shfl_sync(kFullWarp, through, 15);
  float before = __shfl_up_sync(kFullWarp, through, 1, 16);
  if (i == 0) before = 1;
  const float of_u = 2 - beta * square, inverse_before = fwm_reciprocal(before);
  if (lane < 16) {
    shared.token[buffer][i] = {beta, before, end * inverse_before, of_u};
    shared.step[buffer][i] =
        make_float4(scale * scale, scale < 1 ? 1.0f : 0.0f, id >= 0 ? beta : 0.0f, inverse_before);
    shared.ids[buffer][i] = id;
  }
  const int mine = id;
  beta = next_beta, id = next_id, scale = next_scale;
  float column[16];
  CT_FOR(j, 16) column[j] = j == i ? 1.0f : 0.0f;
  CT_UNROLL(int j = 15; j > 0; --j)
    CT_FOR(l, j) column[l] -= shared.gram[j * 16 + l] * column[j];
  __syncwarp();
  CT_FOR(j, 16)  // N'_ti = N_ti g_i / g_t
    column[j] *= before * __shfl_sync(kFullWarp, inverse_before, j);
  if (lane < 16)
    CT_FOR(j, 16) shared.inverse[buffer][j * kFwmRow + i] = column[j];
  __syncwarp();
  float psi[8];
  CT_FOR(m, 8) {
    const int j = m + lane / 16 * 8;
    const float of = shared.token[buffer][j].of_u, u = errors[j * width + max(mine, 0)],
                hot = shared.ids[buffer][j] == mine ? 1.0f : 0.0f,
                inverse = shared.inverse[buffer][i * kFwmRow + j];
    psi[m] = j == i ? hot - (of - 1) * u : inverse * (hot - of * u);
  }
  CT_FOR(m, 8) shared.psi[i * 20 + m + lane / 16 * 8] = psi[m];
}

/// One warp gives theta and d_beta of a chunk what they take from sums over the warps.
CT_DEVICE void fwm_theta(FwmBackwardShared& shared, int chunk, int warps, int valid, const float* products,
                         const float* squares, Write write, float* d_beta) {
  const int lane = threadIdx.x % 32, t = lane % 16;
  struct Part {
    float4 sum[2] = {};
    float square = 0;
  } all;
  fwm_over_warps(
      warps,
      [&](int w) {
        const float* from = products + w * 256 + 4 * lane;
        return Part{{fwm_float4(from), fwm_float4(from + 128)}, squares[w * 16 + t]};
      },
      [&](const Part& part) {
        CT_FOR(i, 2) {
          all.sum[i].x += part.sum[i].x, all.sum[i].y += part.sum[i].y;
          all.sum[i].z += part.sum[i].z, all.sum[i].w += part.sum[i].w;
        }
        all.square += part.square;
      });
  CT_FOR(i, 2) *reinterpret_cast<float4*>(shared.sums + 4 * lane + 128 * i) = all.sum[i];
  __syncwarp();
  const auto* token = shared.token[chunk % 2];
  const auto* step = shared.step[chunk % 2];
  const float beta = token[t].beta, before = token[t].before, inverse = step[t].w,
              diagonal = all.square * shared.along[t];
  float theta[8];
  CT_FOR(i, 8) {
    const int row = 2 * i + lane / 16, other = row > t ? row * 16 + t : t * 16 + row;
    const float row_before = token[row].before, row_inverse = step[row].w, product = shared.sums[other];
    const float ratio = row > t ? row_before * inverse : before * row_inverse;
    theta[i] = -beta * (row == t ? diagonal : ratio * product);
  }
  CT_FOR(i, 8) shared.theta[(2 * i + lane / 16) * kFwmRow + t] = theta[i];
  if (d_beta && lane < valid) put(write, d_beta + t, shared.sums[17 * t] - diagonal);
}

/// The chain of radial gradients, from d behind the chunk to d before it; by one warp.
CT_DEVICE void fwm_chain(FwmBackwardShared& shared, int chunk, float& d) {
  const int lane = threadIdx.x % 32, t = lane % 16;
  float psi[16];
  CT_UNROLL(int i = 0; i < 16; i += 4) {
    const float4 four = *reinterpret_cast<const float4*>(shared.psi + t * 20 + i);
    psi[i] = four.x, psi[i + 1] = four.y, psi[i + 2] = four.z, psi[i + 3] = four.w;
  }
  float h = shared.ids[chunk % 2][t] >= 0 ? shared.base[t] : 0.0f, A = 0, mine = 0;
  CT_UNROLL(int i = 15; i >= 0; --i) {
    const float4 step = shared.step[chunk % 2][i];
    A = step.x * fmaf(step.y, d, A);
    h = fmaf(-A, psi[i], h);
    d = d - step.y * d;
    d = fmaf(-step.z, __shfl_sync(kFullWarp, h, i), d);
    if (t == i) mine = A;
    if (i == 10) __syncthreads();  // the other warps have read the parts of the chunk behind
  }
  if (lane < 16) shared.along[t] = mine;
}

}  // namespace crosstalk::device
