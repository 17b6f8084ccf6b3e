// Shared by the kernels of AttendMix: the tokens that a query sees, the bias as a difference of phases, and the way
// from scores to weights.
//
// With Phi_n = sum_{s <= n} g_s - slope n, the bias of a pair is Phi_own - Phi_j. Phi is summed in double and
// kept as two numbers, so that a difference loses nothing however large Phi has become.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/attention/attend_mix.h"
#include "kernels/attention/score_kernel.h"
#include "kernels/base/device/cuda_launch.cuh"
#include "kernels/base/device/quick_exp.cuh"
#include "kernels/base/head_rows.h"

namespace crosstalk::device {

struct Phase {
  float high = 0, low = 0;
  __device__ float operator-(const Phase& other) const { return (high - other.high) + (low - other.low); }
};

/// Phi of token n of a sequence and head bh; 0 without a bias.
CT_DEVICE Phase phase_of(const AttendMix<float>& op, int r, int bh, int n) {
  if (!op.biased() || n < 0 || n >= op.T()) return {};
  const float* pair = op.phase.value.at(r) + 2 * (std::int64_t{bh} * op.T() + n);
  return {pair[0], pair[1]};
}

/// The tokens that a query sees, and the two numbers that turn an exponent into a weight and its gradient.
struct SeenBy {
  int first, last;
  float row, along;  ///< L, D
  __device__ bool sees(int j) const { return j >= first && j < last; }
  __device__ bool sees_of(int begin, int end) const { return first < end && last > begin && first < last; }
};
struct Query : SeenBy {
  Phase phase = {};
  __device__ Query() : SeenBy{0, 0, 0, 0} {}
};

/// kKept: with L and D, which forward and the first kernel of backward have left.
template <bool kKept>
CT_DEVICE Query query_of(const AttendMix<float>& op, int r, int bh, int i) {
  Query q;
  if (i >= op.Q()) return q;
  const SeenTokens seen = seen_tokens(op, r, bh / op.H(), i);
  q.first = seen.first, q.last = seen.last, q.phase = phase_of(op, r, bh, seen.own);
  if constexpr (kKept) {
    const std::int64_t row = std::int64_t{bh} * op.Q() + i;
    q.row = op.row.value.at(r)[row], q.along = op.d_rows.value.at(r)[2 * row];
  }
  return q;
}

/// Rows of a field of this sequence and head, floats or operands.
template <class Number>
CT_DEVICE HeadRows<Number> rows_of(const AttendMix<float>& op, const Tensor<float>& t, int r, int bh) {
  Tensor<Number> of;
  of.data = reinterpret_cast<Number*>(t.data);
  of.replica_stride = t.replica_stride * static_cast<int>(sizeof(float) / sizeof(Number));
  return HeadRows<Number>(of, r, bh / op.H(), bh % op.H(), t.dim(1), op.H(), t.dim(3));
}

/// Sum over the four lanes that share rows.
CT_DEVICE float row_sum(float x) {
  x += __shfl_xor_sync(kFullWarp, x, 1);
  return x + __shfl_xor_sync(kFullWarp, x, 2);
}

/// The softmax of two rows as far as they have been read, to base 2: the largest score, the sum of what weights are
/// before they are divided (each lane its share), and as many values, of which a lane has D / 8 pairs a row.
template <int D>
struct RunningRows {
  float largest[2], total[2], sums[D / 8][4] = {};

  /// beside: logarithm of the rows' terms besides tokens (eps, sink), to base 2; -inf: none.
  __device__ explicit RunningRows(float beside) {
    largest[0] = largest[1] = beside;
    total[0] = total[1] = beside > -INFINITY && threadIdx.x % 4 == 0 ? 1 : 0;
  }
  /// Scores of tokens j0 .. become weights, 2^(s - largest), and what was summed before is scaled to the new
  /// largest score. bias(half, c): of the row and of token j0 + c.
  template <int kCount, class Bias>
  CT_DEVICE void weigh(bool normalised, float scale, const Query (&query)[2], int j0, const Bias& bias,
                       float (&s)[kCount][4]) {
    const int c0 = 2 * (threadIdx.x % 4);
    float now[2] = {largest[0], largest[1]};
    const int first[2] = {query[0].first - j0 - c0, query[1].first - j0 - c0};
    const int last[2] = {query[0].last - j0 - c0, query[1].last - j0 - c0};
    CT_FOR2(n, kCount, e, 4) {
      const int c = n * 8 + e % 2;
      s[n][e] = c >= first[e / 2] && c < last[e / 2] ? fmaf(s[n][e], scale, bias(e / 2, c + c0)) : -INFINITY;
      now[e / 2] = fmaxf(now[e / 2], s[n][e]);
    }
    CT_FOR(half, 2) {
      float m = now[half];
      m = fmaxf(m, __shfl_xor_sync(kFullWarp, m, 1));
      m = fmaxf(m, __shfl_xor_sync(kFullWarp, m, 2));
      if (!normalised) m = 0;
      now[half] = m == -INFINITY ? 0 : m;  // nothing seen yet
      const float factor = normalised ? power_of_two(largest[half] - now[half]) : 1;
      largest[half] = m;
      total[half] *= factor;
      CT_FOR(n, D / 8) sums[n][2 * half] *= factor, sums[n][2 * half + 1] *= factor;
    }
    CT_FOR2(n, kCount, e, 4) s[n][e] = power_of_two(s[n][e] - now[e / 2]), total[e / 2] += s[n][e];
  }
  /// Adds up the totals. factor: turns sums into values read.
  CT_DEVICE void finish(bool normalised, float (&factor)[2]) {
    CT_FOR(half, 2) {
      total[half] = row_sum(total[half]);
      factor[half] = !normalised ? 1 : total[half] > 0 ? 1 / total[half] : 0;
    }
  }
};

/// Keeps L / log 2 of query i, if backward wants it.
CT_DEVICE void keep_row(const AttendMix<float>& op, int r, int bh, int i, float largest, float total) {
  if (op.row && i < op.Q())
    op.row.value.at(r)[std::int64_t{bh} * op.Q() + i] =
        op.normalised && total > 0 ? largest + log2f(total) : 0;
}

/// Scores of tokens j0 .. become weights s scale 2^bias.
template <int kCount, class Bias>
CT_DEVICE void weigh_linear(float scale, const Query (&query)[2], int j0, const Bias& bias,
                            float (&s)[kCount][4]) {
  CT_FOR2(n, kCount, e, 4) {
    const int c = n * 8 + 2 * (CT_THREAD % 4) + e % 2;
    s[n][e] = query[e / 2].sees(j0 + c) ? s[n][e] * scale * power_of_two(bias(e / 2, c)) : 0;
  }
}
/// Its weigh_back(); returns the gradient of the bias.
CT_DEVICE float weigh_linear_back(const SeenBy& q, int j, float scale, float bias, float& s, float& d) {
  const float fade = q.sees(j) ? power_of_two(bias) : 0;
  s *= scale * fade;
  const float d_bias = s * d;
  d *= fade;
  return d_bias;
}

/// Score s of token j and d_o . v become weight and gradient of the score.
CT_DEVICE void weigh_back(const SeenBy& q, int j, float scale, float bias, float& s, float& d) {
  s = q.sees(j) ? power_of_two(fmaf(s, scale, bias - q.row)) : 0;
  d = s * (d - q.along);
}

/// The rows of a kernel that makes gradients: queries, keys with values (of more than 128 columns, without), or values.
enum class Side { queries, keys, values };

}  // namespace crosstalk::device
