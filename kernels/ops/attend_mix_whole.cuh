// AttendMix by one block a sequence and head: up to 256 queries in heads of up to 128, operands in bf16, no bias.
//
// Queries (backward: and the gradients of what they read) stay in shared memory; keys and values pass by in chunks, of which a
// warp reads 32 keys for its 16 queries. Backward it makes their weights and their gradients (by rows, as in attend_mix_tiles.cuh), adds
// to its d_x and leaves both in shared memory; then warps make d_k and d_v of the chunk from there. With fewer queries, warps
// share them and take other keys of a longer chunk, and their d_x are added in the order of the keys.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/ops/attend_mix_tiles.cuh"

namespace crosstalk::device {

/// Threads of a block: two blocks share a multiprocessor where heads are narrow and queries few.
constexpr int kWholeThreads = 512, kHalfThreads = 256, kWholeQueries = kWholeThreads / 2, kHalfQueries = 64;

/// How a size is cut.
struct WholeCut {
  int query_warps, chunk;  ///< groups of 16 queries; keys at once

  static int up_to(int n, int unit) { return (n + unit - 1) / unit * unit; }
  WholeCut(int Q, int T, int threads) : query_warps(1) {
    while (16 * query_warps < Q) query_warps *= 2;
    const int most = 32 * (threads / 32 / query_warps), all = up_to(T, 32);
    chunk = most < all ? most : all;
    if (chunk > 256) chunk = 256;
  }
  template <class Tile>
  int read_bytes() const {
    const int rows = 16 * query_warps, tiles = Tile::bytes(rows + 2 * chunk),
              sums = rows * (chunk / 32) * Tile::kD * 4;
    return (tiles > sums ? tiles : sums) + kWholeQueries * 8;
  }
  template <class Tile>
  int gradient_bytes() const {
    const int rows = 16 * query_warps, tiles = Tile::bytes(2 * (rows + chunk)) + 4 * rows * (chunk + 8),
              sums = rows * (chunk / 32) * Tile::kD * 4;
    return (tiles > sums ? tiles : sums) + rows * 16 + kWholeThreads / 32 * 4;
  }
};

/// Four neighbours of row n of N, of C numbers; anything outside.
template <int D>
__device__ __forceinline__ Four<float> whole_fetch(const HeadRows<float>& rows, int n, int N, int c, int C) {
  return *reinterpret_cast<const Four<float>*>(rows(min(n, N - 1)) + (c < C ? c : 0));
}
template <class Tile>
__device__ __forceinline__ void whole_keep(const Tile& tile, int row, int c, const Four<float>& x,
                                           bool inside) {
  *reinterpret_cast<uint2*>(tile.numbers + row * Tile::kStep + c) =
      inside ? make_uint2(bf16_pair(x.v[0], x.v[1]), bf16_pair(x.v[2], x.v[3])) : make_uint2(0, 0);
}

/// Keys and values of a chunk on their way to shared memory, kBatch turns of the block at once: rows of keys, then of values.
template <class Tile, int kThreads>
struct WholeChunk {
  static constexpr int D = Tile::kD, kFours = D / 4, kStride = kThreads / kFours, kBatch = 4;
  HeadRows<float> k, v;
  Tile ks, vs;
  int chunk, T, K, V;
  Four<float> next[kBatch];

  __device__ void fetch(int m0, int turn) {
    const int c = static_cast<int>(threadIdx.x) % kFours * 4;
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int row = static_cast<int>(threadIdx.x) / kFours + (turn + i) * kStride;
      if (row < chunk) {
        next[i] = whole_fetch<D>(k, m0 + row, T, c, K);
      } else if (row < 2 * chunk) {
        next[i] = whole_fetch<D>(v, m0 + row - chunk, T, c, V);
      }
    }
  }
  __device__ void keep(int m0, int turn) {
    const int c = static_cast<int>(threadIdx.x) % kFours * 4;
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int row = static_cast<int>(threadIdx.x) / kFours + (turn + i) * kStride;
      if (row < chunk) {
        whole_keep(ks, row, c, next[i], m0 + row < T && c < K);
      } else if (row < 2 * chunk) {
        whole_keep(vs, row - chunk, c, next[i], m0 + row - chunk < T && c < V);
      }
    }
  }
  /// The first turns are fetched already.
  __device__ void keep_all(int m0) {
    keep(m0, 0);
#pragma unroll 1
    for (int turn = kBatch; turn * kStride < 2 * chunk; turn += kBatch) fetch(m0, turn), keep(m0, turn);
  }
};

/// What is read, and L.
template <class Tile, int kThreads>
__global__ void __launch_bounds__(kThreads, kWholeThreads / kThreads)
    whole_read(const __grid_constant__ AttendMix<float> op, int query_warps, int chunk) {
  constexpr int D = Tile::kD, kStep = Tile::kStep, kFours = D / 4, kStride = kThreads / kFours, kBatch = 4;
  extern __shared__ __align__(16) unsigned char memory[];
  const int rows = 16 * query_warps, parts = chunk / 32, bh = blockIdx.x, r = blockIdx.y;
  auto* const tops = reinterpret_cast<float2*>(memory);  // [parts][rows]: largest, sum
  const Tile xs{reinterpret_cast<typename Tile::Number*>(tops + kWholeQueries)};
  const int T = op.T(), Q = op.Q(), K = op.K(), V = op.V();
  const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32, c = thread % kFours * 4;
  WholeChunk<Tile, kThreads> others{rows_of(op, op.k.value, r, bh),
                                    rows_of(op, op.v.value, r, bh),
                                    Tile{xs.numbers + rows * kStep},
                                    Tile{xs.numbers + (rows + chunk) * kStep},
                                    chunk,
                                    T,
                                    K,
                                    V,
                                    {}};
  const HeadRows<float> x = rows_of(op, op.x.value, r, bh);
#pragma unroll 1
  for (int n0 = thread / kFours; n0 < rows; n0 += kBatch * kStride) {
    Four<float> a[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) a[i] = whole_fetch<D>(x, n0 + i * kStride, Q, c, K);
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int n = n0 + i * kStride;
      if (n < rows) whole_keep(xs, n, c, a[i], n < Q && c < K);
    }
  }
  const int own = warp % query_warps, part = warp / query_warps, q0 = 16 * own, k0 = 32 * part;
  const Query<float> query[2] = {query_of<false>(op, r, bh, q0 + lane / 4),
                                 query_of<false>(op, r, bh, q0 + lane / 4 + 8)};
  const float scale = static_cast<float>(op.scale) * kLog2E;
  const float beside =
      op.normalised && part == 0 ? static_cast<float>(op.beside(r, bh % op.H())) * kLog2E : -INFINITY;
  float largest[2] = {beside, beside}, total[2] = {}, sums[D / 8][4] = {};
  if (beside > -INFINITY && lane % 4 == 0) total[0] = total[1] = 1;
  others.fetch(0, 0);
#pragma unroll 1
  for (int m0 = 0; m0 < T; m0 += chunk) {
    others.keep_all(m0);
    __syncthreads();
    if (m0 + chunk < T) others.fetch(m0 + chunk, 0);
    const int j0 = m0 + k0;
    if (part < parts &&
        __any_sync(kFullWarp, query[0].sees_of(j0, j0 + 32) || query[1].sees_of(j0, j0 + 32))) {
      float s[4][4];
      scores(xs, q0, others.ks, k0, s);
      float now[2] = {largest[0], largest[1]};
#pragma unroll
      for (int n = 0; n < 4; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const bool sees = query[e / 2].sees(j0 + n * 8 + 2 * (lane % 4) + e % 2);
          s[n][e] = sees ? scale * s[n][e] : -INFINITY;
          now[e / 2] = fmaxf(now[e / 2], s[n][e]);
        }
      }
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float m = now[half];
        m = fmaxf(m, __shfl_xor_sync(kFullWarp, m, 1));
        m = fmaxf(m, __shfl_xor_sync(kFullWarp, m, 2));
        if (!op.normalised) m = 0;
        now[half] = m == -INFINITY ? 0 : m;  // nothing seen yet
        const float factor = op.normalised ? power_of_two(largest[half] - now[half]) : 1;
        largest[half] = m;
        total[half] *= factor;
#pragma unroll
        for (int n = 0; n < D / 8; ++n) sums[n][2 * half] *= factor, sums[n][2 * half + 1] *= factor;
      }
#pragma unroll
      for (int n = 0; n < 4; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) s[n][e] = power_of_two(s[n][e] - now[e / 2]), total[e / 2] += s[n][e];
      }
      mix(s, others.vs, k0, sums);
    }
    __syncthreads();
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) total[half] = row_sum(total[half]);
  const HeadRows<float> o = rows_of(op, op.o.value, r, bh);
  const auto keep_row = [&](int n, float top, float sum) {
    if (op.row && n < Q)
      op.row.value.at(r)[static_cast<std::int64_t>(bh) * Q + n] =
          op.normalised && sum > 0 ? top + log2f(sum) : 0;
  };
  if (parts == 1) {
    if (part > 0) return;
    float factor[2] = {1, 1};
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (op.normalised) factor[half] = total[half] > 0 ? 1 / total[half] : 0;
      if (lane % 4 == 0) keep_row(q0 + lane / 4 + 8 * half, largest[half], total[half]);
    }
    store(Write::overwrite, o, q0, Q, V, sums, factor);
    return;
  }
  auto* const partial = reinterpret_cast<float*>(xs.numbers);  // [parts][rows][D]
  if (part < parts) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int n = part * rows + q0 + lane / 4 + 8 * half;
      if (lane % 4 == 0) tops[n] = make_float2(largest[half], total[half]);
#pragma unroll
      for (int i = 0; i < D / 8; ++i)
        *reinterpret_cast<float2*>(partial + n * D + i * 8 + 2 * (lane % 4)) =
            make_float2(sums[i][2 * half], sums[i][2 * half + 1]);
    }
  }
  __syncthreads();
  for (int at = thread; at < min(rows, Q) * kFours; at += kThreads) {
    const int n = at / kFours;
    float top = -INFINITY, sum = 0, v[4] = {};
    for (int p = 0; p < parts; ++p) top = fmaxf(top, tops[p * rows + n].x);
    for (int p = 0; p < parts; ++p) {
      const float2 of = tops[p * rows + n];
      const float factor = !op.normalised ? 1 : of.x == -INFINITY ? 0 : power_of_two(of.x - top);
      const Four<float> some = *reinterpret_cast<const Four<float>*>(partial + (p * rows + n) * D + c);
      sum += factor * of.y;
#pragma unroll
      for (int e = 0; e < 4; ++e) v[e] += factor * some.v[e];
    }
    if (c == 0) keep_row(n, top, sum);
    const float factor = !op.normalised ? 1 : sum > 0 ? 1 / sum : 0;
    if (c >= V) continue;
#pragma unroll
    for (int e = 0; e < 4; ++e) o(n)[c + e] = factor * v[e];
  }
}

template <class Tile, int kThreads>
__global__ void __launch_bounds__(kThreads, kWholeThreads / kThreads)
    whole_gradient(const __grid_constant__ AttendMix<float> op, int query_warps, int chunk) {
  constexpr int D = Tile::kD, kStep = Tile::kStep, kFours = D / 4, kStride = kThreads / kFours, kBatch = 4;
  extern __shared__ __align__(16) unsigned char memory[];
  const int rows = 16 * query_warps, parts = chunk / 32, weight_step = chunk + 8;
  auto* const queries = reinterpret_cast<float4*>(memory);     // first and last token seen, L, D
  auto* const meets = reinterpret_cast<int*>(queries + rows);  // whether a part's queries and keys do
  const Tile xs{reinterpret_cast<typename Tile::Number*>(meets + kWholeThreads / 32)},
      us{xs.numbers + rows * kStep}, ks{us.numbers + rows * kStep}, vs{ks.numbers + chunk * kStep};
  std::uint16_t *const as = vs.numbers + chunk * kStep, *const ds = as + rows * weight_step;
  const int T = op.T(), Q = op.Q(), K = op.K(), V = op.V(), bh = blockIdx.x, r = blockIdx.y;
  const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32, c = thread % kFours * 4;
  const HeadRows<float> x = rows_of(op, op.x.value, r, bh), k = rows_of(op, op.k.value, r, bh),
                        v = rows_of(op, op.v.value, r, bh), o = rows_of(op, op.o.value, r, bh),
                        d_o = rows_of(op, op.o.gradient, r, bh);
  // Queries, d_o, and D.
#pragma unroll 1
  for (int n0 = thread / kFours; n0 < rows; n0 += kBatch * kStride) {
    Four<float> a[kBatch], b[kBatch], e[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int n = n0 + i * kStride;
      a[i] = whole_fetch<D>(x, n, Q, c, K);
      b[i] = whole_fetch<D>(d_o, n, Q, c, V);
      e[i] = whole_fetch<D>(o, n, Q, c, V);
    }
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int n = n0 + i * kStride;
      float along = 0;
#pragma unroll
      for (int j = 0; j < 4; ++j) along += b[i].v[j] * e[i].v[j];
      if (!op.normalised || c >= V) along = 0;
#pragma unroll
      for (int offset = kFours / 2 < 16 ? kFours / 2 : 16; offset > 0; offset /= 2)
        along += __shfl_xor_sync(kFullWarp, along, offset);
      if (n >= rows) continue;
      whole_keep(xs, n, c, a[i], n < Q && c < K);
      whole_keep(us, n, c, b[i], n < Q && c < V);
      if (c > 0) continue;
      float4 query = make_float4(__int_as_float(0), __int_as_float(0), 0, along);
      if (n < Q) {
        const std::int64_t at = static_cast<std::int64_t>(bh) * Q + n;
        const SeenTokens seen = seen_tokens(op, r, bh / op.H(), n);
        query.x = __int_as_float(seen.first), query.y = __int_as_float(seen.last);
        query.z = op.row.value.at(r)[at];
        op.d_rows.value.at(r)[2 * at] = along;
      }
      queries[n] = query;
    }
  }
  WholeChunk<Tile, kThreads> others{k, v, ks, vs, chunk, T, K, V, {}};
  const float scale = static_cast<float>(op.scale) * kLog2E;
  const int own = warp % query_warps, part = warp / query_warps, q0 = 16 * own, k0 = 32 * part;
  float sums[D / 8][4] = {};
  others.fetch(0, 0);
#pragma unroll 1
  for (int m0 = 0; m0 < T; m0 += chunk) {
    others.keep_all(m0);
    __syncthreads();
    if (part < parts) {
      const float4 query[2] = {queries[q0 + lane / 4], queries[q0 + lane / 4 + 8]};
      bool meet = false;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int first = __float_as_int(query[half].x), last = __float_as_int(query[half].y);
        meet = meet || (first < last && first < m0 + k0 + 32 && last > m0 + k0);
      }
      meet = __any_sync(kFullWarp, meet);
      if (lane == 0) meets[part * query_warps + own] = meet;
      if (meet) {
#pragma unroll 1
        for (int j0 = k0; j0 < k0 + 32; j0 += 16) {  // more at once than registers hold
          float a[2][4], d[2][4];
          scores(xs, q0, ks, j0, a);
          scores(us, q0, vs, j0, d);
#pragma unroll
          for (int n = 0; n < 2; ++n) {
#pragma unroll
            for (int e = 0; e < 4; ++e) {
              const float4& q = query[e / 2];
              const int j = m0 + j0 + n * 8 + 2 * (lane % 4) + e % 2;
              const bool sees = j >= __float_as_int(q.x) && j < __float_as_int(q.y);
              a[n][e] = sees ? power_of_two(fmaf(a[n][e], scale, -q.z)) : 0;
              d[n][e] = a[n][e] * (d[n][e] - q.w);
            }
#pragma unroll
            for (int half = 0; half < 2; ++half) {
              const int at = (q0 + lane / 4 + 8 * half) * weight_step + j0 + n * 8 + 2 * (lane % 4);
              *reinterpret_cast<unsigned*>(as + at) = bf16_pair(a[n][2 * half], a[n][2 * half + 1]);
              *reinterpret_cast<unsigned*>(ds + at) = bf16_pair(d[n][2 * half], d[n][2 * half + 1]);
            }
          }
          mix(d, ks, j0, sums);
        }
      }
    }
    __syncthreads();
    if (m0 + chunk < T) others.fetch(m0 + chunk, 0);
    // d_k and d_v of 16 keys and 32 columns at a time.
    constexpr int kAcross = D / 32;
#pragma unroll 1
    for (int unit = warp; unit < chunk / 16 * kAcross * 2; unit += kThreads / 32) {
      const bool values = unit % 2;
      const int c0 = unit / 2 % kAcross * 32, j0 = unit / 2 / kAcross * 16;
      if (m0 + j0 >= T) break;
      const std::uint16_t* weights =
          (values ? as : ds) + (lane / 16 * 8 + lane % 8) * weight_step + j0 + lane / 8 % 2 * 8;
      const std::uint16_t* from = (values ? us : xs).numbers + lane % 16 * kStep + c0 + lane / 16 * 8;
      float out[4][4] = {};
#pragma unroll 1
      for (int i = 0; i < query_warps; ++i) {
        if (!meets[j0 / 32 * query_warps + i]) continue;
        unsigned w[4], y[2][4];
        load_matrices<true>(w, weights + 16 * i * weight_step);
        load_matrices<true>(y[0], from + 16 * i * kStep);
        load_matrices<true>(y[1], from + 16 * i * kStep + 16);
#pragma unroll
        for (int n = 0; n < 4; ++n) mma_bf16(out[n], w, y[n / 2][n % 2 * 2], y[n / 2][n % 2 * 2 + 1]);
      }
      const In<float>& field = values ? op.v : op.k;
      if (!field.wanted()) continue;
      const float factor = values ? 1 : static_cast<float>(op.scale);
      const HeadRows<float> to = rows_of(op, field.gradient, r, bh);
      const int columns = values ? V : K;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int j = m0 + j0 + lane / 4 + 8 * half;
        if (j >= T) continue;
#pragma unroll
        for (int n = 0; n < 4; ++n) {
          const int column = c0 + n * 8 + 2 * (lane % 4);
          if (column >= columns) continue;
          float2* pair = reinterpret_cast<float2*>(to(j) + column);
          float2 sum = make_float2(factor * out[n][2 * half], factor * out[n][2 * half + 1]);
          if (field.write == Write::add) sum.x += pair->x, sum.y += pair->y;
          *pair = sum;
        }
      }
    }
    __syncthreads();
  }
  if (!op.x.wanted()) return;
  const HeadRows<float> d_x = rows_of(op, op.x.gradient, r, bh);
  const float factor[2] = {static_cast<float>(op.scale), static_cast<float>(op.scale)};
  if (parts == 1) {
    if (part == 0) store(op.x.write, d_x, q0, Q, K, sums, factor);
    return;
  }
  auto* const partial = reinterpret_cast<float*>(xs.numbers);  // [parts][rows][D]
  if (part < parts) {
#pragma unroll
    for (int n = 0; n < D / 8; ++n) {
#pragma unroll
      for (int half = 0; half < 2; ++half)
        *reinterpret_cast<float2*>(partial + (part * rows + q0 + lane / 4 + 8 * half) * D + n * 8 +
                                   2 * (lane % 4)) = make_float2(sums[n][2 * half], sums[n][2 * half + 1]);
    }
  }
  __syncthreads();
  for (int at = thread; at < min(rows, Q) * kFours; at += kThreads) {
    const int n = at / kFours;
    if (c >= K) continue;
    float sum[4] = {};
    for (int p = 0; p < parts; ++p) {
      const Four<float> some = *reinterpret_cast<const Four<float>*>(partial + (p * rows + n) * D + c);
#pragma unroll
      for (int e = 0; e < 4; ++e) sum[e] += some.v[e];
    }
#pragma unroll
    for (int e = 0; e < 4; ++e) put(op.x.write, d_x(n) + c + e, factor[0] * sum[e]);
  }
}

}  // namespace crosstalk::device
