// AttendMix on the tensor cores, heads of up to 128: a block owns 64 rows and walks over the tiles of the other side.
//
// A warp has 16 of the rows. Scores stay in the registers in which mma leaves them, and are an operand of the next product
// from there. Backward, rows are queries (d_x) and then keys (d_k, d_v, of transposed scores), with the same tiles: a block
// that has few of the one has many of the other. Sums are in a fixed order, nobody adds to what another block writes.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/ops/attend_mix_parts.cuh"
#include "kernels/ops/tensor_core.cuh"

namespace crosstalk::device {

constexpr int kTileThreads = 128, kTileRows = 64;
constexpr float kLog2E = 1.44269504088896340736f;

/// Rows of up to kD numbers in shared memory, as operands of products.
template <Precision kPrecision_, int kD_>
struct Tile {
  static constexpr Precision kPrecision = kPrecision_;
  static constexpr int kD = kD_;
  static constexpr bool kHalf = kPrecision == Precision::bf16;
  using Number = std::conditional_t<kHalf, std::uint16_t, float>;
  static constexpr int kStep =
      kD + (kHalf ? 8 : 4);  ///< so that neighbours in a column lie in different banks
  /// Columns that are loaded at once, and that are scored at once in backward.
  static constexpr int kColumns = kHalf || kD <= 64 ? 64 : 32;
  static constexpr int kPart = kPrecision == Precision::full && kD > 64 ? 16 : 32;

  Number* numbers;

  static constexpr int bytes(int rows) { return rows * kStep * static_cast<int>(sizeof(Number)); }

  static constexpr int kFours = kD / 4, kStride = kTileThreads / kFours;
  static_assert(kTileThreads % kFours == 0);
  /// This thread's share of kBatch kStride rows from n0, of N rows of C numbers.
  template <int kBatch>
  static __device__ __forceinline__ void fetch(const HeadRows<float>& rows, int n0, int N, int C,
                                               Four<float> (&x)[kBatch]) {
    const int c = static_cast<int>(threadIdx.x) % kFours * 4;
    n0 += static_cast<int>(threadIdx.x) / kFours;
    if (C % 4 == 0 && is_aligned16(rows.first)) {  // no branch a load: what lies outside is not kept
      const float* from = rows.first + (c < C ? c : 0);
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        const int n = n0 + i * kStride;
        x[i] = *reinterpret_cast<const Four<float>*>(from + (n < N ? n : N - 1) * rows.step);
      }
    } else {
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        const int n = n0 + i * kStride;
        load4(rows(n) + c, n < N ? C - c : 0, false, x[i].v);
      }
    }
  }
  /// Puts it into rows `from` of the tile, which are rows n0 of N; zeros beyond those.
  template <int kBatch>
  __device__ __forceinline__ void keep(int from, int n0, int N, int C, const Four<float> (&x)[kBatch]) const {
    const int c = static_cast<int>(threadIdx.x) % kFours * 4, first = static_cast<int>(threadIdx.x) / kFours;
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const bool inside = c < C && n0 + first + i * kStride < N;
      float y[4];
#pragma unroll
      for (int e = 0; e < 4; ++e) y[e] = inside ? x[i].v[e] : 0;
      Number* to = numbers + (from + first + i * kStride) * kStep + c;
      if constexpr (kHalf) {
        *reinterpret_cast<uint2*>(to) = make_uint2(bf16_pair(y[0], y[1]), bf16_pair(y[2], y[3]));
      } else {
        *reinterpret_cast<float4*>(to) =
            make_float4(operand(y[0]), operand(y[1]), operand(y[2]), operand(y[3]));
      }
    }
  }
  static __device__ float operand(float x) {
    return kPrecision == Precision::tf32 ? __uint_as_float(tf32_of(x)) : x;
  }
};

/// Rows n0 .. n0 + kRows of N into two tiles, as many loads on their way at once as registers allow.
template <int kRows, class Tile>
__device__ __forceinline__ void load(const Tile& a, const HeadRows<float>& a_rows, int a_columns,
                                     const Tile& b, const HeadRows<float>& b_rows, int b_columns, int n0,
                                     int N) {
  constexpr int kEach = kRows / Tile::kStride, kBatch = kEach < 8 ? kEach : 8;
  static_assert(kEach % kBatch == 0 && kEach > 0);
#pragma unroll
  for (int i = 0; i < kEach; i += kBatch) {
    Four<float> x[kBatch], y[kBatch];
    const int from = i * Tile::kStride;
    Tile::fetch(a_rows, n0 + from, N, a_columns, x);
    Tile::fetch(b_rows, n0 + from, N, b_columns, y);
    a.keep(from, n0 + from, N, a_columns, x);
    b.keep(from, n0 + from, N, b_columns, y);
  }
}

/// 2^x, 0 where that is no normal float.
__device__ __forceinline__ float power_of_two(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// c += a b, 16 x 8 by 8 x 8, of what Tile::operand() made.
template <Precision kPrecision>
__device__ __forceinline__ void multiply_add(float (&c)[4], const float (&a)[4], float b0, float b1) {
  if constexpr (kPrecision == Precision::full) {
    unsigned high[4], low[4], y0, y1, z0, z1;
#pragma unroll
    for (int i = 0; i < 4; ++i) split(a[i], high[i], low[i]);
    split(b0, y0, z0), split(b1, y1, z1);
    mma_tf32(c, low, y0, y1);
    mma_tf32(c, high, z0, z1);
    mma_tf32(c, high, y0, y1);
  } else {
    const unsigned x[4] = {__float_as_uint(a[0]), __float_as_uint(a[1]), __float_as_uint(a[2]),
                           __float_as_uint(a[3])};
    mma_tf32(c, x, __float_as_uint(b0), __float_as_uint(b1));
  }
}

/// c = x y^T: rows r0 .. r0 + 16 of x by rows n0 .. of y. A lane has rows l/4 and l/4 + 8 (c[.][0..1], c[.][2..3]) and of
/// every 8 columns numbers 2 (l % 4) and the next.
template <class Tile, int kCount>
__device__ __forceinline__ void scores(const Tile& x, int r0, const Tile& y, int n0, float (&c)[kCount][4]) {
  constexpr int kStep = Tile::kStep;
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int n = 0; n < kCount; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) c[n][e] = 0;
  }
  if constexpr (Tile::kHalf) {
    const auto* xs = x.numbers + (r0 + lane % 16) * kStep + lane / 16 * 8;
    const auto* ys = y.numbers + (n0 + lane % 8 + lane / 16 * 8) * kStep + lane / 8 % 2 * 8;
#pragma unroll
    for (int k = 0; k < Tile::kD; k += 16) {
      unsigned a[4], b[4];
      load_matrices<false>(a, xs + k);
#pragma unroll
      for (int n = 0; n < kCount; n += 2) {
        load_matrices<false>(b, ys + n * 8 * kStep + k);
        mma_bf16(c[n], a, b[0], b[1]);
        mma_bf16(c[n + 1], a, b[2], b[3]);
      }
    }
  } else {
    const float* xs = x.numbers + (r0 + lane / 4) * kStep + lane % 4;
    const float* ys = y.numbers + (n0 + lane / 4) * kStep + lane % 4;
    // The tensor cores cut when they add: where that would show, sums of few terms, added by the CUDA cores.
    constexpr int kRun = Tile::kPrecision == Precision::full ? 32 : Tile::kD;
#pragma unroll
    for (int k0 = 0; k0 < Tile::kD; k0 += kRun) {
      float part[kCount][4] = {};
#pragma unroll
      for (int k = k0; k < k0 + kRun; k += 8) {
        const float a[4] = {xs[k], xs[8 * kStep + k], xs[k + 4], xs[8 * kStep + k + 4]};
#pragma unroll
        for (int n = 0; n < kCount; ++n)
          multiply_add<Tile::kPrecision>(part[n], a, ys[n * 8 * kStep + k], ys[n * 8 * kStep + k + 4]);
      }
#pragma unroll
      for (int n = 0; n < kCount; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) c[n][e] += part[n][e];
      }
    }
  }
}

/// sums += w y: weights w as scores() lays them by rows n0 .. of y. Lanes of `sums` as of scores.
template <class Tile, int kCount>
__device__ __forceinline__ void mix(const float (&w)[kCount][4], const Tile& y, int n0,
                                    float (&sums)[Tile::kD / 8][4]) {
  constexpr int kStep = Tile::kStep;
  const int lane = threadIdx.x % 32;
  if constexpr (Tile::kHalf) {
    const auto* ys = y.numbers + (n0 + lane % 16) * kStep + lane / 16 * 8;
#pragma unroll
    for (int j = 0; j < kCount; j += 2) {
      const unsigned a[4] = {bf16_pair(w[j][0], w[j][1]), bf16_pair(w[j][2], w[j][3]),
                             bf16_pair(w[j + 1][0], w[j + 1][1]), bf16_pair(w[j + 1][2], w[j + 1][3])};
#pragma unroll
      for (int n = 0; n < Tile::kD / 8; n += 2) {
        unsigned b[4];
        load_matrices<true>(b, ys + j * 8 * kStep + n * 8);
        mma_bf16(sums[n], a, b[0], b[1]);
        mma_bf16(sums[n + 1], a, b[2], b[3]);
      }
    }
  } else {
    // mma's k 0..3 are the even tokens here and 4..7 the odd ones: then a lane has its operand already.
    const float* ys = y.numbers + (n0 + 2 * (lane % 4)) * kStep + lane / 4;
#pragma unroll
    for (int n = 0; n < Tile::kD / 8; ++n) {
      float part[4] = {};
#pragma unroll
      for (int j = 0; j < kCount; ++j) {
        const float a[4] = {Tile::operand(w[j][0]), Tile::operand(w[j][2]), Tile::operand(w[j][1]),
                            Tile::operand(w[j][3])};
        multiply_add<Tile::kPrecision>(part, a, ys[j * 8 * kStep + n * 8], ys[(j * 8 + 1) * kStep + n * 8]);
      }
#pragma unroll
      for (int e = 0; e < 4; ++e) sums[n][e] += part[e];
    }
  }
}

/// This lane's numbers of `sums` times factor[row] into rows n0 .. of N rows of C.
template <int kCount>
__device__ __forceinline__ void store(Write mode, const HeadRows<float>& rows, int n0, int N, int C,
                                      const float (&sums)[kCount][4], const float (&factor)[2]) {
  const int lane = threadIdx.x % 32;
  const bool pairs = C % 2 == 0 && is_aligned16(rows.first) && mode == Write::overwrite;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = n0 + lane / 4 + 8 * half;
    if (row >= N) continue;
    float* to = rows(row) + 2 * (lane % 4);
#pragma unroll
    for (int n = 0; n < kCount; ++n) {
      const int c = n * 8 + 2 * (lane % 4);
      const float x = factor[half] * sums[n][2 * half], y = factor[half] * sums[n][2 * half + 1];
      if (pairs) {
        if (c < C) *reinterpret_cast<float2*>(to + n * 8) = make_float2(x, y);
      } else {
        if (c < C) put(mode, to + n * 8, x);
        if (c + 1 < C) put(mode, to + n * 8 + 1, y);
      }
    }
  }
}

/// Sums over the four lanes that share rows.
__device__ __forceinline__ float row_sum(float x) {
  x += __shfl_xor_sync(kFullWarp, x, 1);
  return x + __shfl_xor_sync(kFullWarp, x, 2);
}

template <class Tile>
constexpr int read_bytes() {
  return Tile::bytes(kTileRows + 2 * Tile::kColumns) +
         Tile::kColumns * static_cast<int>(sizeof(Phase<float>));
}

template <class Tile>
__global__ void __launch_bounds__(kTileThreads) read_tiles(const __grid_constant__ AttendMix<float> op) {
  constexpr int kColumns = Tile::kColumns, kCount = kColumns / 8;
  extern __shared__ unsigned char memory[];
  const Tile xs{reinterpret_cast<typename Tile::Number*>(memory)}, ks{xs.numbers + kTileRows * Tile::kStep},
      vs{ks.numbers + kColumns * Tile::kStep};
  auto* phases = reinterpret_cast<Phase<float>*>(vs.numbers + kColumns * Tile::kStep);
  const int T = op.T(), Q = op.Q(), K = op.K(), V = op.V(), blocks = (Q + kTileRows - 1) / kTileRows;
  const int bh = static_cast<int>(blockIdx.x) / blocks, r = blockIdx.y;
  // The last queries see most: they begin.
  const int i0 = (blocks - 1 - static_cast<int>(blockIdx.x) % blocks) * kTileRows;
  const int lane = threadIdx.x % 32, r0 = static_cast<int>(threadIdx.x) / 32 * 16;
  const HeadRows<float> k = rows_of(op, op.k.value, r, bh), v = rows_of(op, op.v.value, r, bh);
  const Query<float> query[2] = {query_of<false>(op, r, bh, i0 + r0 + lane / 4),
                                 query_of<false>(op, r, bh, i0 + r0 + lane / 4 + 8)};
  const float scale = static_cast<float>(op.scale) * kLog2E;
  const bool biased = op.biased();
  const float beside =
      op.normalised ? static_cast<float>(op.beside(r, bh % op.H())) * kLog2E : -INFINITY;  // to base 2
  float largest[2] = {beside, beside}, total[2] = {}, sums[Tile::kD / 8][4] = {};
  if (beside > -INFINITY && lane % 4 == 0) total[0] = total[1] = 1;
  {
    Four<float> x[kTileRows / Tile::kStride];
    Tile::fetch(rows_of(op, op.x.value, r, bh), i0, Q, K, x);
    xs.keep(0, i0, Q, K, x);
  }
  for (int j0 = 0; j0 < T; j0 += kColumns) {
    if (!__syncthreads_or(query[0].sees_of(j0, j0 + kColumns) || query[1].sees_of(j0, j0 + kColumns)))
      continue;
    load<kColumns>(ks, k, K, vs, v, V, j0, T);
    if (biased && static_cast<int>(threadIdx.x) < kColumns)
      phases[threadIdx.x] = phase_of(op, r, bh, j0 + static_cast<int>(threadIdx.x));
    __syncthreads();
    float s[kCount][4];
    scores(xs, r0, ks, 0, s);
    float now[2] = {largest[0], largest[1]};
    const int left = j0 + 2 * (lane % 4);
    const int first[2] = {query[0].first - left, query[1].first - left};
    const int last[2] = {query[0].last - left, query[1].last - left};
#pragma unroll
    for (int n = 0; n < kCount; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int c = n * 8 + e % 2;
        const float bias = biased ? query[e / 2].phase - phases[c + 2 * (lane % 4)] : 0.f;
        s[n][e] = c >= first[e / 2] && c < last[e / 2] ? fmaf(s[n][e], scale, bias) : -INFINITY;
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
      for (int n = 0; n < Tile::kD / 8; ++n) sums[n][2 * half] *= factor, sums[n][2 * half + 1] *= factor;
    }
#pragma unroll
    for (int n = 0; n < kCount; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) s[n][e] = power_of_two(s[n][e] - now[e / 2]), total[e / 2] += s[n][e];
    }
    mix(s, vs, 0, sums);
  }
  float factor[2] = {1, 1};
#pragma unroll
  for (int half = 0; half < 2 && op.normalised; ++half) {
    total[half] = row_sum(total[half]);
    factor[half] = total[half] > 0 ? 1 / total[half] : 0;
  }
  store(Write::overwrite, rows_of(op, op.o.value, r, bh), i0 + r0, Q, V, sums, factor);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int i = i0 + r0 + lane / 4 + 8 * half;
    if (op.row && lane % 4 == 0 && i < Q)
      op.row.value.at(r)[static_cast<std::int64_t>(bh) * Q + i] =
          op.normalised && total[half] > 0 ? largest[half] + log2f(total[half]) : 0;
  }
}

/// Of a query in the columns of a tile of transposed scores.
struct ColumnQuery {
  int first, last;
  float row, along;
};

template <class Tile>
constexpr int gradient_bytes() {
  return Tile::bytes(2 * kTileRows + 2 * Tile::kColumns) +
         Tile::kColumns * static_cast<int>(sizeof(Phase<float>) + sizeof(ColumnQuery));
}

/// Gradients of rows n0 .. n0 + 64 of one side.
template <Side kSide, class Tile>
__device__ __forceinline__ void tile_gradients(const AttendMix<float>& op, int r, int bh, int n0,
                                               unsigned char* memory) {
  constexpr bool kKeys = kSide == Side::keys;
  constexpr int kColumns = Tile::kColumns, kPart = Tile::kPart, kCount = kPart / 8;
  const Tile xs{reinterpret_cast<typename Tile::Number*>(memory)}, us{xs.numbers + kTileRows * Tile::kStep},
      ys{us.numbers + kTileRows * Tile::kStep}, ws{ys.numbers + kColumns * Tile::kStep};
  auto* queries = reinterpret_cast<ColumnQuery*>(ws.numbers + kColumns * Tile::kStep);
  auto* phases = reinterpret_cast<Phase<float>*>(queries + kColumns);
  const int T = op.T(), Q = op.Q(), K = op.K(), V = op.V(), own_rows = kKeys ? T : Q, others = kKeys ? Q : T;
  const int thread = threadIdx.x, lane = thread % 32, r0 = thread / 32 * 16, row = n0 + r0 + lane / 4;
  const HeadRows<float> x = rows_of(op, op.x.value, r, bh), k = rows_of(op, op.k.value, r, bh),
                        v = rows_of(op, op.v.value, r, bh), d_o = rows_of(op, op.o.gradient, r, bh);
  Query<float> own[2];  // of keys: the phase alone
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    if constexpr (kKeys) {
      own[half].phase = phase_of(op, r, bh, row + 8 * half);
    } else {
      own[half] = query_of<true>(op, r, bh, row + 8 * half);
    }
  }
  const float scale = static_cast<float>(op.scale) * kLog2E;
  const bool biased = op.biased();
  float sums[Tile::kD / 8][4] = {}, value_sums[kKeys ? Tile::kD / 8 : 1][4] = {}, line[2] = {};
  __syncthreads();  // the memory may still be read
  load<kTileRows>(xs, kKeys ? k : x, K, us, kKeys ? v : d_o, V, n0, own_rows);
  for (int m0 = 0; m0 < others; m0 += kColumns) {
    Query<float> column;
    if (kKeys && thread < kColumns) column = query_of<true>(op, r, bh, m0 + thread);
    const bool meets = kKeys ? column.sees_of(n0, n0 + kTileRows)
                             : own[0].sees_of(m0, m0 + kColumns) || own[1].sees_of(m0, m0 + kColumns);
    if (!__syncthreads_or(meets)) continue;
    load<kColumns>(ys, kKeys ? x : k, K, ws, kKeys ? d_o : v, V, m0, others);
    if (thread < kColumns) {
      if (kKeys) queries[thread] = {column.first, column.last, column.row, column.along};
      if (biased) phases[thread] = kKeys ? column.phase : phase_of(op, r, bh, m0 + thread);
    }
    __syncthreads();
#pragma unroll 1
    for (int c0 = 0; c0 < kColumns; c0 += kPart) {
      bool meet;  // whether any pair of this warp is seen
      if constexpr (kKeys) {
        const ColumnQuery& q = queries[c0 + lane % kPart];
        meet = q.last > n0 + r0 && q.first < n0 + r0 + 16;
      } else {
        meet = own[0].sees_of(m0 + c0, m0 + c0 + kPart) || own[1].sees_of(m0 + c0, m0 + c0 + kPart);
      }
      if (!__any_sync(kFullWarp, meet)) continue;
      float a[kCount][4], d[kCount][4];
      scores(xs, r0, ys, c0, a);
      scores(us, r0, ws, c0, d);
#pragma unroll
      for (int n = 0; n < kCount; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int c = c0 + n * 8 + 2 * (lane % 4) + e % 2;
          ColumnQuery q;
          if constexpr (kKeys) {
            q = queries[c];
          } else {
            q = {own[e / 2].first, own[e / 2].last, own[e / 2].row, own[e / 2].along};
          }
          const int j = kKeys ? row + e / 2 * 8 : m0 + c;
          float bias = 0;
          if (biased) bias = kKeys ? phases[c] - own[e / 2].phase : own[e / 2].phase - phases[c];
          a[n][e] = j >= q.first && j < q.last ? power_of_two(fmaf(a[n][e], scale, bias) - q.row) : 0;
          d[n][e] = a[n][e] * (d[n][e] - q.along);
          line[e / 2] += d[n][e];
        }
      }
      mix(d, ys, c0, sums);
      if constexpr (kKeys) mix(a, ws, c0, value_sums);
    }
  }
  const float factor[2] = {static_cast<float>(op.scale), static_cast<float>(op.scale)}, one[2] = {1, 1};
  const In<float>& field = kKeys ? op.k : op.x;
  if (field.wanted())
    store(field.write, rows_of(op, field.gradient, r, bh), n0 + r0, own_rows, K, sums, factor);
  if constexpr (kKeys) {
    if (op.v.wanted()) store(op.v.write, rows_of(op, op.v.gradient, r, bh), n0 + r0, T, V, value_sums, one);
  }
#pragma unroll
  for (int half = 0; half < 2 && biased; ++half) {
    const float sum = row_sum(line[half]);
    const std::int64_t at = static_cast<std::int64_t>(bh) * own_rows + row + 8 * half;
    if (lane % 4 != 0 || row + 8 * half >= own_rows) continue;
    if (kKeys) {
      op.d_columns.value.at(r)[at] = sum;
    } else {
      op.d_rows.value.at(r)[2 * at + 1] = sum;
    }
  }
}

/// Queries and tokens n0 .. n0 + 64 by one block, in the order of fields(): they may be one variable.
template <class Tile>
__global__ void __launch_bounds__(kTileThreads) gradient_tiles(const __grid_constant__ AttendMix<float> op) {
  extern __shared__ unsigned char memory[];
  const int count = op.Q() > op.T() ? op.Q() : op.T(), blocks = (count + kTileRows - 1) / kTileRows;
  const int bh = static_cast<int>(blockIdx.x) / blocks,
            n0 = static_cast<int>(blockIdx.x) % blocks * kTileRows;
  const int r = blockIdx.y;
  if (n0 < op.Q()) tile_gradients<Side::queries, Tile>(op, r, bh, n0, memory);
  if (n0 < op.T()) tile_gradients<Side::keys, Tile>(op, r, bh, n0, memory);
}

}  // namespace crosstalk::device
