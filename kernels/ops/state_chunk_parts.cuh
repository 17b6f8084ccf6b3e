// What both directions of the chunkwise state share: the sizes, what a chunk's tokens decay and scale by, how rows come
// from global memory, and the inverse of a unit lower triangular matrix. SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/ops/chunk_product.cuh"
#include "kernels/ops/state_read.h"

namespace crosstalk::device {

/// Sizes of a block of threads that walks one sequence and head. kSize: of keys and of values, padded.
template <Precision kFormat_, int kSize>
struct StateTile {
  static constexpr Precision kFormat = kFormat_;
  using Op = Operand<kFormat>;
  using Type = typename Op::Type;
  static constexpr int D = kSize, C = state_chunk(kSize, kSize, kFormat);
  static constexpr int W = D == 32 ? 4 : 8, kThreads = 32 * W;
  static constexpr int kRow = D + Op::kPad, kSide = C + Op::kPad;  ///< strides of rows of D and of C
  /// Blocks that a multiprocessor is to hold.
  static constexpr int kForwardBlocks = kFormat == Precision::bf16 ? (D == 32   ? 6
                                                                      : D == 64 ? 2
                                                                                : 1)
                                                                   : (D == 32 ? 4 : 1);
  static constexpr int kBackwardBlocks = kFormat == Precision::bf16 ? (D == 32   ? 5
                                                                       : D == 64 ? 2
                                                                                 : 1)
                                                                    : (D == 32 ? 3 : 1);
  using Rows = ChunkSums<kFormat, C, D, W>;   ///< of tokens
  using Side = ChunkSums<kFormat, C, C, W>;   ///< of pairs of tokens
  using State = ChunkSums<kFormat, D, D, W>;  ///< S [v][k]
  using Matrix = Staged<kFormat>;
};

/// Hands out shared memory, in pieces of 16 bytes; of null it only counts.
struct Carve {
  unsigned char* base;
  std::size_t used = 0;
  template <class T>
  CT_HD T* take(std::size_t count) {
    T* p = reinterpret_cast<T*>(base + used);
    used += (count * sizeof(T) + 15) / 16 * 16;
    return p;
  }
};

/// What the tokens of a chunk scale by. G: sums of log decays from the chunk's start to a token's end, each in two parts
/// so that differences of large ones are exact. A row that does not see its own token's decay has the sum before it.
template <int C>
struct ChunkGates {
  float write[C], erase[C];         ///< w; e
  float high[3][C], low[3][C];      ///< G of keys, of reads, of erases
  float read[C], look[C], left[C];  ///< e^G of reads, of erases; e^{G_end - G} of keys
  float all;                        ///< e^{G_end}

  /// e^{G_i - G_j} of a read (1) or an erase (2) and a key.
  __device__ __forceinline__ float between(int row_kind, int i, int j) const {
    return expf((high[row_kind][i] - high[0][j]) + (low[row_kind][i] - low[0][j]));
  }
};

/// What a block needs to know of the sequence and head that it walks.
struct StateWalk {
  int replica, b, h, T, H, K, V, chunks;
  bool gated, solves, tied, even_k, even_v;
  std::int64_t token;  ///< index of its first token among [B,T,H]; tokens lie H apart

  __device__ explicit StateWalk(const StateRead<float>& op)
      : replica(blockIdx.y), T(op.k.value.dim(1)), H(op.H()), K(op.K()), V(op.V()) {
    b = static_cast<int>(blockIdx.x) / H, h = static_cast<int>(blockIdx.x) % H;
    gated = static_cast<bool>(op.log_decay);
    solves = op.erase != Erase::none;
    tied = op.erase == Erase::tied;
    even_k = K % 2 == 0, even_v = V % 2 == 0;
    token = static_cast<std::int64_t>(b) * T * H + h;
  }
  /// Where the rows of the token `t` start in a tensor [R,B,T,H,columns].
  template <class T_>
  __device__ __forceinline__ T_* rows(const Tensor<T_>& x, int t, int columns) const {
    return x.data ? x.at(replica) + (token + static_cast<std::int64_t>(t) * H) * columns : nullptr;
  }
  /// Of the chunk in a tensor [R,B,H,chunks,size].
  template <class T_>
  __device__ __forceinline__ T_* kept(const Tensor<T_>& x, int count, int chunk, int size) const {
    return x.data ? x.at(replica) + ((static_cast<std::int64_t>(b) * H + h) * count + chunk) * size : nullptr;
  }

  /// By one warp: everything in `gates` for the `valid` tokens from `first` on. Tokens beyond them neither write nor
  /// decay.
  template <int C>
  __device__ void fill(ChunkGates<C>& gates, const StateRead<float>& op, int first, int valid) const {
    constexpr int kEach = C / 32;
    const int lane = threadIdx.x % 32;
    const float* write = rows(op.write_gain.value, first, 1);
    const float* erase = op.erase == Erase::delta ? write : rows(op.erase_gain.value, first, 1);
    const float* decay = rows(op.log_decay.value, first, 1);
    double sums[kEach], before = 0;
#pragma unroll
    for (int x = 0; x < kEach; ++x) {
      const int i = lane * kEach + x;
      const std::int64_t at = static_cast<std::int64_t>(i) * H;
      gates.write[i] = i < valid ? (write ? write[at] : 1.0f) : 0.0f;
      gates.erase[i] = i < valid ? (erase ? erase[at] : 1.0f) : 0.0f;
      // A decay to nothing is -infinity: what stands for it must survive sums and differences.
      before += decay && i < valid ? static_cast<double>(fmaxf(decay[at], -1e4f)) : 0.0;
      sums[x] = before;
    }
    double running = before;
#pragma unroll
    for (int offset = 1; offset < 32; offset *= 2) {
      const double other = __shfl_up_sync(kFullWarp, running, offset);
      if (lane >= offset) running += other;
    }
    before = running - before;
    const double end = __shfl_sync(kFullWarp, running, 31);
    double previous = before;
#pragma unroll
    for (int x = 0; x < kEach; ++x) {
      const int i = lane * kEach + x;
      const double here = before + sums[x];
      const double of[3] = {here, op.before ? previous : here, op.decayed ? here : previous};
#pragma unroll
      for (int kind = 0; kind < 3; ++kind) {
        gates.high[kind][i] = static_cast<float>(of[kind]);
        gates.low[kind][i] = static_cast<float>(of[kind] - static_cast<double>(gates.high[kind][i]));
      }
      gates.read[i] = expf(static_cast<float>(of[1]));
      gates.look[i] = expf(static_cast<float>(of[2]));
      gates.left[i] = expf(static_cast<float>(end - here));
      previous = here;
    }
    if (lane == 0) gates.all = expf(static_cast<float>(end));
  }
};

/// Brings `valid` rows of `columns` floats, `stride` apart, as operands; the rest of kRows x D is 0. gain: factors of rows,
/// `gain_stride` apart.
template <class Tile, int kRows = Tile::C>
__device__ __forceinline__ void bring(typename Tile::Type* to, const float* from, std::int64_t stride,
                                      int valid, int columns, const float* gain = nullptr,
                                      int gain_stride = 0) {
  constexpr int kFours = Tile::D / 4, kTurns = kRows * kFours / Tile::kThreads;
  const bool aligned = columns % 4 == 0 && stride % 4 == 0 && is_aligned16(from);
  float x[kTurns > 8 ? 8 : kTurns][4];
  for (int turn0 = 0; turn0 < kTurns; turn0 += 8) {
#pragma unroll
    for (int turn = 0; turn < kTurns && turn < 8; ++turn) {
      const int i = static_cast<int>(threadIdx.x) + (turn0 + turn) * Tile::kThreads, row = i / kFours,
                column = i % kFours * 4;
      load4(from + row * stride + column, row < valid ? columns - column : 0, aligned, x[turn]);
    }
#pragma unroll
    for (int turn = 0; turn < kTurns && turn < 8; ++turn) {
      const int i = static_cast<int>(threadIdx.x) + (turn0 + turn) * Tile::kThreads, row = i / kFours,
                column = i % kFours * 4;
      if (gain) {
        const float f = row < valid ? gain[static_cast<std::int64_t>(row) * gain_stride] : 0;
#pragma unroll
        for (int n = 0; n < 4; ++n) x[turn][n] *= f;
      }
      Tile::Op::put4(to + row * Tile::kRow + column, x[turn]);
    }
  }
}

/// Asks for rows that will be read soon.
__device__ __forceinline__ void prefetch_line(const float* p) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(p));
}
template <int kThreads>
__device__ __forceinline__ void prefetch_rows(const float* from, std::int64_t stride, int rows, int columns) {
  const int lines = (columns + 31) / 32;
  for (int i = threadIdx.x; i < rows * lines; i += kThreads) {
    prefetch_line(from + i / lines * stride + i % lines * 32);
  }
}

/// Stores (adds) a pair of neighbours, as far as there are columns.
__device__ __forceinline__ void put_pair(Write mode, float* to, float x, float y, int columns, bool even) {
  if (columns >= 2 && even) {
    float2* pair = reinterpret_cast<float2*>(to);
    if (mode == Write::add) {
      const float2 old = *pair;
      x += old.x, y += old.y;
    }
    *pair = make_float2(x, y);
  } else {
    if (columns >= 1) put(mode, to, x);
    if (columns >= 2) put(mode, to + 1, y);
  }
}
__device__ __forceinline__ float2 get_pair(const float* from, int columns, bool even) {
  if (columns >= 2 && even) return *reinterpret_cast<const float2*>(from);
  return make_float2(columns >= 1 ? from[0] : 0, columns >= 2 ? from[1] : 0);
}

/// (I + A)^-1 of strictly lower triangular A, in place in floats: blocks of 16 by substitution, then merged in pairs,
/// X21 = -X22 A21 X11. In full precision, whatever the format: its entries may grow.
template <int C, int W>
struct ChunkInverse {
  static constexpr int kStride = C + 4, kScratch = C == 64 ? 32 * 36 : 16 * 20;
  float* at;       ///< [C][kStride]
  float* scratch;  ///< [kScratch]

  /// Warps 0 .. C / 32 - 1: the blocks on the diagonal, two a warp, a column a lane.
  __device__ __forceinline__ void diagonal() const {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (warp >= C / 32) return;
    float* block = at + (2 * warp + lane / 16) * 16 * (kStride + 1);
    const int column = lane % 16;
    float x[16];
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      float sum = i == column ? 1.0f : 0.0f;
#pragma unroll
      for (int j = 0; j < i; ++j) sum -= block[i * kStride + j] * x[j];
      x[i] = sum;
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < 16; ++i) block[i * kStride + column] = x[i];
  }

  /// 16 x 8 sums of A B, K deep, by one warp.
  template <int K>
  __device__ __forceinline__ static void product(float (&sums)[4], const float* a, int stride_a,
                                                 const float* b, int stride_b) {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
    for (int k = 0; k < K; k += 8) {
      unsigned x[4], x_low[4], y[2], y_low[2];
#pragma unroll
      for (int i = 0; i < 4; ++i) split(a[(g + i % 2 * 8) * stride_a + k + t + i / 2 * 4], x[i], x_low[i]);
#pragma unroll
      for (int i = 0; i < 2; ++i) split(b[(k + t + 4 * i) * stride_b + g], y[i], y_low[i]);
      float part[4] = {};
      mma_tf32(part, x_low, y[0], y[1]);
      mma_tf32(part, x, y_low[0], y_low[1]);
      mma_tf32(part, x, y[0], y[1]);
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[i] += part[i];
    }
  }

  template <int S>
  __device__ __forceinline__ void merge() const {
    constexpr int kPairs = C / (2 * S), kDown = S / 16, kAcross = S / 8, kLine = S + 4;
    constexpr int kTasks = kPairs * kDown * kAcross;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const auto store = [&](float* to, int stride, const float(&x)[4], float sign) {
      to[g * stride + 2 * t] = sign * x[0], to[g * stride + 2 * t + 1] = sign * x[1];
      to[(g + 8) * stride + 2 * t] = sign * x[2], to[(g + 8) * stride + 2 * t + 1] = sign * x[3];
    };
    for (int task = warp; task < kTasks; task += W) {
      const int pair = task / (kDown * kAcross), m = task / kAcross % kDown * 16, n = task % kAcross * 8;
      const float* first = at + pair * 2 * S * (kStride + 1);
      float sums[4] = {};
      product<S>(sums, first + (S + m) * kStride, kStride, first + n, kStride);
      store(scratch + pair * S * kLine + m * kLine + n, kLine, sums, 1.0f);
    }
    __syncthreads();
    for (int task = warp; task < kTasks; task += W) {
      const int pair = task / (kDown * kAcross), m = task / kAcross % kDown * 16, n = task % kAcross * 8;
      float* first = at + pair * 2 * S * (kStride + 1);
      float sums[4] = {};
      product<S>(sums, first + (S + m) * kStride + S, kStride, scratch + pair * S * kLine + n, kLine);
      store(first + (S + m) * kStride + n, kStride, sums, -1.0f);
    }
    __syncthreads();
  }

  /// After a barrier that follows diagonal(). Ends with one.
  __device__ __forceinline__ void merge_all() const {
    merge<16>();
    if constexpr (C == 64) merge<32>();
  }
};

}  // namespace crosstalk::device
