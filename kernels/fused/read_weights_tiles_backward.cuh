// Gradients of read weights by tiles (read_weights_tiles.cuh), blocks of tokens from the first on:
//
//   d_b = d_c - d_r' X^T   (y = k; else - d_c F^T)     d_u = d_b (I + M)^-T     d_M = -b^T d_u   d_F = -b^T d_c   d_X = -b^T d_r'
//   d_r = f d_r' + (d_u f) y + (d_c f) k               d_y = (d_u f)^T r        d_k = (d_c f)^T r
//
// Decays: every factor is e^(a sum of decays between two tokens), whose gradient goes to the decays between: rows' sums less
// columns' sums of d log f, added up from behind.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/fused/read_weights_tiles.cuh"

namespace crosstalk::device {

/// Memory of backward beside a block: rows of all queries of a group as operands, and sums on their way.
struct WeightStage {
  using Rows = std::uint16_t[kWeightRows * kWeightLine];
  alignas(16) Rows b, d_u, d_read, d_next, r;  ///< d_read: d_u f, or d_c
  float columns[2][8 * kWeightTile];           ///< sums a warp
  float rows[kWeightRows];                     ///< of queries
  int last[kWeightRows];                       ///< of queries
  float down[4 * kWeightTile], across[3][2 * kWeightTile], value[kWeightTile];
};
template <bool kOwn>
struct WeightsBackward {
  WeightBlock<kOwn> block;
  union {  // the stage is empty where a block is prepared
    WeightStage stage;
    WeightSolve solve;
  };
};

/// Sums of a warp's columns over its lanes, into sums[warp][column].
CT_DEVICE void column_totals(float (&x)[8][2], float* sums) {
  const int lane = threadIdx.x % 32;
  CT_FOR2(n, 8, i, 2) {
    CT_UNROLL(int offset = 4; offset < 32; offset *= 2)
      x[n][i] += __shfl_xor_sync(kFullWarp, x[n][i], offset);
    if (lane < 4) sums[CT_WARP * kWeightTile + row_column(n) + i] = x[n][i];
  }
}

/// Gradients of a block of tokens on their way, over all groups of queries.
template <bool kOwn>
struct WeightSums {
  typename WeightBlock<kOwn>::Pairs of_solve, of_passed, of_taken, of_y, of_k;
  float of_write[8][2] = {}, of_fade[8][2] = {}, of_last = 0;
};

/// Adds the products of all rows of a group that stand in the stage.
template <bool kOwn>
CT_DEVICE void add_products(const WeightStage& stage, WeightSums<kOwn>& sums) {
  using Block = WeightBlock<kOwn>;
  constexpr int kRows = kWeightRows;
  const auto b_rows = Block::matrix(stage.b);
  sums.of_solve.template add<true, true, kRows>(b_rows, Block::matrix(stage.d_u));
  sums.of_taken.template add<true, true, kRows>(b_rows, Block::matrix(stage.d_next));
  sums.of_y.template add<true, true, kRows>(Block::matrix(kOwn ? stage.d_read : stage.d_u),
                                            Block::matrix(stage.r));
  if constexpr (!kOwn) {
    sums.of_passed.template add<true, true, kRows>(b_rows, Block::matrix(stage.d_read));
    sums.of_k.template add<true, true, kRows>(Block::matrix(stage.d_read), Block::matrix(stage.r));
  }
}

/// Adds what a group of queries gives to the gradients of block j of tokens, and takes its d_r past the block.
template <bool kOwn>
CT_DEVICE void add_queries(const TiledWeights& op, const ReadWeightsFields<float>& s, int j, int group,
                           const WeightQueries& queries, WeightsBackward<kOwn>& memory,
                           WeightSums<kOwn>& sums) {
  using Block = WeightBlock<kOwn>;
  constexpr int C = kWeightTile, kRows = kWeightRows;
  Block& block = memory.block;
  WeightStage& stage = memory.stage;
  const int T = op.T(), Q = op.Q(), groups = weight_groups(op), first = j * C,
            bh = static_cast<int>(blockIdx.x), r = static_cast<int>(blockIdx.y), thread = CT_THREAD;
  const float* d_a = op.a.gradient.at(r) + std::int64_t{bh} * Q * T;
  const int last[2] = {queries.last(0, first), queries.last(1, first)};
  RowOperands rows, operands;
  const uint4* const kept = kept_queries(op, r, bh, group, j);
  CT_FOR(k, 4) {
    const uint4 four = kept[k * kWeightThreads];
    rows[k][0] = four.x, rows[k][1] = four.y, rows[k][2] = four.z, rows[k][3] = four.w;
  }
  float* const carried = op.history.value.at(r) + (std::int64_t{bh} * groups + group) * kRows * C + thread;
  RowSums d_c = {}, d_r = {}, u, b;
  each_of_rows(T - first, [&](int h, int n, int i, int column) {
    if (column <= last[h]) d_c[n][i] = d_a[std::int64_t{queries.q[h]} * T + first + column];
  });
  if (j > 0)
    CT_FOR(i, 32) d_r[i / 4][i % 4] = carried[i * kWeightThreads];
  block.erased(rows, last, u, b);
  put_rows(rows, stage.r);
  pack(b, operands);
  put_rows(operands, stage.b);
  if constexpr (kOwn) {
    each_of_rows(C, [&](int, int n, int i, int column) {
      sums.of_write[n][i % 2] += d_c[n][i] * b[n][i];
      b[n][i] = d_c[n][i] * block.write[column];  // d_b
    });
  } else {
    pack(d_c, operands);
    put_rows(operands, stage.d_read);
    each_of_rows(C, [&](int, int n, int i, int) { b[n][i] = 0; });
    add_product<false>(b, operands, block.passed());
  }
  pack(d_r, operands);
  put_rows(operands, stage.d_next);
  add_product<false>(b, operands, block.taken);
  pack(b, operands);
  RowSums d_u = {};
  add_product<false>(d_u, operands, block.inverse);
  if constexpr (kOwn) {
    pack(d_u, operands);
    put_rows(operands, stage.d_u);
    float of_row[2] = {}, of_start[2] = {};
    each_of_rows(C, [&](int h, int n, int i, int) {
      const float of_f = d_u[n][i] * u[n][i];
      sums.of_fade[n][i % 2] += of_f, of_row[h] += of_f;
      of_start[h] += d_r[n][i] * unpacked(rows, n, i);
    });
    CT_FOR(h, 2) {
      of_row[h] += last[h] < 0 ? 0.0f : block.start_of(last[h]) * of_start[h];
      of_row[h] += __shfl_xor_sync(kFullWarp, of_row[h], 1);
      of_row[h] += __shfl_xor_sync(kFullWarp, of_row[h], 2);
      if (thread % 4 == 0) {
        const int row = queries.q[h] - group * kRows;
        stage.rows[row] = of_row[h], stage.last[row] = last[h];
      }
    }
  }
  block.fade_rows(d_u, last);
  pack(d_u, operands);
  put_rows(operands, kOwn ? stage.d_read : stage.d_u);
  if constexpr (kOwn)
    each_of_rows(C, [&](int h, int n, int i, int) { d_r[n][i] *= block.start_of(last[h]); });
  add_product<true>(d_r, operands, block.y());
  if constexpr (!kOwn) {
    pack(d_c, operands);
    add_product<true>(d_r, operands, block.k);
  }
  if (queries.any_sees(first + C)) {  // also: the stage is there
    CT_FOR(i, 32) carried[i * kWeightThreads] = d_r[i / 4][i % 4];
  } else if (s.q.gradient) {
    each_of_rows(s.K, [&](int h, int n, int i, int column) {
      if (queries.q[h] < Q) put(s.q.write, s.q.gradient(queries.q[h]) + column, d_r[n][i]);
    });
  }
  add_products(stage, sums);
  if (kOwn && s.channels > 0 && thread < C) {
#pragma unroll 4
    for (int row = 0; row < kRows; ++row) sums.of_last += stage.last[row] == thread ? stage.rows[row] : 0.0f;
  }
}

/// Gradients of the pairs of tokens and of the gains of the block from `first` on; in stage.value those of its decays.
template <bool kOwn>
CT_DEVICE void give_gains(const ReadWeightsFields<float>& s, int first, int T, WeightsBackward<kOwn>& memory,
                          WeightSums<kOwn>& sums) {
  using Block = WeightBlock<kOwn>;
  using Pairs = typename Block::Pairs;
  constexpr int C = kWeightTile;
  Block& block = memory.block;
  WeightStage& stage = memory.stage;
  const int thread = CT_THREAD;
  column_totals(sums.of_write, stage.columns[0]);
  column_totals(sums.of_fade, stage.columns[1]);
  // Pairs of tokens: d_M (d_F) into what M (F) is made of.
  std::uint16_t *const of_xy = stage.b, *const of_xk = stage.d_read;
  const auto of_pairs = [&](Pairs& gradient, const std::uint16_t* key, std::uint16_t* to) {
    Pairs products;
    products.template add<false, false, C>(Block::matrix(block.x()), Block::matrix(key));
    gradient.pairs([&](int row, int column, float& one, float& two) {
      const float2 f = block.between(row, column);
      one = column < row ? -f.x * one : 0.0f, two = column + 1 < row ? -f.y * two : 0.0f;
      NumberFormat<Precision::bf16>::put2(to + row * kWeightLine + column, block.erase[row] * one,
                                          block.erase[row] * two);
    });
    gradient.multiply(products);  // of M_st / e_s, times that
  };
  of_pairs(sums.of_solve, block.y(), of_xy);
  sums.of_solve.row_sums(stage.across[0]);
  if constexpr (kOwn) {
    sums.of_solve.column_sums(stage.down, C, [&](int row, int, float one, float two, float(&total)[2]) {
      total[0] += block.erase[row] * one, total[1] += block.erase[row] * two;
    });
  } else {
    of_pairs(sums.of_passed, block.k, of_xk);
    sums.of_passed.row_sums(stage.across[1]);
  }
  sums.of_taken.row_sums(stage.across[2], [&](int row, int column, float one, float two) {
    const std::uint16_t* x = block.x() + row * kWeightLine + column;
    return -one * NumberFormat<Precision::bf16>::value(x[0]) -
           two * NumberFormat<Precision::bf16>::value(x[1]);
  });
  sums.of_taken.pairs([&](int row, int, float& one, float& two) {
    const float f = -block.erase[row] * block.start[row];
    one *= f, two *= f;
  });
  __syncthreads();
  if (thread < C && first + thread < T) {
    const int t = first + thread;
    float pairs = Pairs::total(stage.across[0], thread), faded = sums.of_last, wrote = 0;
    if constexpr (!kOwn) pairs += Pairs::total(stage.across[1], thread);
    const float d_e = pairs + block.start[thread] * Pairs::total(stage.across[2], thread);
    if constexpr (kOwn) {
      faded += block.erase[thread] * d_e;
      CT_FOR(i, 4) faded -= stage.down[i * C + thread];
      CT_FOR(i, 8) wrote += stage.columns[0][i * C + thread], faded -= stage.columns[1][i * C + thread];
    }
    if (s.w.gradient) put(s.w.write, s.w.gradient(t), s.e_is_w ? wrote + d_e : wrote);
    if (s.own_e.gradient && !s.e_is_w) put(s.own_e.write, s.own_e.gradient(t), d_e);
    stage.value[thread] = faded;
  }
}

/// Gradients of its keys.
template <bool kOwn>
CT_DEVICE void give_keys(const ReadWeightsFields<float>& s, int first, int T, WeightsBackward<kOwn>& memory,
                         WeightSums<kOwn>& sums) {
  using Block = WeightBlock<kOwn>;
  using Pairs = typename Block::Pairs;
  constexpr int C = kWeightTile;
  Block& block = memory.block;
  const std::uint16_t *const of_xy = memory.stage.b, *const of_xk = memory.stage.d_read;
  const auto give = [&](const HeadField<float>& field, Pairs& gradient) {
    if (!field.gradient) return;
    const PlainRows<float> to{field.gradient(first), static_cast<int>(field.gradient.step * sizeof(float)),
                              min(C, T - first)};
    s.K == C ? gradient.template put<true>(field.write, to, C)
             : gradient.template put<false>(field.write, to, s.K);
  };
  const auto xy = Block::matrix(of_xy), xk = Block::matrix(of_xk);
  sums.of_y.template add<true, true, C>(xy, Block::matrix(block.x()));
  sums.of_taken.template add<false, true, C>(xy, Block::matrix(block.y()));
  if constexpr (kOwn) {
    sums.of_y.each(sums.of_taken, [](float& one, float two) { one += two; });
    give(s.k, sums.of_y);
  } else {
    sums.of_k.template add<true, true, C>(xk, Block::matrix(block.x()));
    sums.of_taken.template add<false, true, C>(xk, Block::matrix(block.k));
    give(s.k, sums.of_k), give(s.own_x, sums.of_taken), give(s.own_y, sums.of_y);
  }
}

// A block of threads has a sequence and head: blocks of tokens from the first on, and for each all groups of queries, whose
// d_r waits in `history` meanwhile.
template <bool kOwn>
__global__ void __launch_bounds__(kWeightThreads, 1)
    tiled_weights_backward(const __grid_constant__ TiledWeights op) {
  constexpr int C = kWeightTile;
  extern __shared__ __align__(16) unsigned char dynamic[];
  auto& memory = *reinterpret_cast<WeightsBackward<kOwn>*>(dynamic);
  WeightBlock<kOwn>& block = memory.block;
  WeightStage& stage = memory.stage;
  const int H = op.H(), T = op.T(), groups = weight_groups(op);
  const int bh = static_cast<int>(blockIdx.x), r = static_cast<int>(blockIdx.y), thread = CT_THREAD;
  const ReadWeightsFields<float> s(op, r, bh / H, bh % H);
  const bool fades = kOwn && s.channels > 0;
  for (int j = 0; j < weight_blocks(op); ++j) {
    const int first = j * C;
    __syncthreads();
    block.prepare(s, first, first + C, memory.solve);
    WeightSums<kOwn> sums;
    for (int group = 0; group < groups; ++group) {
      const WeightQueries queries(op, r, bh / H, group);
      if (!queries.any_sees(first) && j > 0) continue;  // also: the products before are done with the stage
      add_queries(op, s, j, group, queries, memory, sums);
    }
    __syncthreads();
    give_gains(s, first, T, memory, sums);
    give_keys(s, first, T, memory, sums);
    if (!fades || !s.g.gradient) continue;
    __syncthreads();
    if (thread < C && first + thread < T) {
      float sum = 0;
      for (int t = min(C, T - first) - 1; t >= thread; --t) sum += stage.value[t];
      put(s.g.write, s.g.gradient(first + thread), sum);
    }
  }
}

}  // namespace crosstalk::device
