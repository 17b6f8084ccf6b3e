// The retrieval model of Schlag, Irie, Schmidhuber (2021), section 6.1: one memory between token and answer.
//
//   token   x_t = [onehot(v_t); E[k_t]; E[k'_t]]     frozen one-hot value, learned key embedding
//   keys    k_t = W_k x_t + b_k,   q = W_q E[query] + b_q,   gates by projections of x_t
//   values  onehot(v_t)
//   read    y = memory(k, v, gates; q), heads added up,   loss = 0.5 |y - onehot(target)|^2
//
// Continuous (Zoology's continuous MQAR): E and, in place of one-hot vectors, values are frozen random vectors of length 1; then
// loss = cross-entropy of C (W_o y + b_o) against the target, C the codes of all values.
//
// Examples (a task of real numbers, kNumberUnit): token [x_t; y_t], value y_t, query W_q x' + b_q of an example x', y' beside the
// sequence; loss = 0.5 (read - y')^2, and an answer is right that has the sign of y'.
//
// Neither one-hot vectors nor embedded tokens are formed: W_k x_t is a row of W_k's value part plus a row of
// the small table E W_k^T.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <vector>

#include "models/memory.h"
#include "models/model.h"

namespace crosstalk {

template <class Real>
class RetrievalModel final : public Model<Real> {
 public:
  /// Vocabulary sizes are as the task says.
  RetrievalModel(const Options& options, const Vocabulary& vocabulary, Device device, int R,
                 Precision products = Precision::full);

  std::unique_ptr<ModelGraph<Real>> graph(int B, SequenceShape shape, bool train, int batches = 1) override;
  /// See half_lives_at_start(); draws the parameters of replica 0 so often.
  std::vector<double> half_lives(int draws);
  std::unique_ptr<ModelGraph<Real>> capture(SequenceShape shape, Captured<Real>& captured) override;
  /// Parameters without codes that are frozen.
  std::int64_t trainable() const override;

 private:
  using Model<Real>::parameters_, Model<Real>::options_, Model<Real>::device_;
  std::unique_ptr<ModelGraph<Real>> build(int B, SequenceShape shape, bool train, int batches,
                                          Captured<Real>* captured = nullptr);
  int channels() const;

  Vocabulary vocabulary_;
  int value_codes_;  ///< numbers of a value's code; 0: one-hot values
};

}  // namespace crosstalk
