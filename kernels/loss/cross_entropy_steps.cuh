// Parts that the kernels of cross_entropy_tiles.cuh share: operands of either side in tiles, their way through shared memory, and the
// products of a step.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/base/device/async_copy.cuh"
#include "kernels/base/device/bulk_copy.cuh"
#include "kernels/base/device/early_launch.cuh"
#include "kernels/base/device/quick_exp.cuh"
#include "kernels/loss/cross_entropy.h"
#include "kernels/matmul/row_tile.cuh"
#include "kernels/matmul/wgmma_bf16.cuh"

namespace crosstalk::device {

constexpr int kEntropyThreads = 256, kEntropyWarps = kEntropyThreads / 32;
constexpr int kEntropyStep = EntropyTiles::kStep, kEntropyCount = kEntropyStep / 8;
constexpr int kEntropyLine = kEntropyStep * 8;  ///< numbers of a tile's piece of 8 columns
constexpr float kEntropyLn2 = 0.69314718055994530942f;
static_assert(kEntropyWarps * 16 == EntropyTiles::kRows);

template <int D>
using EntropyTile = Tile<Precision::bf16, D>;

/// Numbers of a stage: as in memory where there is wgmma, else rows with a gap.
template <int D>
constexpr int kEntropyStage = kEntropyStep* EntropyTile<D>::kStep;
template <int D>
constexpr bool kEntropyHolds = D <= 128;  ///< own rows in registers
template <int D>
constexpr int kEntropyStages = kEntropyHolds<D> ? 5 : 4;
template <int D>
constexpr int kEntropyOwn = kEntropyHolds<D> ? 0 : EntropyTiles::kRows* EntropyTile<D>::kStep;
template <int D>
constexpr std::size_t kEntropyBytes = kEntropyStages<D>*(kEntropyStage<D> * sizeof(std::uint16_t) +
                                                         kEntropyStep * sizeof(float2) +
                                                         2 * sizeof(std::uint64_t)) +
                                      kEntropyOwn<D> * sizeof(std::uint16_t);
static_assert(kEntropyBytes<EntropyTiles::kLargest> == EntropyTiles::kLargestBytes);

/// One side of the product: rows of operands in tiles [rows / 64][D / 8][64][8], zeros beyond the last row.
template <int D>
struct EntropySide {
  const std::uint16_t* numbers;
  int rows;

  __device__ const std::uint16_t* at(int row, int column) const {
    return numbers + std::int64_t{row / kEntropyStep} * kEntropyStep * D + column / 8 * kEntropyLine +
           row % kEntropyStep * 8 + column % 8;
  }
  /// Rows row and row + 8 as the left operand of mma.
  __device__ void read(int row, unsigned (&a)[D / 16][4]) const {
    CT_FOR(half, 2) {
      const auto* from =
          reinterpret_cast<const unsigned*>(at(min(row + 8 * half, rows - 1), 2 * (CT_THREAD % 4)));
      CT_FOR(k, D / 16) {
        a[k][half] = from[k * kEntropyLine];
        a[k][2 + half] = from[k * kEntropyLine + kEntropyLine / 2];
      }
    }
  }
};

/// Operands, sums and pieces of one replica.
template <int D>
struct EntropyView {
  EntropySide<D> x, w;
  float4* part;  ///< [parts,rows]: base, sum beside it, largest but the target's, the target's
  float2* row;   ///< [rows, whole steps]: offset, target
  float* piece;  ///< [parts,rows of one side,D]

  __device__ EntropyView(const CrossEntropy<float>& op, const EntropyTiles& tiles, int r) {
    float* all = op.tiles.value.at(r);
    x.numbers = reinterpret_cast<const std::uint16_t*>(all), x.rows = static_cast<int>(op.rows());
    w.numbers = x.numbers + EntropyTiles::whole(x.rows) * D, w.rows = op.V();
    part = reinterpret_cast<float4*>(all + tiles.part_at);
    row = reinterpret_cast<float2*>(all + tiles.row_at);
    piece = all + tiles.piece_at;
  }
};

/// x and w as operands, eight numbers a thread.
template <int D>
__global__ void __launch_bounds__(kEntropyThreads)
    round_operands(const __grid_constant__ CrossEntropy<float> op) {
  wait_for_earlier();
  constexpr int kPieces = kEntropyStep * D / 8;
  const std::int64_t i = std::int64_t{blockIdx.x} * kEntropyThreads + threadIdx.x,
                     rows = EntropyTiles::whole(op.rows());
  const int r = blockIdx.y, within = static_cast<int>(i % kPieces), column = within / kEntropyStep * 8,
            C = op.x.value.columns();
  const std::int64_t at = i / kPieces * kEntropyStep + within % kEntropyStep;
  if (at >= rows + EntropyTiles::whole(op.V())) return;
  const bool words = at >= rows;
  const std::int64_t row = words ? at - rows : at;
  const bool there = row < (words ? op.V() : op.rows());
  const float* from = (words ? op.w : op.x).value.at(r) + row * C;
  const bool aligned = C % 4 == 0 && is_aligned16(from);
  float v[4], u[4];
  load4(from + column, there ? C - column : 0, aligned, v);
  load4(from + column + 4, there ? C - column - 4 : 0, aligned, u);
  reinterpret_cast<uint4*>(op.tiles.value.at(r))[i] =
      make_uint4(bf16_pair(v[0], v[1]), bf16_pair(v[2], v[3]), bf16_pair(u[0], u[1]), bf16_pair(u[2], u[3]));
}

/// Steps of a part: from and to.
CT_DEVICE int2 entropy_steps(int rows, int part, int parts) {
  const int steps = (rows + kEntropyStep - 1) / kEntropyStep;
  return make_int2(static_cast<int>(std::int64_t{steps} * part / parts),
                   static_cast<int>(std::int64_t{steps} * (part + 1) / parts));
}

/// Steps of one side on their way through shared memory, with what belongs to their rows where kPairs.
///
/// Where there is wgmma the first thread asks for a stage at a time, as soon as all warps have done with the one before the
/// one that its own has done with: groups of warps may be two steps apart. Else all threads copy, and wait for each other.
template <int D, bool kPairs>
class EntropySteps {
 public:
  __device__ EntropySteps(unsigned char* memory, const EntropySide<D>& side, const float2* pairs, int2 steps)
      : numbers_(reinterpret_cast<std::uint16_t*>(memory)),
        pairs_(reinterpret_cast<float2*>(numbers_ + kStages * kEntropyStage<D>)),
        barriers_(reinterpret_cast<std::uint64_t*>(pairs_ + kStages * kEntropyStep)),
        from_(side.at(steps.x * kEntropyStep, 0)),
        from_pairs_(pairs + steps.x * kEntropyStep),
        count_(steps.y - steps.x) {
#if CROSSTALK_WGMMA
    if (threadIdx.x == 0) {
      for (int i = 0; i < kStages; ++i) {
        barrier_init(barriers_ + i, 1);
        barrier_init(barriers_ + kStages + i, kEntropyWarps);
      }
      barriers_made();
    }
    __syncthreads();
    if (threadIdx.x == 0)
      for (int i = 0; i < min(count_, kStages); ++i) request(i);
#else
    for (int i = 0; i < kAhead; ++i) request(i);
#endif
  }
  /// Operands of the step at hand, from acquire() to advance().
  __device__ const std::uint16_t* numbers() const { return numbers_ + stage_ * kEntropyStage<D>; }
  __device__ const float2* pairs() const { return pairs_ + stage_ * kEntropyStep; }

  __device__ void acquire() {
#if CROSSTALK_WGMMA
    if (!there_) barrier_wait(barriers_ + stage_, parity_);
#else
    copies_wait<kAhead - 1>();
    __syncthreads();
    request(step_ + kAhead);
#endif
  }
  /// Looks whether the next step is there, long before that is asked.
  __device__ void look_ahead() {
#if CROSSTALK_WGMMA
    const bool wraps = stage_ + 1 == kStages;
    there_ = barrier_test(barriers_ + (wraps ? 0 : stage_ + 1), wraps ? parity_ ^ 1 : parity_);
#endif
  }
  /// This warp has done with the step before this one.
  __device__ void release_before() {
#if CROSSTALK_WGMMA
    if (step_ == 0) return;
    if (threadIdx.x % 32 == 0) barrier_arrive(barriers_ + kStages + (stage_ > 0 ? stage_ : kStages) - 1);
    const int free = step_ - 2;  // by who is ahead
    if (threadIdx.x == 0 && free >= 0 && free + kStages < count_) {
      barrier_wait(barriers_ + kStages + free % kStages, free / kStages & 1);
      request(free + kStages);
    }
#endif
  }
  __device__ void advance() {
    ++step_;
    if (++stage_ == kStages) stage_ = 0, parity_ ^= 1;
  }

 private:
  static constexpr int kStages = kEntropyStages<D>, kAhead = kStages - 2;
  __device__ void request(int i) {
    std::uint16_t* const to = numbers_ + i % kStages * kEntropyStage<D>;
    float2* const to_pairs = pairs_ + i % kStages * kEntropyStep;
    const std::uint16_t* const from = from_ + std::int64_t{i} * kEntropyStep * D;
    const float2* const from_pairs = from_pairs_ + i * kEntropyStep;
#if CROSSTALK_WGMMA
    constexpr unsigned kNumbers = kEntropyStep * D * sizeof(std::uint16_t),
                       kOthers = kEntropyStep * sizeof(float2);
    std::uint64_t* const there = barriers_ + i % kStages;
    barrier_announce(there, kNumbers + (kPairs ? kOthers : 0));
    copy_bulk(to, from, kNumbers, there);
    if (kPairs) copy_bulk(to_pairs, from_pairs, kOthers, there);
#else
    constexpr int kPieces = kEntropyStep * D / 8;
    static_assert(kPieces % kEntropyThreads == 0);
    if (i < count_) {
      const int thread = CT_THREAD;
      CT_FOR(turn, kPieces / kEntropyThreads) {
        const int at = thread + turn * kEntropyThreads;
        copy_async(to + at % kEntropyStep * EntropyTile<D>::kStep + at / kEntropyStep * 8, from + at * 8);
      }
      if (kPairs && thread < kEntropyStep / 2) copy_async(to_pairs + 2 * thread, from_pairs + 2 * thread);
    }
    copies_commit();
#endif
  }

  std::uint16_t* numbers_;
  float2* pairs_;
  std::uint64_t* barriers_;  ///< of each stage: it is there; it is free
  const std::uint16_t* from_;
  const float2* from_pairs_;
  int count_, step_ = 0, stage_ = 0;
  unsigned parity_ = 0;
  bool there_ = false;
};

/// Logits of the warp's 16 rows and of a step's, laid out as by scores(), and sums of the step's rows by the weights that are
/// made of them.
template <int D, bool kMix>
struct EntropyProducts {
  unsigned rows[kEntropyHolds<D> ? D / 16 : 1][4];  ///< as operands
  std::uint16_t* own = nullptr;                     ///< or the block's rows, as a step's lie in shared memory
  float y[kEntropyCount][4];                        ///< logits, then weights
  float sums[kMix ? D / 8 : 1][4] = {};             ///< [column]
  unsigned weights[kEntropyStep / 16][4] = {};      ///< of the step before, as operands

  /// Takes the block's rows from `first`, of which the lane's are `row` and row + 8; before a barrier.
  CT_DEVICE void take(const EntropySide<D>& side, [[maybe_unused]] int first, int row,
                      [[maybe_unused]] unsigned char* memory) {
#if CROSSTALK_WGMMA
    if (threadIdx.x >= 128) give_turn(0);
#endif
    if constexpr (kEntropyHolds<D>) {
      side.read(row, rows);
    } else {
      own = reinterpret_cast<std::uint16_t*>(memory);
      constexpr int kRows = EntropyTiles::kRows;
#pragma unroll 8
      for (int at = threadIdx.x; at < kRows * (D / 8); at += kEntropyThreads) {
        const int n = at % kRows, c = at / kRows * 8;
#if CROSSTALK_WGMMA
        const std::uint16_t* const to = EntropySide<D>{own, kRows}.at(n, c);
#else
        const std::uint16_t* const to = own + n * EntropyTile<D>::kStep + c;
#endif
        *reinterpret_cast<uint4*>(const_cast<std::uint16_t*>(to)) =
            *reinterpret_cast<const uint4*>(side.at(min(first + n, side.rows - 1), c));
      }
      fence_async();
    }
  }
  /// y = logits; the step before is added to the sums until settle(). The two groups of warps take turns: while one's products
  /// are made the other has exponentials. last: of the steps.
  CT_DEVICE void begin(const std::uint16_t* step, [[maybe_unused]] const std::uint16_t* before,
                       [[maybe_unused]] bool last) {
#if CROSSTALK_WGMMA
    const int group = CT_THREAD / 128;
    const std::uint64_t words = wgmma_columns<kEntropyLine>(step);
    hold();
    await_turn(group);
    wgmma_begin();
    CT_FOR(k, D / 16) {
      if constexpr (kEntropyHolds<D>) {
        wgmma_bf16<false>(y, rows[k], wgmma_ahead(words, 2 * k * kEntropyLine), k > 0);
      } else {
        wgmma_bf16(
            y, wgmma_ahead(wgmma_columns<kEntropyLine>(own + group * kEntropyStep * D), 2 * k * kEntropyLine),
            wgmma_ahead(words, 2 * k * kEntropyLine), k > 0);
      }
    }
    wgmma_commit();
    if constexpr (kMix) mix_weights(before);
    if (group == 0 || !last) give_turn(1 - group);
    wgmma_wait<kMix ? 1 : 0>(y);
#else
    const EntropyTile<D> tile{const_cast<std::uint16_t*>(step)};
    if constexpr (kEntropyHolds<D>)
      scores(rows, tile, 0, y);
    else
      scores(EntropyTile<D>{own}, CT_WARP * 16, tile, 0, y);
#endif
  }
  CT_DEVICE void settle() {
    if constexpr (kMix) wgmma_wait<0>(sums);
  }
  /// y as weights of the step's rows.
  CT_DEVICE void weigh([[maybe_unused]] const std::uint16_t* step) {
#if CROSSTALK_WGMMA
    CT_FOR(j, kEntropyStep / 16) {
      const float(&left)[4] = y[2 * j], (&right)[4] = y[2 * j + 1];
      weights[j][0] = bf16_pair(left[0], left[1]), weights[j][1] = bf16_pair(left[2], left[3]);
      weights[j][2] = bf16_pair(right[0], right[1]), weights[j][3] = bf16_pair(right[2], right[3]);
    }
#else
    if constexpr (kMix) mix(y, EntropyTile<D>{const_cast<std::uint16_t*>(step)}, 0, sums);
#endif
  }
  /// Adds the last step.
  CT_DEVICE void end([[maybe_unused]] const std::uint16_t* last) {
#if CROSSTALK_WGMMA
    if constexpr (kMix) {
      hold();
      wgmma_begin();
      mix_weights(last);
      wgmma_wait<0>(sums);
    }
#endif
  }

 private:
  CT_DEVICE void mix_weights(const std::uint16_t* step) {
    const std::uint64_t words = wgmma_rows<kEntropyLine>(step);
    CT_FOR(j, kEntropyStep / 16) {
      constexpr int kWide = D < 128 ? D : 128;  // columns of a product
      CT_UNROLL(int c = 0; c < D; c += kWide)
        wgmma_bf16<true>(reinterpret_cast<float(&)[kWide / 8][4]>(sums[c / 8]), weights[j],
                         wgmma_ahead(words, c / 8 * kEntropyLine + j * 16 * 8), true);
    }
    wgmma_commit();
  }
  /// Barriers 1 and 2, of group 0 and of group 1.
  CT_DEVICE static void await_turn(int group) {
    asm volatile("bar.sync %0, %1;" ::"r"(1 + group), "n"(kEntropyThreads) : "memory");
  }
  CT_DEVICE static void give_turn(int group) {
    asm volatile("bar.arrive %0, %1;" ::"r"(1 + group), "n"(kEntropyThreads) : "memory");
  }
  /// Numbers that products take are made before those begin.
  CT_DEVICE void hold() {
    if constexpr (kMix) {
      CT_FOR2(j, kEntropyStep / 16, e, 4) asm volatile("" : "+r"(weights[j][e]));
      CT_FOR2(n, D / 8, e, 4) asm volatile("" : "+f"(sums[n][e]));
    }
  }
};

/// A block's sums of part `part` to memory.
template <int D>
CT_DEVICE void store_pieces(float* piece, int part, int rows, int row, const float (&sums)[D / 8][4]) {
  CT_FOR(half, 2) {
    if (row + 8 * half >= rows) continue;
    float* to = piece + (std::int64_t{part} * rows + row + 8 * half) * D + 2 * (CT_THREAD % 4);
    CT_FOR(n, D / 8)
      *reinterpret_cast<float2*>(to + n * 8) = make_float2(sums[n][2 * half], sums[n][2 * half + 1]);
  }
}

}  // namespace crosstalk::device
