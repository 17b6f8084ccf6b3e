// A law in registers: what generated code (rule_source.h) is made of. NVRTC compiles this text behind rule_arguments.h and in
// front of rule_steps.cuh and the law; it includes nothing.
//
// A block of kRowThreads x kColumnThreads threads holds one sequence and head. Thread (r, c) has of a matrix the rows r, r +
// kRowThreads, .. and a run of neighbouring columns.  A vector lies along rows (Row: every c has the same) or along columns
// (Column: every r has the same), so that
//
//   S k     each thread its part of a row, then a sum over c: Column in, Row out
//   S^T w   each thread its part of a column, then a sum over r: Row in, Column out
//   a b^T   Row and Column in, nothing to exchange
//
// A number is the same in all threads. Sums have an order that follows from the layout alone. Entries beyond the size of a
// value hold anything: sums leave them out.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace crosstalk {

using Real = CROSSTALK_REAL;
using Arguments = RuleArguments<Real>;
constexpr int kRowThreads = CROSSTALK_ROW_THREADS, kColumnThreads = CROSSTALK_COLUMN_THREADS;
constexpr int kThreads = kRowThreads * kColumnThreads, kWarps = kThreads / 32;
constexpr unsigned kWarp = 0xffffffffu;
#define DEVICE __device__ __forceinline__

DEVICE int lane() { return threadIdx.x % 32; }
DEVICE int warp() { return threadIdx.x / 32; }
DEVICE int row_thread() { return threadIdx.x / kColumnThreads; }
DEVICE int column_thread() { return threadIdx.x % kColumnThreads; }
DEVICE void sync() {
  if (kWarps == 1)
    __syncwarp();
  else
    __syncthreads();
}

__host__ __device__ constexpr int parts(int n, int threads) { return (n + threads - 1) / threads; }

template <int n_>
struct Row {
  static constexpr int size = n_, n = parts(n_, kRowThreads);
  Real x[n];
  static DEVICE int index(int p) { return row_thread() + kRowThreads * p; }
  static DEVICE bool has(int p) { return n_ % kRowThreads == 0 || index(p) < n_; }
};
template <int n_>
struct Column {
  static constexpr int size = n_, n = parts(n_, kColumnThreads);
  Real x[n];
  static DEVICE int index(int q) { return column_thread() * n + q; }
  static DEVICE bool has(int q) { return n_ % kColumnThreads == 0 || index(q) < n_; }
};
template <int R, int C>
struct Matrix {
  static constexpr int rows = R, columns = C, row_parts = Row<R>::n, column_parts = Column<C>::n;
  static constexpr int n = row_parts * column_parts;
  Real x[n];
  static DEVICE int row(int i) { return Row<R>::index(i / column_parts); }
  static DEVICE int column(int i) { return Column<C>::index(i % column_parts); }
  static DEVICE bool has(int i) { return Row<R>::has(i / column_parts) && Column<C>::has(i % column_parts); }
};

// --- entry by entry

/// Entry i of what a thread has of a value; of a number itself.
DEVICE Real entry(Real x, int) { return x; }
template <class A>
DEVICE Real entry(const A& a, int i) {
  return a.x[i];
}
/// The value whose entries are f(i).
template <class A, class F>
DEVICE A made(F&& f) {
  A y;
#pragma unroll
  for (int i = 0; i < A::n; ++i) y.x[i] = f(i);
  return y;
}

#define CROSSTALK_PAIR(name, value)                              \
  DEVICE Real name(Real p, Real q) { return value; }             \
  template <class A>                                             \
  DEVICE A name(const A& a, const A& b) {                        \
    return made<A>([&](int i) { return name(a.x[i], b.x[i]); }); \
  }                                                              \
  template <class A>                                             \
  DEVICE A name(Real p, const A& b) {                            \
    return made<A>([&](int i) { return name(p, b.x[i]); });      \
  }                                                              \
  template <class A>                                             \
  DEVICE A name(const A& a, Real q) {                            \
    return made<A>([&](int i) { return name(a.x[i], q); });      \
  }
CROSSTALK_PAIR(add, p + q)
CROSSTALK_PAIR(sub, p - q)
CROSSTALK_PAIR(mul, p* q)
CROSSTALK_PAIR(quotient, p / q)
CROSSTALK_PAIR(largest, p < q ? q : p)
CROSSTALK_PAIR(smallest, q < p ? q : p)

/// a / b; what a number divides is multiplied by its inverse.
template <class A, class B>
DEVICE B div(const A& a, const B& b) {
  return quotient(a, b);
}
template <class A>
DEVICE A div(const A& a, Real b) {
  return mul(a, 1 / b);
}

/// c + a * b; the interpreter's order of operands.
template <class A, class B>
DEVICE A add_product(const A& c, const B& a, const A& b) {
  return made<A>([&](int i) { return c.x[i] + entry(a, i) * b.x[i]; });
}
DEVICE Real add_product(Real c, Real a, Real b) { return c + a * b; }

#define CROSSTALK_MAP(name, value)                       \
  DEVICE Real name(Real p) { return value; }             \
  template <class A>                                     \
  DEVICE A name(const A& a) {                            \
    return made<A>([&](int i) { return name(a.x[i]); }); \
  }
DEVICE float exp_(float x) { return expf(x); }
DEVICE double exp_(double x) { return exp(x); }
DEVICE float log_(float x) { return logf(x); }
DEVICE double log_(double x) { return log(x); }
DEVICE float log1p_(float x) { return log1pf(x); }
DEVICE double log1p_(double x) { return log1p(x); }
DEVICE float tanh_(float x) { return tanhf(x); }
DEVICE double tanh_(double x) { return tanh(x); }
DEVICE float sqrt_(float x) { return sqrtf(x); }
DEVICE double sqrt_(double x) { return sqrt(x); }
DEVICE float sin_(float x) { return sinf(x); }
DEVICE double sin_(double x) { return sin(x); }
CROSSTALK_MAP(neg, -p)
CROSSTALK_MAP(map_exp, exp_(p > 80 ? Real(80) : p))
CROSSTALK_MAP(map_log, log_(p > Real(1e-30) ? p : Real(1e-30)))
CROSSTALK_MAP(map_sigmoid, 1 / (1 + exp_(-p)))
CROSSTALK_MAP(map_softplus, (p > 0 ? p : Real(0)) + log1p_(exp_(p > 0 ? -p : p)))
CROSSTALK_MAP(map_log_sigmoid, -((p < 0 ? -p : Real(0)) + log1p_(exp_(p < 0 ? p : -p))))
CROSSTALK_MAP(map_tanh, tanh_(p))
CROSSTALK_MAP(map_relu, p > 0 ? p : Real(0))
CROSSTALK_MAP(map_silu, p / (1 + exp_(-p)))
CROSSTALK_MAP(map_inverse, p == 0 ? Real(0) : 1 / p)
CROSSTALK_MAP(map_sqrt, sqrt_(p < 0 ? Real(0) : p))
CROSSTALK_MAP(map_sine, sin_(p))
CROSSTALK_MAP(map_abs, p < 0 ? -p : p)
CROSSTALK_MAP(map_sign, p > 0 ? Real(1) : p < 0 ? Real(-1) : Real(0))
CROSSTALK_MAP(map_positive, p > 0 ? Real(1) : Real(0))

template <class A>
DEVICE A filled(Real x) {
  return made<A>([&](int) { return x; });
}

DEVICE Real zero_like(Real) { return 0; }
template <class A>
DEVICE A zero_like(const A&) {
  return filled<A>(0);
}

// --- what threads exchange

/// Numbers that threads hand to each other: written, one sync(), read; the next exchange takes the other half.
struct Exchange {
  Real* half;
  int other;  ///< numbers from this half to the other
  DEVICE Real* next() {
    half += other, other = -other;
    return half;
  }
};
struct Block {
  Exchange exchange;
  Real* stage;  ///< for whole matrices: one sync() more
};

/// Sum over the threads of a row, the same bits in each.
DEVICE Real over_columns(Real x) {
#pragma unroll
  for (int offset = kColumnThreads / 2; offset > 0; offset /= 2) x += __shfl_xor_sync(kWarp, x, offset);
  return x;
}
DEVICE Real over_rows_of_warp(Real x) {
#pragma unroll
  for (int offset = 16; offset >= kColumnThreads; offset /= 2) x += __shfl_xor_sync(kWarp, x, offset);
  return x;
}
/// Sum of a number a warp.
DEVICE Real over_warps(Block& block, Real x) {
  if (kWarps == 1) return x;
  Real* at = block.exchange.next();
  if (lane() == 0) at[warp()] = x;
  sync();
  Real total = at[0];
#pragma unroll
  for (int w = 1; w < kWarps; ++w) total += at[w];
  return total;
}

/// Sum of the entries that this thread has.
template <class A>
DEVICE Real own_sum(const A& a) {
  Real total = 0;
#pragma unroll
  for (int i = 0; i < A::n; ++i) total += A::has(i) ? a.x[i] : Real(0);
  return total;
}
DEVICE Real sum(Block&, Real x) { return x; }
template <int n>
DEVICE Real sum(Block& block, const Row<n>& a) {
  return over_warps(block, over_rows_of_warp(own_sum(a)));
}
template <int n>
DEVICE Real sum(Block&, const Column<n>& a) {
  return over_columns(own_sum(a));
}
template <int R, int C>
DEVICE Real sum(Block& block, const Matrix<R, C>& a) {
  return over_warps(block, over_rows_of_warp(over_columns(own_sum(a))));
}

/// The largest entry, over lanes at distances `far` .. `near`.
template <int far, int near, class A>
DEVICE Real most_of_warp(const A& a) {
  Real x = A::has(0) ? a.x[0] : Real(-1e30);
#pragma unroll
  for (int i = 1; i < A::n; ++i) x = A::has(i) ? largest(x, a.x[i]) : x;
#pragma unroll
  for (int offset = far; offset >= near; offset /= 2) x = largest(x, __shfl_xor_sync(kWarp, x, offset));
  return x;
}
template <int n>
DEVICE Real most(Block& block, const Row<n>& a) {
  Real x = most_of_warp<16, kColumnThreads>(a);
  if (kWarps == 1) return x;
  Real* at = block.exchange.next();
  if (lane() == 0) at[warp()] = x;
  sync();
#pragma unroll
  for (int w = 0; w < kWarps; ++w) x = largest(x, at[w]);
  return x;
}
template <int n>
DEVICE Real most(Block&, const Column<n>& a) {
  return most_of_warp<kColumnThreads / 2, 1>(a);
}
template <class A>
DEVICE A softmax(Block& block, const A& a) {
  const Real top = most(block, a);
  const A y = made<A>([&](int i) { return exp_(a.x[i] - top); });
  return quotient(y, sum(block, y));
}
template <class A>
DEVICE A unit(Block& block, const A& a) {
  return quotient(a, sqrt_(sum(block, mul(a, a)) + Real(1e-6)));
}

template <int R, int C>
DEVICE Matrix<R, C> scale_columns(const Matrix<R, C>& a, const Column<C>& b) {
  return made<Matrix<R, C>>([&](int i) { return a.x[i] * b.x[i % b.n]; });
}
template <int R, int C>
DEVICE Matrix<R, C> scale_rows(const Matrix<R, C>& a, const Row<R>& b) {
  return made<Matrix<R, C>>([&](int i) { return a.x[i] * b.x[i / a.column_parts]; });
}
template <int R, int C>
DEVICE Row<R> row_sums(const Matrix<R, C>& a) {
  constexpr int n = Column<C>::n;
  Row<R> y;
#pragma unroll
  for (int p = 0; p < Row<R>::n; ++p) {
    Real total = 0;
#pragma unroll
    for (int q = 0; q < n; ++q) total += Column<C>::has(q) ? a.x[p * n + q] : Real(0);
    y.x[p] = over_columns(total);
  }
  return y;
}
template <int R, int C>
DEVICE Row<R> row_sums(const Matrix<R, C>& a, const Column<C>& b) {
  return row_sums(scale_columns(a, b));
}

__host__ __device__ constexpr bool power_of_two(int n) { return (n & (n - 1)) == 0; }

/// N numbers (a power of two) over lanes at distances kOffset .. kColumnThreads: each lane ends with the sums of an equal share
/// of them, in x[0 ..]; where lanes are more, several with the same one.
template <int N, int kOffset>
DEVICE void scatter_sum(Real* x) {
  if constexpr (kOffset >= kColumnThreads) {
    if constexpr (N > 1) {
      const bool upper = threadIdx.x & kOffset;
#pragma unroll
      for (int i = 0; i < N / 2; ++i) {
        const Real send = upper ? x[i] : x[i + N / 2], keep = upper ? x[i + N / 2] : x[i];
        x[i] = keep + __shfl_xor_sync(kWarp, send, kOffset);
      }
      scatter_sum<N / 2, kOffset / 2>(x);
    } else {
      x[0] += __shfl_xor_sync(kWarp, x[0], kOffset);
      scatter_sum<1, kOffset / 2>(x);
    }
  }
}

template <int n>
DEVICE void load(const Real* from, Real* to) {
  if constexpr (sizeof(Real) == 4 && n % 4 == 0) {
#pragma unroll
    for (int i = 0; i < n; i += 4) {
      const float4 x = *reinterpret_cast<const float4*>(from + i);
      to[i] = x.x, to[i + 1] = x.y, to[i + 2] = x.z, to[i + 3] = x.w;
    }
  } else {
#pragma unroll
    for (int i = 0; i < n; ++i) to[i] = from[i];
  }
}

/// Sum over the threads of a column: of partial sums, a column's in each of its threads.
template <int C>
DEVICE Column<C> over_rows(Block& block, Column<C> y) {
  constexpr int n = Column<C>::n, kLanes = 32 / kColumnThreads, width = n * kColumnThreads;
  if constexpr (kLanes == 1 && kWarps == 1) return y;
  Real* at = block.exchange.next();
  Real* mine = at + warp() * width + column_thread() * n;
  const int l = lane() / kColumnThreads;
  if constexpr (power_of_two(n)) {
    scatter_sum<n, 16>(y.x);
    if constexpr (n >= kLanes) {
#pragma unroll
      for (int i = 0; i < n / kLanes; ++i) mine[l * (n / kLanes) + i] = y.x[i];
    } else {
      if (l % (kLanes / n) == 0) mine[l / (kLanes / n)] = y.x[0];
    }
  } else {
#pragma unroll
    for (int q = 0; q < n; ++q) y.x[q] = over_rows_of_warp(y.x[q]);
    if (l == 0) {
#pragma unroll
      for (int q = 0; q < n; ++q) mine[q] = y.x[q];
    }
  }
  sync();
  load<n>(at + column_thread() * n, y.x);
#pragma unroll
  for (int w = 1; w < kWarps; ++w) {
    Real other[n];
    load<n>(at + w * width + column_thread() * n, other);
#pragma unroll
    for (int q = 0; q < n; ++q) y.x[q] += other[q];
  }
  return y;
}
template <int R, int C>
DEVICE Column<C> column_sums(Block& block, const Matrix<R, C>& a) {
  Column<C> y;
#pragma unroll
  for (int q = 0; q < y.n; ++q) {
    y.x[q] = 0;
#pragma unroll
    for (int p = 0; p < Row<R>::n; ++p) y.x[q] += Row<R>::has(p) ? a.x[p * y.n + q] : Real(0);
  }
  return over_rows(block, y);
}
template <int R, int C>
DEVICE Column<C> column_sums(Block& block, const Matrix<R, C>& a, const Row<R>& b) {
  return column_sums(block, scale_rows(a, b));
}

/// The place where all threads find the entries of a vector, which threads with `first` put there.
template <class A>
DEVICE const Real* handed(Block& block, const A& a, bool first) {
  Real* at = block.exchange.next();
  if (first) {
#pragma unroll
    for (int i = 0; i < A::n; ++i)
      if (A::has(i)) at[A::index(i)] = a.x[i];
  }
  sync();
  return at;
}
template <class A>
DEVICE A taken(const Real* at) {
  return made<A>([&](int i) { return A::has(i) ? at[A::index(i)] : Real(0); });
}
template <int n>
DEVICE Column<n> to_column(Block& block, const Row<n>& a) {
  const Real* at = handed(block, a, column_thread() == 0);
  if constexpr (n % kColumnThreads != 0) return taken<Column<n>>(at);
  Column<n> y;
  load<Column<n>::n>(at + column_thread() * y.n, y.x);
  return y;
}
template <int n>
DEVICE Row<n> to_row(Block& block, const Column<n>& a) {
  return taken<Row<n>>(handed(block, a, row_thread() == 0));
}

// --- matrices

/// c + sign a b^T; of states of one number, too
DEVICE Real add_outer(Real c, Real sign, Real a, Real b) { return c + sign * a * b; }
template <int R, int C>
DEVICE Matrix<R, C> add_outer(const Matrix<R, C>& c, Real sign, const Row<R>& a, const Column<C>& b) {
  return made<Matrix<R, C>>([&](int i) { return c.x[i] + sign * a.x[i / b.n] * b.x[i % b.n]; });
}
template <int R, int C>
DEVICE Matrix<R, C> outer(const Row<R>& a, const Column<C>& b) {
  return made<Matrix<R, C>>([&](int i) { return a.x[i / b.n] * b.x[i % b.n]; });
}
template <int R, int C>
DEVICE Matrix<R, C> eye() {
  using Y = Matrix<R, C>;
  return made<Y>([](int i) { return Y::row(i) == Y::column(i) ? Real(1) : Real(0); });
}
DEVICE Real diag(Real a) { return a; }
template <int n>
DEVICE Matrix<n, n> diag(const Row<n>& a) {
  using Y = Matrix<n, n>;
  return made<Y>([&](int i) { return Y::row(i) == Y::column(i) ? a.x[i / Y::column_parts] : Real(0); });
}
DEVICE Real diagonal(Block&, Real a) { return a; }
template <int n>
DEVICE Row<n> diagonal(Block& block, const Matrix<n, n>& a) {
  Real* at = block.exchange.next();
#pragma unroll
  for (int i = 0; i < a.n; ++i)
    if (a.has(i) && a.row(i) == a.column(i)) at[a.row(i)] = a.x[i];
  sync();
  return taken<Row<n>>(at);
}
template <int R, int C>
DEVICE void put_stage(Real* at, const Matrix<R, C>& a) {
#pragma unroll
  for (int i = 0; i < a.n; ++i)
    if (a.has(i)) at[a.row(i) * C + a.column(i)] = a.x[i];
}
/// The transpose of a C x R matrix.
template <int R, int C>
DEVICE Matrix<R, C> transpose(Block& block, const Matrix<C, R>& a) {
  sync();
  put_stage(block.stage, a);
  sync();
  using Y = Matrix<R, C>;
  return made<Y>([&](int i) { return Y::has(i) ? block.stage[Y::column(i) * R + Y::row(i)] : Real(0); });
}
/// sum_l a_il b_lj over l < n; a and b as they are stored, transposed where kA, kB say so.
template <int R, int C, int n, bool kA, bool kB, class A, class B>
DEVICE Matrix<R, C> product(Block& block, const A& a, const B& b) {
  Real *left = block.stage, *right = block.stage + R * n;
  sync();
  put_stage(left, a), put_stage(right, b);
  sync();
  auto y = filled<Matrix<R, C>>(0);
  for (int l = 0; l < n; ++l) {
#pragma unroll
    for (int i = 0; i < y.n; ++i) {
      const int r = y.row(i), c = y.column(i);
      if (y.has(i)) y.x[i] += left[kA ? l * R + r : r * n + l] * right[kB ? c * n + l : l * C + c];
    }
  }
  return y;
}

}  // namespace crosstalk
