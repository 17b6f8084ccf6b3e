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
#include "kernels/base/device/cluster.cuh"
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
  /// The four neighbours that a thread loads in its i-th turn.
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
      CT_FOR(i, 4) {
        const float2 pair = *reinterpret_cast<const float2*>(mine + 8 * i * TK);
        x[i][0] = pair.x, x[i][1] = pair.y;
      }
    } else {
      CT_FOR(j, 2) {
        const Four<float> four =
            *reinterpret_cast<const Four<float>*>(piece + (k0 + 2 * t + j) * T + row0 + 4 * (g ^ 2 * t));
        CT_FOR(i, 4) x[i][j] = four.v[i];
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

/// The tile of C that a block makes, and its part of K where `slices` blocks share it.
template <class T>
struct TileShare {
  int slices, slice, row0, column0, begin, end;
  template <class Op>
  __device__ TileShare(const Op& op, int slices_)
      : slices(slices_), slice(static_cast<int>(blockIdx.x) % slices_) {
    const int tiles = (op.N + T::TN - 1) / T::TN, tile = static_cast<int>(blockIdx.x) / slices;
    row0 = tile / tiles * T::TM, column0 = tile % tiles * T::TN;
    const int share = ((op.K + T::TK - 1) / T::TK + slices - 1) / slices * T::TK;
    begin = slice * share, end = min(op.K, begin + share);
  }
};

/// A warp's sums of a tile, step after step of K, and where they go.
template <class Op, Precision kPrecision, class T>
class TensorProduct {
  using Tile = TensorTile<Op, T>;
  using A = typename Tile::A;
  using B = typename Tile::B;
  static constexpr int TM = T::TM, TK = T::TK, kStages = T::kStages, kParts = kSideParts<Op, T::kWarps>;
  const Op& op_;
  const TileShare<T> at_;
  const bool wants_side_;
  float *const shared_, *const sides_ = shared_ + Tile::kMost;
  const int warp_ = threadIdx.x / 32, group_ = warp_ / T::kTiles, row_ = warp_ % T::kTiles / T::kWarpsN * 32,
            column_ = warp_ % T::kWarpsN * 32;
  const int g_ = threadIdx.x % 32 / 4, t_ = threadIdx.x % 4;
  float a_next_[A::kTurns][4], sums_[2][4][4] = {}, side_[4] = {};  // a_next_: unless kAsync

 public:
  __device__ TensorProduct(const Op& op, const TileShare<T>& at, float* shared)
      : op_(op), at_(at), wants_side_(Op::kSide && op.wants_side(at.column0)), shared_(shared) {}

  /// Adds up this block's part of K.
  CT_DEVICE void run() {
    CT_FOR(i, kStages - 1) {
      const int k = at_.begin + i * TK;
      copy(k, shared_ + i * Tile::kStage);
      if (!Op::kAsync && k < at_.end) load(k), keep(shared_ + i * Tile::kStage);
    }
    int stage = 0;
    for (int k = at_.begin; k < at_.end; k += TK, stage = stage + 1 < kStages ? stage + 1 : 0) {
      copies_wait<kStages - 2>();
      const float* a = shared_ + stage * Tile::kStage;
      if constexpr (Op::kSide && Op::kAsync) add_sides(a);
      __syncthreads();
      // The stage that was multiplied last time is free now.
      const int ahead = k + (kStages - 1) * TK;
      float* next = shared_ + (stage > 0 ? stage - 1 : kStages - 1) * Tile::kStage;
      copy(ahead, next);
      if (!Op::kAsync && ahead < at_.end) load(ahead);
      multiply_step(a);
      if (!Op::kAsync && ahead < at_.end) keep(next);
    }
    if (Op::kSide && wants_side_) put_sides<Op, TM, TK, T::kThreads>(side_, sides_);
  }

  /// Stores the tile: its sums are those of this warp, or of several groups and blocks.
  CT_DEVICE void store() {
    if (T::kGroups == 1 && at_.slices == 1) return store_own();
    share_sums();
    finish_tile<Op, TM, T::TN, T::kThreads, T::kGroups, Tile::kSumsLd, kParts>(
        op_, at_.row0, at_.column0, shared_, sides_, wants_side_, at_.slice, at_.slices);
  }

 private:
  CT_DEVICE void load(int k) {
    CT_FOR(i, A::kTurns)
      op_.load_a(at_.row0 + A::row(i), k + A::k(i), a_next_[i], side_ + (Op::kAlongA ? i : 0));
  }
  CT_DEVICE void keep(float* stage) const {
    CT_FOR(i, A::kTurns) put_all(A::at(stage, i), a_next_[i]);
  }
  CT_DEVICE void copy(int k, float* stage) const {
    if (k < at_.end) {
      if constexpr (Op::kAsync)
        CT_FOR(i, A::kTurns) op_.copy_a(at_.row0 + A::row(i), k + A::k(i), A::at(stage, i));
      CT_FOR(i, B::kTurns) op_.copy_b(at_.column0 + B::row(i), k + B::k(i), B::at(stage + A::kSize, i));
    }
    copies_commit();
  }
  /// Of what this thread has copied itself.
  CT_DEVICE void add_sides(const float* a) {
    if (!wants_side_) return;
    CT_FOR(i, A::kTurns) {
      const Four<float> four = *reinterpret_cast<const Four<float>*>(A::at(const_cast<float*>(a), i));
      op_.add_side(four.v, side_ + (Op::kAlongA ? i : 0));
    }
  }
  CT_DEVICE void multiply_step(const float* a) {
    float part[2][4][4] = {};
    CT_UNROLL(int kk = 0; kk < T::kDepth; kk += 8) {
      float x[4][2], y[4][2];
      A::read(a, row_, group_ * T::kDepth + kk, x);
      B::read(a + A::kSize, column_, group_ * T::kDepth + kk, y);
      multiply<kPrecision>(x, y, part);
    }
    CT_FOR(i, 32) sums_[i / 16][i / 4 % 4][i % 4] += part[i / 16][i / 4 % 4][i % 4];
  }
  /// Sum of the i-th eight rows and the n-th eight columns: the first (x = 0) or second of this lane's two.
  CT_DEVICE float sum(int i, int n, int x) const { return sums_[i / 2][n][i % 2 * 2 + x]; }

  CT_DEVICE void store_own() const {
    if (Op::kSide) __syncthreads();
    CT_FOR(i, 4) {
      const int row = row_ + A::position(i, g_), column = at_.column0 + column_;
      const float beside = Op::kSide && wants_side_ ? side_of<kParts, TM>(sides_, row) : 0;
      if constexpr (Op::kAlongB) {
        CT_FOR(n, 4) {
          float v[2] = {sum(i, n, 0), sum(i, n, 1)};
          op_.store(at_.row0 + row, column + B::position(n, 2 * t_), v, beside);
        }
      } else {
        // This lane has columns 8 t .. + 7. It trades four of them, so that neighbours store side by side.
        const bool odd = t_ % 2 == 1;
        float first[4], second[4];
        CT_FOR(n, 4) {
          const float traded = __shfl_xor_sync(kFullWarp, odd ? sum(i, n, 0) : sum(i, n, 1), 1);
          first[n] = odd ? traded : sum(i, n, 0);
          second[n] = odd ? sum(i, n, 1) : traded;
        }
        op_.store(at_.row0 + row, column + (odd ? 8 * t_ - 4 : 8 * t_), first, beside);
        op_.store(at_.row0 + row, column + (odd ? 8 * t_ + 4 : 8 * t_ + 8), second, beside);
      }
    }
  }
  /// Brings the sums to shared memory, each group's to its place.
  CT_DEVICE void share_sums() const {
    __syncthreads();
    CT_FOR(i, 4) {
      float* row = shared_ + group_ * Tile::kSums + (row_ + A::position(i, g_)) * Tile::kSumsLd + column_;
      CT_FOR2(n, 4, x, 2) row[B::position(n, 2 * t_ + x)] = sum(i, n, x);
    }
  }
};

template <class Op, Precision kPrecision, class T>
CT_DEVICE void tensor_tile(const Op& args, int slices) {
  extern __shared__ __align__(16) float shared[];
  Op op = args;
  op.bind(blockIdx.z, blockIdx.y);
  TensorProduct<Op, kPrecision, T> product(op, TileShare<T>(op, slices), shared);
  product.run();
  product.store();
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
  constexpr int TM = T::TM, TN = T::TN, kLd = TN + 4;
  extern __shared__ __align__(16) float shared[];
  float* const sides = shared + TM * kLd;
  Op op = args;
  op.bind(blockIdx.z, blockIdx.y);
  const TileShare<T> at(op, slices);
  const bool wants_side = Op::kSide && op.wants_side(at.column0);
  WideSums<Op> sums;
  WideProduct<Op, kPrecision>(op, at.row0, at.column0).run(at.begin, at.end, wants_side, shared, sums);
  if (slices > 1) __syncthreads();
  CT_FOR(x, 2) {
    const int row = sums.row(x);
    CT_FOR(a, 4) {
      float v[4];
      sums.four(a, x, v);
      if (slices > 1)
        put_all(shared + row * kLd + sums.column(a), v);
      else
        op.store(at.row0 + row, at.column0 + sums.column(a), v, sums.side[x]);
    }
    if (Op::kSide && slices > 1 && threadIdx.x % 4 == 0) sides[row] = sums.side[x];
  }
  if (slices > 1)
    finish_tile<Op, TM, TN, T::kThreads, 1, kLd, 1>(op, at.row0, at.column0, shared, sides, wants_side,
                                                    at.slice, slices);
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
void launch_tiles(const Exec& exec, const char* name, void (*kernel)(Op, int), int threads, std::size_t bytes,
                  const Op& op, int B, int R) {
  const unsigned tiles = blocks_for(op.M, TM) * blocks_for(op.N, TN);
  const int slices = has_clusters(kernel) ? slices_of(static_cast<int>(tiles), op.K) : 1;
  const dim3 grid(tiles * slices, static_cast<unsigned>(B), static_cast<unsigned>(R));
  launch_clusters(slices, exec, name, kernel, grid, threads, bytes, op, slices);
}

template <Precision kPrecision, class Op>
void tensor_gemm(const Exec& exec, const char* name, const Op& op, int B, int R) {
  const auto in_tiles = [&]<class T>() {
    launch_tiles<T::TM, T::TN, Op>(exec, name, tensor_kernel<Op, kPrecision, T>, T::kThreads,
                                   TensorTile<Op, T>::kBytes, op, B, R);
  };
  if (op.M <= 32) {
    in_tiles.template operator()<Tiling<32, 64, 4, 4>>();
  } else if constexpr (Op::kStraight) {
    constexpr std::size_t kOther = TensorTile<Op, NotWide>::kBytes, kWide = WideTile::kBytes<kPrecision>,
                          kBytes = kOther > kWide ? kOther : kWide;
    launch_tiles<WideTile::TM, WideTile::TN, Op>(exec, name, wide_kernel<Op, kPrecision>, WideTile::kThreads,
                                                 kBytes, op, B, R);
  } else if (Op::kAsync && op.M > 64) {
    if constexpr (Op::kAsync) in_tiles.template operator()<Tiling<128, 64, 8, 2>>();
  } else if (Op::kAsync && op.N > 64) {
    if constexpr (Op::kAsync) in_tiles.template operator()<Tiling<64, 128, 8, 2>>();
  } else {
    in_tiles.template operator()<Tiling<64, 64, 8, 2>>();
  }
}

}  // namespace crosstalk::device
