// The kernel of one score, for Attend's two versions: N = factor e^exponent, dN/ds = slope e^exponent.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>

#include "kernels/attention/attend.h"

namespace crosstalk {

template <class Real>
struct Score {
  Real factor, exponent, slope;
};

/// The parameters of a kernel, in the precision of the scores.
template <class Real>
struct ScoreKernel {
  Kernel kernel;
  int order;
  Real offset, unit;  ///< unit: 10^digits

  CT_HD explicit ScoreKernel(const Attend<Real>& op)
      : kernel(op.kernel), order(op.order), offset(static_cast<Real>(op.offset)), unit(1) {
    for (int i = 0; i < op.digits; ++i) unit *= 10;
  }

  /// s: the scaled product, and what is added to it.
  CT_HD Score<Real> operator()(Real s) const {
    switch (kernel) {
      case Kernel::identity:
        return {s, 0, 1};
      case Kernel::exp:
        return {1, s + offset, 1};
      case Kernel::relu:
        return {s > 0 ? s : Real(0), 0, s > 0 ? Real(1) : Real(0)};
      case Kernel::relu2:
        return {s > 0 ? s * s : Real(0), 0, s > 0 ? 2 * s : Real(0)};
      case Kernel::round:
        return {rint(s * unit) / unit, 0, 1};
      case Kernel::taylor: {
        Real term = 1, total = 1,
             before = 0;  // before: the sum without its last term, which is the derivative
        for (int m = 1; m <= order; ++m) {
          before = total;
          term *= s / static_cast<Real>(m);
          total += term;
        }
        return {total, 0, before};
      }
      case Kernel::power: {
        const Real base = 1 + s / static_cast<Real>(order);
        Real below = 1;  // base^(order - 1)
        for (int m = 1; m < order; ++m) below *= base;
        return {below * base, 0, below};
      }
    }
    return {0, 0, 0};
  }

 private:
  CT_HD static float rint(float x) { return ::rintf(x); }
  CT_HD static double rint(double x) { return ::rint(x); }
};

/// Tokens [first, last) that a query at token `own` sees (-1: it sees nothing). Op: Attend, AttendMix.
struct SeenTokens {
  int first, last, own;
};
CT_HD SeenTokens seen_tokens(const auto& op, int r, int b, int i) {
  const int T = op.T();
  int p = op.before ? i : i + 1;
  if (op.position) p = op.position.value.at(r)[static_cast<std::int64_t>(b) * op.Q() + i];
  p = p < 0 ? 0 : p > T ? T : p;
  const int first = op.window > 0 && p > op.window ? p - op.window : 0;
  const int last = op.strict && p > 0 ? p - 1 : p;
  return {first < last ? first : last, last, p - 1};
}

}  // namespace crosstalk
