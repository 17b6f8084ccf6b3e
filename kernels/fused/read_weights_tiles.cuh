// Read weights of many queries, block of 64 tokens after block, as products of tiles on the tensor cores.
//
// A query walks back through the tokens (read_weights.h). Within a block, with r the query that comes from the later ones,
// f_t what tokens t + 1 .. of it fade, and rows of queries, tokens s and t:
//
//   u_t = f_t y_t.r        b = u (I + M)^-1          M_st = e_s f_st x_s.y_t, s > t     what each token erases
//   c_t = f_t k_t.r - (b F)_t    a_t = w_t c_t       F_st = e_s f_st x_s.k_t, s > t     (y = k: c = b)
//   r' = f r - b X         X_s = e_s f_s x_s         goes on to the block before
//
// so that a query costs T K 64 and no T x T x T. A query that stands within the block begins there: f is of its own token,
// and 0 of those that it does not see. r of every block is kept for backward (read_weights_tiles_backward.cuh).
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/base/device/quick_exp.cuh"
#include "kernels/base/device/reduce.cuh"
#include "kernels/recurrence/read_weights_fields.h"
#include "kernels/recurrence/state_chunk_parts.cuh"

namespace crosstalk::device {

using TiledWeights = ReadWeights<float>;

/// Tokens of a block, and keys as wide; queries that a block of threads has at once, 16 a warp.
constexpr int kWeightTile = 64, kWeightRows = 128, kWeightThreads = 256, kWeightLine = kWeightTile + 8;

CT_HD inline int weight_blocks(const TiledWeights& op) { return (op.T() + kWeightTile - 1) / kWeightTile; }
CT_HD inline int weight_groups(const TiledWeights& op) { return (op.Q() + kWeightRows - 1) / kWeightRows; }

/// Sums of a warp's 16 rows: a lane has rows lane / 4 (0, 1) and lane / 4 + 8 (2, 3), columns 8 n + lane % 4 * 2 and the next.
using RowSums = float[8][4];
/// The same as operands.
using RowOperands = unsigned[4][4];

CT_DEVICE int row_column(int n) { return 8 * n + CT_THREAD % 4 * 2; }

CT_DEVICE void pack(const RowSums& x, RowOperands& y) {
  CT_FOR2(k, 4, i, 4) y[k][i] = bf16_pair(x[2 * k + i / 2][i % 2 * 2], x[2 * k + i / 2][i % 2 * 2 + 1]);
}
CT_DEVICE float unpacked(const RowOperands& x, int n, int i) {
  const unsigned pair = x[n / 2][n % 2 * 2 + i / 2];
  return __uint_as_float(i % 2 == 0 ? pair << 16 : pair & 0xffff0000);
}
/// sums += x tile (kTurned) or x tile^T.
template <bool kTurned>
CT_DEVICE void add_product(RowSums& sums, const RowOperands& x, const std::uint16_t* tile) {
  const int lane = threadIdx.x % 32;
  tile += kTurned ? lane % 16 * kWeightLine + lane / 16 * 8
                  : (lane % 8 + lane / 16 * 8) * kWeightLine + lane / 8 % 2 * 8;
  CT_FOR(k, 4) {
    CT_UNROLL(int n = 0; n < 8; n += 2) {
      unsigned y[4];
      load_matrices<kTurned>(y,
                             tile + (kTurned ? 16 * k * kWeightLine + 8 * n : 8 * n * kWeightLine + 16 * k));
      mma_bf16(sums[n], x[k], y[0], y[1]);
      mma_bf16(sums[n + 1], x[k], y[2], y[3]);
    }
  }
}
/// A warp's rows into a tile of all warps.
CT_DEVICE void put_rows(const RowOperands& x, std::uint16_t* tile) {
  const int row = CT_WARP * 16 + CT_LANE / 4;
  CT_FOR2(k, 4, i, 4)
    *reinterpret_cast<unsigned*>(tile + (row + i % 2 * 8) * kWeightLine + row_column(2 * k + i / 2)) =
        x[k][i];
}

/// This lane's two queries of a group: which, and how many tokens they see.
struct WeightQueries {
  int q[2], seen[2];
  __device__ WeightQueries(const TiledWeights& op, int r, int b, int group) {
    CT_FOR(h, 2) {
      q[h] = group * kWeightRows + CT_WARP * 16 + CT_LANE / 4 + 8 * h;
      seen[h] = q[h] < op.Q() ? tokens_seen(op, r, b, q[h]) : 0;
    }
  }
  /// The last token of a block that query h sees; -1: none.
  __device__ int last(int h, int first) const { return max(min(seen[h] - first, kWeightTile), 0) - 1; }
  /// Tells whether any query of the group sees token `first`. All threads must call it.
  __device__ bool any_sees(int first) const {
    return __syncthreads_or(seen[0] > first || seen[1] > first) != 0;
  }
};

/// Memory that is gone when a block of tokens is prepared.
struct WeightSolve {
  using Inverse = ChunkInverse<kWeightTile, kWeightThreads / 32>;
  float at[kWeightTile * Inverse::kStride], scratch[Inverse::kScratch];
};

/// A block of tokens in shared memory. kOwn: keys erase themselves (x = y = k), and tokens may fade.
template <bool kOwn>
struct WeightBlock {
  static constexpr int C = kWeightTile, kStride = WeightSolve::Inverse::kStride;
  using Pairs = ChunkSums<Precision::bf16, C, C, kWeightThreads / 32>;
  using Matrix = Staged<Precision::bf16>;
  using Tile = std::uint16_t[C * kWeightLine];
  alignas(16) Tile k, taken, inverse;     ///< rows of tokens; -X; (I + M)^-1
  alignas(16) Tile others[kOwn ? 1 : 3];  ///< x, y, -F, unless kOwn
  /// f_st = e^{G_s - G_t}, t <= s, else 0; after the last row one of zeros, for who sees no token. Of kOwn
  alignas(16) float fade[kOwn ? (C + 1) * kStride : 4];
  float write[C], erase[C], start[C + 1];  ///< w, e; f of all tokens up to this one, after the last 1
  double sum[C];                           ///< G / log 2

  __device__ std::uint16_t* x() { return kOwn ? k : others[0]; }
  __device__ std::uint16_t* y() { return kOwn ? k : others[kOwn ? 0 : 1]; }
  __device__ std::uint16_t* passed() { return others[kOwn ? 0 : 2]; }
  __device__ static Matrix matrix(const std::uint16_t* tile) { return {tile, kWeightLine}; }

  /// f(i) for i < kCount, one a thread in turn.
  template <int kCount, class F>
  CT_DEVICE static void share(F&& f) {
    CT_FOR(turn, kCount / kWeightThreads) f(turn, CT_THREAD + turn * kWeightThreads);
  }
  /// Rows of tokens on their way to a tile: all are asked for before any is put.
  struct Fetched {
    Four<float> x[C * C / 4 / kWeightThreads];
    CT_DEVICE Fetched(const HeadRows<float>& rows, int first, int T, int K) {
      share<C * C / 4>([&](int turn, int i) {
        const int t = first + i / (C / 4), c = i % (C / 4) * 4;
        x[turn] = {};
        if (t < T && c < K) x[turn] = *reinterpret_cast<const Four<float>*>(rows(t) + c);
      });
    }
    CT_DEVICE void put(std::uint16_t* tile) const {
      share<C * C / 4>([&](int turn, int i) {
        NumberFormat<Precision::bf16>::put4(tile + i / (C / 4) * kWeightLine + i % (C / 4) * 4, x[turn].v);
      });
    }
  };
  /// Asks for rows that will be fetched.
  __device__ static void prefetch(const HeadRows<float>& rows, int first, int T, int K) {
    const int t = first + CT_THREAD / 2, c = CT_THREAD % 2 * 32;
    if (t < first + C && t >= 0 && t < T && c < K)
      asm volatile("prefetch.global.L2 [%0];" ::"l"(rows(t) + c));
  }

  /// Brings the tokens from `first` on, and asks for those from `next` on. After a barrier; ends with one.
  __device__ void prepare(const ReadWeightsFields<float>& s, int first, int next, WeightSolve& memory) {
    const WeightSolve::Inverse solve{memory.at, memory.scratch};
    float w[2] = {}, e[2] = {}, g[2] = {};
    if (threadIdx.x < 32) {
      CT_FOR(h, 2) {
        const int t = first + CT_THREAD + 32 * h;
        if (t >= s.T) continue;
        w[h] = s.gain(s.w, t);
        if (s.erases) e[h] = s.gain(s.e, t);
        if (s.channels > 0) g[h] = *s.g.value(t);
      }
    }
    const Fetched keys(s.k.value, first, s.T, s.K);
    if constexpr (!kOwn) {
      const Fetched xs(s.x.value, first, s.T, s.K), ys(s.y.value, first, s.T, s.K);
      xs.put(x()), ys.put(y());
      prefetch(s.x.value, next, s.T, s.K), prefetch(s.y.value, next, s.T, s.K);
    }
    keys.put(k);
    prefetch(s.k.value, next, s.T, s.K);
    if (threadIdx.x < 32) {
      double before = 0;
      CT_FOR(h, 2) {
        const int i = CT_THREAD + 32 * h;
        const double sums = before + warp_scan(static_cast<double>(g[h]) * kLog2E);
        write[i] = w[h], erase[i] = e[h], sum[i] = sums, start[i] = power_of_two(static_cast<float>(sums));
        before = __shfl_sync(kFullWarp, sums, 31);
      }
    }
    __syncthreads();
    if constexpr (kOwn) {
      share<C * C>([&](int, int i) {
        const int row = i / C, column = i % C;
        fade[row * kStride + column] =
            column <= row ? power_of_two(static_cast<float>(sum[row] - sum[column])) : 0.0f;
      });
      if (threadIdx.x < C) fade[C * kStride + threadIdx.x] = 0;
      if (threadIdx.x == 0) start[C] = 1;
    }
    share<C * C / 2>([&](int, int i) {
      const int row = i / (C / 2), at = row * kWeightLine + i % (C / 2) * 2;
      const float f = kOwn ? -erase[row] * start[row] : -erase[row];
      using Format = NumberFormat<Precision::bf16>;
      Format::put2(taken + at, f * Format::value(x()[at]), f * Format::value(x()[at + 1]));
    });
    Pairs products;
    products.template add<false, false, C>(matrix(x()), matrix(y()));
    __syncthreads();
    products.pairs([&](int row, int column, float& one, float& two) {
      const float2 f = between(row, column);
      float* to = solve.at + row * kStride + column;
      to[0] = column < row ? erase[row] * f.x * one : 0.0f;
      to[1] = column + 1 < row ? erase[row] * f.y * two : 0.0f;
    });
    if constexpr (!kOwn) {
      products.clear();
      products.template add<false, false, C>(matrix(x()), matrix(k));
      products.pairs([&](int row, int column, float& one, float& two) {
        NumberFormat<Precision::bf16>::put2(passed() + row * kWeightLine + column,
                                            column < row ? -erase[row] * one : 0.0f,
                                            column + 1 < row ? -erase[row] * two : 0.0f);
      });
    }
    __syncthreads();
    solve.diagonal();
    __syncthreads();
    solve.merge_all();
    share<C * C / 2>([&](int, int i) {
      const int row = i / (C / 2), column = i % (C / 2) * 2;
      const float* from = solve.at + row * kStride + column;
      NumberFormat<Precision::bf16>::put2(inverse + row * kWeightLine + column, from[0], from[1]);
    });
    __syncthreads();
  }

  /// f of token `row` and the two from `column`, which is even.
  CT_DEVICE float2 between(int row, int column) const {
    if constexpr (!kOwn) return make_float2(1, 1);
    return *reinterpret_cast<const float2*>(fade + row * kStride + column);
  }
  /// Times f of the last token that each of a lane's rows sees.
  CT_DEVICE void fade_rows(RowSums& sums, const int (&last)[2]) const {
    CT_FOR(h, 2) {
      const int row = last[h] < 0 ? C : last[h];
      CT_FOR(n, 8) {
        float2 f = between(row, row_column(n));
        if (!kOwn) f = make_float2(row_column(n) <= last[h], row_column(n) < last[h]);
        sums[n][2 * h] *= f.x, sums[n][2 * h + 1] *= f.y;
      }
    }
  }
  /// f of all tokens up to that one.
  CT_DEVICE float start_of(int last) const { return kOwn ? start[last < 0 ? C : last] : 1.0f; }

  /// u and b of a warp's rows, whose r is given.
  CT_DEVICE void erased(const RowOperands& r, const int (&last)[2], RowSums& u, RowSums& b) {
    CT_FOR2(n, 8, i, 4) u[n][i] = b[n][i] = 0;
    add_product<false>(u, r, y());
    fade_rows(u, last);
    RowOperands operands;
    pack(u, operands);
    add_product<true>(b, operands, inverse);
  }
};

/// f(row of two, n, entry, column) of a lane's numbers of columns below `columns`.
CT_DEVICE void each_of_rows(int columns, auto&& f) {
  CT_FOR2(h, 2, n, 8) {
    CT_FOR(i, 2)
      if (row_column(n) + i < columns) f(h, n, 2 * h + i, row_column(n) + i);
  }
}

/// The place of r of a group at a block, four pieces a thread.
CT_DEVICE uint4* kept_queries(const TiledWeights& op, int r, int bh, int group, int block) {
  const std::int64_t at = (std::int64_t{bh} * weight_groups(op) + group) * weight_blocks(op) + block;
  return reinterpret_cast<uint4*>(op.kept.value.bf16_at(r) + at * kWeightRows * kWeightTile) + threadIdx.x;
}

template <bool kOwn>
struct WeightsForward {
  WeightBlock<kOwn> block;
  WeightSolve solve;
};

template <bool kOwn>
__global__ void __launch_bounds__(kWeightThreads, 2) tiled_weights(const __grid_constant__ TiledWeights op) {
  extern __shared__ __align__(16) unsigned char dynamic[];
  auto& [block, solve] = *reinterpret_cast<WeightsForward<kOwn>*>(dynamic);
  const int groups = weight_groups(op), H = op.H(), T = op.T(), r = static_cast<int>(blockIdx.y);
  const int bh = static_cast<int>(blockIdx.x) / groups,
            group = groups - 1 - static_cast<int>(blockIdx.x) % groups;
  const ReadWeightsFields<float> s(op, r, bh / H, bh % H);
  const WeightQueries queries(op, r, bh / H, group);
  float* a[2];
  RowSums state = {};
  CT_FOR(h, 2) a[h] = op.a.value.at(r) + (std::int64_t{bh} * op.Q() + queries.q[h]) * T;
  each_of_rows(s.K, [&](int h, int n, int i, int c) {
    if (queries.q[h] < op.Q()) state[n][i] = s.q.value(queries.q[h])[c];
  });
  const auto give = [&](int first, const RowSums& weights) {
    CT_FOR(h, 2) {
      if (queries.q[h] >= op.Q()) continue;
      CT_FOR(n, 8) {
        const int t = first + row_column(n);
        if (T % 2 == 0) {
          if (t < T)
            *reinterpret_cast<float2*>(a[h] + t) = make_float2(weights[n][2 * h], weights[n][2 * h + 1]);
        } else {
          if (t < T) a[h][t] = weights[n][2 * h];
          if (t + 1 < T) a[h][t + 1] = weights[n][2 * h + 1];
        }
      }
    }
  };
  for (int j = weight_blocks(op) - 1; j >= 0; --j) {
    const int first = j * kWeightTile, last[2] = {queries.last(0, first), queries.last(1, first)};
    RowSums c = {};
    if (queries.any_sees(first) || j == 0) {  // also: the block before is done with its tiles
      block.prepare(s, first, first - kWeightTile, solve);
      RowOperands rows, erased;
      pack(state, rows);
      if (op.kept) {
        uint4* const kept = kept_queries(op, r, bh, group, j);
        CT_FOR(k, 4) kept[k * kWeightThreads] = make_uint4(rows[k][0], rows[k][1], rows[k][2], rows[k][3]);
      }
      RowSums u, b;
      block.erased(rows, last, u, b);
      pack(b, erased);
      if constexpr (kOwn) {
        each_of_rows(kWeightTile, [&](int h, int n, int i, int column) {
          c[n][i] = block.write[column] * b[n][i], state[n][i] *= block.start_of(last[h]);
        });
      } else {
        add_product<false>(c, rows, block.k);
        block.fade_rows(c, last);
        add_product<true>(c, erased, block.passed());
      }
      add_product<true>(state, erased, block.taken);
    }
    give(first, c);
  }
}

}  // namespace crosstalk::device
