// SPDX-License-Identifier: Apache-2.0
#include "kernels/recurrence/recurrence.h"

#include <vector>

#include "kernels/base/parallel.h"

namespace crosstalk {
namespace {

// Coefficients of sequence b: pointers, or null where the coefficient is constant.
template <class Real>
struct Coefficients {
  const Real *write, *erase, *decay;
  Coefficients(const Tensor<Real>& w, const Tensor<Real>& e, const Tensor<Real>& d, int r,
               std::int64_t offset)
      : write(w ? w.at(r) + offset : nullptr),
        erase(e ? e.at(r) + offset : nullptr),
        decay(d ? d.at(r) + offset : nullptr) {}
};

// One query over one sequence, backwards in time. history (or null) keeps r_t in row t, products (or null)
// c_t.
template <class Real>
void scan(const Real* k, const Coefficients<Real>& coefficient, Real* r, Real* history, Real* products,
          Real* a, int seen, int T, int P) {
  for (int t = seen; t < T && a; ++t) a[t] = 0;
  for (int t = seen - 1; t >= 0; --t) {
    const Real* key = k + static_cast<std::int64_t>(t) * P;
    if (history) std::copy_n(r, P, history + static_cast<std::int64_t>(t) * P);
    const Real c = dot(key, r, P);
    if (products) products[t] = c;
    if (a) a[t] = coefficient.write ? coefficient.write[t] * c : c;
    if (coefficient.decay) {
      for (int i = 0; i < P; ++i) r[i] *= coefficient.decay[t];
    }
    if (coefficient.erase) axpy(-coefficient.erase[t] * c, key, r, P);
  }
}

}  // namespace

template <class Real>
void forward_cpu(const Exec& exec, const RecurrentRead<Real>& a) {
  const int B = a.k.value.dim(0), T = a.k.value.dim(1), P = a.k.value.dim(2), Q = a.q.value.dim(1);
  parallel_items(exec, a.k.value.R, B, [&](int r, std::int64_t b) {
    const Real* k = a.k.value.at(r) + b * T * P;
    const Coefficients<Real> coefficient(a.write.value, a.erase.value, a.decay.value, r, b * T);
    Real* history = Q == 1 && a.history.value ? a.history.value.at(r) + b * T * P : nullptr;
    std::vector<Real> state(static_cast<std::size_t>(P));
    for (int i = 0; i < Q; ++i) {
      std::copy_n(a.q.value.at(r) + (b * Q + i) * P, P, state.data());
      Real* trail = a.trail.value ? a.trail.value.at(r) + b * a.trail.value.columns() : nullptr;
      scan(k, coefficient, state.data(), history, trail ? trail + P : nullptr,
           a.a.value.at(r) + (b * Q + i) * T, a.position.value.at(r)[b * Q + i], T, P);
      if (trail) std::copy_n(state.data(), P, trail);
    }
  });
}

template <class Real>
void backward_cpu(const Exec& exec, const RecurrentRead<Real>& a) {
  const int B = a.k.value.dim(0), T = a.k.value.dim(1), P = a.k.value.dim(2), Q = a.q.value.dim(1);
  const auto clear = [](Write mode, Real* target, std::int64_t n) {
    if (mode == Write::overwrite) std::fill_n(target, n, Real(0));
  };
  parallel_items(exec, a.k.value.R, B, [&](int r, std::int64_t b) {
    const Real* k = a.k.value.at(r) + b * T * P;
    const Coefficients<Real> coefficient(a.write.value, a.erase.value, a.decay.value, r, b * T);
    Real* history = a.history.value ? a.history.value.at(r) + b * T * P : nullptr;
    Real* d_k = a.k.write == Write::none ? nullptr : a.k.gradient.at(r) + b * T * P;
    Real* d_write = a.write.write == Write::none ? nullptr : a.write.gradient.at(r) + b * T;
    Real* d_erase = a.erase.write == Write::none ? nullptr : a.erase.gradient.at(r) + b * T;
    Real* d_decay = a.decay.write == Write::none ? nullptr : a.decay.gradient.at(r) + b * T;
    if (d_k) clear(a.k.write, d_k, static_cast<std::int64_t>(T) * P);
    if (d_write) clear(a.write.write, d_write, T);
    if (d_erase) clear(a.erase.write, d_erase, T);
    if (d_decay) clear(a.decay.write, d_decay, T);
    std::vector<Real> rho(static_cast<std::size_t>(P));
    for (int i = 0; i < Q; ++i) {
      const int seen = a.position.value.at(r)[b * Q + i];
      if (Q > 1) {  // the history of one query does not fit beside all others: scan again
        std::copy_n(a.q.value.at(r) + (b * Q + i) * P, P, rho.data());
        scan(k, coefficient, rho.data(), history, static_cast<Real*>(nullptr), static_cast<Real*>(nullptr),
             seen, T, P);
      }
      const Real* trail = a.trail.value ? a.trail.value.at(r) + b * a.trail.value.columns() : nullptr;
      std::vector<Real> now(trail, trail ? trail + P : trail);  // r_t, made again
      std::fill(rho.begin(), rho.end(), Real(0));
      for (int t = 0; t < seen; ++t) {
        const Real* key = k + static_cast<std::int64_t>(t) * P;
        const Real erase = coefficient.erase ? coefficient.erase[t] : Real(0);
        if (trail) axpy(erase * trail[P + t], key, now.data(), P);
        const Real* state = trail ? now.data() : history + static_cast<std::int64_t>(t) * P;
        const Real c = trail ? trail[P + t] : dot(key, state, P), key_rho = dot(key, rho.data(), P);
        const Real d_a = a.a.gradient.at(r)[(b * Q + i) * T + t];
        const Real d_c = (coefficient.write ? coefficient.write[t] * d_a : d_a) - erase * key_rho;
        if (d_write) d_write[t] += c * d_a;
        if (d_erase) d_erase[t] -= c * key_rho;
        if (d_decay) d_decay[t] += dot(state, rho.data(), P);
        if (d_k) {
          Real* target = d_k + static_cast<std::int64_t>(t) * P;
          axpy(d_c, state, target, P);
          if (coefficient.erase) axpy(-erase * c, rho.data(), target, P);
        }
        if (coefficient.decay) {
          for (Real& x : rho) x *= coefficient.decay[t];
        }
        axpy(d_c, key, rho.data(), P);
      }
      if (a.q.write != Write::none) {
        Real* d_q = a.q.gradient.at(r) + (b * Q + i) * P;
        for (int j = 0; j < P; ++j) put(a.q.write, d_q + j, rho[static_cast<std::size_t>(j)]);
      }
    }
  });
}

CROSSTALK_INSTANTIATE(cpu, RecurrentRead)

}  // namespace crosstalk
