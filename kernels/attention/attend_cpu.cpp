// Attention as a matrix, row after row.
// SPDX-License-Identifier: Apache-2.0
#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/attention/score_kernel.h"
#include "kernels/base/head_rows.h"
#include "kernels/base/parallel.h"

namespace crosstalk {
namespace {

constexpr int kRows = 32;  ///< queries of an item of work

/// One sequence and head.
template <class Real>
struct Sequence {
  const Attend<Real>& op;
  int r, b, h, B, T, H, K, Q;
  HeadField<Real> x, k, g;
  Real scale, slope = 0;
  ScoreKernel<Real> kernel;
  bool biased, exponential;  ///< exponential: the kernel's factor is 1

  Sequence(const Attend<Real>& op_, int r_, int b_, int h_)
      : op(op_),
        r(r_),
        b(b_),
        h(h_),
        B(op.B()),
        T(op.T()),
        H(op.H()),
        K(op.K()),
        Q(op.Q()),
        x(op.x, r, b, h, Q, H, K),
        k(op.k, r, b, h, T, H, K),
        g(op.log_decay, r, b, h, T, H, 1),
        scale(static_cast<Real>(op.scale)),
        kernel(op),
        biased(op.log_decay || op.slope),
        exponential(op.kernel == Kernel::exp) {
    if (op.slope) slope = op.slope.value.at(r)[h];
  }
  std::int64_t row(int i) const { return (static_cast<std::int64_t>(b) * H + h) * Q + i; }
  /// Summands of the scaled products of query i, from token 0 on, or null.
  const Real* extra(int i) const { return op.extra ? op.extra.value.at(r) + row(i) * T : nullptr; }
  /// Calls f(j, bias) for the tokens seen, from the last to the first.
  void for_tokens(SeenTokens seen, auto&& f) const {
    Real decay = 0;
    for (int j = seen.own; j >= seen.first; --j) {
      if (j < seen.last) f(j, decay - slope * static_cast<Real>(seen.own - j));
      if (g) decay += *g.value(j);
    }
  }
};

/// Arguments of the kernel of queries [begin, end), into their rows of a.
template <class Real>
void scores(const Sequence<Real>& s, int begin, int end, int tokens) {
  Real* a = s.op.a.value.at(s.r) + s.row(begin) * s.T;
  if (!s.k) {
    for (int i = begin; i < end; ++i) std::fill_n(a + (i - begin) * s.T, tokens, Real(0));
  } else if (s.Q == 1) {
    for (int j = 0; j < tokens; ++j) a[j] = s.scale * dot(s.x.value(begin), s.k.value(j), s.K);
  } else {
    using Matrix = Eigen::Matrix<Real, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
    using Stride = Eigen::OuterStride<>;
    Eigen::Map<Matrix, 0, Stride>(a, end - begin, tokens, Stride(s.T)).noalias() =
        s.scale *
        (Eigen::Map<const Matrix, 0, Stride>(s.x.value(begin), end - begin, s.K, Stride(s.x.value.step)) *
         Eigen::Map<const Matrix, 0, Stride>(s.k.value(0), tokens, s.K, Stride(s.k.value.step)).transpose());
  }
  for (int i = begin; i < end && s.op.extra; ++i) axpy(Real(1), s.extra(i), a + (i - begin) * s.T, tokens);
}

/// Scores -> weights of query i, in place. exponents [T] is scratch.
template <class Real>
void weigh(const Sequence<Real>& s, int i, Real* exponents) {
  const SeenTokens seen = seen_tokens(s.op, s.r, s.b, i);
  Real* a = s.op.a.value.at(s.r) + s.row(i) * s.T;
  std::fill(a, a + seen.first, Real(0));
  std::fill(a + seen.last, a + s.T, Real(0));
  if (s.op.plain()) return;
  Real largest = -std::numeric_limits<Real>::infinity();
  Real* e = s.exponential ? a : exponents;
  s.for_tokens(seen, [&](int j, Real bias) {
    const Score<Real> score = s.kernel(a[j]);
    if (!s.exponential) a[j] = score.factor;
    e[j] = score.exponent + bias;
    if (score.factor != 0) largest = std::max(largest, e[j]);
  });
  const Real sink = s.op.sink ? s.op.sink.value.at(s.r)[s.h] : -std::numeric_limits<Real>::infinity();
  largest = std::max(largest, sink);
  if (!s.op.normalised || !std::isfinite(largest)) largest = 0;
  const int n = seen.last - seen.first;
  if (s.exponential) {
    using Row = Eigen::Array<Real, Eigen::Dynamic, 1>;
    Eigen::Map<Row> row(a + seen.first, n);
    row = (row - largest).exp();
  } else if (s.biased) {
    for (int j = seen.first; j < seen.last; ++j)
      if (a[j] != 0) a[j] *= std::exp(e[j] - largest);
  }
  Real inverse = 1;
  if (s.op.normalised) {
    Real total = sum(a + seen.first, n);
    if (s.op.eps > 0) total += static_cast<Real>(s.op.eps) * std::exp(-largest);
    if (s.op.sink) total += std::exp(sink - largest);
    inverse = total == 0 ? 0 : 1 / total;
    for (int j = seen.first; j < seen.last; ++j) a[j] *= inverse;
  }
  if (s.op.row) {
    Real* row = s.op.row.value.at(s.r) + 2 * s.row(i);
    row[0] = largest, row[1] = inverse;
  }
}

/// a . d_a of a row where it is normalised: what the sum takes from the gradient of every weight.
template <class Real>
Real along(const Attend<Real>& op, const Real* a, const Real* d_a, int T) {
  return op.normalised ? dot(a, d_a, T) : Real(0);
}

/// Gradients of the kernel's argument and of the bias of query i, for the tokens seen.
template <class Real>
void row_gradients(const Sequence<Real>& s, int i, SeenTokens seen, Real* d_s, Real* d_b) {
  const Real* a = s.op.a.value.at(s.r) + s.row(i) * s.T;
  const Real* d_a = s.op.a.gradient.at(s.r) + s.row(i) * s.T;
  if (s.op.plain()) {
    std::copy(d_a + seen.first, d_a + seen.last, d_s + seen.first);
    return;
  }
  const Real* row = s.op.row.value.at(s.r) + 2 * s.row(i);
  const Real shift = along(s.op, a, d_a, s.T);
  if (s.exponential) {
    for (int j = seen.first; j < seen.last; ++j) d_s[j] = d_b[j] = a[j] * (d_a[j] - shift);
    return;
  }
  s.for_tokens(seen, [&](int j, Real bias) {
    const Real product = s.k ? s.scale * dot(s.x.value(i), s.k.value(j), s.K) : Real(0);
    const Score<Real> score = s.kernel(s.op.extra ? product + s.extra(i)[j] : product);
    const Real d_n = (d_a[j] - shift) * row[1];
    d_b[j] = a[j] * (d_a[j] - shift);
    d_s[j] = score.slope == 0 ? 0 : d_n * score.slope * (s.biased ? std::exp(bias - row[0]) : Real(1));
  });
}

}  // namespace

template <class Real>
void forward_cpu(const Exec& exec, const Attend<Real>& op) {
  const int B = op.B(), H = op.H(), Q = op.Q();
  const int blocks = (Q + kRows - 1) / kRows;
  parallel_items(exec, op.R(), static_cast<std::int64_t>(B) * H * blocks, [&](int r, std::int64_t item) {
    const int bh = static_cast<int>(item / blocks), begin = static_cast<int>(item % blocks) * kRows;
    const int end = std::min(Q, begin + kRows);
    const Sequence<Real> s(op, r, bh / H, bh % H);
    int tokens = 0;
    for (int i = begin; i < end; ++i) tokens = std::max(tokens, seen_tokens(op, r, s.b, i).last);
    scores(s, begin, end, tokens);
    std::vector<Real> exponents(s.exponential ? 0 : static_cast<std::size_t>(s.T));
    for (int i = begin; i < end; ++i) weigh(s, i, exponents.data());
  });
}

//   d_b     = a (d_a - a.d_a)
//   d_s     = kappa'(s) e^b (d_a - a.d_a) / (sum + eps)
//   d_x_i   = scale sum_j d_s k_j, and d_k_j likewise
//   d_g_n   = sum of d_b_ij with j < n <= own_i
//   d_slope = - sum of d_b_ij (own_i - j)
//   d_sink  = - sum of a.d_a e^sink / (sum + eps + e^sink),   d_extra = d_s
// Not normalised: without a.d_a and the sum.
template <class Real>
void backward_cpu(const Exec& exec, const Attend<Real>& op) {
  const int B = op.B(), H = op.H(), Q = op.Q(), T = op.T();
  parallel_items(exec, op.R(), static_cast<std::int64_t>(B) * H, [&](int r, std::int64_t bh) {
    const Sequence<Real> s(op, r, static_cast<int>(bh) / H, static_cast<int>(bh) % H);
    for (const auto* f : {&s.x, &s.k, &s.g}) f->clear();
    if (!s.x.gradient && !s.k.gradient && !s.g.gradient && !op.extra.wanted()) return;
    std::vector<Real> d_s(static_cast<std::size_t>(T)), d_b(static_cast<std::size_t>(T));
    for (int i = 0; i < Q; ++i) {
      const SeenTokens seen = seen_tokens(op, r, s.b, i);
      row_gradients(s, i, seen, d_s.data(), d_b.data());
      if (op.extra.wanted()) {
        Real* d_extra = op.extra.gradient.at(r) + s.row(i) * T;
        for (int j = 0; j < T; ++j) {
          const bool is_seen = j >= seen.first && j < seen.last;
          put(op.extra.write, d_extra + j, is_seen ? d_s[static_cast<std::size_t>(j)] : Real(0));
        }
      }
      const Real* x = s.x.value(i);
      for (int j = seen.first; j < seen.last && s.k; ++j) {
        const Real* k = s.k.value(j);
        const Real weight = s.scale * d_s[static_cast<std::size_t>(j)];
        if (s.k.gradient) axpy(weight, x, s.k.gradient(j), s.K);
        if (s.x.gradient) axpy(weight, k, s.x.gradient(i), s.K);
      }
      Real total = 0;
      for (int j = seen.first; j < seen.own && s.g.gradient; ++j) {
        if (j < seen.last) total += d_b[static_cast<std::size_t>(j)];
        *s.g.gradient(j + 1) += total;
      }
    }
  });
  if (!op.slope.wanted() && !op.sink.wanted()) return;
  parallel_items(exec, op.R(), H, [&](int r, std::int64_t h) {
    Real total = 0, sunk = 0;
    for (int bi = 0; bi < B * Q; ++bi) {
      const std::int64_t row = (bi / Q * H + h) * Q + bi % Q;
      const SeenTokens seen = seen_tokens(op, r, bi / Q, bi % Q);
      const Real* a = op.a.value.at(r) + row * T;
      const Real* d_a = op.a.gradient.at(r) + row * T;
      const Real shift = along(op, a, d_a, T);
      Real distances = 0;
      for (int j = seen.first; j < seen.last; ++j)
        distances += a[j] * (d_a[j] - shift) * static_cast<Real>(seen.own - j);
      total += distances;
      if (!op.sink.wanted()) continue;
      const Real* kept = op.row.value.at(r) + 2 * row;
      sunk += shift * kept[1] * std::exp(op.sink.value.at(r)[h] - kept[0]);
    }
    if (op.slope.wanted()) put(op.slope.write, op.slope.gradient.at(r) + h, -total);
    if (op.sink.wanted()) put(op.sink.write, op.sink.gradient.at(r) + h, -sunk);
  });
}

CROSSTALK_INSTANTIATE(cpu, Attend)

}  // namespace crosstalk
