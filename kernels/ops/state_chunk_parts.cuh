// What both directions of the chunkwise state share: the sizes, what a chunk's tokens decay and scale by, how
// rows come from global memory, and the inverse of a unit lower triangular matrix.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/ops/chunk_product.cuh"
#include "kernels/ops/state_read.h"

namespace crosstalk::device {

/// Sizes of a block of threads that walks one sequence and head. kSize: of keys and of values, padded.
/// kWhole: nothing is padded, rows start at multiples of 16 bytes. kGated: a token may decay the state.
template <Precision kFormat_, int kSize, bool kWhole_, bool kGated_,
          int kChunk = state_chunk(kSize, kSize, kFormat_), int kWarps = 0>
struct StateTile {
  static constexpr bool kWhole = kWhole_, kGated = kGated_;
  static constexpr Precision kFormat = kFormat_;
  using Op = Operand<kFormat>;
  using Type = typename Op::Type;
  static constexpr int D = kSize, C = kChunk;
  static constexpr int kUsual = D == 32 ? 4 : D == 128 && kFormat == Precision::bf16 ? 16 : 8;
  static constexpr int W = kWarps > 0 ? kWarps : kUsual, kThreads = 32 * W;
  /// Forward, 8 warps with twice the registers are faster at 128 (measured on an H200).
  using Forward = StateTile<kFormat, D, kWhole, kGated, C, D == 128 ? 8 : 0>;
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

/// What the tokens of a chunk scale by. G: sums of log decays from the chunk's start to a token's end, each
/// in two parts so that differences of large ones are exact. A row that does not see its own token's decay
/// has the sum before it.
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
template <class Tile>
struct StateWalk {
  int replica, b, h, T, H, K, V, chunks;
  bool decays, solves, tied;
  std::int64_t token;  ///< index of its first token among [B,T,H]; tokens lie H apart

  __device__ explicit StateWalk(const StateRead<float>& op)
      : replica(blockIdx.y), T(op.k.value.dim(1)), H(op.H()), K(op.K()), V(op.V()) {
    b = static_cast<int>(blockIdx.x) / H, h = static_cast<int>(blockIdx.x) % H;
    decays = static_cast<bool>(op.log_decay);
    solves = op.erase != Erase::none;
    tied = op.erase == Erase::tied;
    token = static_cast<std::int64_t>(b) * T * H + h;
  }
  __device__ __forceinline__ bool gated() const { return Tile::kGated && decays; }
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

  /// By one warp: everything in `gates` for the `valid` tokens from `first` on. Tokens beyond them neither
  /// write nor decay.
  __device__ __forceinline__ void fill(ChunkGates<Tile::C>& gates, const StateRead<float>& op, int first,
                                       int valid) const {
    constexpr int C = Tile::C, kEach = C / 32;
    const int lane = threadIdx.x % 32;
    const float* write = rows(op.write_gain.value, first, 1);
    const float* erase = op.erase == Erase::delta ? write : rows(op.erase_gain.value, first, 1);
    const float* decay = gated() ? rows(op.log_decay.value, first, 1) : nullptr;
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
    if (!gated()) {
#pragma unroll
      for (int x = 0; x < kEach; ++x) {
        gates.read[lane * kEach + x] = gates.look[lane * kEach + x] = gates.left[lane * kEach + x] = 1;
      }
      return;
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

/// kRows x D numbers on their way from global to shared memory: `valid` rows of `columns` floats, `stride`
/// apart; the rest is 0. Several of them are fetched before the first is put, so that they wait for memory
/// together. kGuarded: rows beyond them are not asked for, which is faster backward by 3 to 11 %; else they
/// are dropped on their way, which is faster forward by 3 to 5 % (measured on an H200).
template <class Tile, int kRows = Tile::C, int kColumns = Tile::D, bool kGuarded = false>
struct Fetched {
  static constexpr int kFours = kColumns / 4, kTurns = kRows * kFours / Tile::kThreads;
  float4 x[kTurns];

  __device__ __forceinline__ static int row(int turn) {
    return static_cast<int>(threadIdx.x) / kFours + turn * (Tile::kThreads / kFours);
  }
  __device__ __forceinline__ static int column() { return static_cast<int>(threadIdx.x) % kFours * 4; }
  __device__ __forceinline__ void fetch(const float* from, std::int64_t stride, int valid, int columns) {
    if constexpr (Tile::kWhole) {
#pragma unroll
      for (int turn = 0; turn < kTurns; ++turn) {
        if constexpr (kGuarded) {
          x[turn] = make_float4(0, 0, 0, 0);
          if (row(turn) < valid) {
            x[turn] = *reinterpret_cast<const float4*>(from + row(turn) * stride + column());
          }
        } else {
          x[turn] = *reinterpret_cast<const float4*>(from + min(row(turn), valid - 1) * stride + column());
        }
      }
    } else {
#pragma unroll
      for (int turn = 0; turn < kTurns; ++turn) {
        float v[4];
        load4(from + row(turn) * stride + column(), row(turn) < valid ? columns - column() : 0, false, v);
        x[turn] = make_float4(v[0], v[1], v[2], v[3]);
      }
    }
  }
  /// f(row, column, x) of each number.
  template <class F>
  __device__ __forceinline__ void each(F&& f) const {
#pragma unroll
    for (int turn = 0; turn < kTurns; ++turn) {
      const float v[4] = {x[turn].x, x[turn].y, x[turn].z, x[turn].w};
#pragma unroll
      for (int n = 0; n < 4; ++n) f(row(turn), column() + n, v[n]);
    }
  }
  /// gain: factors of rows, `gain_stride` apart.
  template <class As = typename Tile::Op>
  __device__ __forceinline__ void put(typename Tile::Type* to, int valid, int line = Tile::kRow,
                                      const float* gain = nullptr, int gain_stride = 0) const {
#pragma unroll
    for (int turn = 0; turn < kTurns; ++turn) {
      const bool there = row(turn) < valid;
      float f = kGuarded || there ? 1 : 0;
      if (gain && there) f = gain[static_cast<std::int64_t>(row(turn)) * gain_stride];
      float v[4] = {x[turn].x, x[turn].y, x[turn].z, x[turn].w};
#pragma unroll
      for (int n = 0; n < 4; ++n) v[n] = kGuarded ? f * v[n] : there ? (gain ? f * v[n] : v[n]) : 0;
      As::put4(to + row(turn) * line + column(), v);
    }
  }
};

/// Asks for rows that will be read soon.
__device__ __forceinline__ void prefetch_line(const float* p) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(p));
}
template <class Tile, int kColumns = Tile::D>
__device__ __forceinline__ void prefetch_rows(const float* from, std::int64_t stride, int rows) {
  if constexpr (Tile::kWhole) {
    constexpr int kLines = kColumns / 32;
    for (int i = threadIdx.x; i < rows * kLines; i += Tile::kThreads) {
      prefetch_line(from + i / kLines * stride + i % kLines * 32);
    }
  }
}

/// (I + A)^-1 of strictly lower triangular A, in place in floats: blocks of 16 by substitution, then merged
/// in pairs, X21 = -X22 A21 X11. In full precision, whatever the format: its entries may grow.
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
