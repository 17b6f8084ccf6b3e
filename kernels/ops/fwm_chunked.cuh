// The fast weight memory chunk by chunk: 16 tokens in one step of the state, for one query a sequence.
//
// S = X / c, where c collects the divisors. Inside a chunk, from the state S_0 before it (c_0 = 1), with the
// Gram matrix G = K K^T, kappa_t = G_tt, e_t the one-hot value and u_t = e_t - S_{t-1} k_t = p_t / c_{t-1}:
//   p = C e - Z,   C_ti = M_ti c_{i-1},   Z = M S_0 K^T,   M = (I + tril(G, -1) beta)^-1
//   |X_t'|^2 = |X_{t-1}|^2 + (beta^2 kappa - 2 beta) N + 2 (beta - beta^2 kappa) c F + beta^2 kappa c^2,
//   c_t = max(c_{t-1}, |X_t'|),   N = |X_{t-1} k_t|^2,   F = (X_{t-1} k_t)[v_t]
// where N and F follow from |Z_t|^2 and entries of Z at the chunk's 16 values, so that the chain of divisors
// is 16 steps of one warp on 16 x 16 numbers, and all else is matrix products.
//
// Backwards, with g_t = c_0 / c_{t-1}, s_t = c_{t-1} / c_t, r_t = [s_t < 1], end E:  d_t = <dL/dS_t, S_t>,
//   A_t = s_t^2 (A_{t+1} + r_t d_t),   d_{t-1} = (1 - r_t) d_t - beta_t h_t[v_t],   h_t = q_t - A_t u_t,
//   q = N' (g_E / g G_E K^T - A w),   w_j = e_j - (2 - beta_j kappa_j) u_j,
//   N'_tj = (I + triu(G, 1) beta)^-1_tj g_j / g_t
// (no sum over the state: u + S k is one-hot, and a rescaled state has no radial gradient);
//   d_beta_t = q_t.u_t - A_t |u_t|^2,   G_0 = g_E G_E - A_1 S_0 - sum_t beta_t g_t q_t k_t^T,
//   d_k_t = beta_t (g_E / g_t G_E^T u_t - g_t S_0^T q_t - sum_i theta_ti k_i),
//   theta_ti = beta_i (g_t / g_i q_t.u_i  (i < t),  A_t |u_t|^2  (i = t),  g_i / g_t q_i.u_t  (i > t)).
// All ratios of g there are at most 1.
//
// M, c and Z stay within the range of a float while c grows by less than 2^113 in a chunk: keys of up to
// about |k|^2 beta = 130 at every token.
//
// A warp owns 16 rows of S (or its gradient), as accumulators of the tensor cores; one more warp of the block
// walks the chain and prepares M or N' of the next chunks. Products are 3xTF32 (recurrence_chunked.cuh).
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/base/cuda_launch.cuh"
#include "kernels/batch.h"
#include "kernels/ops/fwm.h"
#include "kernels/ops/recurrence_chunked.cuh"

namespace crosstalk::device {

static_assert(kFwmSegment == 16, "the rows of a tensor core's product");
constexpr int kFwmRow = 24;  // stride of 16 x 16 matrices that are read as factors: no bank conflicts
// Inside a chunk c starts here: 2^113 of growth fit into single precision with the squares.
constexpr float kFwmStart = 0x1p-50f;

/// x rounded to TF32: two instructions, where cvt.rna takes five for numbers that do not occur here.
__device__ __forceinline__ unsigned fwm_rounded(float x) {
  return (__float_as_uint(x) + 0x1000u) & 0xffffe000u;
}

/// Left factor of a product: 16 rows, 8 terms; in TF32 halves.
struct FwmFactor {
  unsigned high[4], low[4];
  __device__ FwmFactor(float x0, float x1, float x2, float x3) {
    const float x[4] = {x0, x1, x2, x3};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      high[i] = fwm_rounded(x[i]);
      low[i] = __float_as_uint(x[i] - __uint_as_float(high[i]));
    }
  }
  /// Of the accumulators of another product: its columns 2q, 2q + 1 are then terms q, q + 4.
  __device__ explicit FwmFactor(const float (&x)[4]) : FwmFactor(x[0], x[2], x[1], x[3]) {}
};

/// small, large += a b, the rounding halves into `small`; `exact`: a has none.
template <bool exact = false>
__device__ __forceinline__ void fwm_add(float (&small)[4], float (&large)[4], const FwmFactor& a, float b0,
                                        float b1) {
  const unsigned h0 = fwm_rounded(b0), h1 = fwm_rounded(b1);
  if (!exact) Product16::multiply(small, a.low, h0, h1);
  Product16::multiply(small, a.high, __float_as_uint(b0 - __uint_as_float(h0)),
                      __float_as_uint(b1 - __uint_as_float(h1)));
  Product16::multiply(large, a.high, h0, h1);
}

/// Four neighbours of accumulators of neighbouring columns (FwmWarp), row l/4 + 8 half.
__device__ __forceinline__ float4 fwm_four(const float (&x)[2][4], int half) {
  return make_float4(x[0][2 * half], x[1][2 * half], x[0][2 * half + 1], x[1][2 * half + 1]);
}

/// Transposes 8 x 8 numbers, entries (l / 4, 2 (l % 4)) and the next one in lane l.
__device__ __forceinline__ void fwm_transpose(float& x, float& y) {
  const unsigned u = __float_as_uint(x), v = __float_as_uint(y);
  unsigned low = __byte_perm(u, v, 0x5410), high = __byte_perm(u, v, 0x7632);
  asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %0;" : "+r"(low));
  asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %0;" : "+r"(high));
  x = __uint_as_float(__byte_perm(low, high, 0x5410));
  y = __uint_as_float(__byte_perm(low, high, 0x7632));
}

/// One sequence, and a lane's place in products. J sixteens of columns.
/// Sixteen rows of the state in a warp: x[j][h] are accumulators of columns 16 j + 2 n + h, so that a lane
/// has four neighbours: x[j][h][i] is row l/4 + 8 (i/2), column 16 j + 4 (l%4) + 2 (i%2) + h.
template <int J>
struct FwmWarp {
  static constexpr int C = kFwmSegment, kKeys = C * 16 * J;
  int T, P, V, seen, warps, warp, lane, g, q;
  const float *k, *beta;
  const std::int32_t* tokens;
  int channels;

  template <class Args>
  __device__ FwmWarp(const Args& a, int V_)
      : T(a.k.dim(1)),
        P(a.k.dim(2)),
        V(V_),
        seen(clamped(a.position.at(blockIdx.y)[blockIdx.x], T)),
        warps(static_cast<int>(blockDim.x / 32) - 1),
        warp(__shfl_sync(kFullWarp, static_cast<int>(threadIdx.x / 32), 0)),
        lane(static_cast<int>(threadIdx.x % 32)),
        g(lane / 4),
        q(lane % 4),
        channels(a.tokens.columns()) {
    const std::int64_t sequence = static_cast<std::int64_t>(blockIdx.x) * T;
    const int r = blockIdx.y;
    k = a.k.at(r) + sequence * P;
    beta = a.beta.at(r) + sequence;
    tokens = a.tokens.at(r) + sequence * channels;
  }
  __device__ int row(int half) const { return 16 * warp + g + 8 * half; }
  __device__ int column(int j) const { return 16 * j + 4 * q; }
  __device__ int value(int t) const {
    return t < seen ? tokens[static_cast<std::int64_t>(t) * channels + channel_value] : -1;
  }
  __device__ float beta_at(int t) const { return t < seen ? beta[t] : 0.0f; }

  /// Where [16][16 J] numbers keep a column of a token: neither rows nor columns of a factor meet in a bank.
  __device__ static int at(int token, int column) {
    return token * 16 * J + (column ^ (8 * ((token >> 1) & 3)) ^ (16 * (token & 1)));
  }
  /// Starts copying the keys of a chunk, with the threads of all warps but the last.
  __device__ void fetch(float* keys, int chunk) const {
    for (int i = static_cast<int>(threadIdx.x); i < C * 4 * J; i += 32 * warps) {
      const int token = i / (4 * J), p = 4 * (i % (4 * J)), t = chunk * C + token;
      const bool valid = t < seen && p < P;
      copy4_async(keys + at(token, p), valid ? k + static_cast<std::int64_t>(t) * P + p : k, valid);
    }
  }
  /// y [16 rows, tokens 8 m + 2 q, + 1] = x K^T.
  __device__ void times_keys(const float (&x)[J][2][4], const float* keys, float (&y)[2][4]) const {
    float small[2][4] = {};
#pragma unroll
    for (int m = 0; m < 2; ++m) {
#pragma unroll
      for (int i = 0; i < 4; ++i) y[m][i] = 0;
    }
#pragma unroll
    for (int j = 0; j < J; ++j) {
      const FwmFactor even(x[j][0]), odd(x[j][1]);
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        const float4 key = *reinterpret_cast<const float4*>(keys + at(8 * m + g, column(j)));
        fwm_add(small[m], y[m], even, key.x, key.z);
        fwm_add(small[m], y[m], odd, key.y, key.w);
      }
    }
#pragma unroll
    for (int m = 0; m < 2; ++m) {
#pragma unroll
      for (int i = 0; i < 4; ++i) y[m][i] += small[m][i];
    }
  }
  /// Columns of j of x += w K, w [16 rows, tokens].
  __device__ void add_keys(float (&x)[2][4], const FwmFactor (&w)[2], const float* keys, int j) const {
#pragma unroll
    for (int s = 0; s < 2; ++s) {
      const float2 k0 = *reinterpret_cast<const float2*>(keys + at(8 * s + 2 * q, 16 * j + 2 * g));
      const float2 k1 = *reinterpret_cast<const float2*>(keys + at(8 * s + 2 * q + 1, 16 * j + 2 * g));
      fwm_add(x[0], x[0], w[s], k0.x, k1.x);
      fwm_add(x[1], x[1], w[s], k0.y, k1.y);
    }
  }
  __device__ void add_keys(float (&x)[J][2][4], const float (&w)[2][4], const float* keys) const {
    const FwmFactor factor[2] = {FwmFactor(w[0]), FwmFactor(w[1])};
#pragma unroll
    for (int j = 0; j < J; ++j) add_keys(x[j], factor, keys, j);
  }
  /// y += x matrix^T, both over tokens, matrix [16][kFwmRow]; `lower`: it is lower triangular, else upper.
  template <bool lower, bool exact = false>
  __device__ void times_matrix(const float (&x)[2][4], const float* matrix, float (&y)[2][4]) const {
    const FwmFactor factor[2] = {FwmFactor(x[0]), FwmFactor(x[1])};
#pragma unroll
    for (int m = 0; m < 2; ++m) {
#pragma unroll
      for (int s = 0; s < 2; ++s) {
        if (lower ? s > m : s < m) continue;
        const float2 b = *reinterpret_cast<const float2*>(matrix + (8 * m + g) * kFwmRow + 8 * s + 2 * q);
        fwm_add<exact>(y[m], y[m], factor[s], b.x, b.y);
      }
    }
  }
  /// Rows of the state that begins at `from` [V,P], columns of j.
  __device__ void load(const float* from, int j, float (&x)[2][4]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float4 four = {};
      if (row(half) < V && column(j) < P)
        four = *reinterpret_cast<const float4*>(from + static_cast<std::int64_t>(row(half)) * P + column(j));
      x[0][2 * half] = four.x, x[1][2 * half] = four.y;
      x[0][2 * half + 1] = four.z, x[1][2 * half + 1] = four.w;
    }
  }
  __device__ void store(float* to, const float (&x)[J][2][4]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int j = 0; j < J; ++j) {
        if (row(half) < V && column(j) < P)
          *reinterpret_cast<float4*>(to + static_cast<std::int64_t>(row(half)) * P + column(j)) =
              fwm_four(x[j], half);
      }
    }
  }
  /// By one warp, lane t % 16 for token t of the chunk: gram [16][16] gets beta_i k_i.k_t in row i. Returns
  /// |k_t|^2.
  __device__ float gram(const float* keys, float token_beta, float* gram) const {
    float small[2][4] = {}, large[2][4] = {};
#pragma unroll
    for (int j = 0; j < J; ++j) {
      const float4 first = *reinterpret_cast<const float4*>(keys + at(g, column(j))),
                   second = *reinterpret_cast<const float4*>(keys + at(8 + g, column(j)));
      const FwmFactor factor[2] = {{first.x, second.x, first.z, second.z},
                                   {first.y, second.y, first.w, second.w}};
#pragma unroll
      for (int h = 0; h < 2; ++h) {
#pragma unroll
        for (int n = 0; n < 2; ++n) {  // as right factors, the same numbers
          Product16::multiply(small[n], factor[h].low, factor[h].high[n], factor[h].high[n + 2]);
          Product16::multiply(small[n], factor[h].high, factor[h].low[n], factor[h].low[n + 2]);
          Product16::multiply(large[n], factor[h].high, factor[h].high[n], factor[h].high[n + 2]);
        }
      }
    }
    float squares[2] = {};
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float b = __shfl_sync(kFullWarp, token_beta, g + 8 * half);
#pragma unroll
      for (int n = 0; n < 2; ++n) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const float x = large[n][2 * half + i] + small[n][2 * half + i];
          gram[(g + 8 * half) * C + 8 * n + 2 * q + i] = b * x;
          if (n == half && 2 * q + i == g) squares[half] = x;
        }
      }
    }
    const int t = lane % C, from = t % 8 * 4 + t % 8 / 2;  // the lane with the diagonal of rows t % 8
    const float first = __shfl_sync(kFullWarp, squares[0], from),
                second = __shfl_sync(kFullWarp, squares[1], from);
    __syncwarp();
    return t < 8 ? first : second;
  }
};

// ---- forward

struct FwmForwardShared {
  alignas(16) float inverse[2][16 * kFwmRow], values[16 * kFwmRow], gram[16 * 16];
  float4 terms[2][16];  // what N, c F and c^2 contribute to |X|^2; beta
  alignas(16) int ids[2][16];
  unsigned later[2][16];  // tokens behind with the same value
  int current[16];
  alignas(16) float of_z[16], of_u[16], gamma;
};

template <int J>
std::size_t fwm_chunked_forward_bytes(int warps) {
  return sizeof(FwmForwardShared) +
         sizeof(float) * static_cast<std::size_t>(3 * FwmWarp<J>::kKeys + warps * (16 * kFwmRow + 20));
}

__device__ __forceinline__ float fwm_reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return fmaf(fmaf(-x, y, 1.0f), y, y);
}

/// M of a chunk and what the chain wants of its tokens; by one warp. beta, id: of this lane's token, and then
/// of the next chunk's.
template <int J>
__device__ void fwm_prepare(const FwmWarp<J>& at, FwmForwardShared& shared, int chunk, const float* keys,
                            float& beta, int& id) {
  const int t = at.lane % 16;
  __syncwarp();
  const float square = at.gram(keys, beta, shared.gram);
  const float product = beta * square, has = id >= 0 ? 1.0f : 0.0f;
  const unsigned later = (__match_any_sync(kFullWarp, id) & 0xffffu) >> (t + 1) << (t + 1);
  if (at.lane < 16) {
    shared.terms[chunk % 2][t] =
        make_float4(beta * (product - 2), has * 2 * beta * (1 - product), has * beta * product, beta);
    shared.ids[chunk % 2][t] = id;
    shared.later[chunk % 2][t] = id >= 0 ? later : 0;
  }
  beta = at.beta_at(chunk * 16 + 16 + t);
  id = at.value(chunk * 16 + 16 + t);
  float column[16];
#pragma unroll
  for (int i = 0; i < 16; ++i) column[i] = i == t ? 1.0f : 0.0f;
#pragma unroll
  for (int j = 0; j < 15; ++j) {
#pragma unroll
    for (int i = j + 1; i < 16; ++i) column[i] -= shared.gram[j * 16 + i] * column[j];
  }
  if (at.lane < 16) {
#pragma unroll
    for (int i = 0; i < 16; ++i) shared.inverse[chunk % 2][i * kFwmRow + t] = column[i];
  }
}

/// The chain of divisors of a chunk; by one warp. sums [kWarps][20]: |Z_t|^2, |S|^2; z [rows][kFwmRow].
template <int J, int kWarps>
__device__ void fwm_chain(const FwmWarp<J>& at, FwmForwardShared& shared, int chunk, const float* sums,
                          const float* z, float* scales, int stride) {
  const int t = at.lane % 16;
  const float4* terms = shared.terms[chunk % 2];
  const int* ids = shared.ids[chunk % 2];
  const unsigned* later = shared.later[chunk % 2];
  const float* inverse = shared.inverse[chunk % 2] + t * kFwmRow;
  const unsigned repeats = __ballot_sync(kFullWarp, later[t] != 0);
  float of_value[16], row[16], c[17];
#pragma unroll
  for (int i = 0; i < 16; i += 4) {
    const int4 v = *reinterpret_cast<const int4*>(ids + i);
    const float4 m = *reinterpret_cast<const float4*>(inverse + i);
    const int value[4] = {v.x, v.y, v.z, v.w};
    const float entry[4] = {m.x, m.y, m.z, m.w};
#pragma unroll
    for (int j = 0; j < 4; ++j) {  // X k_t at value i + j; an absent value has no part in what follows
      of_value[i + j] = z[max(value[j], 0) * kFwmRow + t];
      row[i + j] = value[j] >= 0 ? entry[j] : 0.0f;
    }
  }
  float N = 0, squares = 0;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) {
    if (w < at.warps) {
      N += sums[w * 20 + t];
      squares += sums[w * 20 + 16];
    }
  }
  squares *= kFwmStart * kFwmStart;
  c[0] = kFwmStart;
  const int first = chunk * 16;
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    const float N_i = __shfl_sync(kFullWarp, N, i), F_i = __shfl_sync(kFullWarp, of_value[i], i);
    const float4 term = terms[i];
    const float known = fmaf(term.x, N_i, squares);
    squares = fmaxf(fmaf(c[i], fmaf(term.z, c[i], term.y * F_i), known), 0.0f);
    float inverse_root;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(inverse_root) : "f"(squares));
    const float root = squares * inverse_root;
    const bool cut = squares > c[i] * c[i] && first + i > 0 && first + i < at.seen;  // not at the first step
    c[i + 1] = cut ? fmaf(0.5f * inverse_root, fmaf(-root, root, squares), root) : c[i];
    const float h = row[i] * c[i];  // the token's value becomes part of later products
    N = fmaf(h, h - 2 * of_value[i], N);
    if (repeats >> i & 1) {
      const unsigned these = later[i];
#pragma unroll
      for (int j = i + 1; j < 16; ++j) {
        if (these >> j & 1) of_value[j] -= h;
      }
    }
  }
  float before = c[0], after = c[1];
#pragma unroll
  for (int i = 1; i < 16; ++i) {
    if (t == i) before = c[i], after = c[i + 1];
  }
  const float inverse_before = fwm_reciprocal(before), inverse_end = fwm_reciprocal(c[16]);
  if (at.lane >= 16) return;
#pragma unroll
  for (int i = 0; i < 16; i += 4)
    *reinterpret_cast<float4*>(shared.values + t * kFwmRow + i) =
        make_float4(row[i] * (c[i] * inverse_before), row[i + 1] * (c[i + 1] * inverse_before),
                    row[i + 2] * (c[i + 2] * inverse_before), row[i + 3] * (c[i + 3] * inverse_before));
  shared.of_z[t] = -inverse_before;
  shared.of_u[t] = terms[t].w * (before * inverse_end);
  shared.current[t] = ids[t];
  if (t == 0) shared.gamma = kFwmStart * inverse_end;
  if (scales && first + t < at.seen)
    scales[static_cast<std::int64_t>(first + t) * stride] =
        after > before ? before * fwm_reciprocal(after) : 1.0f;
}

template <int J, int kWarps>
__global__ void __launch_bounds__(32 * (kWarps + 1), kWarps <= 7 ? (J == 4 ? 3 : 2) : 1)
    fwm_forward_chunked(const __grid_constant__ FwmReadForward<float> a) {
  extern __shared__ __align__(16) unsigned char raw[];
  const FwmWarp<J> at(a, a.y.columns());
  auto& shared = *reinterpret_cast<FwmForwardShared*>(raw);
  float *keys = reinterpret_cast<float*>(raw + sizeof(FwmForwardShared)), *z = keys + 3 * at.kKeys,
        *sums = z + at.warps * 16 * kFwmRow;
  const int b = blockIdx.x, r = blockIdx.y, V = at.V, P = at.P, g = at.g, q = at.q;
  const int chunks = (at.seen + 15) / 16, segments = (at.T + 15) / 16, stride = a.kept ? a.kept.columns() : 0;
  const std::int64_t size = static_cast<std::int64_t>(V) * P;
  float* checkpoints = a.checkpoints.at(r) + static_cast<std::int64_t>(b) * segments * size;
  float* kept = a.kept ? a.kept.at(r) + static_cast<std::int64_t>(b) * at.T * stride : nullptr;
  if (at.warp == at.warps) {
    float beta = at.beta_at(at.lane % 16);
    int id = at.value(at.lane % 16);
    __syncthreads();
    if (chunks > 0) fwm_prepare(at, shared, 0, keys, beta, id);
    if (chunks > 1) fwm_prepare(at, shared, 1, keys + at.kKeys, beta, id);
    __syncthreads();
    for (int chunk = 0; chunk < chunks; ++chunk) {
      __syncthreads();
      fwm_chain<J, kWarps>(at, shared, chunk, sums, z, kept ? kept + stride - 4 : nullptr, stride);
      __syncthreads();
      if (chunk + 2 < chunks) fwm_prepare(at, shared, chunk + 2, keys + (chunk + 2) % 3 * at.kKeys, beta, id);
    }
    return;
  }
  float x[J][2][4] = {};
  at.fetch(keys, 0);
  at.fetch(keys + at.kKeys, 1);
  asm volatile("cp.async.wait_all;" ::: "memory");
  __syncthreads();
  __syncthreads();
  for (int chunk = 0; chunk < chunks; ++chunk) {
    const float* now = keys + chunk % 3 * at.kKeys;
    float y[2][4], Z[2][4] = {};
    at.times_keys(x, now, y);
    if (chunk > 0) at.store(checkpoints + chunk * size, x);  // the first is zero
    at.template times_matrix<true>(y, shared.inverse[chunk % 2], Z);
    float squares[4] = {}, norm[2] = {};
#pragma unroll
    for (int m = 0; m < 2; ++m) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        Z[m][i] *= kFwmStart;
        squares[2 * m + i % 2] += Z[m][i] * Z[m][i];
      }
#pragma unroll
      for (int half = 0; half < 2; ++half)
        *reinterpret_cast<float2*>(z + at.row(half) * kFwmRow + 8 * m + 2 * q) =
            make_float2(Z[m][2 * half], Z[m][2 * half + 1]);
    }
#pragma unroll
    for (int j = 0; j < J; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        norm[0] += x[j][0][i] * x[j][0][i];
        norm[1] += x[j][1][i] * x[j][1][i];
      }
    }
#pragma unroll
    for (int offset = 4; offset < 32; offset *= 2) {
#pragma unroll
      for (int i = 0; i < 4; ++i) squares[i] += __shfl_xor_sync(kFullWarp, squares[i], offset);
    }
    const float total = warp_sum(norm[0] + norm[1]);
    if (g == 0) {
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[at.warp * 20 + 8 * (i / 2) + 2 * q + i % 2] = squares[i];
      if (q == 0) sums[at.warp * 20 + 16] = total;
    }
    __syncthreads();  // the chain may begin
    if (chunk + 2 < chunks) at.fetch(keys + (chunk + 2) % 3 * at.kKeys, chunk + 2);
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();  // it has ended
    float hot[2][4];
#pragma unroll
    for (int s = 0; s < 2; ++s) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int token = 8 * s + 2 * q + i, id = shared.current[token];
        const float scale = shared.of_z[token];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          hot[s][2 * half + i] = id == at.row(half) ? 1.0f : 0.0f;
          Z[s][2 * half + i] *= scale;
        }
      }
    }
    at.template times_matrix<true, true>(hot, shared.values, Z);  // the errors u
#pragma unroll
    for (int s = 0; s < 2; ++s) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int token = 8 * s + 2 * q + i, t = 16 * chunk + token;
        const float scale = shared.of_u[token];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          if (kept && t < at.seen && at.row(half) < stride - 4)
            kept[static_cast<std::int64_t>(t) * stride + at.row(half)] = Z[s][2 * half + i];
          Z[s][2 * half + i] *= scale;
        }
      }
    }
    const float gamma = shared.gamma;
#pragma unroll
    for (int j = 0; j < J; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) x[j][0][i] *= gamma, x[j][1][i] *= gamma;
    }
    at.add_keys(x, Z, now);
  }
  const float* query = a.q.at(r) + static_cast<std::int64_t>(b) * P;
  float read[2] = {};
#pragma unroll
  for (int j = 0; j < J; ++j) {
    float four[4];
    take4(query + at.column(j), at.column(j) < P, four);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      read[0] += x[j][i % 2][i / 2] * four[i];
      read[1] += x[j][i % 2][2 + i / 2] * four[i];
    }
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    read[half] += __shfl_xor_sync(kFullWarp, read[half], 1);
    read[half] += __shfl_xor_sync(kFullWarp, read[half], 2);
    if (q == 0 && at.row(half) < V) a.y.at(r)[static_cast<std::int64_t>(b) * V + at.row(half)] = read[half];
  }
}

// ---- backward

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
         sizeof(float) * static_cast<std::size_t>(3 * FwmWarp<J>::kKeys + 2 * 16 * (16 * warps + 4) +
                                                  warps * (FwmWarp<J>::kKeys + 16 * 16 + 16));
}

/// N' of a chunk and what belongs to its tokens; by one warp. errors [16][width]. beta, id, scale: of this
/// lane's token, and then of the chunk's before.
template <int J>
__device__ void fwm_prepare(const FwmWarp<J>& at, FwmBackwardShared& shared, int chunk, const float* keys,
                            const float* errors, int width, const float* scales, int stride, float& beta,
                            int& id, float& scale) {
  const int lane = at.lane, i = lane % 16, buffer = chunk % 2;
  __syncwarp();
  const float square = at.gram(keys, beta, shared.gram);
  float through = scale;  // product of scales up to this token
#pragma unroll
  for (int offset = 1; offset < 16; offset *= 2) {
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
  const std::int64_t t = chunk * 16 - 16 + i;  // the next token to prepare; t < seen
  if (t >= 0) {
    beta = at.beta[t];
    id = at.value(static_cast<int>(t));
    scale = scales[t * stride];
  }
  float column[16];
#pragma unroll
  for (int j = 0; j < 16; ++j) column[j] = j == i ? 1.0f : 0.0f;
#pragma unroll
  for (int j = 15; j > 0; --j) {
#pragma unroll
    for (int l = 0; l < j; ++l) column[l] -= shared.gram[j * 16 + l] * column[j];
  }
  __syncwarp();
  if (lane < 16) {  // N'_ti = N_ti g_i / g_t
#pragma unroll
    for (int j = 0; j < 16; ++j)
      shared.inverse[buffer][j * kFwmRow + i] = column[j] * (before * shared.step[buffer][j].w);
  }
  __syncwarp();
#pragma unroll
  for (int m = 0; m < 8; ++m) {
    const int j = m + lane / 16 * 8;
    const float of = shared.token[buffer][j].of_u, u = errors[j * width + max(mine, 0)],
                hot = shared.ids[buffer][j] == mine ? 1.0f : 0.0f;
    shared.psi[i * 20 + j] =
        j == i ? hot - (of - 1) * u : shared.inverse[buffer][i * kFwmRow + j] * (hot - of * u);
  }
}

/// What theta and d_beta of a chunk take from sums over the warps; by one warp.
template <int kWarps>
__device__ __forceinline__ void fwm_theta(FwmBackwardShared& shared, int chunk, int warps, int valid,
                                          const float* products, const float* squares, Write write,
                                          float* d_beta) {
  const int lane = threadIdx.x % 32, t = lane % 16;
  float4 sum[2] = {};
  float square = 0;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) {
    if (w >= warps) break;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float4 part = *reinterpret_cast<const float4*>(products + w * 256 + 4 * lane + 128 * i);
      sum[i].x += part.x, sum[i].y += part.y, sum[i].z += part.z, sum[i].w += part.w;
    }
    square += squares[w * 16 + t];
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) *reinterpret_cast<float4*>(shared.sums + 4 * lane + 128 * i) = sum[i];
  __syncwarp();
  const auto* token = shared.token[chunk % 2];
  const auto* step = shared.step[chunk % 2];
  const float beta = token[t].beta, before = token[t].before, inverse = step[t].w,
              diagonal = square * shared.along[t];
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int row = 2 * i + lane / 16, other = row > t ? row * 16 + t : t * 16 + row;
    const float ratio = row > t ? token[row].before * inverse : before * step[row].w;
    shared.theta[row * kFwmRow + t] = -beta * (row == t ? diagonal : ratio * shared.sums[other]);
  }
  if (d_beta && lane < valid) put(write, d_beta + t, shared.sums[17 * t] - diagonal);
}

/// The chain of radial gradients, from d behind the chunk to d before it; by one warp.
__device__ __forceinline__ void fwm_chain(FwmBackwardShared& shared, int chunk, float& d) {
  const int lane = threadIdx.x % 32, t = lane % 16;
  float psi[16];
#pragma unroll
  for (int i = 0; i < 16; i += 4) {
    const float4 four = *reinterpret_cast<const float4*>(shared.psi + t * 20 + i);
    psi[i] = four.x, psi[i + 1] = four.y, psi[i + 2] = four.z, psi[i + 3] = four.w;
  }
  float h = shared.ids[chunk % 2][t] >= 0 ? shared.base[t] : 0.0f, A = 0, mine = 0;
#pragma unroll
  for (int i = 15; i >= 0; --i) {
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

template <int J, int kWarps>
__global__ void __launch_bounds__(32 * (kWarps + 1), kWarps <= 7 ? 2 : 1)
    fwm_backward_chunked(const __grid_constant__ FwmReadBackward<float> a) {
  extern __shared__ __align__(16) unsigned char raw[];
  const FwmWarp<J> at(a, a.d_y.columns());
  constexpr int kKeys = FwmWarp<J>::kKeys;
  constexpr int kAhead = J == 4 ? 4 : 2;  // pieces of the state that are read ahead
  auto& shared = *reinterpret_cast<FwmBackwardShared*>(raw);
  const int b = blockIdx.x, r = blockIdx.y, T = at.T, V = at.V, P = at.P, lane = at.lane, g = at.g, q = at.q;
  const int warp = at.warp, warps = at.warps, width = 16 * warps + 4, thread = threadIdx.x;
  float *keys = reinterpret_cast<float*>(raw + sizeof(FwmBackwardShared)), *errors = keys + 3 * kKeys,
        *parts = errors + 2 * 16 * width, *products = parts + warps * kKeys,
        *squares = products + warps * 16 * 16;
  const int chunks = (at.seen + 15) / 16, segments = (T + 15) / 16, stride = a.kept.columns();
  const std::int64_t size = static_cast<std::int64_t>(V) * P, sequence = static_cast<std::int64_t>(b) * T;
  const float* checkpoints = a.checkpoints.at(r) + static_cast<std::int64_t>(b) * segments * size;
  const float* kept = a.kept.at(r) + sequence * stride;
  const float *query = a.q.at(r) + static_cast<std::int64_t>(b) * P,
              *d_y = a.d_y.at(r) + static_cast<std::int64_t>(b) * V;
  float* d_k = a.write_k == Write::none ? nullptr : a.d_k.at(r) + sequence * P;
  float* d_beta = a.write_beta == Write::none ? nullptr : a.d_beta.at(r) + sequence;
  float* d_q = a.write_q == Write::none ? nullptr : a.d_q.at(r) + static_cast<std::int64_t>(b) * P;

  if (d_k && a.write_k == Write::overwrite) {  // tokens that the query does not see
    for (int i = at.seen * P + thread; i < T * P; i += static_cast<int>(blockDim.x)) d_k[i] = 0;
  }
  if (d_beta && a.write_beta == Write::overwrite) {
    for (int i = at.seen + thread; i < T; i += static_cast<int>(blockDim.x)) d_beta[i] = 0;
  }
  if (chunks == 0) {
    if (d_q && a.write_q == Write::overwrite) {
      for (int p = thread; p < P; p += static_cast<int>(blockDim.x)) d_q[p] = 0;
    }
    return;
  }

  const auto fetch = [&](int chunk) {
    at.fetch(keys + chunk % 3 * kKeys, chunk);
    for (int token = warp; token < 16; token += warps) {
      const int t = chunk * 16 + token;
      const float* from = kept + static_cast<std::int64_t>(t) * stride;
      float* to = errors + (chunk % 2 * 16 + token) * width;
      for (int v = 4 * lane; v < 16 * warps; v += 128) {
        const bool valid = t < at.seen && v < stride - 4;
        copy4_async(to + v, valid ? from + v : kept, valid);
      }
    }
  };
  const int last = chunks - 1;
  if (warp == warps) {
    const int t = last * 16 + lane % 16;
    const float* scales = kept + stride - 4;
    float beta = at.beta_at(t), scale = t < at.seen ? scales[static_cast<std::int64_t>(t) * stride] : 1.0f,
          d = 0;
    int id = at.value(t);
    const auto prepare = [&](int chunk) {
      fwm_prepare(at, shared, chunk, keys + chunk % 3 * kKeys, errors + chunk % 2 * 16 * width, width, scales,
                  stride, beta, id, scale);
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
      fwm_theta<kWarps>(shared, chunk, warps, min(16, at.seen - chunk * 16), products, squares, a.write_beta,
                        d_beta ? d_beta + chunk * 16 : nullptr);
    }
    __syncthreads();
    return;
  }

  fetch(last);
  asm volatile("cp.async.wait_all;" ::: "memory");
  __syncthreads();
  float x[J][2][4];  // dL/dS
  {
    const float rows[2] = {at.row(0) < V ? d_y[at.row(0)] : 0.0f, at.row(1) < V ? d_y[at.row(1)] : 0.0f};
#pragma unroll
    for (int j = 0; j < J; ++j) {
      float four[4];
      take4(query + at.column(j), at.column(j) < P, four);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        x[j][i % 2][i / 2] = rows[0] * four[i];
        x[j][i % 2][2 + i / 2] = rows[1] * four[i];
      }
    }
    // d_q = S^T d_y, with the state behind the last chunk from the one before it
    for (int token = warp; token < 16; token += warps) {
      const float* error = errors + (last % 2 * 16 + token) * width;
      float dot = 0;
      for (int v = lane; v < V; v += 32) dot += error[v] * d_y[v];
      dot = warp_sum(dot);
      if (lane == 0) shared.dots[token] = dot;
    }
    for (int p = lane; p < P; p += 32) {
      float sum = 0;
#pragma unroll
      for (int i = 0; i < 16; ++i) {
        const int v = 16 * warp + i;
        if (v < V && last > 0)
          sum += checkpoints[last * size + static_cast<std::int64_t>(v) * P + p] * d_y[v];
      }
      products[warp * 256 + p] = sum;
    }
  }
  __syncthreads();  // N' is there, too
  for (int p = thread; p < P; p += 32 * warps) {
    const auto* token = shared.token[last % 2];
    float sum = 0;
    for (int w = 0; w < warps; ++w) sum += products[w * 256 + p];
    sum *= token[0].end;
#pragma unroll
    for (int i = 0; i < 16; ++i)
      sum += token[i].beta * token[i].end * shared.dots[i] * keys[last % 3 * kKeys + at.at(i, p)];
    if (d_q) put(a.write_q, d_q + p, sum);
    parts[p] = sum;
  }
  __syncthreads();
  // Errors of tokens g + 8 m: u[m] of rows 2 q, 2 q + 1 and of 2 q + 8, 2 q + 9 of this warp.
  const auto errors_of = [&](const float* error, float(&u)[2][4]) {
#pragma unroll
    for (int m = 0; m < 2; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float2 two =
            *reinterpret_cast<const float2*>(error + (8 * m + g) * width + 16 * warp + 8 * half + 2 * q);
        u[m][2 * half] = two.x, u[m][2 * half + 1] = two.y;
      }
    }
  };
  // part [16 tokens, columns of j] += w x over the rows of this warp.
  const auto add_rows = [&](float(&part)[2][4], const FwmFactor(&w)[2], const float(&rows)[2][4]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        float b0 = rows[h][2 * half], b1 = rows[h][2 * half + 1];
        fwm_transpose(b0, b1);
        fwm_add(part[h], part[h], w[half], b0, b1);
      }
    }
  };
  const auto part_at = [&](int half, int j) {
    return reinterpret_cast<float4*>(parts + warp * kKeys + at.at(g + 8 * half, at.column(j)));
  };
  // d_k of a chunk, from the parts of the warps.
  const auto finish = [&](int chunk) {
    if (!d_k) return;
    const FwmFactor factor[2] = {
        {shared.theta[g * kFwmRow + 2 * q], shared.theta[(g + 8) * kFwmRow + 2 * q],
         shared.theta[g * kFwmRow + 2 * q + 1], shared.theta[(g + 8) * kFwmRow + 2 * q + 1]},
        {shared.theta[g * kFwmRow + 2 * q + 8], shared.theta[(g + 8) * kFwmRow + 2 * q + 8],
         shared.theta[g * kFwmRow + 2 * q + 9], shared.theta[(g + 8) * kFwmRow + 2 * q + 9]}};
    for (int j = warp; j < J; j += warps) {
      float sum[2][4] = {};
      at.add_keys(sum, factor, keys + chunk % 3 * kKeys, j);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int token = g + 8 * half, t = chunk * 16 + token;
        if (t >= at.seen || at.column(j) >= P) continue;
        float4 total = fwm_four(sum, half);
        const float* from = parts + at.at(token, at.column(j));
#pragma unroll
        for (int w = 0; w < kWarps; ++w) {
          if (w >= warps) break;
          const float4 part = *reinterpret_cast<const float4*>(from + w * kKeys);
          total.x += part.x, total.y += part.y, total.z += part.z, total.w += part.w;
        }
        const float beta = shared.token[chunk % 2][token].beta;
        auto* target = reinterpret_cast<float4*>(d_k + static_cast<std::int64_t>(t) * P + at.column(j));
        float4 old = {};
        if (a.write_k == Write::add) old = *target;
        *target = make_float4(old.x + beta * total.x, old.y + beta * total.y, old.z + beta * total.z,
                              old.w + beta * total.w);
      }
    }
  };
  for (int chunk = last; chunk >= 0; --chunk) {
    const float* now = keys + chunk % 3 * kKeys;
    const float* error = errors + chunk % 2 * 16 * width;
    const float* matrix = shared.inverse[chunk % 2];
    const auto* tokens = shared.token[chunk % 2];
    const int* ids = shared.ids[chunk % 2];
    float y[2][4], Q[2][4] = {};
    at.times_keys(x, now, y);
#pragma unroll
    for (int m = 0; m < 2; ++m) {
#pragma unroll
      for (int i = 0; i < 4; ++i) y[m][i] *= tokens[8 * m + 2 * q + i % 2].end;
    }
    at.template times_matrix<false>(y, matrix, Q);
#pragma unroll
    for (int m = 0; m < 2; ++m) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int token = 8 * m + 2 * q + i % 2;
        if (ids[token] == at.row(i / 2)) shared.base[token] = Q[m][i];
      }
    }
    __syncthreads();  // the chain may begin
    if (chunk > 0) fetch(chunk - 1);
    if (chunk < last) finish(chunk + 1);
    const float* state = checkpoints + chunk * size;
    float S[kAhead][2][4] = {};
    if (chunk > 0) {
#pragma unroll
      for (int j = 0; j < kAhead; ++j) at.load(state, j, S[j]);
    }
    {
      float u[2][4];
      errors_of(error, u);
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        float square = u[m][0] * u[m][0] + u[m][1] * u[m][1] + (u[m][2] * u[m][2] + u[m][3] * u[m][3]);
        square += __shfl_xor_sync(kFullWarp, square, 1);
        square += __shfl_xor_sync(kFullWarp, square, 2);
        if (q == 0) squares[warp * 16 + 8 * m + g] = square;
        const float scale = tokens[8 * m + g].end;
#pragma unroll
        for (int i = 0; i < 4; ++i) u[m][i] *= scale;
      }
      const FwmFactor factor[2] = {{u[0][0], u[1][0], u[0][1], u[1][1]},
                                   {u[0][2], u[1][2], u[0][3], u[1][3]}};
      __syncthreads();  // the parts of the chunk behind have been read
#pragma unroll
      for (int j = 0; j < J; ++j) {
        float part[2][4] = {};
        add_rows(part, factor, x[j]);
#pragma unroll
        for (int half = 0; half < 2; ++half) *part_at(half, j) = fwm_four(part, half);
      }
    }
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();  // it has ended
#pragma unroll
    for (int m = 0; m < 2; ++m) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int token = 8 * m + 2 * q + i % 2, row = at.row(i / 2);
        const float hot = ids[token] == row ? 1.0f : 0.0f;
        y[m][i] = -shared.along[token] * (hot - tokens[token].of_u * error[token * width + row]);
      }
    }
    at.template times_matrix<false>(y, matrix, Q);
    float turned[2][4];  // Q as u
#pragma unroll
    for (int m = 0; m < 2; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        turned[m][2 * half] = Q[m][2 * half], turned[m][2 * half + 1] = Q[m][2 * half + 1];
        fwm_transpose(turned[m][2 * half], turned[m][2 * half + 1]);
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const auto token = tokens[8 * m + 2 * q + i % 2];
        Q[m][i] *= -token.beta * token.before;
      }
    }
    {
      float product[2][4] = {}, u[2][4];
      errors_of(error, u);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const FwmFactor factor(turned[0][2 * half], turned[1][2 * half], turned[0][2 * half + 1],
                               turned[1][2 * half + 1]);
#pragma unroll
        for (int m = 0; m < 2; ++m)
          fwm_add(product[m], product[m], factor, u[m][2 * half], u[m][2 * half + 1]);
      }
#pragma unroll
      for (int m = 0; m < 2; ++m) {
#pragma unroll
        for (int i = 0; i < 4; ++i)
          products[(warp * 16 + g + 8 * (i / 2)) * 16 + 8 * m + 2 * q + i % 2] = product[m][i];
      }
    }
    const float of_state = -shared.along[0], gamma = tokens[0].end;
    if (chunk > 0) {
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        const float scale = -tokens[8 * m + g].before;
#pragma unroll
        for (int i = 0; i < 4; ++i) turned[m][i] *= scale;
      }
      const FwmFactor factor[2] = {{turned[0][0], turned[1][0], turned[0][1], turned[1][1]},
                                   {turned[0][2], turned[1][2], turned[0][3], turned[1][3]}};
#pragma unroll
      for (int j = 0; j < J; ++j) {
        float(&rows)[2][4] = S[j % kAhead];
        float part[2][4];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const float4 four = *part_at(half, j);
          part[0][2 * half] = four.x, part[1][2 * half] = four.y;
          part[0][2 * half + 1] = four.z, part[1][2 * half + 1] = four.w;
        }
        add_rows(part, factor, rows);
#pragma unroll
        for (int half = 0; half < 2; ++half) *part_at(half, j) = fwm_four(part, half);
#pragma unroll
        for (int h = 0; h < 2; ++h) {
#pragma unroll
          for (int i = 0; i < 4; ++i) x[j][h][i] = fmaf(of_state, rows[h][i], gamma * x[j][h][i]);
        }
        if (j + kAhead < J) at.load(state, j + kAhead, rows);
      }
      at.add_keys(x, Q, now);
    }
    __syncthreads();  // the parts are there, and N' of the chunk before
  }
  __syncthreads();
  finish(0);
}

/// Calls f(J, warps at most, warps) for a shape that fwm_chunked() covers.
template <class F>
void with_fwm_chunks(int P, int V, F&& f) {
  using std::integral_constant;
  const int warps = (V + 15) / 16;
  const auto call = [&](auto J) {
    if (warps <= 7) {
      f(J, integral_constant<int, 7>(), warps);
    } else if (warps <= 15) {
      f(J, integral_constant<int, 15>(), warps);
    } else {
      f(J, integral_constant<int, 16>(), warps);
    }
  };
  if (P <= 64) {
    call(integral_constant<int, 4>());
  } else {
    call(integral_constant<int, 8>());
  }
}

inline void run_fwm_chunked(cudaStream_t stream, const FwmReadForward<float>& a) {
  with_fwm_chunks(a.k.dim(2), a.y.columns(), [&](auto J, auto most, int warps) {
    const auto kernel = fwm_forward_chunked<decltype(J)::value, decltype(most)::value>;
    const std::size_t bytes = fwm_chunked_forward_bytes<decltype(J)::value>(warps);
    allow_shared_memory(kernel, bytes);
    kernel<<<dim3(static_cast<unsigned>(a.k.dim(0)), static_cast<unsigned>(a.k.R)),
             static_cast<unsigned>(32 * (warps + 1)), bytes, stream>>>(a);
  });
}

inline void run_fwm_chunked(cudaStream_t stream, const FwmReadBackward<float>& a) {
  with_fwm_chunks(a.k.dim(2), a.d_y.columns(), [&](auto J, auto most, int warps) {
    const auto kernel = fwm_backward_chunked<decltype(J)::value, decltype(most)::value>;
    const std::size_t bytes = fwm_chunked_backward_bytes<decltype(J)::value>(warps);
    allow_shared_memory(kernel, bytes);
    kernel<<<dim3(static_cast<unsigned>(a.k.dim(0)), static_cast<unsigned>(a.k.R)),
             static_cast<unsigned>(32 * (warps + 1)), bytes, stream>>>(a);
  });
}

}  // namespace crosstalk::device
