// Triangular solves: a block takes a sequence and head and up to 64 columns, channels of values or queries of weights, from
// tile to tile of 32 tokens. What earlier tiles hold is taken out by products; within a tile a thread walks a column, whose
// 32 numbers it keeps in registers.
//
// (I + Diag(gain) l)^T is lower triangular where tokens are reversed, p = T - 1 - t: so goes backward of values, and forward
// of weights, which are on the left of the matrix.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/solve.h"
#include "kernels/base/device/cuda_launch.cuh"
#include "kernels/base/head_rows.h"
#include "kernels/matmul/tensor_core.cuh"

namespace crosstalk {
namespace {
using namespace device;

constexpr int kTile = 32, kThreads = 256, kWarps = kThreads / 32, kRows = kTile / kWarps;
template <class Real>
constexpr int kBlocks = sizeof(Real) == 4 ? 3 : 1;  // of a multiprocessor, at least
constexpr int kWide = 2, kColumns = 32 * kWide;     // columns of a lane, of a block

/// Layout of an op's columns: number c of token t is first[t token + c column].
template <class Real>
struct Columns {
  Real* first;
  std::int64_t token, column;
  __device__ Real& operator()(int t, int c) const { return first[t * token + c * column]; }
};

/// Either op as kernels see it. kOfRows: neighbours are tokens, not columns.
template <class Real>
struct Side {};
template <class Real>
struct Side<Solve<Real>> {
  static constexpr bool kOfRows = true;
  CT_HD static bool gained(const Solve<Real>&) { return false; }
  CT_HD static int columns(const Solve<Real>& op) { return op.Q(); }
  __device__ static Columns<Real> of(const Solve<Real>& op, const Tensor<Real>& x, int r, int bh) {
    return {x.at(r) + std::int64_t{bh} * op.Q() * op.T(), 1, op.T()};
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
  CT_HD static bool gained(const SolveValues<Real>& op) { return op.gained; }
  CT_HD static int columns(const SolveValues<Real>& op) { return op.V(); }
  __device__ static Columns<Real> of(const SolveValues<Real>& op, const Tensor<Real>& x, int r, int bh) {
    const int H = op.H(), V = op.V();
    return {HeadRows<Real>(x, r, bh / H, bh % H, op.T(), H, V).first, std::int64_t{H} * V, 1};
  }
  CT_HD static const In<Real>& given(const SolveValues<Real>& op) { return op.v; }
  CT_HD static const Out<Real>& made(const SolveValues<Real>& op) { return op.u; }
  __device__ static const Tensor<Real>& left(const SolveValues<Real>& op) { return op.z.value; }
  __device__ static const Tensor<Real>& right(const SolveValues<Real>& op) { return op.u.value; }
};

/// A thread's part of a tile [kTile][kWidth] on its way through memory: lanes run along the first index where kFirst, else
/// along the second; a warp has neighbours of the other. Loads of a tile are all under way before one is waited for.
template <class Real, bool kFirst, int kWidth>
struct Piece {
  static constexpr int kSlow = (kFirst ? kWidth : kTile) / kWarps, kFast = kFirst ? 1 : kWidth / 32;
  Real held[kSlow][kFast];

  /// f(number, i, j) for each
  CT_DEVICE void each(auto&& f) {
    const int thread = CT_THREAD, slow = thread / 32 * kSlow, fast = thread % 32;
    CT_FOR2(m, kSlow, c, kFast) {
      if constexpr (kFirst) f(held[m][c], fast, slow + m);
      if constexpr (!kFirst) f(held[m][c], slow + m, fast + 32 * c);
    }
  }
};

/// Two operands of a product: by tensor cores, as three products of TF32 halves, or in fp64 by a warp for kRows rows of the first.
template <class Real>
struct Tiles {
  static constexpr bool kTensor = sizeof(Real) == sizeof(float);
  alignas(16) Real left[kTile][kTile + 4];
  Real numbers[kTile * (kColumns + 8)];

  /// Of the second: column c of the 32 rows lies in all banks, and so do eight columns of four rows.
  CT_DEVICE Real& right(int k, int c) { return numbers[k * (kColumns + 8) + k / 4 + c]; }
  /// Place of a thread's sums [kRows][kWide] in a tile.
  __device__ static int row(int m) {
    const int warp = CT_WARP, lane = CT_LANE;
    return kTensor ? warp / 4 * 16 + m % 2 * 8 + lane / 4 : warp * kRows + m;
  }
  __device__ static int column(int m, int c) {
    const int warp = CT_WARP, lane = CT_LANE;
    return kTensor ? warp % 4 * 16 + m / 2 * 8 + 2 * (lane % 4) + c : lane + 32 * c;
  }
  /// sum -= left right
  CT_DEVICE void subtract_product(Real (&sum)[kRows][kWide]) {
    if constexpr (kTensor) {
      const int t = CT_THREAD % 4, n0 = column(0, 0) - 2 * t + row(0) % 8;
      float part[kRows / 2][4] = {};
      CT_UNROLL(int k0 = 0; k0 < kTile; k0 += 8) {
        const int k = k0 + t;
        const float a[4] = {left[row(0)][k], left[row(1)][k], left[row(0)][k + 4], left[row(1)][k + 4]};
        unsigned high[4], low[4], b_high[2], b_low[2];
        CT_FOR(i, 4) split(a[i], high[i], low[i]);
        CT_FOR(n, kRows / 2) {
          split(right(k, n0 + 8 * n), b_high[0], b_low[0]),
              split(right(k + 4, n0 + 8 * n), b_high[1], b_low[1]);
          mma_halves(part[n], high, low, b_high, b_low);
        }
      }
      CT_FOR2(m, kRows, c, kWide) sum[m][c] -= part[m / 2][m % 2 * 2 + c];
    } else {
#pragma unroll 8
      for (int k = 0; k < kTile; ++k)
        CT_FOR2(m, kRows, c, kWide) sum[m][c] -= left[row(m)][k] * right(k, column(m, c));
    }
  }

  /// sum -= left right, of as many tiles as there are steps: fetch(step) begins to load one, store() brings it here.
  CT_DEVICE void subtract_products(Real (&sum)[kRows][kWide], int steps, auto&& fetch, auto&& store) {
    if (steps > 0) fetch(0);
    CT_ROLLED(int step = 0; step < steps; ++step) {
      store();
      __syncthreads();
      if (step + 1 < steps) fetch(step + 1);
      subtract_product(sum);
      __syncthreads();
    }
  }
  /// right = (1 + left)^-1 right, a thread a column. Four rows are solved, then taken out of all below: numbers of the same row
  /// wait for each other, those of others do not.
  CT_DEVICE void solve() {
    const int column = CT_THREAD;
    if (column >= kColumns) return;
    Real x[kTile];
    CT_FOR(i, kTile) x[i] = right(i, column);
    CT_UNROLL(int j0 = 0; j0 < kTile; j0 += 4) {
      CT_UNROLL(int i = j0 + 1; i < kTile; ++i) {
        CT_UNROLL(int j = j0; j < j0 + 4; ++j)
          if (j < i) x[i] -= left[i][j] * x[j];
      }
    }
    CT_FOR(i, kTile) right(i, column) = x[i];
  }
};

/// Row p of the triangular matrix stands for token p, or, reversed, T - 1 - p. Lanes run along rows of l.
template <class Real, bool kReversed>
struct Factor {
  const Real* l;
  HeadRows<Real> gain;
  int T;
  Real entry[kRows], of_row[kRows];
  __device__ int token(int p) const { return kReversed ? T - 1 - p : p; }
  CT_DEVICE void each(auto&& f) {
    const int thread = CT_THREAD, slow = thread / 32 * kRows, fast = thread % 32;
    CT_FOR(m, kRows) f(m, kReversed ? fast : slow + m, kReversed ? slow + m : fast);
  }
  /// Entries (p0 + i, q0 + j), 0 on and above the diagonal.
  CT_DEVICE void load(int p0, int q0) {
    each([&](int m, int i, int j) {
      const int p = p0 + i, q = q0 + j, row = kReversed ? token(q) : p, column = kReversed ? token(p) : q;
      const bool inside = p < T && q < p;
      entry[m] = inside ? l[std::int64_t{row} * T + column] : Real(0);
      of_row[m] = inside && gain ? *gain(row) : Real(1);
    });
  }
  CT_DEVICE void store(Tiles<Real>& tiles) {
    each([&](int m, int i, int j) { tiles.left[i][j] = entry[m] * of_row[m]; });
  }
};

// u_P = (1 + n_PP)^-1 (v_P - sum_{Q<P} n_PQ u_Q), tile after tile
template <bool kBack, class Real, class Op>
__global__ void __launch_bounds__(kThreads, kBlocks<Real>) solve_tiles(const __grid_constant__ Op op) {
  using S = Side<Op>;
  constexpr bool kReversed = S::kOfRows != kBack;
  __shared__ Tiles<Real> tiles;
  const int T = op.T(), H = op.H(), columns = S::columns(op), cuts = (columns + kColumns - 1) / kColumns;
  const int bh = static_cast<int>(blockIdx.x) / cuts,
            column0 = static_cast<int>(blockIdx.x) % cuts * kColumns, r = static_cast<int>(blockIdx.y);
  const In<Real>& given = S::given(op);
  const bool wanted = kBack && given.wanted(), adds = wanted && given.write == Write::add;
  const auto of = [&](const Tensor<Real>& x) { return S::of(op, x, r, bh); };
  const Columns<Real> from = of(kBack ? S::made(op).gradient : given.value),
                      to = of(kBack ? op.z.value : S::made(op).value),
                      gradient = wanted ? of(given.gradient) : Columns<Real>{};
  Factor<Real, kReversed> factor{op.l.value.at(r) + std::int64_t{bh} * T * T,
                                 HeadRows<Real>(op.gain.value, r, bh / H, bh % H, T, H, 1), T};
  Piece<Real, S::kOfRows, kColumns> piece;
  const auto load = [&](const Columns<Real>& x, int p0) {
    piece.each([&](Real& number, int i, int c) {
      const bool inside = p0 + i < T && column0 + c < columns;
      number = inside ? x(factor.token(p0 + i), column0 + c) : Real(0);
    });
  };
  const auto gain_of = [&](int p) {
    return S::gained(op) && p < T ? *factor.gain(factor.token(p)) : Real(1);
  };
  const auto store = [&] { piece.each([&](Real number, int i, int c) { tiles.right(i, c) = number; }); };
  const auto own = [&](auto&& f) {
    CT_FOR2(m, kRows, c, kWide) f(m, c, tiles.right(tiles.row(m), tiles.column(m, c)));
  };
  CT_ROLLED(int p0 = 0; p0 < T; p0 += kTile) {
    Real sum[kRows][kWide];
    load(from, p0);
    if (!kBack && S::gained(op)) piece.each([&](Real& number, int i, int) { number *= gain_of(p0 + i); });
    store();
    __syncthreads();
    own([&](int m, int c, Real number) { sum[m][c] = number; });
    __syncthreads();
    tiles.subtract_products(
        sum, p0 / kTile, [&](int step) { factor.load(p0, step * kTile), load(to, step * kTile); },
        [&] { factor.store(tiles), store(); });
    factor.load(p0, p0);
    factor.store(tiles);
    own([&](int m, int c, Real& number) { number = sum[m][c]; });
    __syncthreads();
    if (adds) load(gradient, p0);
    tiles.solve();
    __syncthreads();
    piece.each([&](Real before, int i, int c) {
      if (p0 + i >= T || column0 + c >= columns) return;
      const int t = factor.token(p0 + i);
      const Real number = tiles.right(i, c);
      to(t, column0 + c) = number;
      if (wanted) gradient(t, column0 + c) = (adds ? before : Real(0)) + number * gain_of(p0 + i);
    });
    __syncthreads();  // the next tile reads what this one wrote, and writes into the tiles
  }
}

// d_n_ij = -left_i . right_j below the diagonal; d_l = gain d_n, d_gain_i = sum_j l_ij d_n_ij. A block takes 32 rows i.
template <class Real, class Op>
__global__ void __launch_bounds__(kThreads, kBlocks<Real>) solve_gradients(const __grid_constant__ Op op) {
  using S = Side<Op>;
  __shared__ Tiles<Real> tiles;
  const int T = op.T(), H = op.H(), columns = S::columns(op), cuts = (T + kTile - 1) / kTile;
  const int bh = static_cast<int>(blockIdx.x) / cuts, first = static_cast<int>(blockIdx.x) % cuts * kTile;
  const int r = static_cast<int>(blockIdx.y), b = bh / H, h = bh % H;
  const int row = CT_WARP * kRows, lane = CT_LANE;
  const Columns<Real> left = S::of(op, S::left(op), r, bh), right = S::of(op, S::right(op), r, bh);
  const HeadRows<Real> gain(op.gain.value, r, b, h, T, H, 1);
  const std::int64_t square = std::int64_t{bh} * T * T;
  const bool adds = op.l.wanted() && op.l.write == Write::add;
  const Real* l = op.l.value.at(r);
  Real* d_l = op.l.wanted() ? op.l.gradient.at(r) : nullptr;
  Piece<Real, S::kOfRows, kTile> some;       // of left [token,column]
  Piece<Real, !S::kOfRows, kColumns> other;  // of right [column,token]
  const auto read = [&](const Columns<Real>& x, int t, int c) {
    return t < T && c < columns ? x(t, c) : Real(0);
  };
  Real d_gain[kRows] = {};
  CT_ROLLED(int j0 = 0; j0 < T; j0 += kColumns) {
    Real sum[kRows][kWide] = {};
    tiles.subtract_products(
        sum, j0 < first + kTile ? (columns + kTile - 1) / kTile : 0,
        [&](int step) {
          const int c0 = step * kTile;
          some.each([&](Real& number, int i, int c) { number = read(left, first + i, c0 + c); });
          other.each([&](Real& number, int c, int j) { number = read(right, j0 + j, c0 + c); });
        },
        [&] {
          some.each([&](Real number, int i, int c) { tiles.left[i][c] = number; });
          other.each([&](Real number, int c, int j) { tiles.right(c, j) = number; });
        });
    const auto each = [&](auto&& f) {  // entries of this lane
      CT_FOR2(m, kRows, c, kWide) f(m, c, first + tiles.row(m), j0 + tiles.column(m, c));
    };
    Real entry[kRows][kWide], before[kRows][kWide], of_row[kRows];
    each([&](int m, int c, int i, int j) {
      const bool below = i < T && j < i;
      const std::int64_t at = square + std::int64_t{i} * T + j;
      entry[m][c] = below && op.gain.wanted() ? l[at] : Real(0);
      before[m][c] = below && adds ? d_l[at] : Real(0);
      if (c == 0) of_row[m] = gain && i < T ? *gain(i) : Real(1);
    });
    each([&](int m, int c, int i, int j) {
      if (j < i) d_gain[m] += entry[m][c] * sum[m][c];
      if (i < T && (j < i || (j < T && !adds)) && op.l.wanted())
        d_l[square + std::int64_t{i} * T + j] = j < i ? before[m][c] + sum[m][c] * of_row[m] : Real(0);
    });
  }
  if (!op.gain.wanted()) return;
  if constexpr (Tiles<Real>::kTensor) {  // four lanes of each of four warps share a row
    CT_FOR(m, 2) {
      Real sum = d_gain[m] + d_gain[m + 2];
      sum += __shfl_xor_sync(kFullWarp, sum, 1);
      sum += __shfl_xor_sync(kFullWarp, sum, 2);
      if (lane % 4 == 0) tiles.left[tiles.row(m)][CT_WARP % 4] = sum;
    }
    __syncthreads();
  }
  const Columns<Real> given = S::of(op, S::given(op).value, r, bh);
  CT_FOR(m, kRows) {
    const int i = first + row + m;
    if constexpr (Tiles<Real>::kTensor) d_gain[m] = lane < 4 ? tiles.left[row + m][lane] : Real(0);
    for (int c = lane; c < columns && i < T && S::gained(op); c += 32) d_gain[m] += left(i, c) * given(i, c);
    const Real sum = warp_sum(d_gain[m]);
    if (i < T && lane == 0) put(op.gain.write, HeadRows<Real>(op.gain.gradient, r, b, h, T, H, 1)(i), sum);
  }
}

template <class Op>
void launch_tiles(const Exec& exec, const Op& op, void (*kernel)(const Op), int along, int tile) {
  const std::int64_t blocks = std::int64_t{blocks_for(along, tile)} * op.B() * op.H();
  launch(exec, Op::kName, kernel, per_replica(blocks, op.l.value.R), kThreads, 0, op);
}
template <bool kBack, template <class> class Op, class Real>
void run(const Exec& exec, const Op<Real>& op) {
  using S = Side<Op<Real>>;
  if (op.T() == 0) return;
  launch_tiles(exec, op, solve_tiles<kBack, Real, Op<Real>>, S::columns(op), kColumns);
  if (kBack && (op.l.wanted() || op.gain.wanted()))
    launch_tiles(exec, op, solve_gradients<Real, Op<Real>>, op.T(), kTile);
}

}  // namespace

CROSSTALK_BOTH_WAYS(cuda, Solve, run<kBack>)
CROSSTALK_BOTH_WAYS(cuda, SolveValues, run<kBack>)

}  // namespace crosstalk
