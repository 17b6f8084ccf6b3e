// Examples (x, y) of real numbers that tokens hold (kNumberUnit), and the loss of what is read for those that are asked.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/base/batch.h"
#include "kernels/embedding/token_numbers.h"
#include "models/graph/nodes.h"
#include "models/mixers/mixer.h"

namespace crosstalk {

/// Channels of a token that is no single token of a language model.
inline int channels_of(const Vocabulary& vocabulary) {
  return vocabulary.numbers > 0 ? 2 * (vocabulary.numbers + 1) : vocabulary.second_key ? 3 : 2;
}

/// The numbers of a batch of tokens with n inputs.
template <class Real>
struct Examples {
  Examples(Graph<Real>& g, const BatchIds& batch, int n) {
    const auto part = [&](int first, int count, int rows) {
      TokenNumbers<Real> op;
      op.first = first, op.count = count, op.rows = rows, op.unit = kNumberUnit;
      op.ids = ids(batch.tokens);
      return Var<Real>{&g, out(g.add(op).y)};
    };
    const auto headed = [&](int first, int count, int rows) {
      return Var<Real>{&g, g.view(part(first, count, rows).variable, {batch.B, rows, 1, count})};
    };
    xy = part(0, n + 1, batch.T), x = headed(0, n, batch.T), y = headed(n, 1, batch.T);
    asked_x = headed(n + 1, n, batch.Q), asked_y = headed(2 * n + 1, 1, batch.Q);
  }
  Var<Real> xy, x, y;          ///< of the tokens: [B,T,n+1], [B,T,1,n], [B,T,1,1]
  Var<Real> asked_x, asked_y;  ///< of the queries: [B,Q,1,n], [B,Q,1,1]
};

/// 0.5 (read - asked)^2 of read, asked [B,Q,1,1]. In graphs that do not train an answer is right that has the sign of what is
/// asked.
template <class Real>
QueryLoss<Real> example_loss(Graph<Real>& g, Var<Real> read, Var<Real> asked, const BatchIds& batch) {
  // The squared loss of one class, whose target is 1.
  const Var<Real> score = 1.0 + (read - asked);
  QueryLoss<Real> loss = squared_loss(g, g.view(score.variable, {batch.B, batch.Q, 1}), batch);
  if (g.train()) return loss;
  Constant<Real> sides;
  sides.number[0] = 1, sides.number[1] = -1;
  sides.y.value = shaped<Real>(g.replicas(), {2, 1});
  const Var<Real> agrees = read * asked;
  Variable<Real>* both =
      linear<Real>(g, g.view(agrees.variable, {batch.B, batch.Q, 1}), out(g.add(sides).y), nullptr);
  loss.correct = squared_loss(g, both, batch).correct;
  return loss;
}

}  // namespace crosstalk
