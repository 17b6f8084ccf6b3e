// Tiled products of floats on the tensor cores.
//
// The arithmetic is that of tensor_core.cuh; a step of K is summed there, steps by ordinary additions.
//
// Products of more than 32 rows are made by wgmma (gemm_wgmma.cuh) where there is such a thing; of masked or
// computed operands, and of few rows by mma.sync, here: a block makes a tile of TM x TN, each warp 32 x 32
// sums over its part of a step of 32 along K ("groups" of warps share a tile's sums). Two steps are on their
// way to shared memory while one is multiplied.
//
// Where tiles are few and K long, the blocks of a cluster take a slice of K each and add their sums out of
// each other's shared memory (sm_90 and newer; elsewhere a block walks all of K). Partial sums are added in
// the order of slices and groups; both follow from M, N and K.
//
// Any order of K will do as long as A and B agree: lane l takes k = 2 (l % 4), 2 (l % 4) + 1 of a step of
// eight, so that what lies along K is read from shared memory in pairs; what lies along M (or N) is read in
// fours, rows 4 (l / 4) .. + 3 of 32.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/base/cluster.cuh"
#include "kernels/matmul/gemm_product.cuh"
#include "kernels/matmul/gemm_wgmma.cuh"
#include "kernels/matmul/tensor_core.cuh"

namespace crosstalk::device {

/// How a product is cut: tiles of TM x TN, made by kWarps warps of 32 x 32 sums each over a part of a step;
/// kBlocks of them should share a multiprocessor.
template <int TM_, int TN_, int kWarps_, int kBlocks_>
struct Tiling {
  static constexpr int TM = TM_, TN = TN_, kWarps = kWarps_, kBlocks = kBlocks_;
  static constexpr int kThreads = 32 * kWarps, TK = 32, kStages = 3;
  static constexpr int kWarpsN = TN / 32, kTiles = TM / 32 * kWarpsN, kGroups = kWarps / kTiles;
  static constexpr int kDepth = TK / kGroups;  // of a step, for one group
};

/// A step's piece of A or B in shared memory: TK along K, `T` rows (columns) wide. Pieces of 16 bytes are
/// swapped about such that neither copies nor reads meet in a bank.
template <bool kAlong, int T, int TK, int kThreads>
struct Piece {
  static constexpr int kSize = T * TK;
  /// What a thread loads in its i-th turn.
  static constexpr int kTurns = T * TK / 4 / kThreads;
  __device__ static int row(int i) {
    return kAlong ? threadIdx.x / (TK / 4) + i * (4 * kThreads / TK) : threadIdx.x % (T / 4) * 4;
  }
  __device__ static int k(int i) {
    return kAlong ? threadIdx.x % (TK / 4) * 4 : threadIdx.x / (T / 4) + i * (4 * kThreads / T);
  }
  __device__ static float* at(float* piece, int i) {
    return piece + (kAlong ? row(i) * TK + (k(i) / 4 ^ 2 * (row(i) % 4)) * 4
                           : k(i) * T + (row(i) / 4 ^ 2 * (k(i) / 2 % 4)) * 4);
  }
  /// A lane's part of rows row0 .. + 31 at k0 .. + 7.
  __device__ static void read(const float* piece, int row0, int k0, float (&x)[4][2]) {
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    if constexpr (kAlong) {
      const float* mine = piece + (row0 + g) * TK + (k0 / 4 ^ 2 * (g % 4)) * 4 + 2 * t;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float2 pair = *reinterpret_cast<const float2*>(mine + 8 * i * TK);
        x[i][0] = pair.x, x[i][1] = pair.y;
      }
    } else {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const Four<float> four =
            *reinterpret_cast<const Four<float>*>(piece + (k0 + 2 * t + j) * T + row0 + 4 * (g ^ 2 * t));
#pragma unroll
        for (int i = 0; i < 4; ++i) x[i][j] = four.v[i];
      }
    }
  }
  /// Which of the 32 rows is row (column) `index` of the i-th eight of the tensor core's product.
  __device__ static int position(int i, int index) { return kAlong ? 8 * i + index : 4 * index + i; }
};

template <class Op, class T>
struct TensorTile {
  static constexpr int kSumsLd = T::TN + (Op::kAlongB ? 8 : 4), kSums = T::TM * kSumsLd;  // of one group
  using A = Piece<Op::kAlongA, T::TM, T::TK, T::kThreads>;
  using B = Piece<Op::kAlongB, T::TN, T::TK, T::kThreads>;
  static constexpr int kStage = A::kSize + B::kSize;
  static constexpr int kMost =
      T::kStages * kStage > T::kGroups* kSums ? T::kStages* kStage : T::kGroups* kSums;
  static constexpr int kSide = Op::kSide ? kSideParts<Op, T::kWarps> * T::TM : 0;
  static constexpr std::size_t kBytes = (kMost + kSide) * sizeof(float);
};

template <class Op, Precision kPrecision, class T>
__device__ __forceinline__ void tensor_tile(const Op& args, int slices) {
  using Tile = TensorTile<Op, T>;
  using A = typename Tile::A;
  using B = typename Tile::B;
  constexpr int TM = T::TM, TN = T::TN, TK = T::TK, kStages = T::kStages, kGroups = T::kGroups,
                kSumsLd = Tile::kSumsLd;
  extern __shared__ __align__(16) float shared[];
  float* const sides = shared + Tile::kMost;
  Op op = args;
  op.bind(blockIdx.z, blockIdx.y);
  const int tiles = (op.N + TN - 1) / TN, slice = static_cast<int>(blockIdx.x) % slices;
  const int tile = static_cast<int>(blockIdx.x) / slices;
  const int row0 = tile / tiles * TM, column0 = tile % tiles * TN;
  const int warp = threadIdx.x / 32, group = warp / T::kTiles;
  const int warp_row = warp % T::kTiles / T::kWarpsN * 32, warp_column = warp % T::kWarpsN * 32;
  const int share = ((op.K + TK - 1) / TK + slices - 1) / slices * TK;
  const int begin = slice * share, end = min(op.K, begin + share);
  const bool wants_side = Op::kSide && op.wants_side(column0);

  float a_next[A::kTurns][4], sums[2][4][4] = {}, side[4] = {};  // a_next: unless kAsync
  const auto load = [&](int k) {
#pragma unroll
    for (int i = 0; i < A::kTurns; ++i)
      op.load_a(row0 + A::row(i), k + A::k(i), a_next[i], side + (Op::kAlongA ? i : 0));
  };
  const auto keep = [&](float* stage) {
#pragma unroll
    for (int i = 0; i < A::kTurns; ++i) put_all(A::at(stage, i), a_next[i]);
  };
  const auto copy = [&](int k, float* stage) {
    if (k < end) {
      if constexpr (Op::kAsync) {
#pragma unroll
        for (int i = 0; i < A::kTurns; ++i) op.copy_a(row0 + A::row(i), k + A::k(i), A::at(stage, i));
      }
#pragma unroll
      for (int i = 0; i < B::kTurns; ++i)
        op.copy_b(column0 + B::row(i), k + B::k(i), B::at(stage + A::kSize, i));
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  };
#pragma unroll
  for (int i = 0; i < kStages - 1; ++i) {
    copy(begin + i * TK, shared + i * Tile::kStage);
    if (!Op::kAsync && begin + i * TK < end) {
      load(begin + i * TK);
      keep(shared + i * Tile::kStage);
    }
  }
  int stage = 0;
  for (int k = begin; k < end; k += TK, stage = stage + 1 < kStages ? stage + 1 : 0) {
    asm volatile("cp.async.wait_group %0;" ::"n"(kStages - 2) : "memory");
    float* a = shared + stage * Tile::kStage;
    if constexpr (Op::kSide && Op::kAsync) {
      if (wants_side) {
#pragma unroll
        for (int i = 0; i < A::kTurns; ++i) {  // what this thread has copied itself
          const Four<float> four = *reinterpret_cast<const Four<float>*>(A::at(a, i));
          op.add_side(four.v, side + (Op::kAlongA ? i : 0));
        }
      }
    }
    __syncthreads();
    // The stage that was multiplied last time is free now.
    const int ahead = k + (kStages - 1) * TK;
    float* next = shared + (stage > 0 ? stage - 1 : kStages - 1) * Tile::kStage;
    copy(ahead, next);
    if (!Op::kAsync && ahead < end) load(ahead);
    float part[2][4][4] = {};
#pragma unroll
    for (int kk = 0; kk < T::kDepth; kk += 8) {
      float x[4][2], y[4][2];
      A::read(a, warp_row, group * T::kDepth + kk, x);
      B::read(a + A::kSize, warp_column, group * T::kDepth + kk, y);
      multiply<kPrecision>(x, y, part);
    }
#pragma unroll
    for (int i = 0; i < 32; ++i) sums[i / 16][i / 4 % 4][i % 4] += part[i / 16][i / 4 % 4][i % 4];
    if (!Op::kAsync && ahead < end) keep(next);
  }
  if (Op::kSide && wants_side) put_sides<Op, TM, TK, T::kThreads>(side, sides);

  const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  if (kGroups == 1 && slices == 1) {  // these are the sums
    if (Op::kSide) __syncthreads();
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = warp_row + A::position(i, g);
      const float beside = Op::kSide && wants_side ? side_of<kSideParts<Op, T::kWarps>, TM>(sides, row) : 0;
      const auto sum = [&](int n, int x) { return sums[i / 2][n][i % 2 * 2 + x]; };
      const int column = column0 + warp_column;
      if constexpr (Op::kAlongB) {
#pragma unroll
        for (int n = 0; n < 4; ++n) {
          float v[2] = {sum(n, 0), sum(n, 1)};
          op.store(row0 + row, column + B::position(n, 2 * t), v, beside);
        }
      } else {
        // This lane has columns 8 t .. + 7. It trades four of them, so that neighbours store side by side.
        const bool odd = t % 2 == 1;
        float first[4], second[4];
#pragma unroll
        for (int n = 0; n < 4; ++n) {
          const float traded = __shfl_xor_sync(kFullWarp, odd ? sum(n, 0) : sum(n, 1), 1);
          first[n] = odd ? traded : sum(n, 0);
          second[n] = odd ? sum(n, 1) : traded;
        }
        op.store(row0 + row, column + (odd ? 8 * t - 4 : 8 * t), first, beside);
        op.store(row0 + row, column + (odd ? 8 * t + 4 : 8 * t + 8), second, beside);
      }
    }
    return;
  }
  // Sums of all groups and slices; each block of a cluster then stores its part of the tile.
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    float* row = shared + group * Tile::kSums + (warp_row + A::position(i, g)) * kSumsLd + warp_column;
#pragma unroll
    for (int n = 0; n < 4; ++n) {
#pragma unroll
      for (int x = 0; x < 2; ++x) row[B::position(n, 2 * t + x)] = sums[i / 2][n][i % 2 * 2 + x];
    }
  }
  finish_tile<Op, TM, TN, T::kThreads, kGroups, kSumsLd, kSideParts<Op, T::kWarps>>(
      op, row0, column0, shared, sides, wants_side, slice, slices);
}

template <class Op, Precision kPrecision, class T>
__global__ void __launch_bounds__(T::kThreads, T::kBlocks)
    tensor_kernel(const __grid_constant__ Op args, int slices) {
  tensor_tile<Op, kPrecision, T>(args, slices);
}

/// Where there is no wgmma.
using NotWide = Tiling<64, 64, 4, 4>;

template <class Op, Precision kPrecision>
__global__ void __launch_bounds__(WideTile::kThreads, WideTile::kBlocks)
    wide_kernel(const __grid_constant__ Op args, int slices) {
#if CROSSTALK_WGMMA
  using T = WideTile;
  constexpr int TM = T::TM, TN = T::TN, TK = T::TK, kLd = TN + 4;
  extern __shared__ __align__(16) float shared[];
  float* const sides = shared + TM * kLd;
  Op op = args;
  op.bind(blockIdx.z, blockIdx.y);
  const int tiles = (op.N + TN - 1) / TN, slice = static_cast<int>(blockIdx.x) % slices;
  const int tile = static_cast<int>(blockIdx.x) / slices;
  const int row0 = tile / tiles * TM, column0 = tile % tiles * TN;
  const int share = ((op.K + TK - 1) / TK + slices - 1) / slices * TK;
  const int begin = slice * share, end = min(op.K, begin + share);
  const bool wants_side = Op::kSide && op.wants_side(column0);
  WideSums<Op> sums;
  WideProduct<Op, kPrecision>(op, row0, column0).run(begin, end, wants_side, shared, sums);
  if (slices > 1) __syncthreads();
#pragma unroll
  for (int x = 0; x < 2; ++x) {
    const int row = sums.row(x);
#pragma unroll
    for (int a = 0; a < 4; ++a) {
      float v[4];
      sums.four(a, x, v);
      if (slices > 1) {
        put_all(shared + row * kLd + sums.column(a), v);
      } else {
        op.store(row0 + row, column0 + sums.column(a), v, sums.side[x]);
      }
    }
    if (Op::kSide && slices > 1 && threadIdx.x % 4 == 0) sides[row] = sums.side[x];
  }
  if (slices > 1)
    finish_tile<Op, TM, TN, T::kThreads, 1, kLd, 1>(op, row0, column0, shared, sides, wants_side, slice,
                                                    slices);
#else
  tensor_tile<Op, kPrecision, NotWide>(args, slices);
#endif
}

/// Blocks that share one tile's K: more, the fewer tiles there are. Each has a start and an end of its own to
/// pay for, so many replicas do better with few of them, one replica with many; R must not decide.
inline int slices_of(int tiles, int K) {
  int slices = 1;
  while (slices < 8 && tiles * slices < 80 && K / (2 * slices) >= 128) slices *= 2;
  return slices;
}

template <int TM, int TN, class Op>
void launch_tiles(const Exec& exec, void (*kernel)(Op, int), unsigned threads, std::size_t bytes,
                  const Op& op, int B, int R) {
  const bool clusters = has_clusters(kernel);
  const unsigned tiles = blocks_for(op.M, TM) * blocks_for(op.N, TN);
  const unsigned slices = clusters ? static_cast<unsigned>(slices_of(static_cast<int>(tiles), op.K)) : 1;
  allow_shared_memory(kernel, bytes);
  launch_clusters(kernel, dim3(tiles * slices, static_cast<unsigned>(B), static_cast<unsigned>(R)), threads,
                  bytes, slices, stream_of(exec), op, static_cast<int>(slices));
}

template <Precision kPrecision, class T, class Op>
void launch_tensor(const Exec& exec, const Op& op, int B, int R) {
  launch_tiles<T::TM, T::TN, Op>(exec, tensor_kernel<Op, kPrecision, T>, T::kThreads,
                                 TensorTile<Op, T>::kBytes, op, B, R);
}

template <Precision kPrecision, class Op>
void tensor_gemm(const Exec& exec, const Op& op, int B, int R) {
  if (op.M <= 32) {
    launch_tensor<kPrecision, Tiling<32, 64, 4, 4>>(exec, op, B, R);
  } else if constexpr (Op::kStraight) {
    constexpr std::size_t kOther = TensorTile<Op, NotWide>::kBytes, kWide = WideTile::kBytes<kPrecision>,
                          kBytes = kOther > kWide ? kOther : kWide;
    launch_tiles<WideTile::TM, WideTile::TN, Op>(exec, wide_kernel<Op, kPrecision>, WideTile::kThreads,
                                                 kBytes, op, B, R);
  } else if (Op::kAsync && op.M > 64) {
    if constexpr (Op::kAsync) launch_tensor<kPrecision, Tiling<128, 64, 8, 2>>(exec, op, B, R);
  } else if (Op::kAsync && op.N > 64) {
    if constexpr (Op::kAsync) launch_tensor<kPrecision, Tiling<64, 128, 8, 2>>(exec, op, B, R);
  } else {
    launch_tensor<kPrecision, Tiling<64, 64, 8, 2>>(exec, op, B, R);
  }
}

}  // namespace crosstalk::device
