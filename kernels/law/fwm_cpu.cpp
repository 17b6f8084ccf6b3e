// SPDX-License-Identifier: Apache-2.0
#include "kernels/law/fwm.h"

#include <Eigen/Core>
#include <cmath>
#include <vector>

#include "kernels/base/batch.h"
#include "kernels/base/parallel.h"

namespace crosstalk {
namespace {

// One step from `state` [V,P] to `next` (may be the same array); `error` [V] gets v - S k. Returns the
// divisor.
template <class Real>
Real step(const Real* state, Real* next, Real* error, const Real* k, Real beta, int value, int t, int V,
          int P) {
  Real squares = 0;
  for (int v = 0; v < V; ++v) {
    const Real* row = state + static_cast<std::int64_t>(v) * P;
    Real* out = next + static_cast<std::int64_t>(v) * P;
    error[v] = (v == value ? Real(1) : Real(0)) - dot(row, k, P);
    const Real write = beta * error[v];
    for (int i = 0; i < P; ++i) out[i] = row[i] + write * k[i];
    squares += dot(out, out, P);
  }
  const Real norm = std::sqrt(squares);
  if (t == 0 || !(norm > 1)) return 1;  // the first step is not rescaled
  const Real inverse = 1 / norm;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(V) * P; ++i) next[i] *= inverse;
  return norm;
}

}  // namespace

template <class Real>
void forward_cpu(const Exec& exec, const FwmRead<Real>& a) {
  const int B = a.k.value.dim(0), T = a.k.value.dim(1), P = a.k.value.dim(2), Q = a.q.value.dim(1),
            V = a.y.value.columns(), C = a.tokens.value.columns();
  const int segments = fwm_segments(T);
  const std::int64_t size = static_cast<std::int64_t>(V) * P;
  parallel_items(exec, a.k.value.R, B, [&](int r, std::int64_t b) {
    std::vector<Real> state(static_cast<std::size_t>(size)), error(static_cast<std::size_t>(V));
    for (int t = 0; t <= T; ++t) {
      for (int i = 0; i < Q; ++i) {
        if (a.position.value.at(r)[b * Q + i] != t) continue;
        const Real* q = a.q.value.at(r) + (b * Q + i) * P;
        for (int v = 0; v < V; ++v)
          a.y.value.at(r)[(b * Q + i) * V + v] = dot(state.data() + static_cast<std::int64_t>(v) * P, q, P);
      }
      if (t == T) break;
      if (t % kFwmSegment == 0)
        std::copy_n(state.data(), size, a.checkpoints.value.at(r) + (b * segments + t / kFwmSegment) * size);
      step(state.data(), state.data(), error.data(), a.k.value.at(r) + (b * T + t) * P,
           a.beta.value.at(r)[b * T + t], a.tokens.value.at(r)[(b * T + t) * C + channel_value], t, V, P);
    }
  });
}

template <class Real>
void backward_cpu(const Exec& exec, const FwmRead<Real>& a) {
  const int B = a.k.value.dim(0), T = a.k.value.dim(1), P = a.k.value.dim(2), Q = a.q.value.dim(1),
            V = a.y.gradient.columns(), C = a.tokens.value.columns();
  const int segments = fwm_segments(T);
  const std::int64_t size = static_cast<std::int64_t>(V) * P;
  using Matrix = Eigen::Matrix<Real, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  using Vector = Eigen::Matrix<Real, Eigen::Dynamic, 1>;
  parallel_items(exec, a.k.value.R, B, [&](int r, std::int64_t b) {
    // The states before each step of a segment, and after.
    std::vector<Real> memory(static_cast<std::size_t>((std::min(T, kFwmSegment) + 1) * size));
    Real* states = memory.data();
    Matrix G = Matrix::Zero(V, P);  // dL/dS_t
    Vector d_k(P), error(V), g_k(V);
    for (int s = segments - 1; s >= 0; --s) {
      const int begin = s * kFwmSegment, end = std::min(T, begin + kFwmSegment);
      std::copy_n(a.checkpoints.value.at(r) + (b * segments + s) * size, size, states);
      std::vector<Real> divisor(static_cast<std::size_t>(end - begin));
      for (int t = begin; t < end; ++t) {
        divisor[static_cast<std::size_t>(t - begin)] =
            step(states + (t - begin) * size, states + (t - begin + 1) * size, error.data(),
                 a.k.value.at(r) + (b * T + t) * P, a.beta.value.at(r)[b * T + t],
                 a.tokens.value.at(r)[(b * T + t) * C + channel_value], t, V, P);
      }
      for (int t = end - 1; t >= begin; --t) {
        const Eigen::Map<const Matrix> S(states + (t - begin) * size, V, P),
            next(states + (t - begin + 1) * size, V, P);
        for (int i = 0; i < Q; ++i) {  // reads after step t: y = S_t q
          if (a.position.value.at(r)[b * Q + i] != t + 1) continue;
          const Eigen::Map<const Vector> d_y(a.y.gradient.at(r) + (b * Q + i) * V, V),
              q(a.q.value.at(r) + (b * Q + i) * P, P);
          G.noalias() += d_y * q.transpose();
          if (a.q.write == Write::none) continue;
          const Vector d_q = next.transpose() * d_y;
          for (int j = 0; j < P; ++j) put(a.q.write, a.q.gradient.at(r) + (b * Q + i) * P + j, d_q(j));
        }
        const Real n = divisor[static_cast<std::size_t>(t - begin)];
        if (n > 1) {  // S_t = S'/|S'|: dS' = (G - S_t <S_t, G>) / |S'|
          const Real along = (G.array() * next.array()).sum();
          G = (G - next * along) / n;
        }
        const Eigen::Map<const Vector> k(a.k.value.at(r) + (b * T + t) * P, P);
        const Real beta = a.beta.value.at(r)[b * T + t];
        const int value = a.tokens.value.at(r)[(b * T + t) * C + channel_value];
        error.noalias() = -(S * k);
        if (value >= 0) error(value) += 1;
        g_k.noalias() = G * k;
        d_k.noalias() = beta * (G.transpose() * error) - beta * (S.transpose() * g_k);
        if (a.beta.write != Write::none) put(a.beta.write, a.beta.gradient.at(r) + b * T + t, error.dot(g_k));
        if (a.k.write != Write::none) {
          for (int j = 0; j < P; ++j) put(a.k.write, a.k.gradient.at(r) + (b * T + t) * P + j, d_k(j));
        }
        G.noalias() -= (beta * g_k) * k.transpose();
      }
    }
    for (int i = 0; i < Q && a.q.write == Write::overwrite; ++i) {  // a query that sees nothing
      if (a.position.value.at(r)[b * Q + i] == 0)
        std::fill_n(a.q.gradient.at(r) + (b * Q + i) * P, P, Real(0));
    }
  });
}

CROSSTALK_INSTANTIATE(cpu, FwmRead)

}  // namespace crosstalk
