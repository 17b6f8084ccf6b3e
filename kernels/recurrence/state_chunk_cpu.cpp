// The recurrence engine on the CPU in chunks of tokens: products of matrices within a chunk, the state from
// chunk to chunk.
//
// H = S^T enters a chunk of C writes. Rows faded to the chunk's start (Qh, Ah), columns to its end (Kt, Bt):
//   no erase:  U = V
//   tied:      (I + A_ak) U = V - Ah H                     U: what is really written
//   free:      (I + A_ab) P = A_ak V + Ah H                P: what is taken out along y
//   O = A_qk U + Qh H            H' = e^G H + Kt^T U       (free: U = V, and - A_qb P, - Bt^T P)
// where V = w v, a = e x.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/recurrence/state_scores.h"

namespace crosstalk::state {
namespace {

/// Row i times factor row `first + i`.
template <class Real>
Matrix<Real> faded(Matrix<Real> x, const Matrix<Real>& factors) {
  for (Eigen::Index i = 0; i < x.rows(); ++i) fade(x.row(i), factors.row(i));
  return x;
}

template <class Real>
class Chunk {
 public:
  Chunk(const Sequence<Real>& s, int c)
      : s_(s),
        precision_(s.op.products),
        index_(c),
        begin_(c * s.op.chunk()),
        C_(std::min(s.op.chunk(), s.M - begin_)),
        g_(gates()),
        scores_(precision_, g_) {
    const int gate_columns = static_cast<int>(g_.cols());
    from_start_ = Matrix<Real>::Zero(C_ + 1, gate_columns);
    to_end_ = Matrix<Real>::Zero(C_, gate_columns);
    for (int l = 0; l < C_; ++l) from_start_.row(l + 1) = from_start_.row(l) + g_.row(l);
    for (int j = C_ - 2; j >= 0; --j) to_end_.row(j) = to_end_.row(j + 1) + g_.row(j + 1);
    exponentiate(from_start_);
    exponentiate(to_end_);
    whole_ = from_start_.row(C_);

    const int first_token = begin_ / s.N, last_token = (begin_ + C_) / s.N;
    for (int j : s.order) {
      const int n = s.seen_by(j);
      if ((n > first_token || (c == 0 && n == 0)) && n <= last_token) queries_.push_back(j);
    }
    q_.x.resize(static_cast<Eigen::Index>(queries_.size()), s.K);
    for (std::size_t i = 0; i < queries_.size(); ++i) {
      q_.x.row(static_cast<Eigen::Index>(i)) = s.q.row(queries_[i]);
      q_.last.push_back(s.seen_by(queries_[i]) * s.N - begin_ - 1);
    }
    q_faded_ = faded_to_start(q_);
    k_ = s.k.middleRows(begin_, C_);
    k_faded_ = faded(k_, to_end_);
    V_ = s.v.middleRows(begin_, C_);
    for (int i = 0; i < C_; ++i) V_.row(i) *= s.write_gain(begin_ + i);
    A_qk_ = scores_.scores(q_, k_);
    if (!s.erases()) return;

    // An undecayed erase has not passed its own token's gate; later writes of a token have none.
    a_.with_last = !s.op.decayed;
    a_.x = s.x.middleRows(begin_, C_);
    for (int i = 0; i < C_; ++i) {
      a_.x.row(i) *= s.erase_gain(begin_ + i);
      a_.last.push_back(s.op.decayed ? i : i - 1);
    }
    a_faded_ = faded_to_start(a_);
    A_ak_ = scores_.scores(a_, k_);
    if (s.tied()) return;
    y_ = s.y.middleRows(begin_, C_);
    y_faded_ = faded(y_, to_end_);
    A_ay_ = scores_.scores(a_, y_);
    A_qy_ = scores_.scores(q_, y_);
  }

  /// Writes the reads; S becomes the state behind the chunk.
  void forward(Matrix<Real>& S) {
    s_.save(index_, S);
    Matrix<Real> U = V_, P;
    if (s_.erases()) {
      const Matrix<Real> inverse = unit_lower_inverse(s_.tied() ? A_ak_ : A_ay_);
      if (s_.tied()) {
        U = mul(inverse, V_ - mul(a_faded_, S.transpose()));
      } else {
        P = mul(inverse, mul(A_ak_, V_) + mul(a_faded_, S.transpose()));
      }
      if (s_.op.inverse) saved_inverse() = inverse;
      if (s_.op.solved) saved_solution() = s_.tied() ? U : P;
    }
    Matrix<Real> O = mul(A_qk_, U) + mul(q_faded_, S.transpose());
    if (!y_.size()) {
      fade_state(S);
    } else {
      O -= mul(A_qy_, P);
      fade_state(S);
      S -= mul(P.transpose(), y_faded_);
    }
    S += mul(U.transpose(), k_faded_);
    for (std::size_t i = 0; i < queries_.size(); ++i)
      s_.o(queries_[i]) = O.row(static_cast<Eigen::Index>(i)).transpose();
  }

  /// D = dL/dS behind the chunk becomes that before it.
  void backward(Matrix<Real>& D, SequenceGradients<Real>& d) {
    const Matrix<Real> S = s_.saved(index_);
    const bool free = y_.size() != 0;
    Matrix<Real> d_O = Matrix<Real>::Zero(q_.rows(), s_.V);
    for (std::size_t i = 0; i < queries_.size() && s_.read_back(); ++i)
      d_O.row(static_cast<Eigen::Index>(i)) = s_.d_o(queries_[i]).transpose();
    Matrix<Real> solved;
    if (s_.erases()) solved = saved_solution();
    const Matrix<Real>& U = s_.tied() ? solved : V_;

    Matrix<Real> d_V = mul(A_qk_.transpose(), d_O) + mul(k_faded_, D.transpose());  // of U, until solved back
    Matrix<Real> d_R;
    if (s_.tied()) {
      d_V = d_R = mul(saved_inverse().transpose(), d_V);
    } else if (free) {
      d_R = -mul(saved_inverse().transpose(), mul(A_qy_.transpose(), d_O) + mul(y_faded_, D.transpose()));
      d_V += mul(A_ak_.transpose(), d_R);
    }

    Matrix<Real> d_q = mul(d_O, S), d_k = mul(U, D), d_a, d_y, d_g = Matrix<Real>::Zero(C_, g_.cols());
    add_state_gate(S, D, d_g);
    add_read_gate(q_, q_faded_, d_q, d_g);
    Matrix<Real> written = k_faded_.cwiseProduct(d_k);
    fade_back(q_, d_q);
    d_k = faded(d_k, to_end_);
    if (s_.erases()) {
      d_a = mul(d_R, S) * Real(free ? 1 : -1);
      add_read_gate(a_, a_faded_, d_a, d_g);
      fade_back(a_, d_a);
    }
    if (free) {
      d_y = -mul(solved, D);
      written += y_faded_.cwiseProduct(d_y);
      d_y = faded(d_y, to_end_);
    }
    add_write_gate(written, d_g);

    fade_state(D);
    D += mul(d_O.transpose(), q_faded_);
    if (s_.erases()) D += mul(d_R.transpose(), a_faded_) * Real(free ? 1 : -1);

    scores_.backward(mul(d_O, U.transpose()), A_qk_, q_, k_, d_q, d_k, d_g);
    if (s_.tied()) scores_.backward(-mul(d_R, U.transpose()), A_ak_, a_, k_, d_a, d_k, d_g);
    if (free) {
      scores_.backward(-mul(d_O, solved.transpose()), A_qy_, q_, y_, d_q, d_y, d_g);
      scores_.backward(mul(d_R, V_.transpose()), A_ak_, a_, k_, d_a, d_k, d_g);
      scores_.backward(-mul(d_R, solved.transpose()), A_ay_, a_, y_, d_a, d_y, d_g);
    }
    hand_over(d_q, d_k, d_V, d_a, d_y, d_g, d);
  }

 private:
  template <class L, class R>
  Matrix<Real> mul(const L& l, const R& r) const {
    return product(precision_, l, r);
  }

  /// Gates of the writes: a token's decay comes before the first of them.
  Matrix<Real> gates() const {
    Matrix<Real> g = Matrix<Real>::Zero(C_, s_.g.rows() ? s_.g.cols() : 0);
    for (int i = 0; i < C_ && s_.g.rows(); i += s_.N) g.row(i) = s_.g.row((begin_ + i) / s_.N);
    return g;
  }

  Matrix<Real> faded_to_start(const ScoreRows<Real>& rows) const {
    Matrix<Real> x = rows.x;
    for (int i = 0; i < rows.rows(); ++i) fade(x.row(i), from_start_.row(rows.last_of(i) + 1));
    return x;
  }
  void fade_back(const ScoreRows<Real>& rows, Matrix<Real>& d) const {
    for (int i = 0; i < rows.rows(); ++i) fade(d.row(i), from_start_.row(rows.last_of(i) + 1));
  }
  void fade_state(Matrix<Real>& S) const {
    for (int v = 0; v < s_.V; ++v) fade(S.row(v), whole_);
  }

  /// (I + L)^{-1}, row after row.
  static Matrix<Real> unit_lower_inverse(const Matrix<Real>& L) {
    const Eigen::Index C = L.rows();
    Matrix<Real> X = Matrix<Real>::Identity(C, C);
    for (Eigen::Index i = 1; i < C; ++i)
      X.row(i).head(i).noalias() = -L.row(i).head(i) * X.topLeftCorner(i, i);
    return X;
  }

  using Strided = Eigen::Map<Matrix<Real>, 0, Eigen::OuterStride<>>;
  Strided saved_inverse() const {
    const auto& inverse = s_.op.inverse.value;
    return {inverse.at(s_.r) +
                (static_cast<std::int64_t>(s_.b * s_.H + s_.h) * s_.op.chunks() + index_) * inverse.dim(3),
            C_, C_, Eigen::OuterStride<>(s_.op.chunk())};
  }
  Strided saved_solution() const {
    return {s_.op.solved.value.at(s_.r) +
                ((static_cast<std::int64_t>(s_.b) * s_.M + begin_) * s_.H + s_.h) * s_.V,
            C_, s_.V, Eigen::OuterStride<>(s_.H * s_.V)};
  }

  // The gradient of gate t: all that passes it, each of one sign of exponent, so that nothing is subtracted.
  using GateRow = Eigen::Array<Real, 1, Eigen::Dynamic>;
  GateRow gate_row(const GateRow& channels) const {
    if (g_.cols() > 1) return channels;
    return GateRow::Constant(1, channels.sum());
  }
  /// The state that enters and leaves.
  void add_state_gate(const Matrix<Real>& S, const Matrix<Real>& D, Matrix<Real>& d_g) const {
    if (!g_.cols()) return;
    GateRow both = gate_row((S.array() * D.array()).colwise().sum());
    both *= whole_.array();
    d_g.array().rowwise() += both;
  }
  /// Reads of the state that enters, at t or later.
  void add_read_gate(const ScoreRows<Real>& rows, const Matrix<Real>& x, const Matrix<Real>& d_x,
                     Matrix<Real>& d_g) const {
    if (!g_.cols()) return;
    GateRow sum = GateRow::Zero(g_.cols());
    for (int t = C_ - 1, i = rows.rows() - 1; t >= 0; --t) {
      for (; i >= 0 && rows.last_of(i) == t; --i) sum += gate_row(x.row(i).array() * d_x.row(i).array());
      d_g.row(t).array() += sum;
    }
  }
  /// Writes before t that are there at the chunk's end.
  void add_write_gate(const Matrix<Real>& written, Matrix<Real>& d_g) const {
    if (!g_.cols()) return;
    GateRow sum = GateRow::Zero(g_.cols());
    for (int t = 1; t < C_; ++t) {
      sum += gate_row(written.row(t - 1).array());
      d_g.row(t).array() += sum;
    }
  }

  void hand_over(const Matrix<Real>& d_q, const Matrix<Real>& d_k, const Matrix<Real>& d_V,
                 const Matrix<Real>& d_a, const Matrix<Real>& d_y, const Matrix<Real>& d_g,
                 SequenceGradients<Real>& d) const {
    for (std::size_t i = 0; i < queries_.size(); ++i)
      d.q.row(queries_[i]) = d_q.row(static_cast<Eigen::Index>(i));
    d.k.middleRows(begin_, C_) = d_k;
    if (d_y.size()) d.y.middleRows(begin_, C_) = d_y;
    for (int i = 0; i < C_; ++i) {
      const int m = begin_ + i;
      d.v.row(m) = s_.write_gain(m) * d_V.row(i);
      d.w(m) = s_.v.row(m).dot(d_V.row(i));
      if (g_.cols() && i % s_.N == 0) d.g.row(m / s_.N) = d_g.row(i);
      if (!s_.erases()) continue;
      d.x.row(m) = s_.erase_gain(m) * d_a.row(i);
      d.e(m) = s_.x.row(m).dot(d_a.row(i));
    }
  }

  const Sequence<Real>& s_;
  Precision precision_;
  int index_, begin_, C_;
  Matrix<Real> g_;  ///< of each write
  GatedScores<Real> scores_;
  std::vector<int> queries_;
  ScoreRows<Real> q_, a_;
  Matrix<Real> k_, y_, V_;
  Matrix<Real> q_faded_, a_faded_;                ///< reads of the state that enters
  Matrix<Real> k_faded_, y_faded_;                ///< writes as the state that leaves has them
  Matrix<Real> from_start_;                       ///< [l + 1]: gates 0 .. l
  Matrix<Real> to_end_;                           ///< [j]: gates behind j
  Eigen::Matrix<Real, 1, Eigen::Dynamic> whole_;  ///< of the state that passes
  Matrix<Real> A_qk_, A_qy_, A_ak_, A_ay_;
};

}  // namespace

template <class Real>
void chunk_forward(const Sequence<Real>& s) {
  Matrix<Real> S = s.start();
  for (int c = 0; c < s.op.chunks(); ++c) Chunk<Real>(s, c).forward(S);
  s.put_end(S);
}

template <class Real>
void chunk_backward(const Sequence<Real>& s, SequenceGradients<Real>& d) {
  Matrix<Real> D = s.end_gradient();
  for (int c = s.op.chunks() - 1; c >= 0; --c) Chunk<Real>(s, c).backward(D, d);
  d.start = D;
}

template void chunk_forward(const Sequence<float>&);
template void chunk_forward(const Sequence<double>&);
template void chunk_backward(const Sequence<float>&, SequenceGradients<float>&);
template void chunk_backward(const Sequence<double>&, SequenceGradients<double>&);

}  // namespace crosstalk::state
