// Gradients of whole heads of many queries, operands in bf16 as they come, by wgmma where there is such a
// thing, else by mma: as whole_gradient() does it, but four warps together have 64 rows.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/ops/attend_mix_whole.cuh"
#include "kernels/ops/wgmma_bf16.cuh"

namespace crosstalk::device {

/// Rows in blocks of 64 as wgmma takes them.
template <int D>
struct Pieces {
  static constexpr int kD = D, kFours = D / 4, kBlock = D / 8 * kWgmmaLine;
  std::uint16_t* numbers;
  static constexpr int bytes(int rows) { return rows / kWgmmaRows * kBlock * 2; }
  /// Eight columns from c of a row and those below.
  __device__ std::uint16_t* at(int row, int c) const {
    return numbers + row / kWgmmaRows * kBlock + c / 8 * kWgmmaLine + row % kWgmmaRows * 8;
  }
};
template <int D>
__device__ __forceinline__ std::uint16_t* tile_place(const Pieces<D>& tile, int row, int c) {
  return tile.at(row, c) + c % 8;
}

template <int D>
struct Wide {
  static constexpr int kThreads = 256, kTeams = kThreads / 128;
  int queries, tokens;  ///< rows of tiles
  CT_HD Wide(int Q, int T)
      : queries((Q + kWgmmaRows - 1) / kWgmmaRows * kWgmmaRows),
        tokens((T + kWgmmaRows - 1) / kWgmmaRows * kWgmmaRows) {}
  CT_HD int most() const { return queries > tokens ? queries : tokens; }
  CT_HD int bytes() const {
    return queries * static_cast<int>(sizeof(ColumnQuery)) +
           Pieces<D>::bytes(2 * most() + 2 * kTeams * kWgmmaRows);
  }
};

/// Weights as the left operand, 16 columns at a time.
__device__ __forceinline__ void wide_operands(const float (&w)[4][4], unsigned (&a)[2][4]) {
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    const float(&left)[4] = w[2 * j], (&right)[4] = w[2 * j + 1];
    a[j][0] = bf16_pair(left[0], left[1]), a[j][1] = bf16_pair(left[2], left[3]);
    a[j][2] = bf16_pair(right[0], right[1]), a[j][3] = bf16_pair(right[2], right[3]);
#pragma unroll
    for (int e = 0; e < 4; ++e) asm volatile("" : "+r"(a[j][e]));  // made before wgmma begins
  }
}
__device__ __forceinline__ void team_meets() {
  asm volatile("bar.sync %0, 128;" ::"r"(static_cast<int>(threadIdx.x) / 128 + 1) : "memory");
}

template <int D>
__global__ void __launch_bounds__(Wide<D>::kThreads, 1)
    wide_gradient(const __grid_constant__ AttendMix<float> op) {
  using Tile = Pieces<D>;
  using Number = std::uint16_t;
  constexpr int kThreads = Wide<D>::kThreads, kTeams = Wide<D>::kTeams, kStep = 32, kRows = kWgmmaRows;
  extern __shared__ __align__(16) unsigned char memory[];
  const int T = op.T(), Q = op.Q(), K = op.K(), V = op.V(), bh = blockIdx.x, r = blockIdx.y;
  const int thread = threadIdx.x, lane = thread % 32, team = thread / 128, r0 = thread / 32 % 4 * 16;
  const Wide<D> cut(Q, T);
  auto* const seen = reinterpret_cast<ColumnQuery*>(memory);
  const Tile ks{reinterpret_cast<Number*>(seen + cut.queries)},
      vs{ks.numbers + cut.tokens / kRows * Tile::kBlock}, xs{ks.numbers},
      us{xs.numbers + cut.queries / kRows * Tile::kBlock},
      as{ks.numbers + 2 * (cut.most() / kRows + team) * Tile::kBlock}, bs{as.numbers + Tile::kBlock};
  const auto k = whole_rows<Number>(op, op.k.value, r, bh, T, K),
             v = whole_rows<Number>(op, op.v.value, r, bh, T, V);
  const float scale = static_cast<float>(op.scale) * kLog2E;
  const float factor[2] = {static_cast<float>(op.scale), static_cast<float>(op.scale)}, one[2] = {1, 1};
  const auto block_of = [&](int turn) {
    return turn % 2 == 0 ? turn * kTeams + team : (turn + 1) * kTeams - 1 - team;
  };
  take_rows<kThreads>(thread, ks, k, 0, cut.tokens, T, K);
  take_rows<kThreads>(thread, vs, v, 0, cut.tokens, T, V);
  whole_copies_end();
  fence_async();
  __syncthreads();
#pragma unroll 1
  for (int turn = 0; turn * kTeams < cut.queries / kRows; ++turn) {
    const int q0 = block_of(turn) * kRows;
    if (q0 >= cut.queries) continue;
    team_meets();
    take_queries<128, Number>(op, r, bh, thread % 128, as, bs, seen, q0, kRows);
    whole_copies_end();
    team_meets();
    unsigned x[D / 16][4], u[D / 16][4];
#pragma unroll
    for (int c = 0; c < D / 16; ++c) {
      block_operands(as.numbers, r0, 16 * c, x[c]);
      block_operands(bs.numbers, r0, 16 * c, u[c]);
    }
    const ColumnQuery query[2] = {seen[q0 + r0 + lane / 4], seen[q0 + r0 + lane / 4 + 8]};
    const ColumnQuery some[2] = {seen[q0 + lane], seen[q0 + lane + 32]};
    float sums[D / 8][4] = {};
#pragma unroll 1
    for (int j0 = 0; j0 < T; j0 += kStep) {
      bool meet = false;
#pragma unroll
      for (const ColumnQuery& q : some)
        meet = meet || (q.first < q.last && q.first < j0 + kStep && q.last > j0);
      if (!__any_sync(kFullWarp, meet)) continue;  // the same in all warps of the team
      float a[kStep / 8][4], d[kStep / 8][4];
      wgmma_begin();
#pragma unroll
      for (int c = 0; c < D / 16; ++c) {
        multiply_block<false>(a, x[c], ks.at(j0, 0), 16 * c, c > 0);
        multiply_block<false>(d, u[c], vs.at(j0, 0), 16 * c, c > 0);
      }
      wgmma_end(a), wgmma_end(d);
#pragma unroll
      for (int n = 0; n < kStep / 8; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const ColumnQuery& q = query[e / 2];
          const int j = j0 + n * 8 + 2 * (lane % 4) + e % 2;
          const float w = j >= q.first && j < q.last ? power_of_two(fmaf(a[n][e], scale, -q.row)) : 0;
          d[n][e] = w * (d[n][e] - q.along);
        }
      }
      unsigned left[2][4];
      wide_operands(d, left);
      wgmma_begin_with(sums);
#pragma unroll
      for (int j = 0; j < 2; ++j) multiply_block<true>(sums, left[j], ks.at(j0, 0), 16 * j);
      wgmma_end(sums);
    }
    if (op.x.wanted())
      store(op.x.write, whole_rows<Number>(op, op.x.gradient, r, bh, Q, K), q0 + r0, Q, K, sums, factor);
  }
  __syncthreads();
  if (!op.k.wanted() && !op.v.wanted()) return;
  take_queries<kThreads, Number>(op, r, bh, thread, xs, us, nullptr, 0, cut.queries);
  whole_copies_end();
  fence_async();
  __syncthreads();
#pragma unroll 1
  for (int turn = 0; turn * kTeams < cut.tokens / kRows; ++turn) {
    const int n0 = block_of(turn) * kRows;
    if (n0 >= cut.tokens) continue;
    team_meets();
    take_rows<128>(thread % 128, as, k, n0, kRows, T, K);
    take_rows<128>(thread % 128, bs, v, n0, kRows, T, V);
    whole_copies_end();
    fence_async();
    team_meets();
    float sums[D / 8][4] = {}, value_sums[D / 8][4] = {};
#pragma unroll 1
    for (int i0 = 0; i0 < Q; i0 += kStep) {
      const ColumnQuery& some = seen[i0 + lane];
      if (!__any_sync(kFullWarp, some.first < some.last && some.first < n0 + kRows && some.last > n0))
        continue;
      float a[kStep / 8][4], d[kStep / 8][4];
      wgmma_begin();
#pragma unroll
      for (int c = 0; c < D / 16; ++c) {
        multiply_blocks(a, as.numbers, xs.at(i0, 0), 16 * c, c > 0);
        multiply_blocks(d, bs.numbers, us.at(i0, 0), 16 * c, c > 0);
      }
      wgmma_end(a), wgmma_end(d);
#pragma unroll
      for (int n = 0; n < kStep / 8; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const ColumnQuery q = seen[i0 + n * 8 + 2 * (lane % 4) + e % 2];
          const int j = n0 + r0 + lane / 4 + e / 2 * 8;
          a[n][e] = j >= q.first && j < q.last ? power_of_two(fmaf(a[n][e], scale, -q.row)) : 0;
          d[n][e] = a[n][e] * (d[n][e] - q.along);
        }
      }
      unsigned left[2][4], value_left[2][4];
      wide_operands(d, left), wide_operands(a, value_left);
      wgmma_begin_with(sums), wgmma_begin_with(value_sums);
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        multiply_block<true>(sums, left[j], xs.at(i0, 0), 16 * j);
        multiply_block<true>(value_sums, value_left[j], us.at(i0, 0), 16 * j);
      }
      wgmma_end(sums), wgmma_end(value_sums);
    }
    if (op.k.wanted())
      store(op.k.write, whole_rows<Number>(op, op.k.gradient, r, bh, T, K), n0 + r0, T, K, sums, factor);
    if (op.v.wanted())
      store(op.v.write, whole_rows<Number>(op, op.v.gradient, r, bh, T, V), n0 + r0, T, V, value_sums, one);
  }
}

}  // namespace crosstalk::device
