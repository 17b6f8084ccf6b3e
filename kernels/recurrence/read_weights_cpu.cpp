// Read weights, query after query.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "kernels/base/parallel.h"
#include "kernels/recurrence/read_weights_fields.h"

namespace crosstalk {
namespace {

template <class Real>
void decay(const ReadWeightsFields<Real>& s, int m, Real* r) {
  if (s.channels == 1) {
    const Real factor = s.factor(m, 0);
    for (int j = 0; j < s.K; ++j) r[j] *= factor;
  } else {
    for (int j = 0; j < s.K; ++j) r[j] *= s.factor(m, j);
  }
}

/// Takes r after write m to r before it. c = k.r
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
    Real* kept = op.kept ? op.kept.value.at(r) + i * op.kept_numbers() : nullptr;  // Q = 1
    Real *states = op.by_trail() ? nullptr : kept, *trail = op.by_trail() ? kept : nullptr;
    std::vector<Real> state(s.q.value(q), s.q.value(q) + K);
    const int writes = tokens_seen(op, r, b, q) * op.writes;
    std::fill(a + writes, a + M, Real(0));
    for (int m = writes - 1; m >= 0; --m) {
      if (states) std::copy_n(state.data(), K, states + static_cast<std::int64_t>(m) * K);
      const Real c = dot(s.k.value(m), state.data(), K);
      if (trail) trail[K + m] = c;
      a[m] = s.w ? *s.w.value(m) * c : c;
      undo(s, m, c, state.data());
    }
    if (trail) std::copy_n(state.data(), K, trail);
  });
}

namespace {

/// Backward of one query where a trail was kept: no decay and y = k, so that r_t = r_{t-1} + e_t c_t x_t.
template <class Real>
void backward_by_trail(const ReadWeightsFields<Real>& s, int writes, const Real* d_a, const Real* c, Real* r,
                       Real* rho) {
  for (int m = 0; m < writes; ++m) {
    const Real *k = s.k.value(m), *x = s.x.value(m);
    const Real e = s.erases ? s.gain(s.e, m) : Real(0), along = s.erases ? dot(x, rho, s.K) : Real(0);
    const Real d_c = (s.w ? *s.w.value(m) * d_a[m] : d_a[m]) - e * along, step = e * c[m];
    if (s.w.gradient) *s.w.gradient(m) += c[m] * d_a[m];
    if (s.e.gradient) *s.e.gradient(m) -= c[m] * along;
    if (s.x_is_k && s.k.gradient) {
      Real* d_k = s.k.gradient(m);
      for (int j = 0; j < s.K; ++j) {
        r[j] += step * k[j];
        const Real of_read = d_k[j] + d_c * r[j];
        d_k[j] = of_read - step * rho[j];
        rho[j] += d_c * k[j];
      }
      continue;
    }
    axpy(step, x, r, s.K);
    if (s.k.gradient) axpy(d_c, r, s.k.gradient(m), s.K);
    if (s.x.gradient) axpy(-step, rho, s.x.gradient(m), s.K);
    axpy(d_c, k, rho, s.K);
  }
}

}  // namespace

// With rho the adjoint of r before write m and eta that of what the erase left (rho or, decayed, e^g rho):
//   d_x = -e (y.r) eta,  d_y = -e (x.eta) r,  d_e = -(y.r)(x.eta),  d_w = c d_a
//   d_g = e^g rho (r - e (y.r) x) or, not decayed, e^g rho r;  of e^g itself: without e^g
//   adjoint of r after it = e^g rho - e (x.eta) y + w d_a k
template <class Real>
void backward_cpu(const Exec& exec, const ReadWeights<Real>& op) {
  const int Q = op.Q(), H = op.H(), M = op.M(), K = op.K();
  parallel_items(exec, op.k.value.R, static_cast<std::int64_t>(op.B()) * H, [&](int r, std::int64_t bh) {
    const int b = static_cast<int>(bh / H), h = static_cast<int>(bh % H);
    const ReadWeightsFields<Real> s(op, r, b, h);
    for (const auto* f : {&s.k, &s.w, &s.g, &s.own_x, &s.own_y, &s.own_e, &s.q}) f->clear();
    Real* kept = op.kept ? op.kept.value.at(r) + bh * op.kept_numbers() : nullptr;
    std::vector<Real> rho(static_cast<std::size_t>(K));
    if (op.by_trail()) {
      std::vector<Real> state(kept, kept + K);
      backward_by_trail(s, tokens_seen(op, r, b, 0) * op.writes, op.a.gradient.at(r) + bh * M, kept + K,
                        state.data(), rho.data());
      if (s.q.gradient) axpy(Real(1), rho.data(), s.q.gradient(0), K);
      return;
    }
    Real* states = kept ? kept : op.history.value.at(r) + bh * M * K;
    for (int q = 0; q < Q; ++q) {
      const int writes = tokens_seen(op, r, b, q) * op.writes;
      const Real* d_a = op.a.gradient.at(r) + (bh * Q + q) * M;
      std::copy_n(s.q.value(q), K, rho.data());
      for (int m = writes - 1; m >= 0 && !kept; --m) {
        std::copy_n(rho.data(), K, states + static_cast<std::int64_t>(m) * K);
        undo(s, m, dot(s.k.value(m), rho.data(), K), rho.data());
      }
      std::fill(rho.begin(), rho.end(), Real(0));
      for (int m = 0; m < writes; ++m) {
        const Real *k = s.k.value(m), e = s.erases ? s.gain(s.e, m) : Real(0);
        const Real* state = states + static_cast<std::int64_t>(m) * K;
        const Real c = dot(k, state, K);
        Real d_c = s.w ? *s.w.value(m) * d_a[m] : d_a[m];
        if (s.w.gradient) *s.w.gradient(m) += c * d_a[m];
        const bool decays = s.decays(m), scalar = decays && s.channels == 1;
        const Real factor = scalar ? s.factor(m, 0) : Real(1);
        if (decays && s.decayed && !scalar) decay(s, m, rho.data());
        Real erased = 0, pull = 0, along = 0;
        if (s.erases) {
          const Real read = s.y_is_k ? c : dot(s.y.value(m), state, K);
          along = dot(s.x.value(m), rho.data(), K);
          const Real of_eta = s.decayed ? factor * along : along;
          erased = e * read, pull = e * of_eta;
          if (s.e.gradient) *s.e.gradient(m) -= read * of_eta;
        }
        if (scalar && s.g.gradient) {
          const Real of_factor = dot(rho.data(), state, K) - (s.decayed ? erased * along : Real(0));
          *s.g.gradient(m / s.N) += s.factors ? of_factor : factor * of_factor;
        } else if (decays && s.decayed && s.g.gradient) {
          for (int j = 0; j < K; ++j)
            s.g.gradient(m / s.N)[j] += rho[static_cast<std::size_t>(j)] *
                                        (state[j] - (s.erases ? erased * s.x.value(m)[j] : Real(0)));
        }
        if (scalar && s.decayed) decay(s, m, rho.data());
        if (s.erases && s.y_is_k) d_c -= pull;
        if (s.k.gradient) axpy(d_c, state, s.k.gradient(m), K);
        if (s.erases && s.x.gradient) axpy(-erased, rho.data(), s.x.gradient(m), K);
        if (s.erases && !s.y_is_k && s.y.gradient) axpy(-pull, state, s.y.gradient(m), K);
        if (decays && !s.decayed) {
          decay(s, m, rho.data());
          for (int j = 0; j < K && s.g.gradient && !scalar; ++j)
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
