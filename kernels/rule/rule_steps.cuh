// A law in registers (rule_registers.cuh): how values come from the device's memory and go there, and the walk over a
// sequence. NVRTC compiles this text in front of the law; it includes nothing.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace crosstalk {

// --- memory of the device

DEVICE void load(const Real* from, Real& x) { x = *from; }
template <int n>
DEVICE void load(const Real* from, Row<n>& x) {
  x = taken<Row<n>>(from);
}
template <int n>
DEVICE void load(const Real* from, Column<n>& x) {
  if constexpr (n % (4 * kColumnThreads) == 0)
    load<Column<n>::n>(from + column_thread() * x.n, x.x);
  else
    x = taken<Column<n>>(from);
}
template <int R, int C>
DEVICE void load(const Real* from, Matrix<R, C>& x) {
#pragma unroll
  for (int p = 0; p < x.row_parts; ++p) {
    const int i = Row<R>::index(p);
    if constexpr (C % (4 * kColumnThreads) == 0) {
      if (Row<R>::has(p))
        load<Column<C>::n>(from + i * C + column_thread() * Column<C>::n, x.x + p * Column<C>::n);
    } else {
#pragma unroll
      for (int q = 0; q < x.column_parts; ++q)
        x.x[p * x.column_parts + q] =
            Row<R>::has(p) && Column<C>::has(q) ? from[i * C + Column<C>::index(q)] : Real(0);
    }
  }
}
DEVICE void put(Real* to, Real x, bool adds) { *to = adds ? *to + x : x; }
DEVICE void store(Real* to, Real x, bool adds = false) {
  if (threadIdx.x == 0) put(to, x, adds);
}
template <class A>
DEVICE void store_own(Real* to, const A& x, bool adds) {
#pragma unroll
  for (int i = 0; i < A::n; ++i)
    if (A::has(i)) put(to + A::index(i), x.x[i], adds);
}
template <int n>
DEVICE void store(Real* to, const Row<n>& x, bool adds = false) {
  if (column_thread() == 0) store_own(to, x, adds);
}
template <int n>
DEVICE void store(Real* to, const Column<n>& x, bool adds = false) {
  if (row_thread() == 0) store_own(to, x, adds);
}
template <int R, int C>
DEVICE void store(Real* to, const Matrix<R, C>& x, bool adds = false) {
#pragma unroll
  for (int p = 0; p < x.row_parts; ++p) {
    Real* row = to + Row<R>::index(p) * C;
    if constexpr (sizeof(Real) == 4 && C % (4 * kColumnThreads) == 0) {
      if (!Row<R>::has(p)) continue;
      if (adds) {
#pragma unroll
        for (int q = 0; q < x.column_parts; ++q) row[Column<C>::index(q)] += x.x[p * x.column_parts + q];
        continue;
      }
#pragma unroll
      for (int q = 0; q < x.column_parts; q += 4) {
        const Real* from = x.x + p * x.column_parts + q;
        *reinterpret_cast<float4*>(row + Column<C>::index(q)) =
            make_float4(from[0], from[1], from[2], from[3]);
      }
    } else {
#pragma unroll
      for (int q = 0; q < x.column_parts; ++q)
        if (Row<R>::has(p) && Column<C>::has(q))
          put(row + Column<C>::index(q), x.x[p * x.column_parts + q], adds);
    }
  }
}

// --- the walk

/// Place of one sequence and head of one replica in the tensors.
struct Place {
  const Arguments& a;
  int r, item;
  DEVICE long long row(int rows, int width, int n) const {
    return ((static_cast<long long>(item / a.H) * rows + n) * a.H + item % a.H) * width;
  }
  DEVICE const Real* value(int i, int rows, int width, int n) const {
    return a.inputs[i].value + r * a.inputs[i].value_stride + row(rows, width, n);
  }
  DEVICE Real* gradient(int i, int rows, int width, int n) const {
    return a.inputs[i].gradient + r * a.inputs[i].gradient_stride + row(rows, width, n);
  }
  DEVICE Real* o(int width, int n) const { return a.o + r * a.o_stride + row(a.Q, width, n); }
  DEVICE const Real* d_o(int width, int n) const { return a.d_o + r * a.d_o_stride + row(a.Q, width, n); }
  DEVICE const int* positions() const {
    return a.position + r * a.position_stride + (item / a.H) * static_cast<long long>(a.Q);
  }
};

DEVICE int clamped(int x, int most) { return x < 0 ? 0 : x > most ? most : x; }
/// The nearest of the positions that is at least `from` (kUp) or at most; out of the sequence where there is none.
template <bool kUp>
DEVICE int next_position(const Place& at, int from) {
  const int* position = at.positions();
  int next = kUp ? at.a.T + 1 : -1;
  for (int i = lane(); i < at.a.Q; i += 32) {
    const int p = clamped(position[i], at.a.T);
    if (kUp ? p >= from && p < next : p <= from && p > next) next = p;
  }
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    const int other = __shfl_xor_sync(kWarp, next, offset);
    next = (kUp ? other < next : other > next) ? other : next;
  }
  return next;
}

/// f(i) for every query that sees n tokens.
template <class F>
DEVICE void queries(const Place& at, int n, F&& f) {
  if constexpr (CROSSTALK_POSITIONS) {
    const int* position = at.positions();
    for (int i = 0; i < at.a.Q; ++i)
      if (clamped(position[i], at.a.T) == n) f(i);
  } else {
    const int i = CROSSTALK_BEFORE ? n : n - 1;
    if (i >= 0 && i < at.a.Q) f(i);
  }
}

template <class Law>
DEVICE void walk_forward(Law& law, const Place& at) {
  const Arguments& a = at.a;
  const int length = a.length, segments = (a.T + length - 1) / length;
  law.begin();
  law.start();
  typename Law::Token token, next_token;
  typename Law::Query query, next_query;
  int next = 0;
  if (a.T > 0) law.token(next_token, 0);
  if constexpr (CROSSTALK_POSITIONS)
    next = next_position<true>(at, 0);
  else if (a.Q > 0)
    law.query(next_query, 0);
  for (int t = 0; t <= a.T; ++t) {
    token = next_token;
    if (t + 1 < a.T) law.token(next_token, t + 1);
    if constexpr (CROSSTALK_POSITIONS) {
      if (t == next) {
        queries(at, t, [&](int i) {
          law.query(query, i);
          law.read(query, i);
        });
        next = next_position<true>(at, t + 1);
      }
    } else {
      queries(at, t, [&](int i) {
        query = next_query;
        if (i + 1 < a.Q) law.query(next_query, i + 1);
        law.read(query, i);
      });
    }
    if (t == a.T) break;
    if (a.states && t % length == 0)
      law.keep(a.states + at.r * a.states_stride +
               (static_cast<long long>(at.item) * segments + t / length) * Law::size);
    law.step(token);
  }
  law.end();
}

template <class Law>
DEVICE void walk_backward(Law& law, const Place& at) {
  const Arguments& a = at.a;
  const int length = a.length, segments = (a.T + length - 1) / length;
  constexpr long long apart = Law::size + Law::kept;
#if CROSSTALK_WINDOW > 0
  extern __shared__ __align__(16) unsigned char window_memory[];
  Real* const around = reinterpret_cast<Real*>(window_memory);
  const int window = CROSSTALK_WINDOW;
#else
  Real* const around = a.work + at.r * a.work_stride + at.item * a.work_numbers;
  const int window = length;
#endif
  law.begin();
  law.begin_gradients();
  typename Law::Token token, next_token;
  typename Law::Query query;
  const auto take_back = [&](int i) {
    if (a.d_o) {
      law.query(query, i);
      law.read_back(query, i);
    }
    law.store_query(i);
    if (a.shared) __syncthreads();  // others may add to it
  };
  int next = a.T;
  if constexpr (CROSSTALK_POSITIONS) next = next_position<false>(at, a.T);
  for (int segment = segments - 1; segment >= 0; --segment) {
    const int first = segment * length, tokens = first + length < a.T ? length : a.T - first;
    // A window of tokens at a time, the last first: the walk again up to its end leaves the states around its tokens.
    for (int end = tokens, begin; end > 0; end = begin) {
      begin = end > window ? end - window : 0;
      law.recall(a.states + at.r * a.states_stride +
                 (static_cast<long long>(at.item) * segments + segment) * Law::size);
      __syncthreads();  // nobody reads the states of the window behind any more
      law.token(next_token, first);
      for (int t = 0; t < end; ++t) {
        Real* const at_token = around + (t - begin) * apart;
        if (t >= begin) law.keep(at_token);
        token = next_token;
        if (t + 1 < end) law.token(next_token, first + t + 1);
        law.step_again(token);
        if (t >= begin) law.keep_sums(at_token);
      }
      __syncthreads();
      for (int t = end - 1; t >= begin; --t) {
        law.token(token, first + t);
        const int n = first + t + 1;
        if (!CROSSTALK_POSITIONS || n == next) {
          queries(at, n, take_back);
          if constexpr (CROSSTALK_POSITIONS) next = next_position<false>(at, n - 1);
        }
        const Real* const at_token = around + (t - begin) * apart;
        law.recall(at_token);
        law.recall_sums(at_token);
        law.step_back(token);
        law.store_token(first + t);
        if (a.shared) __syncthreads();
      }
    }
  }
  law.start_again();
  if (!CROSSTALK_POSITIONS || next == 0) queries(at, 0, take_back);
  law.start_back();
  law.store_sequence();
}

}  // namespace crosstalk
