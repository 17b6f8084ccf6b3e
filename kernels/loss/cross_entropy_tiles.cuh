// Cross-entropy without logits in memory: rows of up to 256 numbers, operands in bf16, products by wgmma
// where there is such a thing, else by mma.
//
// x and w are rounded once, into tiles of 64 rows. A block owns 128 rows of x and walks over its part of the vocabulary,
// 64 tokens at a time. In one walk it sums a row's exponentials and, for d_x, what they weigh, as attention does:
//
//   s_n = sum_v 2^{y_nv log2 e - base_n},   o_n = sum_v 2^{y_nv log2 e - base_n} w_v,   d_x_n = share (o_n / s_n - w_target)
//
// base_n follows the largest logit so far: whenever that is 2^8 times as large, both sums are scaled. Parts are joined in
// their order. For d_w a block owns 128 rows of w and makes the logits again, as
//
//   p_nv = 2^{y_nv log2 e - offset_n} - share [v = target_n],   offset_n = log2(sum_v e^{y_nv}) - log2 share
//   d_w_v = sum_n p_nv x_n
//
// Where there is wgmma a step's weights are multiplied while those of the next are made, and the two groups of four warps of a
// block take turns to queue products: one group's run under the other's exponentials.
//
// Of more than 128 columns a block's own rows lie in shared memory: sums of d_x or d_w take the registers.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/loss/cross_entropy_steps.cuh"

namespace crosstalk::device {

/// Sums of a row over one part of the vocabulary, or joined. base: a log2 near the largest.
struct EntropySums {
  float base = -INFINITY, total = 0, rival = -INFINITY, right = -INFINITY;

  __device__ void join(const EntropySums& other) {
    const float all = fmaxf(base, other.base), zero = all == -INFINITY ? 0 : all;
    total = total * power_of_two(base - zero) + other.total * power_of_two(other.base - zero);
    base = all, rival = fmaxf(rival, other.rival), right = fmaxf(right, other.right);
  }
};

/// Sums of a thread's two rows in a walk over a part of the vocabulary, and their targets.
struct EntropyRows {
  int target[2];
  EntropySums of[2];

  /// The largest logits of a step's tokens from v0 on, of which `words` end the vocabulary, but for targets, which are noted.
  CT_DEVICE void largest(float (&y)[kEntropyCount][4], int step, int words, float (&most)[2]) {
    most[0] = most[1] = -INFINITY;
    const auto has = [&](int half) { return target[half] / kEntropyStep == step && target[half] >= 0; };
    // Few steps have somebody's target, and one the end of the vocabulary.
    if ((step + 1) * kEntropyStep > words || has(0) || has(1)) {
      const int v0 = step * kEntropyStep + 2 * (CT_THREAD % 4);
      CT_FOR2(n, kEntropyCount, e, 4) {
        const int v = v0 + n * 8 + e % 2;
        if (v >= words) y[n][e] = -INFINITY;
        if (v == target[e / 2])
          of[e / 2].right = y[n][e];
        else
          most[e / 2] = fmaxf(most[e / 2], y[n][e]);
      }
    } else {
      CT_FOR2(n, kEntropyCount, e, 4) most[e / 2] = fmaxf(most[e / 2], y[n][e]);
    }
  }
  /// Raises the bases where logits rise well above them, by all lanes of a warp: true if sums so far are to be scaled.
  CT_DEVICE bool rise(const float (&most)[2], float (&scale)[2]) {
    constexpr float kSlack = 8;
    float top[2];
    CT_FOR(half, 2) {
      of[half].rival = fmaxf(of[half].rival, most[half]);
      top[half] = fmaxf(most[half], of[half].right) * kLog2E;
    }
    const bool rises = __any_sync(kFullWarp, top[0] > of[0].base + kSlack || top[1] > of[1].base + kSlack);
    if (rises) {  // the four lanes of a row have one base
      CT_FOR(half, 2) {
        EntropySums& s = of[half];
        float base = fmaxf(s.base, top[half]);
        base = fmaxf(base, __shfl_xor_sync(kFullWarp, base, 1));
        base = fmaxf(base, __shfl_xor_sync(kFullWarp, base, 2));
        scale[half] = base == s.base ? 1 : power_of_two(s.base - base);
        s.total *= scale[half], s.base = base;
      }
    }
    return rises;
  }
  /// Logits become exponentials, which are summed.
  CT_DEVICE void add(float (&y)[kEntropyCount][4]) {
    CT_FOR(half, 2) {
      EntropySums& s = of[half];
      const float base = s.base == -INFINITY ? 0 : s.base;
      CT_FOR(n, kEntropyCount) {
        CT_UNROLL(int e = 2 * half; e < 2 * half + 2; ++e) {
          y[n][e] = power_of_two(fmaf(y[n][e], kLog2E, -base));
          s.total += y[n][e];
        }
      }
    }
  }
  /// Writes both rows, of which the first is `row` of `rows`, to a part.
  CT_DEVICE void put(int row, int rows, float4* part) {
    CT_FOR(half, 2) {
      EntropySums& s = of[half];
      CT_UNROLL(int offset = 1; offset < 4; offset *= 2) {
        s.total += __shfl_xor_sync(kFullWarp, s.total, offset);
        s.rival = fmaxf(s.rival, __shfl_xor_sync(kFullWarp, s.rival, offset));
        s.right = fmaxf(s.right, __shfl_xor_sync(kFullWarp, s.right, offset));
      }
      if (threadIdx.x % 4 == 0 && row + 8 * half < rows)
        part[row + 8 * half] = make_float4(s.base, s.total, s.rival, s.right);
    }
  }
};

/// kMix: the sums of d_x too.
template <int D, bool kMix>
__global__ void __launch_bounds__(kEntropyThreads, 1)
    entropy_sums(const __grid_constant__ CrossEntropy<float> op, const __grid_constant__ EntropyTiles tiles) {
  wait_for_earlier();
  extern __shared__ __align__(128) unsigned char memory[];
  const int part = static_cast<int>(blockIdx.x) % tiles.parts, r = blockIdx.y;
  const EntropyView<D> view(op, tiles, r);
  const int first = static_cast<int>(blockIdx.x) / tiles.parts * EntropyTiles::kRows,
            row = first + CT_WARP * 16 + CT_LANE / 4;
  EntropyProducts<D, kMix> products;
  products.take(view.x, first, row, memory);
  EntropyRows rows;
  CT_FOR(half, 2)
    rows.target[half] = row + 8 * half < view.x.rows ? op.target.value.at(r)[row + 8 * half] : -1;
  const int2 part_steps = entropy_steps(view.w.rows, part, tiles.parts);
  EntropySteps<D, false> steps(memory + kEntropyOwn<D> * sizeof(std::uint16_t), view.w, view.row, part_steps);
  const std::uint16_t* before = steps.numbers();
  CT_ROLLED(int step = part_steps.x; step < part_steps.y; ++step) {
    const std::uint16_t* const now = steps.numbers();
    steps.acquire();
    products.begin(now, before, step + 1 == part_steps.y);
    steps.look_ahead();
    float most[2], scale[2];
    rows.largest(products.y, step, view.w.rows, most);
    const bool rises = rows.rise(most, scale);
    rows.add(products.y);
    products.settle();
    steps.release_before();
    if constexpr (kMix) {
      if (rises)
        CT_FOR2(n, D / 8, e, 4) products.sums[n][e] *= scale[e / 2];
      products.weigh(now);
    }
    before = now;
    steps.advance();
  }
  products.end(before);
  if constexpr (kMix) store_pieces<D>(view.piece, part, view.x.rows, row, products.sums);
  rows.put(row, view.x.rows, view.part + std::int64_t{part} * view.x.rows);
}

/// Joins the parts of a row, a warp a row; kMix: d_x.
template <int D, bool kMix>
__global__ void __launch_bounds__(kEntropyThreads)
    finish_rows(const __grid_constant__ CrossEntropy<float> op, const __grid_constant__ EntropyTiles tiles) {
  wait_for_earlier();
  const int n = static_cast<int>(blockIdx.x) * kEntropyWarps + CT_WARP, r = blockIdx.y,
            lane = threadIdx.x % 32;
  const EntropyView<D> view(op, tiles, r);
  const int rows = view.x.rows;
  if (n >= EntropyTiles::whole(rows)) return;
  const int target = n < rows ? op.target.value.at(r)[n] : -1;
  const auto part_of = [&](int part) {
    const float4 some = view.part[std::int64_t{part} * rows + n];
    return EntropySums{some.x, some.y, some.z, some.w};
  };
  EntropySums all;
  for (int part = 0; part < tiles.parts && target >= 0; ++part) all.join(part_of(part));
  const float total = log2f(all.total), share = op.share.value.at(r)[0];
  if (lane == 0) {
    view.row[n] = target < 0 ? make_float2(INFINITY, __int_as_float(-1))
                             : make_float2(all.base + total - log2f(share), __int_as_float(target));
    if (n < rows) {
      op.query_loss.value.at(r)[n] =
          target < 0 ? 0 : kEntropyLn2 * (total + fmaf(-all.right, kLog2E, all.base));
      op.correct.value.at(r)[n] = target < 0 ? -1 : all.total == all.total && all.rival < all.right;
    }
  }
  if (!kMix || n >= rows) return;
  const int C = op.x.value.columns();
  float sums[D / 32] = {};
  for (int part = 0; part < tiles.parts; ++part) {
    const float* const piece = view.piece + (std::int64_t{part} * rows + n) * D + lane;
    const float scale = power_of_two(part_of(part).base - all.base);
    CT_FOR(i, D / 32) sums[i] += piece[32 * i] * scale;
  }
  CT_FOR(i, D / 32) {
    const int c = lane + 32 * i;
    const float word = __uint_as_float(static_cast<unsigned>(*view.w.at(max(target, 0), c)) << 16);
    if (c < C)
      put(op.x.write, op.x.gradient.at(r) + std::int64_t{n} * C + c,
          target < 0 ? 0 : share * (sums[i] / all.total - word));
  }
}

/// d_w, one part of the rows of x.
template <int D>
__global__ void __launch_bounds__(kEntropyThreads, 1)
    entropy_words(const __grid_constant__ CrossEntropy<float> op,
                  const __grid_constant__ EntropyTiles tiles) {
  wait_for_earlier();
  extern __shared__ __align__(128) unsigned char memory[];
  const int part = static_cast<int>(blockIdx.x) % tiles.w_parts, r = blockIdx.y;
  const EntropyView<D> view(op, tiles, r);
  const float share = op.share.value.at(r)[0];
  const int lane = threadIdx.x % 32,
            block = static_cast<int>(blockIdx.x) / tiles.w_parts * EntropyTiles::kRows,
            first = block + CT_WARP * 16, row = first + lane / 4, column = 2 * (lane % 4);
  EntropyProducts<D, true> products;
  auto& y = products.y;
  products.take(view.w, block, row, memory);
  const int2 part_steps = entropy_steps(view.x.rows, part, tiles.w_parts);
  EntropySteps<D, true> steps(memory + kEntropyOwn<D> * sizeof(std::uint16_t), view.x, view.row, part_steps);
  const std::uint16_t* before = steps.numbers();
  CT_ROLLED(int step = part_steps.x; step < part_steps.y; ++step) {
    const std::uint16_t* const now = steps.numbers();
    steps.acquire();
    products.begin(now, before, step + 1 == part_steps.y);
    steps.look_ahead();
    const float2* const of = steps.pairs();
    const auto is_near = [&](int n) { return static_cast<unsigned>(__float_as_int(of[n].y) - first) < 16; };
    CT_FOR2(n, kEntropyCount, e, 4)
      y[n][e] = power_of_two(fmaf(y[n][e], kLog2E, -of[n * 8 + column + e % 2].x));
    // Few steps have a target among the warp's rows.
    if (__any_sync(kFullWarp, is_near(lane) || is_near(lane + 32))) {
      CT_FOR2(n, kEntropyCount, e, 4)
        if (row + e / 2 * 8 == __float_as_int(of[n * 8 + column + e % 2].y)) y[n][e] -= share;
    }
    products.settle();
    steps.release_before();
    products.weigh(now);
    before = now;
    steps.advance();
  }
  products.end(before);
  store_pieces<D>(view.piece, part, view.w.rows, row, products.sums);
}

}  // namespace crosstalk::device
