// Cross-entropy without logits in memory: rows in heads of up to 128, operands in bf16, products by wgmma
// where there is such a thing, else by mma.
//
// x and w are rounded once. A block owns 128 rows of x and walks over its part of the vocabulary, 64 tokens
// at a time: the first kernel sums a row's exponentials as it goes; parts are joined in their order.
// Gradients make the logits again, as
//
//   p_nv = 2^{y_nv log2 e - offset_n} - share [v = target_n],   offset_n = log2(sum_v e^{y_nv}) - log2 share
//   d_x_n = sum_v p_nv w_v,   d_w_v = sum_n p_nv x_n
//
// once with rows of x and once with rows of w in the blocks; what blocks sum over parts is added in the order
// of the parts.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/base/async_copy.cuh"
#include "kernels/base/cuda_launch.cuh"
#include "kernels/base/quick_exp.cuh"
#include "kernels/loss/cross_entropy.h"
#include "kernels/matmul/row_tile.cuh"
#include "kernels/matmul/wgmma_bf16.cuh"

namespace crosstalk::device {

constexpr int kEntropyThreads = 256, kEntropyStages = 4;
constexpr float kEntropyLn2 = 0.69314718055994530942f;
static_assert(kEntropyThreads / 32 * 16 == EntropyTiles::kRows);

template <int D>
using EntropyTile = Tile<Precision::bf16, D>;

/// Steps as they come, and for d_w what belongs to their rows.
template <int D>
constexpr std::size_t kEntropyBytes = kEntropyStages*(EntropyTile<D>::bytes(EntropyTiles::kStep) +
                                                      EntropyTiles::kStep * sizeof(float2));

/// Where numbers row and column .. + 7 of a step lie in shared memory: as wgmma or mma take them.
template <int D>
__device__ __forceinline__ int entropy_place(int row, int column) {
  static_assert(D / 8 * kWgmmaLine <= EntropyTiles::kStep * EntropyTile<D>::kStep);
  return CROSSTALK_WGMMA ? column / 8 * kWgmmaLine + row * 8 : row * EntropyTile<D>::kStep + column;
}

/// One side of the product: rows of operands.
template <int D>
struct EntropySide {
  const std::uint16_t* numbers;
  int rows;

  /// Rows n0 .. + 63 to shared memory, in the background; zeros beyond the last.
  __device__ void copy(int n0, std::uint16_t* to) const {
    constexpr int kPieces = D / 8, kTurns = EntropyTiles::kStep * kPieces / kEntropyThreads;
    static_assert(kTurns * kEntropyThreads == EntropyTiles::kStep * kPieces);
#pragma unroll
    for (int i = 0; i < kTurns; ++i) {
      const int at = static_cast<int>(threadIdx.x) + i * kEntropyThreads, row = at / kPieces,
                piece = at % kPieces * 8;
      const bool inside = n0 + row < rows;
      const std::uint16_t* from =
          numbers + static_cast<std::int64_t>(inside ? n0 + row : rows - 1) * D + piece;
      copy_async_or_zero(to + entropy_place<D>(row, piece), from, inside ? 16 : 0);
    }
  }
  /// Rows row and row + 8 as the left operand of mma.
  __device__ void read(int row, unsigned (&a)[D / 16][4]) const {
    const int t = threadIdx.x % 4;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int n = min(row + 8 * half, rows - 1);
      const auto* from = reinterpret_cast<const unsigned*>(numbers + static_cast<std::int64_t>(n) * D) + t;
#pragma unroll
      for (int k = 0; k < D / 16; ++k) a[k][half] = from[8 * k], a[k][2 + half] = from[8 * k + 4];
    }
  }
};

/// Logits of the warp's 16 rows and of a step's, laid out as by scores(); queued where there is wgmma, until
/// wgmma_end().
template <int D>
__device__ __forceinline__ void entropy_queue(const unsigned (&a)[D / 16][4], const std::uint16_t* y,
                                              float (&c)[EntropyTiles::kStep / 8][4]) {
#if CROSSTALK_WGMMA
  wgmma_begin();
#pragma unroll
  for (int k = 0; k < D / 16; ++k) wgmma_bf16<false>(c, a[k], wgmma_columns(y + 2 * k * kWgmmaLine), k > 0);
#else
  scores(a, EntropyTile<D>{const_cast<std::uint16_t*>(y)}, 0, c);
#endif
}

template <int D>
__device__ __forceinline__ void entropy_logits(const unsigned (&a)[D / 16][4], const std::uint16_t* y,
                                               float (&c)[EntropyTiles::kStep / 8][4]) {
  entropy_queue<D>(a, y, c);
  wgmma_end(c);
}

/// sums += p y: weights p as entropy_logits() lays them, by a step's rows.
template <int D>
__device__ __forceinline__ void entropy_mix(const float (&p)[EntropyTiles::kStep / 8][4], std::uint16_t* y,
                                            float (&sums)[D / 8][4]) {
#if CROSSTALK_WGMMA
  unsigned a[EntropyTiles::kStep / 16][4];
#pragma unroll
  for (int j = 0; j < EntropyTiles::kStep / 16; ++j) {
    const float(&left)[4] = p[2 * j], (&right)[4] = p[2 * j + 1];
    a[j][0] = bf16_pair(left[0], left[1]), a[j][1] = bf16_pair(left[2], left[3]);
    a[j][2] = bf16_pair(right[0], right[1]), a[j][3] = bf16_pair(right[2], right[3]);
#pragma unroll
    for (int e = 0; e < 4; ++e) asm volatile("" : "+r"(a[j][e]));  // made before wgmma begins
  }
  wgmma_begin();
#pragma unroll
  for (int j = 0; j < EntropyTiles::kStep / 16; ++j)
    wgmma_bf16<true>(sums, a[j], wgmma_rows(y + j * 16 * 8), true);
  wgmma_end(sums);
#else
  mix(p, EntropyTile<D>{y}, 0, sums);
#endif
}

/// Operands, sums and pieces of one replica.
template <int D>
struct EntropyView {
  EntropySide<D> x, w;
  float4* part;  ///< [parts,rows]: log2 of the largest, sum beside it, largest but the target's, the target's
  float2* row;   ///< [rows]: offset, target
  float* piece;  ///< [parts,rows of one side,D]

  __device__ EntropyView(const CrossEntropy<float>& op, const EntropyTiles& tiles, int r) {
    float* all = op.tiles.value.at(r);
    x.numbers = reinterpret_cast<const std::uint16_t*>(all), x.rows = static_cast<int>(op.rows());
    w.numbers = x.numbers + op.rows() * D, w.rows = op.V();
    part = reinterpret_cast<float4*>(all + tiles.part_at);
    row = reinterpret_cast<float2*>(all + tiles.row_at);
    piece = all + tiles.piece_at;
  }
};

/// x and w as operands, eight numbers a thread.
template <int D>
__global__ void __launch_bounds__(kEntropyThreads)
    round_operands(const __grid_constant__ CrossEntropy<float> op) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kEntropyThreads + threadIdx.x,
                     row = i / (D / 8), rows = op.rows();
  const int r = blockIdx.y, column = static_cast<int>(i % (D / 8)) * 8, C = op.x.value.columns();
  if (row >= rows + op.V()) return;
  const float* from = row < rows ? op.x.value.at(r) + row * C : op.w.value.at(r) + (row - rows) * C;
  const bool aligned = C % 4 == 0 && is_aligned16(from);
  float v[4], u[4];
  load4(from + column, C - column, aligned, v);
  load4(from + column + 4, C - column - 4, aligned, u);
  reinterpret_cast<uint4*>(op.tiles.value.at(r))[i] =
      make_uint4(bf16_pair(v[0], v[1]), bf16_pair(v[2], v[3]), bf16_pair(u[0], u[1]), bf16_pair(u[2], u[3]));
}

/// Steps of a part: from and to.
__device__ __forceinline__ int2 entropy_steps(int rows, int part, int parts) {
  const int steps = (rows + EntropyTiles::kStep - 1) / EntropyTiles::kStep;
  return make_int2(static_cast<int>(static_cast<std::int64_t>(steps) * part / parts),
                   static_cast<int>(static_cast<std::int64_t>(steps) * (part + 1) / parts));
}

/// Calls use(step, stage) for each, when it and the kAhead next are there and others on their way;
/// request(step, stage) copies one.
template <int kAhead, class Request, class Use>
__device__ __forceinline__ void walk(int2 steps, const Request& request, const Use& use) {
  const auto next = [&](int step, int stage) {
    if (step < steps.y) request(step, stage);
    copies_commit();
  };
#pragma unroll
  for (int i = 0; i < kEntropyStages - 1; ++i) next(steps.x + i, i);
  int stage = 0;
#pragma unroll 1
  for (int step = steps.x; step < steps.y; ++step) {
    copies_wait<kEntropyStages - 2 - kAhead>();
    fence_async();
    __syncthreads();
    // The stage before is free.
    next(step + kEntropyStages - 1, stage > 0 ? stage - 1 : kEntropyStages - 1);
    use(step, stage);
    stage = stage + 1 < kEntropyStages ? stage + 1 : 0;
  }
  copies_end();
}

/// Sums of a row over one part of the vocabulary, of one lane or joined.
struct EntropySums {
  float top = -INFINITY, total = 0, rival = -INFINITY, right = -INFINITY;  ///< top: log2 of the largest

  __device__ void join(const EntropySums& other) {
    const float all = fmaxf(top, other.top), base = all == -INFINITY ? 0 : all;
    total = total * power_of_two(top - base) + other.total * power_of_two(other.top - base);
    top = all, rival = fmaxf(rival, other.rival), right = fmaxf(right, other.right);
  }
};

template <int D>
__global__ void __launch_bounds__(kEntropyThreads, 2)
    entropy_sums(const __grid_constant__ CrossEntropy<float> op, const __grid_constant__ EntropyTiles tiles) {
  constexpr int kStep = EntropyTiles::kStep, kCount = kStep / 8;
  extern __shared__ __align__(16) unsigned char memory[];
  auto* const stages = reinterpret_cast<std::uint16_t*>(memory);
  const int part = static_cast<int>(blockIdx.x) % tiles.parts, r = blockIdx.y;
  const EntropyView<D> view(op, tiles, r);
  const int lane = threadIdx.x % 32, row = static_cast<int>(blockIdx.x) / tiles.parts * EntropyTiles::kRows +
                                           static_cast<int>(threadIdx.x) / 32 * 16 + lane / 4;
  unsigned a[D / 16][4];
  view.x.read(row, a);
  int target[2];
  EntropySums sums[2];
#pragma unroll
  for (int half = 0; half < 2; ++half)
    target[half] = row + 8 * half < view.x.rows ? op.target.value.at(r)[row + 8 * half] : -1;
  const auto stage_at = [&](int stage) { return stages + stage * kStep * EntropyTile<D>::kStep; };
  walk<0>(
      entropy_steps(view.w.rows, part, tiles.parts),
      [&](int step, int stage) { view.w.copy(step * kStep, stage_at(stage)); },
      [&](int step, int stage) {
        float y[kCount][4];
        entropy_logits<D>(a, stage_at(stage), y);
        const int v0 = step * kStep + 2 * (lane % 4);
        float most[2] = {-INFINITY, -INFINITY};
        const auto has = [&](int half) { return target[half] / kStep == step && target[half] >= 0; };
        // Few steps have somebody's target, and one the end of the vocabulary.
        if ((step + 1) * kStep > view.w.rows || has(0) || has(1)) {
#pragma unroll
          for (int n = 0; n < kCount; ++n) {
#pragma unroll
            for (int e = 0; e < 4; ++e) {
              const int v = v0 + n * 8 + e % 2;
              if (v >= view.w.rows) y[n][e] = -INFINITY;
              if (v == target[e / 2]) {
                sums[e / 2].right = y[n][e];
              } else {
                most[e / 2] = fmaxf(most[e / 2], y[n][e]);
              }
            }
          }
        } else {
#pragma unroll
          for (int n = 0; n < kCount; ++n) {
#pragma unroll
            for (int e = 0; e < 4; ++e) most[e / 2] = fmaxf(most[e / 2], y[n][e]);
          }
        }
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          EntropySums& s = sums[half];
          s.rival = fmaxf(s.rival, most[half]);
          const float top = fmaxf(s.rival, s.right) * kLog2E, base = top == -INFINITY ? 0 : top;
          s.total *= power_of_two(s.top - base);
          s.top = top;
#pragma unroll
          for (int n = 0; n < kCount; ++n) {
#pragma unroll
            for (int e = 0; e < 2; ++e) s.total += power_of_two(fmaf(y[n][2 * half + e], kLog2E, -base));
          }
        }
      });
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    EntropySums& s = sums[half];
#pragma unroll
    for (int offset = 1; offset < 4; offset *= 2) {
      EntropySums other;
      other.top = __shfl_xor_sync(kFullWarp, s.top, offset);
      other.total = __shfl_xor_sync(kFullWarp, s.total, offset);
      other.rival = __shfl_xor_sync(kFullWarp, s.rival, offset);
      other.right = __shfl_xor_sync(kFullWarp, s.right, offset);
      s.join(other);
    }
    const int n = row + 8 * half;
    if (lane % 4 == 0 && n < view.x.rows)
      view.part[static_cast<std::int64_t>(part) * view.x.rows + n] =
          make_float4(s.top, s.total, s.rival, s.right);
  }
}

/// Joins the parts of a row, a thread a row.
constexpr int kFinishThreads = 64;
template <int D>
__global__ void __launch_bounds__(kFinishThreads)
    finish_rows(const __grid_constant__ CrossEntropy<float> op, const __grid_constant__ EntropyTiles tiles) {
  const int n = static_cast<int>(blockIdx.x) * kFinishThreads + static_cast<int>(threadIdx.x), r = blockIdx.y;
  const EntropyView<D> view(op, tiles, r);
  if (n >= view.x.rows) return;
  const int target = op.target.value.at(r)[n];
  if (target < 0) {
    op.query_loss.value.at(r)[n] = 0, op.correct.value.at(r)[n] = -1;
    view.row[n] = make_float2(INFINITY, __int_as_float(-1));
    return;
  }
  EntropySums all;
#pragma unroll 4
  for (int part = 0; part < tiles.parts; ++part) {
    const float4 some = view.part[static_cast<std::int64_t>(part) * view.x.rows + n];
    EntropySums sums;
    sums.top = some.x, sums.total = some.y, sums.rival = some.z, sums.right = some.w;
    all.join(sums);
  }
  const float total = log2f(all.total);
  op.query_loss.value.at(r)[n] = kEntropyLn2 * (total + fmaf(-all.right, kLog2E, all.top));
  op.correct.value.at(r)[n] = all.total == all.total && all.rival < all.right;
  view.row[n] = make_float2(all.top + total - log2f(op.share.value.at(r)[0]), __int_as_float(target));
}

/// d_x (of rows of x) or d_w (kWords: of rows of w), one part of the other side.
template <int D, bool kWords>
__global__ void __launch_bounds__(kEntropyThreads, 1)
    entropy_gradient(const __grid_constant__ CrossEntropy<float> op,
                     const __grid_constant__ EntropyTiles tiles) {
  constexpr int kStep = EntropyTiles::kStep, kCount = kStep / 8;
  extern __shared__ __align__(16) unsigned char memory[];
  auto* const stages = reinterpret_cast<std::uint16_t*>(memory);
  auto* const others = reinterpret_cast<float2*>(stages + kEntropyStages * kStep * EntropyTile<D>::kStep);
  const int parts = kWords ? tiles.w_parts : tiles.x_parts, part = static_cast<int>(blockIdx.x) % parts,
            r = blockIdx.y;
  const EntropyView<D> view(op, tiles, r);
  const EntropySide<D> own = kWords ? view.w : view.x, other = kWords ? view.x : view.w;
  const float share = op.share.value.at(r)[0];
  const int lane = threadIdx.x % 32, row = static_cast<int>(blockIdx.x) / parts * EntropyTiles::kRows +
                                           static_cast<int>(threadIdx.x) / 32 * 16 + lane / 4;
  unsigned a[D / 16][4];
  own.read(row, a);
  float2 mine[2];
#pragma unroll
  for (int half = 0; half < 2 && !kWords; ++half) mine[half] = view.row[min(row + 8 * half, own.rows - 1)];
  float sums[D / 8][4] = {};
  const auto stage_at = [&](int stage) { return stages + stage * kStep * EntropyTile<D>::kStep; };
  const int2 steps = entropy_steps(other.rows, part, parts);
  float y[kCount][4];
  walk<1>(
      steps,
      [&](int step, int stage) {
        other.copy(step * kStep, stage_at(stage));
        if (kWords && threadIdx.x < kStep) {
          const int n = min(step * kStep + static_cast<int>(threadIdx.x), other.rows - 1);
          copy_async<8>(others + stage * kStep + threadIdx.x, view.row + n);
        }
      },
      [&](int step, int stage) {
        if (step == steps.x) entropy_logits<D>(a, stage_at(stage), y);
        // Logits of the next step are made while this one's are worked on; after the last, its own once more.
        float next[kCount][4];
        const int then = step + 1 == steps.y ? stage : stage + 1 < kEntropyStages ? stage + 1 : 0;
        entropy_queue<D>(a, stage_at(then), next);
#pragma unroll
        for (int n = 0; n < kCount; ++n) {
#pragma unroll
          for (int e = 0; e < 4; ++e) asm volatile("" : "+f"(y[n][e]));  // not before
        }
        // The warps that share a product take the same way to it: no branch on what one of them sees.
        const int column = 2 * (lane % 4);
        int ahead[2];  // how far ahead of this lane's first column a row's target is
#pragma unroll
        for (int half = 0; half < 2 && !kWords; ++half)
          ahead[half] = __float_as_int(mine[half].y) - step * kStep - column;
#pragma unroll
        for (int n = 0; n < kCount; ++n) {
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const float2 of = kWords ? others[stage * kStep + n * 8 + column + e % 2] : mine[e / 2];
            const bool hit = kWords ? row + e / 2 * 8 == __float_as_int(of.y) : ahead[e / 2] == n * 8 + e % 2;
            const float p = power_of_two(fmaf(y[n][e], kLog2E, -of.x));
            y[n][e] = hit ? p - share : p;
          }
        }
        if ((step + 1) * kStep > other.rows) {
#pragma unroll
          for (int n = 0; n < kCount; ++n) {
#pragma unroll
            for (int e = 0; e < 4; ++e) {
              if (step * kStep + n * 8 + column + e % 2 >= other.rows) y[n][e] = 0;
            }
          }
        }
        entropy_mix<D>(y, stage_at(stage), sums);
        wgmma_end(next);
#pragma unroll
        for (int n = 0; n < kCount; ++n) {
#pragma unroll
          for (int e = 0; e < 4; ++e) y[n][e] = next[n][e];
        }
      });
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    if (row + 8 * half >= own.rows) continue;
    float* to =
        view.piece + (static_cast<std::int64_t>(part) * own.rows + row + 8 * half) * D + 2 * (lane % 4);
#pragma unroll
    for (int n = 0; n < D / 8; ++n)
      *reinterpret_cast<float2*>(to + n * 8) = make_float2(sums[n][2 * half], sums[n][2 * half + 1]);
  }
}

}  // namespace crosstalk::device
