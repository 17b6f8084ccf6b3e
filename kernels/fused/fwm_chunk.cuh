// The fast weight memory chunk by chunk: 16 tokens in one step of the state, for one query a sequence.
//
// S = X / c, where c collects the divisors. Inside a chunk, from the state S_0 before it (c_0 = 1), with the
// Gram matrix G = K K^T, kappa_t = G_tt, e_t the one-hot value and u_t = e_t - S_{t-1} k_t = p_t / c_{t-1}:
//   p    = C e - Z
//   M    = (I + tril(G, -1) beta)^-1
//   C_ti = M_ti c_{i-1}
//   Z    = M S_0 K^T
//   |X_t'|^2 = |X_{t-1}|^2 + (beta^2 kappa - 2 beta) N + 2 (beta - beta^2 kappa) c F + beta^2 kappa c^2
//   N    = |X_{t-1} k_t|^2
//   F    = (X_{t-1} k_t)[v_t]
//   c_t  = max(c_{t-1}, |X_t'|)
// where N and F follow from |Z_t|^2 and entries of Z at the chunk's 16 values, so that the chain of divisors
// is 16 steps of one warp on 16 x 16 numbers, and all else is matrix products.
//
// Backwards, with g_t = c_0 / c_{t-1}, s_t = c_{t-1} / c_t, r_t = [s_t < 1], end E, d_t = <dL/dS_t, S_t>:
//   N'_tj   = (I + triu(G, 1) beta)^-1_tj g_j / g_t
//   w_j     = e_j - (2 - beta_j kappa_j) u_j
//   q       = N' (g_E / g G_E K^T - A w)
//   h_t     = q_t - A_t u_t
//   A_t     = s_t^2 (A_{t+1} + r_t d_t)
//   d_{t-1} = (1 - r_t) d_t - beta_t h_t[v_t]
// (no sum over the state: u + S k is one-hot, and a rescaled state has no radial gradient);
//   d_beta_t = q_t.u_t - A_t |u_t|^2
//   G_0      = g_E G_E - A_1 S_0 - sum_t beta_t g_t q_t k_t^T
//   d_k_t    = beta_t (g_E / g_t G_E^T u_t - g_t S_0^T q_t - sum_i theta_ti k_i)
//   theta_ti = beta_i (g_t / g_i q_t.u_i  (i < t),  A_t |u_t|^2  (i = t),  g_i / g_t q_i.u_t  (i > t)).
// All ratios of g there are at most 1.
//
// M, c and Z grow like the product of 1 + beta_t |k_t|^2. Where 16 tokens could leave the range of a float
// (keys of |k|^2 beta beyond 100 or so) a sequence is walked with fewer tokens a chunk; the rest of a chunk
// is empty.
//
// A warp owns 16 rows of S (or its gradient), as accumulators of the tensor cores; one more warp of the block
// walks the chain and prepares M or N' of the next chunks. Products are 3xTF32 (chunk_parts.cuh).
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/base/batch.h"
#include "kernels/base/device/cuda_launch.cuh"
#include "kernels/law/fwm.h"
#include "kernels/recurrence/chunk_parts.cuh"

namespace crosstalk::device {

constexpr int kFwmChunk = 16;  // tokens: the rows of a tensor core's product
constexpr int kFwmFew = 4;     // tokens of a chunk, at least
constexpr int kFwmRow = 24;    // stride of 16 x 16 matrices that are read as factors: no bank conflicts
// Inside a chunk c starts here: 2^113 of growth fit into single precision with the squares.
constexpr float kFwmStart = 0x1p-50f;
constexpr float kFwmGrowth = 108;  // log2 of the growth in a chunk, at most

/// x rounded to TF32: two instructions, where cvt.rna takes five for numbers that do not occur here.
CT_DEVICE unsigned fwm_rounded(float x) { return (__float_as_uint(x) + 0x1000u) & 0xffffe000u; }

/// Left factor of a product: 16 rows, 8 terms; in TF32 halves.
struct FwmFactor {
  unsigned high[4], low[4];
  __device__ FwmFactor(float x0, float x1, float x2, float x3) {
    const float x[4] = {x0, x1, x2, x3};
    CT_FOR(i, 4) {
      high[i] = fwm_rounded(x[i]);
      low[i] = __float_as_uint(x[i] - __uint_as_float(high[i]));
    }
  }
  __device__ FwmFactor(const float (&high_)[4], const float (&low_)[4]) {
    CT_FOR(i, 4) high[i] = __float_as_uint(high_[i]), low[i] = __float_as_uint(low_[i]);
  }
  /// Of the accumulators of another product: its columns 2q, 2q + 1 are then terms q, q + 4.
  __device__ explicit FwmFactor(const float (&x)[4]) : FwmFactor(x[0], x[2], x[1], x[3]) {}
};

/// small, large += a b, the rounding halves into `small`; halves of two terms of b. `exact`: a has none.
template <bool exact = false>
CT_DEVICE void fwm_add_split(float (&small)[4], float (&large)[4], const FwmFactor& a, float h0, float h1,
                             float l0, float l1) {
  if (!exact) mma_tf32(small, a.low, __float_as_uint(h0), __float_as_uint(h1));
  mma_tf32(small, a.high, __float_as_uint(l0), __float_as_uint(l1));
  mma_tf32(large, a.high, __float_as_uint(h0), __float_as_uint(h1));
}
template <bool exact = false>
CT_DEVICE void fwm_add(float (&small)[4], float (&large)[4], const FwmFactor& a, float b0, float b1) {
  const float h0 = __uint_as_float(fwm_rounded(b0)), h1 = __uint_as_float(fwm_rounded(b1));
  fwm_add_split<exact>(small, large, a, h0, h1, b0 - h0, b1 - h1);
}

CT_DEVICE const float4& fwm_float4(const float* p) { return *reinterpret_cast<const float4*>(p); }

/// Four neighbours of accumulators of neighbouring columns (FwmWarp), row l/4 + 8 half.
CT_DEVICE float4 fwm_four(const float (&x)[2][4], int half) {
  return make_float4(x[0][2 * half], x[1][2 * half], x[0][2 * half + 1], x[1][2 * half + 1]);
}

/// Transposes 8 x 8 numbers, entries (l / 4, 2 (l % 4)) and the next one in lane l.
CT_DEVICE void fwm_transpose(float& x, float& y) {
  const unsigned u = __float_as_uint(x), v = __float_as_uint(y);
  unsigned low = __byte_perm(u, v, 0x5410), high = __byte_perm(u, v, 0x7632);
  asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %0;" : "+r"(low));
  asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %0;" : "+r"(high));
  x = __uint_as_float(__byte_perm(low, high, 0x5410));
  y = __uint_as_float(__byte_perm(low, high, 0x7632));
}

/// How many tokens forward gave a chunk: an int, whose bits lie among the floats that are kept of the first
/// token.
CT_DEVICE void fwm_note_length(float* kept, int stride, int length) {
  kept[stride - 3] = __int_as_float(length);
}
CT_DEVICE int fwm_noted_length(const float* kept, int stride) { return __float_as_int(kept[stride - 3]); }

/// Keys of a chunk in TF32 halves, whose sum they are: the higher ones, then the lower ones, each [16][16 J] numbers
/// twice over, so that either product finds two terms side by side.
struct FwmKeys {
  float* rows;   ///< FwmWarp::at: columns 0, 2, 1, 3 of each four
  float* pairs;  ///< [8][16 J][2]: columns of two tokens
};

/// One sequence, and a lane's place in products. J sixteens of columns.
/// Sixteen rows of the state in a warp: x[j][h] are accumulators of columns 16 j + 2 n + h, so that a lane
/// has four neighbours: x[j][h][i] is row l/4 + 8 (i/2), column 16 j + 4 (l%4) + 2 (i%2) + h.
template <int J>
struct FwmWarp {
  static constexpr int C = kFwmChunk, kKeys = C * 16 * J;
  int T, P, V, seen, warps, warp, lane, g, q, length = C;  ///< length: tokens a chunk
  const float *k, *beta;
  const std::int32_t* tokens;
  int channels;

  __device__ FwmWarp(const FwmRead<float>& a, int V_)
      : T(a.k.value.dim(1)),
        P(a.k.value.dim(3)),
        V(V_),
        seen(clamped(a.position.value.at(blockIdx.y)[blockIdx.x], T)),
        warps(static_cast<int>(blockDim.x / 32) - 1),
        warp(__shfl_sync(kFullWarp, static_cast<int>(threadIdx.x / 32), 0)),
        lane(static_cast<int>(threadIdx.x % 32)),
        g(lane / 4),
        q(lane % 4),
        channels(a.tokens.value.columns()) {
    const std::int64_t sequence = std::int64_t{blockIdx.x} * T;
    const int r = blockIdx.y;
    k = a.k.value.at(r) + sequence * P;
    beta = a.beta.value.at(r) + sequence;
    tokens = a.tokens.value.at(r) + sequence * channels;
  }
  __device__ int row(int half) const { return 16 * warp + g + 8 * half; }
  __device__ int column(int j) const { return 16 * j + 4 * q; }
  __device__ int first(int chunk) const { return chunk * length; }
  __device__ int count(int chunk) const { return min(length, seen - first(chunk)); }
  __device__ int chunks() const { return (seen + length - 1) / length; }
  /// Of a token of a chunk; of none beyond its tokens.
  __device__ int value(int chunk, int token) const {
    return token < count(chunk) ? tokens[std::int64_t{first(chunk) + token} * channels + channel_value] : -1;
  }
  __device__ float beta_at(int chunk, int token) const {
    return token < count(chunk) ? beta[first(chunk) + token] : 0.0f;
  }
  /// Chooses how many tokens make a chunk, by all threads of the block: as many as may grow by 2^kFwmGrowth
  /// at most. growth: room for `room` numbers.
  __device__ void choose_length(float* growth, int room) {
    float largest = 0;  // |k|^2, and log2 of a token's growth
    float most = 0;
    for (int chunk = warp; chunk * C < seen; chunk += warps + 1) {
      float squares[C];
      CT_FOR(i, C) {
        const int t = chunk * C + i;
        float key[4];
        take4(k + std::int64_t{t} * P + 4 * lane, t < seen && 4 * lane < P, key);
        squares[i] = (key[0] * key[0] + key[1] * key[1]) + (key[2] * key[2] + key[3] * key[3]);
      }
      scatter_sum<C>(squares);  // of token lane / 2
      const int t = chunk * C + lane / 2;
      const float log = t < seen ? log2f(1 + beta[t] * squares[0]) : 0.0f;
      if (t < room && lane % 2 == 0) growth[t] = log;
      largest = fmaxf(largest, squares[0]);
      most = fmaxf(most, log);
    }
    const auto exceeds = [&](int tokens, float sum) {
      return sum + 0.5f * log2f(fmaxf(largest, 1)) > kFwmGrowth && tokens > kFwmFew;
    };
    // The largest key of any warp: its own sum decides first, so that easy sequences need one barrier.
    if (!__syncthreads_or(exceeds(C, C * most))) return;
    growth[room] = 0;
    __syncthreads();
    atomicMax(reinterpret_cast<int*>(growth + room),
              __float_as_int(largest));  // positive: ordered as integers
    __syncthreads();
    largest = growth[room];
    for (length = C; length > kFwmFew; --length) {
      bool over = false;
      for (int chunk = CT_THREAD; chunk * length < min(seen, room); chunk += static_cast<int>(blockDim.x)) {
        float sum = 0;
        for (int i = 0; i < length && chunk * length + i < min(seen, room); ++i)
          sum += growth[chunk * length + i];
        over = over || exceeds(length, sum);
      }
      if (seen > room) over = over || exceeds(length, length * most);
      if (!__syncthreads_or(over)) break;
    }
    __syncthreads();
  }

  /// Where [16][16 J] numbers keep four columns of a token, the n-th four of sixteen j: two tokens' sixteens have
  /// all banks.
  __device__ static int at(int token, int j, int n) {
    return token * 16 * J + 32 * (j / 2) + ((16 * (j % 2)) ^ (16 * (token % 2))) + 4 * n;
  }
  /// Starts copying the keys of a chunk to rows, with the threads of all warps but the last.
  __device__ void fetch(const FwmKeys& keys, int chunk) const {
    for (int i = CT_THREAD; i < C / 2 * 4 * J; i += 32 * warps) {
      const int c = i % (4 * J);
      CT_FOR(h, 2) {
        const int token = i / (4 * J) * 2 + h, t = first(chunk) + token;
        const bool valid = token < count(chunk) && 4 * c < P;
        copy4_async(keys.rows + at(token, c / 4, c % 4), valid ? k + std::int64_t{t} * P + 4 * c : k, valid);
      }
    }
  }
  /// Waits for what this thread fetches, and splits its keys.
  __device__ void split(const FwmKeys& keys) const {
    asm volatile("cp.async.wait_all;" ::: "memory");
    for (int i = CT_THREAD; i < C / 2 * 4 * J; i += 32 * warps) {
      const int pair = i / (4 * J), c = i % (4 * J);
      float high[2][4], low[2][4];
      CT_FOR(h, 2) {
        float* row = keys.rows + at(2 * pair + h, c / 4, c % 4);
        const float4 four = fwm_float4(row);
        const float x[4] = {four.x, four.y, four.z, four.w};
        CT_FOR(n, 4) {
          high[h][n] = __uint_as_float(fwm_rounded(x[n]));
          low[h][n] = x[n] - high[h][n];
        }
        *reinterpret_cast<float4*>(row) = make_float4(high[h][0], high[h][2], high[h][1], high[h][3]);
        *reinterpret_cast<float4*>(row + kKeys) = make_float4(low[h][0], low[h][2], low[h][1], low[h][3]);
      }
      CT_UNROLL(int n = 0; n < 4; n += 2) {
        float* of_pair = keys.pairs + pair * 32 * J + ((8 * c + 2 * n) ^ (8 * (pair % 4)));
        *reinterpret_cast<float4*>(of_pair) =
            make_float4(high[0][n], high[1][n], high[0][n + 1], high[1][n + 1]);
        *reinterpret_cast<float4*>(of_pair + kKeys) =
            make_float4(low[0][n], low[1][n], low[0][n + 1], low[1][n + 1]);
      }
    }
  }
  /// y [16 rows, tokens 8 m + 2 q, + 1] = x K^T.
  __device__ void times_keys(const float (&x)[J][2][4], const FwmKeys& keys, float (&y)[2][4]) const {
    float small[2][4] = {};
    CT_FOR2(m, 2, i, 4) y[m][i] = 0;
    CT_FOR(j, J) {
      const FwmFactor even(x[j][0]), odd(x[j][1]);
      CT_FOR(m, 2) {
        const float* row = keys.rows + at(g, j, q) + 8 * m * 16 * J;
        const float4 high = fwm_float4(row), low = fwm_float4(row + kKeys);
        fwm_add_split(small[m], y[m], even, high.x, high.y, low.x, low.y);
        fwm_add_split(small[m], y[m], odd, high.z, high.w, low.z, low.w);
      }
    }
    CT_FOR2(m, 2, i, 4) y[m][i] += small[m][i];
  }
  /// Columns of j of x += w K, w [16 rows, tokens].
  __device__ void add_keys(float (&x)[2][4], const FwmFactor (&w)[2], const FwmKeys& keys, int j) const {
    CT_FOR(s, 2) {
      const float* pair = keys.pairs + q * 32 * J + ((4 * g) ^ (8 * q)) + 4 * s * 32 * J + 32 * j;
      const float4 high = fwm_float4(pair), low = fwm_float4(pair + kKeys);
      fwm_add_split(x[0], x[0], w[s], high.x, high.y, low.x, low.y);
      fwm_add_split(x[1], x[1], w[s], high.z, high.w, low.z, low.w);
    }
  }
  __device__ void add_keys(float (&x)[J][2][4], const float (&w)[2][4], const FwmKeys& keys) const {
    const FwmFactor factor[2] = {FwmFactor(w[0]), FwmFactor(w[1])};
    CT_FOR(j, J) add_keys(x[j], factor, keys, j);
  }
  /// y += x matrix^T, both over tokens, matrix [16][kFwmRow]; `lower`: it is lower triangular, else upper.
  template <bool lower, bool exact = false>
  __device__ void times_matrix(const float (&x)[2][4], const float* matrix, float (&y)[2][4]) const {
    const FwmFactor factor[2] = {FwmFactor(x[0]), FwmFactor(x[1])};
    CT_FOR2(m, 2, s, 2) {
      if (lower ? s > m : s < m) continue;
      const float2 b = *reinterpret_cast<const float2*>(matrix + (8 * m + g) * kFwmRow + 8 * s + 2 * q);
      fwm_add<exact>(y[m], y[m], factor[s], b.x, b.y);
    }
  }
  /// Rows of the state that begins at `from` [V,P], columns of j.
  __device__ void load(const float* from, int j, float (&x)[2][4]) const {
    CT_FOR(half, 2) {
      float4 four = {};
      if (row(half) < V && column(j) < P)
        four = *reinterpret_cast<const float4*>(from + std::int64_t{row(half)} * P + column(j));
      x[0][2 * half] = four.x, x[1][2 * half] = four.y;
      x[0][2 * half + 1] = four.z, x[1][2 * half + 1] = four.w;
    }
  }
  __device__ void store(float* to, const float (&x)[J][2][4]) const {
    CT_FOR2(half, 2, j, J) {
      if (row(half) < V && column(j) < P)
        *reinterpret_cast<float4*>(to + std::int64_t{row(half)} * P + column(j)) = fwm_four(x[j], half);
    }
  }
  /// By one warp, lane t % 16 for token t of the chunk: gram [16][16] gets beta_i k_i.k_t in row i. Returns
  /// |k_t|^2.
  __device__ float gram(const FwmKeys& keys, float token_beta, float* gram) const {
    float small[2][4] = {}, large[2][4] = {};
    CT_FOR(j, J) {
      const float* row = keys.rows + at(g, j, q);
      const float4 high[2] = {fwm_float4(row), fwm_float4(row + 8 * 16 * J)},
                   low[2] = {fwm_float4(row + kKeys), fwm_float4(row + 8 * 16 * J + kKeys)};
      const FwmFactor even({high[0].x, high[1].x, high[0].y, high[1].y},
                           {low[0].x, low[1].x, low[0].y, low[1].y}),
          odd({high[0].z, high[1].z, high[0].w, high[1].w}, {low[0].z, low[1].z, low[0].w, low[1].w});
      CT_FOR(n, 2) {  // as right factors, the same numbers
        fwm_add_split(small[n], large[n], even, high[n].x, high[n].y, low[n].x, low[n].y);
        fwm_add_split(small[n], large[n], odd, high[n].z, high[n].w, low[n].z, low[n].w);
      }
    }
    float squares[2] = {};
    CT_FOR(half, 2) {
      const float b = __shfl_sync(kFullWarp, token_beta, g + 8 * half);
      CT_FOR2(n, 2, i, 2) {
        const float x = large[n][2 * half + i] + small[n][2 * half + i];
        gram[(g + 8 * half) * C + 8 * n + 2 * q + i] = b * x;
        if (n == half && 2 * q + i == g) squares[half] = x;
      }
    }
    const int t = lane % C, from = t % 8 * 4 + t % 8 / 2;  // the lane with the diagonal of rows t % 8
    const float first = __shfl_sync(kFullWarp, squares[0], from),
                second = __shfl_sync(kFullWarp, squares[1], from);
    __syncwarp();
    return t < 8 ? first : second;
  }
};

/// add(read(w)) for each warp w, in order; of four at a time all are read before any is added.
CT_DEVICE void fwm_over_warps(int warps, auto&& read, auto&& add) {
  int w = 0;
  CT_ROLLED(; w + 4 <= warps; w += 4) {
    const decltype(read(0)) part[4] = {read(w), read(w + 1), read(w + 2), read(w + 3)};
    CT_FOR(i, 4) add(part[i]);
  }
  CT_ROLLED(; w < warps; ++w) add(read(w));
}

/// 1 / x for x within 2^-120 .. 2^120.
CT_DEVICE float fwm_reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return fmaf(fmaf(-x, y, 1.0f), y, y);
}

/// Calls f(J, warps at most, warps) for up to 128 columns and 256 rows. A block has one warp more: registers are given
/// to warps by fours.
void with_fwm_chunks(int P, int V, auto&& f) {
  const int warps = (V + 15) / 16;
  with_least<4, 8>((P + 15) / 16, [&](auto J) {
    with_least<3, 7, 11, 15, 16>(warps, [&](auto most) { f(J, most, warps); });
  });
}

}  // namespace crosstalk::device
