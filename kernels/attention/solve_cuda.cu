// Triangular solves: a block takes a sequence and head and up to 64 columns, channels of values or queries of weights, from
// tile to tile of 32 tokens. What earlier tiles hold is taken out by products; within a tile a thread walks a column, whose
// 32 numbers it keeps in registers.
//
// (I + Diag(gain) l)^T is lower triangular where tokens are reversed, p = T - 1 - t: so goes backward of values, and forward
// of weights, which are on the left of the matrix.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/solve.h"
#include "kernels/base/cuda_launch.cuh"
#include "kernels/base/head_rows.h"

namespace crosstalk {
namespace {
using namespace device;

constexpr int kTile = 32, kThreads = 256, kWarps = kThreads / 32, kRows = kTile / kWarps;

/// How the columns of an op lie: number c of token t is first[t token + c column].
template <class Real>
struct Columns {
  Real* first;
  std::int64_t token, column;
  __device__ Real& operator()(int t, int c) const { return first[t * token + c * column]; }
};

/// What kernels ask of either op. kOfRows: neighbours are tokens, not columns. kWide: columns of a lane.
template <class Real>
struct Side {};
template <class Real>
struct Side<Solve<Real>> {
  static constexpr bool kOfRows = true;
  static constexpr int kWide = 1;
  CT_HD static int columns(const Solve<Real>& op) { return op.Q(); }
  __device__ static Columns<Real> of(const Solve<Real>& op, const Tensor<Real>& x, int r, int bh) {
    return {x.at(r) + static_cast<std::int64_t>(bh) * op.Q() * op.T(), 1, op.T()};
  }
  CT_HD static const In<Real>& given(const Solve<Real>& op) { return op.a; }
  CT_HD static const Out<Real>& made(const Solve<Real>& op) { return op.y; }
  /// d_(gain l) = -left right^T
  __device__ static const Tensor<Real>& left(const Solve<Real>& op) { return op.y.value; }
  __device__ static const Tensor<Real>& right(const Solve<Real>& op) { return op.z.value; }
};
template <class Real>
struct Side<SolveValues<Real>> {
  static constexpr bool kOfRows = false;
  static constexpr int kWide = 2;
  CT_HD static int columns(const SolveValues<Real>& op) { return op.V(); }
  __device__ static Columns<Real> of(const SolveValues<Real>& op, const Tensor<Real>& x, int r, int bh) {
    const int H = op.H(), V = op.V();
    return {HeadRows<Real>(x, r, bh / H, bh % H, op.T(), H, V).first, static_cast<std::int64_t>(H) * V, 1};
  }
  CT_HD static const In<Real>& given(const SolveValues<Real>& op) { return op.v; }
  CT_HD static const Out<Real>& made(const SolveValues<Real>& op) { return op.u; }
  __device__ static const Tensor<Real>& left(const SolveValues<Real>& op) { return op.z.value; }
  __device__ static const Tensor<Real>& right(const SolveValues<Real>& op) { return op.u.value; }
};

/// f(i, j) for i < kTile, j < n (a multiple of 32); lanes run along i where kFirst, else along j.
template <bool kFirst, int n, class F>
__device__ __forceinline__ void each_of_tile(int warp, int lane, F&& f) {
  for (int i = warp; i < (kFirst ? n : kTile); i += kWarps) {
#pragma unroll
    for (int j = lane; j < (kFirst ? kTile : n); j += 32) kFirst ? f(j, i) : f(i, j);
  }
}

/// Two operands of a product. A warp owns kRows rows of the first, a lane the columns lane + 32 c of the second.
template <class Real, int kWide>
struct Tiles {
  static constexpr int kColumns = 32 * kWide;
  Real left[kTile][kTile + 4];
  Real right[kTile][kColumns + 1];

  __device__ void subtract_product(Real (&sum)[kRows][kWide], int warp, int lane) const {
#pragma unroll 8
    for (int k = 0; k < kTile; ++k) {
      Real x[kWide];
#pragma unroll
      for (int c = 0; c < kWide; ++c) x[c] = right[k][lane + 32 * c];
#pragma unroll
      for (int m = 0; m < kRows; ++m) {
        const Real factor = left[warp * kRows + m][k];
#pragma unroll
        for (int c = 0; c < kWide; ++c) sum[m][c] -= factor * x[c];
      }
    }
  }
};

/// Row p of the triangular matrix stands for token p, or, reversed, T - 1 - p.
template <class Real, bool kReversed>
struct Factor {
  const Real* l;
  HeadRows<Real> gain;
  int T;
  __device__ int token(int p) const { return kReversed ? T - 1 - p : p; }
  /// left[i][j] = entry (p0 + i, q0 + j), 0 on and above the diagonal; lanes run along rows of l.
  template <class Tile>
  __device__ void load(Tile& tiles, int p0, int q0, int warp, int lane) const {
    each_of_tile<kReversed, kTile>(warp, lane, [&](int i, int j) {
      const int p = p0 + i, q = q0 + j;
      Real entry = 0;
      if (p < T && q < p) {
        const int row = kReversed ? token(q) : p, column = kReversed ? token(p) : q;
        entry = l[static_cast<std::int64_t>(row) * T + column];
        if (gain) entry *= *gain(row);
      }
      tiles.left[i][j] = entry;
    });
  }
};

// u_P = (1 + n_PP)^-1 (v_P - sum_{Q<P} n_PQ u_Q), tile after tile
template <bool kBack, class Real, class Op>
__global__ void __launch_bounds__(kThreads) solve_tiles(const __grid_constant__ Op op) {
  using S = Side<Op>;
  constexpr bool kReversed = S::kOfRows != kBack;
  constexpr int kWide = S::kWide, kColumns = 32 * kWide;
  __shared__ Tiles<Real, kWide> tiles;
  const int T = op.T(), H = op.H(), columns = S::columns(op), cuts = (columns + kColumns - 1) / kColumns;
  const int bh = static_cast<int>(blockIdx.x) / cuts,
            column0 = static_cast<int>(blockIdx.x) % cuts * kColumns, r = static_cast<int>(blockIdx.y);
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, lane = thread % 32;
  const auto of = [&](const Tensor<Real>& x) { return S::of(op, x, r, bh); };
  const Columns<Real> from = of(kBack ? S::made(op).gradient : S::given(op).value),
                      to = of(kBack ? op.z.value : S::made(op).value);
  const Factor<Real, kReversed> factor{op.l.value.at(r) + static_cast<std::int64_t>(bh) * T * T,
                                       HeadRows<Real>(op.gain.value, r, bh / H, bh % H, T, H, 1), T};
  // Numbers of the tile of tokens p0 .. on their way to tiles.right.
  const auto load = [&](const Columns<Real>& x, int p0) {
    each_of_tile<S::kOfRows, kColumns>(warp, lane, [&](int i, int c) {
      tiles.right[i][c] =
          p0 + i < T && column0 + c < columns ? x(factor.token(p0 + i), column0 + c) : Real(0);
    });
    __syncthreads();
  };
  for (int p0 = 0; p0 < T; p0 += kTile) {
    Real sum[kRows][kWide];
    load(from, p0);
#pragma unroll
    for (int m = 0; m < kRows; ++m) {
#pragma unroll
      for (int c = 0; c < kWide; ++c) sum[m][c] = tiles.right[warp * kRows + m][lane + 32 * c];
    }
    __syncthreads();
    for (int q0 = 0; q0 < p0; q0 += kTile) {
      factor.load(tiles, p0, q0, warp, lane);
      load(to, q0);
      tiles.subtract_product(sum, warp, lane);
      __syncthreads();
    }
    factor.load(tiles, p0, p0, warp, lane);
#pragma unroll
    for (int m = 0; m < kRows; ++m) {
#pragma unroll
      for (int c = 0; c < kWide; ++c) tiles.right[warp * kRows + m][lane + 32 * c] = sum[m][c];
    }
    __syncthreads();
    if (thread < kColumns) {
      Real solved[kTile];
#pragma unroll
      for (int i = 0; i < kTile; ++i) {
        solved[i] = tiles.right[i][thread];
#pragma unroll
        for (int j = 0; j < i; ++j) solved[i] -= tiles.left[i][j] * solved[j];
        tiles.right[i][thread] = solved[i];
      }
    }
    __syncthreads();
    const In<Real>& given = S::given(op);
    each_of_tile<S::kOfRows, kColumns>(warp, lane, [&](int i, int c) {
      if (p0 + i >= T || column0 + c >= columns) return;
      const int t = factor.token(p0 + i);
      to(t, column0 + c) = tiles.right[i][c];
      if (kBack && given.wanted()) put(given.write, &of(given.gradient)(t, column0 + c), tiles.right[i][c]);
    });
    __syncthreads();  // the next tile reads what this one wrote, and writes into the tiles
  }
}

// d_n_ij = -left_i . right_j below the diagonal; d_l = gain d_n, d_gain_i = sum_j l_ij d_n_ij. A block takes 32 rows i.
template <class Real, class Op>
__global__ void __launch_bounds__(kThreads) solve_gradients(const __grid_constant__ Op op) {
  using S = Side<Op>;
  constexpr int kWide = S::kWide, kColumns = 32 * kWide;
  __shared__ Tiles<Real, kWide> tiles;
  const int T = op.T(), H = op.H(), columns = S::columns(op), cuts = (T + kTile - 1) / kTile;
  const int bh = static_cast<int>(blockIdx.x) / cuts, first = static_cast<int>(blockIdx.x) % cuts * kTile;
  const int r = static_cast<int>(blockIdx.y), b = bh / H, h = bh % H;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const Columns<Real> left = S::of(op, S::left(op), r, bh), right = S::of(op, S::right(op), r, bh);
  const HeadRows<Real> gain(op.gain.value, r, b, h, T, H, 1);
  const std::int64_t square = static_cast<std::int64_t>(bh) * T * T;
  Real d_gain[kRows] = {};
  for (int j0 = 0; j0 < T; j0 += kColumns) {
    Real sum[kRows][kWide] = {};
    if (j0 < first + kTile) {
      for (int c0 = 0; c0 < columns; c0 += kTile) {
        each_of_tile<S::kOfRows, kTile>(warp, lane, [&](int i, int c) {
          tiles.left[i][c] = first + i < T && c0 + c < columns ? left(first + i, c0 + c) : Real(0);
        });
        each_of_tile<!S::kOfRows, kColumns>(warp, lane, [&](int c, int j) {
          tiles.right[c][j] = j0 + j < T && c0 + c < columns ? right(j0 + j, c0 + c) : Real(0);
        });
        __syncthreads();
        tiles.subtract_product(sum, warp, lane);
        __syncthreads();
      }
    }
#pragma unroll
    for (int m = 0; m < kRows; ++m) {
      const int i = first + warp * kRows + m;
#pragma unroll
      for (int c = 0; c < kWide; ++c) {
        const int j = j0 + lane + 32 * c;
        if (i >= T || j >= T) continue;
        const std::int64_t entry = square + static_cast<std::int64_t>(i) * T + j;
        const bool below = j < i;
        if (below) d_gain[m] += op.l.value.at(r)[entry] * sum[m][c];
        if (op.l.wanted() && (below || op.l.write == Write::overwrite))
          put(op.l.write, op.l.gradient.at(r) + entry,
              !below ? Real(0)
              : gain ? sum[m][c] * *gain(i)
                     : sum[m][c]);
      }
    }
  }
  if (!op.gain.wanted()) return;
#pragma unroll
  for (int m = 0; m < kRows; ++m) {
    const int i = first + warp * kRows + m;
    const Real sum = warp_sum(d_gain[m]);
    if (i < T && lane == 0) put(op.gain.write, HeadRows<Real>(op.gain.gradient, r, b, h, T, H, 1)(i), sum);
  }
}

template <class Op>
void launch(const Exec& exec, const Op& op, void (*kernel)(const Op), int along, int tile) {
  const unsigned blocks = blocks_for(along, tile) * static_cast<unsigned>(op.B() * op.H()),
                 R = static_cast<unsigned>(op.l.value.R);
  if (blocks == 0 || R == 0) return;
  kernel<<<dim3(blocks, R), kThreads, 0, stream_of(exec)>>>(op);
  check_launch(Op::kName);
}
template <bool kBack, template <class> class Op, class Real>
void run(const Exec& exec, const Op<Real>& op) {
  using S = Side<Op<Real>>;
  if (op.T() == 0) return;
  launch(exec, op, solve_tiles<kBack, Real, Op<Real>>, S::columns(op), 32 * S::kWide);
  if (kBack && (op.l.wanted() || op.gain.wanted()))
    launch(exec, op, solve_gradients<Real, Op<Real>>, op.T(), kTile);
}

}  // namespace

template <class Real>
void forward_cuda(const Exec& exec, const Solve<Real>& op) {
  run<false>(exec, op);
}
template <class Real>
void backward_cuda(const Exec& exec, const Solve<Real>& op) {
  run<true>(exec, op);
}
template <class Real>
void forward_cuda(const Exec& exec, const SolveValues<Real>& op) {
  run<false>(exec, op);
}
template <class Real>
void backward_cuda(const Exec& exec, const SolveValues<Real>& op) {
  run<true>(exec, op);
}

CROSSTALK_INSTANTIATE(cuda, Solve)
CROSSTALK_INSTANTIATE(cuda, SolveValues)

}  // namespace crosstalk
