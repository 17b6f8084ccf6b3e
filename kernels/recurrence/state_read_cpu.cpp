// The recurrence engine on the CPU, token after token: the specification.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/recurrence/state_sequence.h"

namespace crosstalk {
namespace {
using state::Column;
using state::Matrix;
using state::Sequence;
using state::SequenceGradients;

/// e^{g_t} of one token, a number a key channel.
template <class Real>
Eigen::Matrix<Real, 1, Eigen::Dynamic> decay(const Sequence<Real>& s, int t) {
  Eigen::Matrix<Real, 1, Eigen::Dynamic> factor(s.K);
  for (int c = 0; c < s.K; ++c) factor(c) = c < s.g.cols() ? std::exp(s.g(t, c)) : factor(0);
  return factor;
}

/// S_{t-1} becomes S_t. Calls see(m, p) before write m, where S is what the write adds to and p = S'' x_m.
template <class Real, class See>
void take_token(const Sequence<Real>& s, int t, Matrix<Real>& S, Column<Real>& p, See&& see) {
  for (int n = 0; n < s.N; ++n) {
    const int m = t * s.N + n;
    const bool first = n == 0;
    if (s.erases() && first && !s.op.decayed) p.noalias() = S * s.x.row(m).transpose();
    if (first && s.g.rows()) S.array().rowwise() *= decay(s, t).array();
    if (s.erases() && !(first && !s.op.decayed)) p.noalias() = S * s.x.row(m).transpose();
    see(m, p);
    if (s.tied()) {
      S.noalias() += (s.write_gain(m) * s.v.row(m).transpose() - s.erase_gain(m) * p) * s.k.row(m);
    } else {
      S.noalias() += s.write_gain(m) * s.v.row(m).transpose() * s.k.row(m);
      if (s.erases()) S.noalias() -= s.erase_gain(m) * p * s.y.row(m);
    }
  }
}

template <class Real>
void recurrent_forward(const Sequence<Real>& s) {
  Matrix<Real> S = s.start();
  Column<Real> p(s.V);
  auto next = s.order.begin();
  for (int t = 0; t <= s.T; ++t) {
    for (; next != s.order.end() && s.seen_by(*next) == t; ++next)
      s.o(*next).noalias() = S * s.q.row(*next).transpose();
    if (t == s.T) break;
    if (t * s.N % s.op.chunk() == 0) s.save(t * s.N / s.op.chunk(), S);
    take_token(s, t, S, p, [](int, const Column<Real>&) {});
  }
  s.put_end(S);
}

/// The states of one chunk of tokens, walked anew in memory that serves chunk after chunk.
template <class Real>
struct Walked {
  int first = 0, count = 0;          ///< tokens
  std::vector<Matrix<Real>> tokens;  ///< before each token, and after the last
  std::vector<Matrix<Real>> writes;  ///< that each write adds to
  std::vector<Column<Real>> bound;   ///< S'' x of each write

  explicit Walked(const Sequence<Real>& s)
      : tokens(static_cast<std::size_t>(s.op.chunk() / s.N + 1)),
        writes(static_cast<std::size_t>(s.op.chunk())),
        bound(static_cast<std::size_t>(s.op.chunk())) {}

  void walk(const Sequence<Real>& s, int chunk) {
    first = chunk * s.op.chunk() / s.N;
    count = std::min(s.op.chunk() / s.N, s.T - first);
    Matrix<Real> S = s.saved(chunk);
    Column<Real> p(s.V);
    for (int t = 0; t < count; ++t) {
      tokens[static_cast<std::size_t>(t)] = S;
      take_token(s, first + t, S, p, [&](int m, const Column<Real>& bound_now) {
        const auto i = static_cast<std::size_t>(m - first * s.N);
        writes[i] = S;
        bound[i] = bound_now;
      });
    }
    tokens[static_cast<std::size_t>(count)] = S;
  }
};

/// The adjoint of take_token: G = dL/dS_t becomes dL/dS_{t-1}.
template <class Real>
void take_back_token(const Sequence<Real>& s, int t, const Walked<Real>& walked, Matrix<Real>& G,
                     SequenceGradients<Real>& d) {
  const auto begin = static_cast<std::size_t>((t - walked.first) * s.N);
  const Matrix<Real>& old = walked.tokens[static_cast<std::size_t>(t - walked.first)];
  Column<Real> G_k(s.V), d_p(s.V);
  for (int n = s.N - 1; n >= 0; --n) {
    const int m = t * s.N + n;
    const auto i = begin + static_cast<std::size_t>(n);
    const Real gain = s.write_gain(m), erase = s.erase_gain(m);
    const auto v = s.v.row(m).transpose();
    G_k.noalias() = G * s.k.row(m).transpose();
    d.v.row(m) = gain * G_k.transpose();
    d.w(m) = G_k.dot(v);
    if (!s.erases()) {
      d.k.row(m).noalias() = gain * v.transpose() * G;
      continue;
    }
    const Column<Real>& p = walked.bound[i];
    if (s.tied()) {
      d.k.row(m).noalias() = (gain * v - erase * p).transpose() * G;
      d.e(m) = -G_k.dot(p);
      d_p = -erase * G_k;
    } else {
      d.k.row(m).noalias() = gain * v.transpose() * G;
      d.y.row(m).noalias() = -erase * p.transpose() * G;
      d_p.noalias() = G * s.y.row(m).transpose();
      d.e(m) = -d_p.dot(p);
      d_p *= -erase;
    }
    const bool undecayed = n == 0 && !s.op.decayed;
    d.x.row(m).noalias() = d_p.transpose() * (undecayed ? old : walked.writes[i]);
    if (!undecayed) G.noalias() += d_p * s.x.row(m);
  }
  if (s.g.rows()) {  // S' = S_{t-1} Diag(e^g), hence dg is what G and S' have in common: no difference
    const auto both = (G.array() * walked.writes[begin].array()).colwise().sum().eval();
    if (s.g.cols() == 1) {
      d.g(t, 0) = both.sum();
    } else {
      d.g.row(t) = both;
    }
    G.array().rowwise() *= decay(s, t).array();
  }
  if (s.erases() && !s.op.decayed) G.noalias() += d_p * s.x.row(t * s.N);
}

template <class Real>
void recurrent_backward(const Sequence<Real>& s, SequenceGradients<Real>& d) {
  Matrix<Real> G = s.end_gradient();
  auto next = s.order.rbegin();
  const auto take_back_reads = [&](int t, const Matrix<Real>& S) {
    for (; next != s.order.rend() && s.seen_by(*next) == t; ++next) {
      if (!s.read_back()) continue;
      d.q.row(*next).noalias() = s.d_o(*next).transpose() * S;
      G.noalias() += s.d_o(*next) * s.q.row(*next);
    }
  };
  Walked<Real> walked(s);
  for (int c = s.op.chunks() - 1; c >= 0; --c) {
    walked.walk(s, c);
    for (int t = walked.count - 1; t >= 0; --t) {
      take_back_reads(walked.first + t + 1, walked.tokens[static_cast<std::size_t>(t + 1)]);
      take_back_token(s, walked.first + t, walked, G, d);
    }
  }
  take_back_reads(0, s.start());
  d.start = G;
}

}  // namespace

template <class Real>
void forward_cpu(const Exec& exec, const StateRead<Real>& op) {
  parallel_items(exec, op.k.value.R, op.B() * op.H(), [&](int r, std::int64_t item) {
    const Sequence<Real> s(op, r, item);
    if (op.form == StateForm::chunkwise) {
      state::chunk_forward(s);
    } else {
      recurrent_forward(s);
    }
  });
}

template <class Real>
void backward_cpu(const Exec& exec, const StateRead<Real>& op) {
  parallel_items(exec, op.k.value.R, op.B() * op.H(), [&](int r, std::int64_t item) {
    const Sequence<Real> s(op, r, item);
    SequenceGradients<Real> d(s);
    if (op.form == StateForm::chunkwise) {
      state::chunk_backward(s, d);
    } else {
      recurrent_backward(s, d);
    }
    d.store(s);
  });
}

CROSSTALK_INSTANTIATE(cpu, StateRead)

}  // namespace crosstalk
