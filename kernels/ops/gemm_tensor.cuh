// Tiled products of floats on the tensor cores.
//
// The arithmetic is that of tensor_core.cuh; a step of K is summed there, steps by ordinary additions.
//
// A block of 8 warps makes a tile of TM x TN; each warp 32 x 32 sums over its part of a step of 32 along K
// ("groups" of warps share a tile's sums). Two steps are on their way to shared memory while one is
// multiplied. Where tiles are few and K long, the blocks of a cluster take a slice of K each and add their
// sums out of each other's shared memory (sm_90 and newer; elsewhere a block walks all of K). Partial sums
// are added in the order of slices and groups; both follow from M, N and K.
//
// Any order of K will do as long as A and B agree: lane l takes k = 2 (l % 4), 2 (l % 4) + 1 of a step of
// eight, so that what lies along K is read from shared memory in pairs; what lies along M (or N) is read in
// fours, rows 4 (l / 4) .. + 3 of 32. SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/base/cluster.cuh"
#include "kernels/ops/gemm_product.cuh"
#include "kernels/ops/tensor_core.cuh"

namespace crosstalk::device {

/// A step's piece of A or B in shared memory: TK along K, `T` rows (columns) wide.
template <bool kAlong, int T, int TK>
struct Piece {
  static constexpr int kLd = kAlong ? TK + 8 : T + 4, kSize = kAlong ? T * kLd : TK * kLd;
  /// What a thread of 256 loads in its i-th turn.
  static constexpr int kTurns = T * TK / 1024;
  __device__ static int row(int i) {
    return kAlong ? threadIdx.x / (TK / 4) + i * (1024 / TK) : threadIdx.x % (T / 4) * 4;
  }
  __device__ static int k(int i) {
    return kAlong ? threadIdx.x % (TK / 4) * 4 : threadIdx.x / (T / 4) + i * (1024 / T);
  }
  __device__ static float* at(float* piece, int i) {
    return piece + (kAlong ? row(i) * kLd + k(i) : k(i) * kLd + row(i));
  }
  /// A lane's part of rows row0 .. + 31 at k0 .. + 7.
  __device__ static void read(const float* piece, int row0, int k0, float (&x)[4][2]) {
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    if constexpr (kAlong) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float2 pair = *reinterpret_cast<const float2*>(piece + (row0 + 8 * i + g) * kLd + k0 + 2 * t);
        x[i][0] = pair.x, x[i][1] = pair.y;
      }
    } else {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const Four<float> four =
            *reinterpret_cast<const Four<float>*>(piece + (k0 + 2 * t + j) * kLd + row0 + 4 * g);
#pragma unroll
        for (int i = 0; i < 4; ++i) x[i][j] = four.v[i];
      }
    }
  }
  /// Which of the 32 rows is row (column) `index` of the i-th eight of the tensor core's product.
  __device__ static int position(int i, int index) { return kAlong ? 8 * i + index : 4 * index + i; }
};

template <class Op, Precision kPrecision, int TM, int TN>
struct TensorTile {
  static constexpr int TK = 32, kStages = 3;
  static constexpr int kWarpsN = TN / 32, kTiles = TM / 32 * kWarpsN, kGroups = 8 / kTiles;
  static constexpr int kDepth = TK / kGroups;  // of a step, for one group
  static constexpr int kSumsLd = TN + (Op::kAlongB ? 8 : 4), kSums = TM * kSumsLd;  // of one group
  using A = Piece<Op::kAlongA, TM, TK>;
  using B = Piece<Op::kAlongB, TN, TK>;
  static constexpr int kStage = A::kSize + B::kSize;
  static constexpr int kMost = kStages * kStage > kGroups* kSums ? kStages* kStage : kGroups* kSums;
  static constexpr int kSide = Op::kSide ? kSideParts<Op> * TM : 0;
  static constexpr std::size_t kBytes = (kMost + kSide) * sizeof(float);
};

template <class Op, Precision kPrecision, int TM, int TN>
__global__ void __launch_bounds__(256, 2) tensor_kernel(const __grid_constant__ Op args, int slices) {
  using Tile = TensorTile<Op, kPrecision, TM, TN>;
  using A = typename Tile::A;
  using B = typename Tile::B;
  constexpr int TK = Tile::TK, kStages = Tile::kStages, kGroups = Tile::kGroups, kSumsLd = Tile::kSumsLd;
  extern __shared__ __align__(16) float shared[];
  float* const sides = shared + Tile::kMost;
  Op op = args;
  op.bind(blockIdx.z, blockIdx.y);
  const int tiles = (op.N + TN - 1) / TN, slice = static_cast<int>(blockIdx.x) % slices;
  const int tile = static_cast<int>(blockIdx.x) / slices;
  const int row0 = tile / tiles * TM, column0 = tile % tiles * TN;
  const int warp = threadIdx.x / 32, group = warp / Tile::kTiles;
  const int warp_row = warp % Tile::kTiles / Tile::kWarpsN * 32, warp_column = warp % Tile::kWarpsN * 32;
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
    for (int kk = 0; kk < Tile::kDepth; kk += 8) {
      float x[4][2], y[4][2];
      A::read(a, warp_row, group * Tile::kDepth + kk, x);
      B::read(a + A::kSize, warp_column, group * Tile::kDepth + kk, y);
      multiply<kPrecision>(x, y, part);
    }
#pragma unroll
    for (int i = 0; i < 32; ++i) sums[i / 16][i / 4 % 4][i % 4] += part[i / 16][i / 4 % 4][i % 4];
    if (!Op::kAsync && ahead < end) keep(next);
  }
  if (Op::kSide && wants_side) put_sides<Op, TM, TK>(side, sides);

  const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  if (kGroups == 1 && slices == 1) {  // these are the sums
    if (Op::kSide) __syncthreads();
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = warp_row + A::position(i, g);
      const float beside = Op::kSide && wants_side ? side_of<Op, TM>(sides, row) : 0;
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
  cluster_barrier(slices);
  const int positions = TM * TN / 4 / slices;
  for (int i = static_cast<int>(threadIdx.x); i < positions; i += 256) {
    const int p = slice * positions + i, row = p / (TN / 4), column = p % (TN / 4) * 4;
    float total[4] = {}, beside = 0;
#pragma unroll 4
    for (int s = 0; s < slices; ++s) {
      const float* theirs = slices > 1 ? shared_of(s, shared) : shared;
#pragma unroll
      for (int n = 0; n < kGroups; ++n) {
        const Four<float> part =
            *reinterpret_cast<const Four<float>*>(theirs + n * Tile::kSums + row * kSumsLd + column);
#pragma unroll
        for (int j = 0; j < 4; ++j) total[j] += part.v[j];
      }
      if (Op::kSide && wants_side) beside += side_of<Op, TM>(theirs + Tile::kMost, row);
    }
    op.store(row0 + row, column0 + column, total, beside);
  }
  cluster_leave(slices);  // not while its sums are read
}

/// Blocks that share one tile's K: more, the fewer tiles there are.
inline int slices_of(int tiles, int K) {
  int slices = 1;
  while (slices < 8 && tiles * slices < 128 && K / (2 * slices) >= 96) slices *= 2;
  return slices;
}

template <Precision kPrecision, int TM, int TN, class Op>
void launch_tensor(const Exec& exec, const Op& op, int B, int R) {
  const auto kernel = tensor_kernel<Op, kPrecision, TM, TN>;
  static const bool clusters = has_clusters(kernel);
  const unsigned tiles = blocks_for(op.M, TM) * blocks_for(op.N, TN);
  const unsigned slices = clusters ? static_cast<unsigned>(slices_of(static_cast<int>(tiles), op.K)) : 1;
  constexpr std::size_t kBytes = TensorTile<Op, kPrecision, TM, TN>::kBytes;
  allow_shared_memory(kernel, kBytes);
  launch_clusters(kernel, dim3(tiles * slices, static_cast<unsigned>(B), static_cast<unsigned>(R)), 256,
                  kBytes, slices, stream_of(exec), op, static_cast<int>(slices));
}

template <Precision kPrecision, class Op>
void tensor_gemm(const Exec& exec, const Op& op, int B, int R) {
  if (op.M <= 32) {
    launch_tensor<kPrecision, 32, 64>(exec, op, B, R);
  } else if (Op::kAsync && op.M > 64) {
    if constexpr (Op::kAsync) launch_tensor<kPrecision, 128, 64>(exec, op, B, R);
  } else if (Op::kAsync && op.N > 64) {
    if constexpr (Op::kAsync) launch_tensor<kPrecision, 64, 128>(exec, op, B, R);
  } else {
    launch_tensor<kPrecision, 64, 64>(exec, op, B, R);
  }
}

}  // namespace crosstalk::device
