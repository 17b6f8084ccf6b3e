// Read weights, query after query.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/base/parallel.h"
#include "kernels/recurrence/read_weights_fields.h"

namespace crosstalk {
namespace {

template <class Real>
void decay(const ReadWeightsFields<Real>& s, int m, Real* r) {
  const Real* g = s.g.value(m / s.N);
  if (s.channels == 1) {
    const Real factor = std::exp(*g);
    for (int j = 0; j < s.K; ++j) r[j] *= factor;
  } else {
    for (int j = 0; j < s.K; ++j) r[j] *= std::exp(g[j]);
  }
}

/// From r after write m to r before it. c = k.r
template <class Real>
void undo(const ReadWeightsFields<Real>& s, int m, Real c, Real* r) {
  Real erased = 0;
  if (s.erases) erased = s.gain(s.e, m) * (s.y_is_k ? c : dot(s.y.value(m), r, s.K));
  if (s.decays(m) && !s.decayed) decay(s, m, r);
  if (s.erases) axpy(-erased, s.x.value(m), r, s.K);
  if (s.decays(m) && s.decayed) decay(s, m, r);
}

}  // namespace

template <class Real>
void forward_cpu(const Exec& exec, const ReadWeights<Real>& op) {
  const int Q = op.Q(), H = op.H(), M = op.M(), K = op.K();
  parallel_items(exec, op.k.value.R, static_cast<std::int64_t>(op.B()) * H * Q, [&](int r, std::int64_t i) {
    const int b = static_cast<int>(i / Q / H), h = static_cast<int>(i / Q % H), q = static_cast<int>(i % Q);
    const ReadWeightsFields<Real> s(op, r, b, h);
    Real* a = op.a.value.at(r) + i * M;
    std::vector<Real> state(s.q.value(q), s.q.value(q) + K);
    const int writes = tokens_seen(op, r, b, q) * op.writes;
    std::fill(a + writes, a + M, Real(0));
    for (int m = writes - 1; m >= 0; --m) {
      const Real c = dot(s.k.value(m), state.data(), K);
      a[m] = s.w ? *s.w.value(m) * c : c;
      undo(s, m, c, state.data());
    }
  });
}

// With rho the adjoint of r before write m and eta that of what the erase left (rho or, decayed, e^g rho):
//   d_x = -e (y.r) eta,  d_y = -e (x.eta) r,  d_e = -(y.r)(x.eta),  d_g = eta (r - e (y.r) x) or, not decayed, e^g rho r
//   adjoint of r after it = e^g rho - e (x.eta) y + w d_a k
template <class Real>
void backward_cpu(const Exec& exec, const ReadWeights<Real>& op) {
  const int Q = op.Q(), H = op.H(), M = op.M(), K = op.K();
  parallel_items(exec, op.k.value.R, static_cast<std::int64_t>(op.B()) * H, [&](int r, std::int64_t bh) {
    const int b = static_cast<int>(bh / H), h = static_cast<int>(bh % H);
    const ReadWeightsFields<Real> s(op, r, b, h);
    for (const auto* f : {&s.q, &s.k, &s.w, &s.g, &s.own_x, &s.own_y, &s.own_e}) f->clear();
    Real* history = op.history.value.at(r) + bh * M * K;
    std::vector<Real> rho(static_cast<std::size_t>(K));
    for (int q = 0; q < Q; ++q) {
      const int writes = tokens_seen(op, r, b, q) * op.writes;
      const Real* d_a = op.a.gradient.at(r) + (bh * Q + q) * M;
      std::copy_n(s.q.value(q), K, rho.data());
      for (int m = writes - 1; m >= 0; --m) {
        std::copy_n(rho.data(), K, history + static_cast<std::int64_t>(m) * K);
        undo(s, m, dot(s.k.value(m), rho.data(), K), rho.data());
      }
      std::fill(rho.begin(), rho.end(), Real(0));
      for (int m = 0; m < writes; ++m) {
        const Real* state = history + static_cast<std::int64_t>(m) * K;
        const Real* k = s.k.value(m);
        const Real c = dot(k, state, K);
        Real d_c = s.w ? *s.w.value(m) * d_a[m] : d_a[m];
        if (s.w.gradient) *s.w.gradient(m) += c * d_a[m];
        const bool decays = s.decays(m);
        if (decays && s.decayed) decay(s, m, rho.data());
        Real read = 0, erased = 0, along = 0, pull = 0;
        if (s.erases) {
          read = s.y_is_k ? c : dot(s.y.value(m), state, K);
          along = dot(s.x.value(m), rho.data(), K);
          const Real e = s.gain(s.e, m);
          erased = e * read, pull = e * along;
          if (s.e.gradient) *s.e.gradient(m) -= read * along;
        }
        if (decays && s.decayed && s.g.gradient) {
          Real* d_g = s.g.gradient(m / s.N);
          if (s.channels == 1) {
            *d_g += dot(rho.data(), state, K) - erased * along;
          } else {
            for (int j = 0; j < K; ++j)
              d_g[j] += rho[static_cast<std::size_t>(j)] *
                        (state[j] - (s.erases ? erased * s.x.value(m)[j] : Real(0)));
          }
        }
        if (s.erases && s.y_is_k) d_c -= pull;
        if (s.k.gradient) axpy(d_c, state, s.k.gradient(m), K);
        if (s.erases && s.x.gradient) axpy(-erased, rho.data(), s.x.gradient(m), K);
        if (s.erases && !s.y_is_k && s.y.gradient) axpy(-pull, state, s.y.gradient(m), K);
        if (decays && !s.decayed) {
          decay(s, m, rho.data());
          if (s.g.gradient && s.channels == 1) *s.g.gradient(m / s.N) += dot(rho.data(), state, K);
          for (int j = 0; j < K && s.g.gradient && s.channels > 1; ++j)
            s.g.gradient(m / s.N)[j] += rho[static_cast<std::size_t>(j)] * state[j];
        }
        if (s.erases && !s.y_is_k) axpy(-pull, s.y.value(m), rho.data(), K);
        axpy(d_c, k, rho.data(), K);
      }
      if (s.q.gradient) axpy(Real(1), rho.data(), s.q.gradient(q), K);
    }
  });
}

CROSSTALK_INSTANTIATE(cpu, ReadWeights)

}  // namespace crosstalk
