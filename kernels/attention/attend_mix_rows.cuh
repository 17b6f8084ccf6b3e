// AttendMix for any size and type: a warp a query, 32 tokens at a time, and backward a warp a key as well.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/attention/attend_mix_parts.cuh"

namespace crosstalk::device {

constexpr int kRowThreads = 256, kRowWarps = kRowThreads / 32;
constexpr int kLaneColumns = 4;  ///< columns that a lane sums in one walk over the tokens

template <class Real>
__device__ __forceinline__ Real plain_dot(const Real* x, const Real* y, int n) {
  Real sum = 0;
  for (int i = 0; i < n; ++i) sum += x[i] * y[i];
  return sum;
}

/// sums[c] += sum over the warp's lanes l of weight_l y_l[column c of this lane]: y_l is row `base` + l, of `count` there are.
template <class Real>
__device__ __forceinline__ void add_rows(Real weight, const HeadRows<Real>& y, int base, int count, int from,
                                         int columns, Real (&sums)[kLaneColumns]) {
  for (int l = 0; l < 32 && base + l < count; ++l) {
    const Real w = __shfl_sync(kFullWarp, weight, l);
    if (w == 0) continue;
#pragma unroll
    for (int c = 0; c < kLaneColumns; ++c) {
      const int column = from + 32 * c + static_cast<int>(threadIdx.x % 32);
      if (column < columns) sums[c] += w * y(base + l)[column];
    }
  }
}

template <class Real>
__global__ void __launch_bounds__(kRowThreads) read_rows(const __grid_constant__ AttendMix<Real> op) {
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * kRowWarps + threadIdx.x / 32;
  if (row >= static_cast<std::int64_t>(op.B()) * op.H() * op.Q()) return;
  const int r = blockIdx.y, bh = static_cast<int>(row / op.Q()), i = static_cast<int>(row % op.Q());
  const int lane = threadIdx.x % 32, T = op.T(), K = op.K(), V = op.V();
  const Query<Real> query = query_of<false>(op, r, bh, i);
  const HeadRows<Real> k = rows_of(op, op.k.value, r, bh), v = rows_of(op, op.v.value, r, bh);
  const Real* x = rows_of(op, op.x.value, r, bh)(i);
  const auto exponent = [&](int j) {
    return static_cast<Real>(op.scale) * plain_dot(x, k(j), K) + (query.phase - phase_of(op, r, bh, j));
  };
  Real L = 0;
  bool some = true;
  if (op.normalised) {
    const Real beside = static_cast<Real>(op.beside(r, bh % op.H()));
    Real largest = -INFINITY, total = 0;
    for (int j = query.first + lane; j < query.last; j += 32) {
      const Real e = exponent(j);
      if (e > largest) {
        total = total * exp(largest - e) + 1, largest = e;
      } else {
        total += exp(e - largest);
      }
    }
    Real all = warp_max(largest);
    all = beside > all ? beside : all;
    some = all > -INFINITY;
    total = warp_sum(largest == -INFINITY ? Real(0) : total * exp(largest - all));
    if (beside > -INFINITY) total += exp(beside - all);
    if (some) L = all + log(total);
  }
  Real* o = rows_of(op, op.o.value, r, bh)(i);
  for (int from = 0; from < V; from += 32 * kLaneColumns) {
    Real sums[kLaneColumns] = {};
    for (int base = query.first; base < query.last && some; base += 32) {
      const int j = base + lane;
      add_rows(j < query.last ? exp(exponent(j) - L) : Real(0), v, base, T, from, V, sums);
    }
#pragma unroll
    for (int c = 0; c < kLaneColumns; ++c) {
      const int column = from + 32 * c + lane;
      if (column < V) o[column] = sums[c];
    }
  }
  if (op.row && lane == 0) op.row.value.at(r)[row] = L;
}

/// Gradients of row n of one side, by one warp.
template <Side kSide, class Real>
__device__ void row_gradients(const AttendMix<Real>& op, int r, int bh, int n) {
  constexpr bool kKeys = kSide == Side::keys;
  const int lane = threadIdx.x % 32, K = op.K(), V = op.V(), others = kKeys ? op.Q() : op.T();
  const HeadRows<Real> x = rows_of(op, op.x.value, r, bh), k = rows_of(op, op.k.value, r, bh),
                       v = rows_of(op, op.v.value, r, bh), d_o = rows_of(op, op.o.gradient, r, bh);
  const Query<Real> own = kKeys ? Query<Real>{} : query_of<true>(op, r, bh, n);
  const In<Real>& field = kKeys ? op.k : op.x;
  const int begin = kKeys ? 0 : own.first, end = kKeys ? others : own.last;
  Real line = 0;
  for (int from = 0; from < (K > V ? K : V); from += 32 * kLaneColumns) {
    Real sums[kLaneColumns] = {}, value_sums[kLaneColumns] = {};
    for (int base = begin; base < end; base += 32) {
      const int other = base + lane, j = kKeys ? n : other, i = kKeys ? other : n;
      Real a = 0, d = 0;
      if (other < end) {
        const Query<Real> query = kKeys ? query_of<true>(op, r, bh, i) : own;
        if (query.sees(j)) {
          a = exp(static_cast<Real>(op.scale) * plain_dot(x(i), k(j), K) +
                  (query.phase - phase_of(op, r, bh, j)) - query.row);
          d = a * (plain_dot(d_o(i), v(j), V) - query.along);
        }
      }
      if (!__any_sync(kFullWarp, a != 0)) continue;
      if (from == 0) line += d;
      add_rows(d, kKeys ? x : k, base, others, from, K, sums);
      if (kKeys) add_rows(a, d_o, base, others, from, V, value_sums);
    }
#pragma unroll
    for (int c = 0; c < kLaneColumns; ++c) {
      const int column = from + 32 * c + lane;
      if (field.wanted() && column < K)
        put(field.write, rows_of(op, field.gradient, r, bh)(n) + column,
            static_cast<Real>(op.scale) * sums[c]);
      if (kKeys && op.v.wanted() && column < V)
        put(op.v.write, rows_of(op, op.v.gradient, r, bh)(n) + column, value_sums[c]);
    }
  }
  if (!op.biased()) return;
  line = warp_sum(line);
  if (lane != 0) return;
  if (kKeys) {
    op.d_columns.value.at(r)[static_cast<std::int64_t>(bh) * op.T() + n] = line;
  } else {
    op.d_rows.value.at(r)[2 * (static_cast<std::int64_t>(bh) * op.Q() + n) + 1] = line;
  }
}

/// Query n and token n by one warp, in the order of fields(): they may be one variable.
template <class Real>
__global__ void __launch_bounds__(kRowThreads) gradient_rows(const __grid_constant__ AttendMix<Real> op) {
  const int count = op.Q() > op.T() ? op.Q() : op.T();
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * kRowWarps + threadIdx.x / 32;
  if (row >= static_cast<std::int64_t>(op.B()) * op.H() * count) return;
  const int r = blockIdx.y, bh = static_cast<int>(row / count), n = static_cast<int>(row % count);
  if (n < op.Q()) row_gradients<Side::queries>(op, r, bh, n);
  if (n < op.T()) row_gradients<Side::keys>(op, r, bh, n);
}

}  // namespace crosstalk::device
