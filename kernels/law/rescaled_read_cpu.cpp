// The rescaled fast weight memory on the CPU, token after token: the specification.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/law/rescaled_read.h"

#include <Eigen/Core>
#include <algorithm>
#include <vector>

#include "kernels/base/parallel.h"

namespace crosstalk {
namespace {

template <class Real>
using Matrix = Eigen::Matrix<Real, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <class Real>
using Vector = Eigen::Matrix<Real, Eigen::Dynamic, 1>;

/// One sequence and head.
template <class Real>
struct Sequence {
  const RescaledRead<Real>& op;
  int r;
  std::int64_t item;  ///< sequence and head
  int T = op.T(), Q = op.Q(), H = op.H(), K = op.K(), V = op.V();

  std::int64_t token(int t) const { return (item / H * T + t) * H + item % H; }
  std::int64_t query(int i) const { return (item / H * Q + i) * H + item % H; }
  int seen_by(int i) const {
    return op.position ? std::clamp<int>(op.position.value.at(r)[item / H * Q + i], 0, T) : i + 1;
  }
  Eigen::Map<Vector<Real>> k(int t) const { return {op.k.value.at(r) + token(t) * K, K}; }
  Eigen::Map<Vector<Real>> v(int t) const { return {op.v.value.at(r) + token(t) * V, V}; }
  Eigen::Map<Vector<Real>> q(int i) const { return {op.q.value.at(r) + query(i) * K, K}; }
  Eigen::Map<Vector<Real>> o(const Tensor<Real>& x, int i) const { return {x.at(r) + query(i) * V, V}; }
  Real beta(int t) const { return op.beta.value.at(r)[token(t)]; }
  /// A state in a tensor [R,B,H,count,V*K].
  Eigen::Map<Matrix<Real>> state(const Tensor<Real>& x, int count = 1, int i = 0) const {
    return {x.at(r) + (item * count + i) * V * K, V, K};
  }
  Eigen::Map<Matrix<Real>> kept(int segment) const {
    return state(op.states.value, rescaled_segments(T), segment);
  }
  Matrix<Real> start() const {
    return op.start ? Matrix<Real>(state(op.start.value)) : Matrix<Real>::Zero(V, K);
  }
};

/// S becomes the state after token t. Returns what it was divided by.
template <class Real>
Real step(const Sequence<Real>& s, int t, Matrix<Real>& S) {
  const Vector<Real> error = s.v(t) - S * s.k(t);
  S.noalias() += s.beta(t) * error * s.k(t).transpose();
  const Real norm = S.norm();
  if ((t == 0 && !s.op.start) || !(norm > 1)) return 1;
  S /= norm;
  return norm;
}

/// Adds to a gradient that clear() has prepared.
template <class Real, class X>
void add(const In<Real>& field, int r, std::int64_t row, const X& x) {
  if (field.wanted()) Eigen::Map<Vector<Real>>(field.gradient.at(r) + row * x.size(), x.size()) += x;
}

/// Gradients of the sequence and head that are to be overwritten become 0: all that follows adds.
template <class Real>
void clear(const Sequence<Real>& s) {
  const auto zero = [&](const In<Real>& field, int width, std::int64_t row) {
    if (field.write == Write::overwrite) std::fill_n(field.gradient.at(s.r) + row * width, width, Real(0));
  };
  for (int i = 0; i < s.Q; ++i) zero(s.op.q, s.K, s.query(i));
  for (int t = 0; t < s.T; ++t) {
    zero(s.op.k, s.K, s.token(t));
    zero(s.op.v, s.V, s.token(t));
    zero(s.op.beta, 1, s.token(t));
  }
  zero(s.op.start, s.V * s.K, s.item);
}

/// o = S q of the queries that see n tokens: adds to G = dL/dS.
template <class Real>
void take_back_reads(const Sequence<Real>& s, int n, const Matrix<Real>& S, Matrix<Real>& G) {
  if (!s.op.o.gradient) return;
  for (int i = 0; i < s.Q; ++i) {
    if (s.seen_by(i) != n) continue;
    const auto d_o = s.o(s.op.o.gradient, i);
    G.noalias() += d_o * s.q(i).transpose();
    add(s.op.q, s.r, s.query(i), Vector<Real>(S.transpose() * d_o));
  }
}

/// G = dL/dS_t becomes dL/dS_{t-1}; S, next and divisor are those of step().
template <class Real>
void take_back_token(const Sequence<Real>& s, int t, const Matrix<Real>& S, const Matrix<Real>& next,
                     Real divisor, Matrix<Real>& G) {
  if (divisor > 1) {  // S_t = S'/|S'|: dS' = (G - S_t <S_t, G>) / |S'|
    const Real along = (G.array() * next.array()).sum();
    G = (G - next * along) / divisor;
  }
  const Real beta = s.beta(t);
  const Vector<Real> error = s.v(t) - S * s.k(t), along_k = G * s.k(t);
  add(s.op.k, s.r, s.token(t), Vector<Real>(beta * (G.transpose() * error - S.transpose() * along_k)));
  add(s.op.v, s.r, s.token(t), Vector<Real>(beta * along_k));
  add(s.op.beta, s.r, s.token(t), Vector<Real>::Constant(1, error.dot(along_k)));
  G.noalias() -= beta * along_k * s.k(t).transpose();
}

}  // namespace

template <class Real>
void forward_cpu(const Exec& exec, const RescaledRead<Real>& op) {
  parallel_items(exec, op.k.value.R, std::int64_t{op.B()} * op.H(), [&](int r, std::int64_t item) {
    const Sequence<Real> s{op, r, item};
    Matrix<Real> S = s.start();
    for (int t = 0; t <= s.T; ++t) {
      for (int i = 0; i < s.Q; ++i) {
        if (s.seen_by(i) == t) s.o(op.o.value, i).noalias() = S * s.q(i);
      }
      if (t == s.T) break;
      if (op.states && t % kRescaledSegment == 0) s.kept(t / kRescaledSegment) = S;
      step(s, t, S);
    }
    if (op.end) s.state(op.end.value) = S;
  });
}

template <class Real>
void backward_cpu(const Exec& exec, const RescaledRead<Real>& op) {
  parallel_items(exec, op.k.value.R, std::int64_t{op.B()} * op.H(), [&](int r, std::int64_t item) {
    const Sequence<Real> s{op, r, item};
    clear(s);
    Matrix<Real> G = Matrix<Real>::Zero(s.V, s.K);  // dL/dS_t
    if (op.end && op.end.gradient) G = s.state(op.end.gradient);
    for (int segment = rescaled_segments(s.T) - 1; segment >= 0; --segment) {
      const int begin = segment * kRescaledSegment, end = std::min(s.T, begin + kRescaledSegment);
      std::vector<Matrix<Real>> states{s.kept(segment)};
      std::vector<Real> divisor;
      for (int t = begin; t < end; ++t) {
        states.push_back(states.back());
        divisor.push_back(step(s, t, states.back()));
      }
      for (int t = end - 1; t >= begin; --t) {
        const auto i = static_cast<std::size_t>(t - begin);
        take_back_reads(s, t + 1, states[i + 1], G);
        take_back_token(s, t, states[i], states[i + 1], divisor[i], G);
      }
    }
    take_back_reads(s, 0, s.start(), G);
    if (op.start.wanted()) s.state(op.start.gradient) += G;
  });
}

CROSSTALK_INSTANTIATE(cpu, RescaledRead)

}  // namespace crosstalk
