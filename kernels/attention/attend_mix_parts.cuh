// What the kernels of AttendMix share: what a query sees, and the bias as a difference of phases.
//
// With Phi_n = sum_{s <= n} g_s - slope n, the bias of a pair is Phi_own - Phi_j. Phi is summed in double and
// kept as two numbers, so that a difference loses nothing however large Phi has become.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/attention/attend_mix.h"
#include "kernels/attention/score_kernel.h"
#include "kernels/base/cuda_launch.cuh"
#include "kernels/base/head_rows.h"

namespace crosstalk::device {

template <class Real>
struct Phase {
  Real high = 0, low = 0;
  __device__ Real operator-(const Phase& other) const { return (high - other.high) + (low - other.low); }
};

/// Phi of token n of a sequence and head bh; 0 without a bias.
template <class Real>
__device__ __forceinline__ Phase<Real> phase_of(const AttendMix<Real>& op, int r, int bh, int n) {
  if (!op.biased() || n < 0 || n >= op.T()) return {};
  const Real* pair = op.phase.value.at(r) + 2 * (static_cast<std::int64_t>(bh) * op.T() + n);
  return {pair[0], pair[1]};
}

/// The tokens that a query sees, and what turns an exponent into a weight and a gradient.
template <class Real>
struct Query {
  int first = 0, last = 0;
  Real row = 0, along = 0;  ///< L, D
  Phase<Real> phase = {};
  __device__ bool sees(int j) const { return j >= first && j < last; }
  __device__ bool sees_of(int begin, int end) const { return first < end && last > begin && first < last; }
};

/// kKept: L and D too, which forward and its backward's first kernel leave.
template <bool kKept, class Real>
__device__ __forceinline__ Query<Real> query_of(const AttendMix<Real>& op, int r, int bh, int i) {
  Query<Real> q;
  if (i >= op.Q()) return q;
  const SeenTokens seen = seen_tokens(op, r, bh / op.H(), i);
  q.first = seen.first, q.last = seen.last, q.phase = phase_of(op, r, bh, seen.own);
  if constexpr (kKept) {
    const std::int64_t row = static_cast<std::int64_t>(bh) * op.Q() + i;
    q.row = op.row.value.at(r)[row], q.along = op.d_rows.value.at(r)[2 * row];
  }
  return q;
}

/// Rows of a field of this sequence and head.
template <class Real>
__device__ __forceinline__ HeadRows<Real> rows_of(const AttendMix<Real>& op, const Tensor<Real>& t, int r,
                                                  int bh) {
  return HeadRows<Real>(t, r, bh / op.H(), bh % op.H(), t.dim(1), op.H(), t.dim(3));
}

/// Whose gradients a kernel's rows are: of queries, or of keys and values.
enum class Side { queries, keys };

}  // namespace crosstalk::device
