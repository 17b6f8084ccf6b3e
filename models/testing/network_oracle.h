// Memories that are networks, trained while they read: the loss of a token alone, differentiated by complex
// steps, f'(x) = Im f(x + ih) / h, exact for an h of 1e-30.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <complex>

#include "models/testing/sequence.h"

namespace crosstalk::checks {

using ComplexVector = std::vector<std::complex<double>>;

/// A network f(theta, x) that follows theta_t = (1 - forget_t) theta_{t-1} + P_t, P_t = momentum_t P_{t-1} -
/// rate_t d/dtheta |f(theta, k_t) - v_t|^2 / 2 at theta of the mini-batch's start. Reads f(theta_t, q_t).
template <class F>
Matrix trained_reads(const Sequence& s, Vector theta, Vector P, const F& f) {
  Matrix o;
  Vector at_start = theta;
  P.resize(theta.size(), 0);
  for (int t = 0; t < s.T; ++t) {
    if (t % s.integer("mini_batch", 1) == 0) at_start = theta;
    const double rate = s.number("rate", t),
                 momentum = s.has("momentum_gate") ? s.number("momentum_gate", t) : 0,
                 forget = s.has("forget_gate") ? s.number("forget_gate", t) : 0;
    ComplexVector moved(at_start.begin(), at_start.end());
    for (std::size_t i = 0; i < theta.size(); ++i) {
      moved[i] += std::complex<double>(0, 1e-30);
      const ComplexVector y = f(moved, ComplexVector(s.key(t).begin(), s.key(t).end()));
      std::complex<double> loss = 0;
      for (std::size_t a = 0; a < y.size(); ++a)
        loss += 0.5 * (y[a] - s.value(t)[a]) * (y[a] - s.value(t)[a]);
      moved[i] = at_start[i];
      P[i] = momentum * P[i] - rate * loss.imag() / 1e-30;
      theta[i] = (1 - forget) * theta[i] + P[i];
    }
    const Vector q = s.query(t);
    Vector row;
    for (const auto& e : f(ComplexVector(theta.begin(), theta.end()), ComplexVector(q.begin(), q.end())))
      row.push_back(e.real());
    o.push_back(row);
  }
  return o;
}

/// Rows of A x, A [rows, size of x] from theta[at] on.
inline ComplexVector product(const ComplexVector& theta, std::size_t at, int rows, const ComplexVector& x) {
  ComplexVector y(static_cast<std::size_t>(rows), 0);
  for (auto& e : y) {
    for (const auto& a : x) e += theta[at++] * a;
  }
  return y;
}
inline ComplexVector gelu_by_tanh(ComplexVector x) {
  for (auto& e : x)
    e = 0.5 * e * (1.0 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (e + 0.044715 * e * e * e)));
  return x;
}
/// x + LayerNorm(z) * gain + bias, x cut or filled with zeros; x counts where the option `residual` says so.
inline ComplexVector ttt_output(const Sequence& s, ComplexVector z, const ComplexVector& x) {
  std::complex<double> mean = 0, variance = 0;
  const auto V = static_cast<double>(z.size());
  for (const auto& e : z) mean += e / V;
  for (const auto& e : z) variance += (e - mean) * (e - mean) / V;
  for (std::size_t a = 0; a < z.size(); ++a) {
    z[a] = (z[a] - mean) / std::sqrt(variance + 1e-6) * s.row("gain", 0)[a] + s.row("bias", 0)[a];
    if (s.flag("residual") && a < x.size()) z[a] += x[a];
  }
  return z;
}
/// a, then b.
inline Vector joined(Vector a, const Vector& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace crosstalk::checks
