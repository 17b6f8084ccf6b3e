// The head of a language model and its loss: cross-entropy of softmax(w x) against targets, in blocks of rows, so that the
// logits of all queries are never there at the same time.
//
//   y_n = w x_n,   query_loss_n = log sum_v e^{y_nv} - y_n,target,   loss = mean over used slots
//
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <stdexcept>

#include "kernels/base/buffer.h"
#include "kernels/ops/linear.h"

namespace crosstalk {

/// Slots with target -1 are not used: query_loss 0, correct -1. correct is 1 where the target's logit is larger than every
/// other (of equal ones none is right). The gradient of `loss` has seed 1 for every replica.
template <class Real>
struct CrossEntropy {
  Precision precision = Precision::full;  ///< of the operands of its products
  bool with_gradients = false;   ///< forward writes the gradients too, and backward has nothing to do
  In<Real> x;                    ///< [R,B,Q,D]
  In<Real> w;                    ///< [R,V,D]
  Ids target;                    ///< int32 [R,B,Q]
  Out<Real> query_loss;          ///< [R,B,Q], never differentiated
  Out<Real> loss;                ///< [R,1]
  Tensor<std::int32_t> correct;  ///< [R,B,Q]
  Work<Real> logits;             ///< [R,block,V]
  Work<Real> share;              ///< [R,1]: 1 / used slots

  static constexpr const char* kName = "cross_entropy";
  template <class F>
  void fields(F&& f) {
    f("x", x), f("w", w), f("target", target), f("query_loss", query_loss), f("loss", loss);
    f("logits", logits), f("share", share);
  }
  /// Rows whose logits are there at once: some megabytes of them.
  static int block(std::int64_t rows, int V) {
    const std::int64_t fit = (std::int64_t{1} << 23) / std::max(1, V) / 64 * 64;
    return static_cast<int>(std::min(rows, std::max<std::int64_t>(64, fit)));
  }
  CT_HD std::int64_t rows() const { return x.value.rows(); }
  CT_HD int V() const { return w.value.dim(0); }
  void plan() {
    if (!x || !w || !target || w.value.rank != 2 || x.value.columns() != w.value.dim(1) ||
        target.value.size() != x.value.rows())
      throw std::logic_error("[cross_entropy] x, w and target do not fit");
    const int R = x.value.R;
    query_loss.value = shaped<Real>(R, {target.value.dim(0), target.value.dim(1)});
    loss.value = shaped<Real>(R, {1});
    logits.value = shaped<Real>(R, {block(rows(), V()), V()});
    share.value = shaped<Real>(R, {1});
  }

  /// The product of `count` rows from `begin`: logits and, where gradients are wanted, what comes of theirs, which stand
  /// where the logits stood.
  Linear<Real> product(std::int64_t begin, std::int64_t count) const {
    const auto part = [&](Tensor<Real> t, std::int64_t from) {
      const int columns = t.columns();
      if (t.data) t.data += from * columns;
      t.rank = 2, t.dims[0] = static_cast<int>(count), t.dims[1] = columns;
      return t;
    };
    Linear<Real> p;
    p.precision = precision;
    p.x.value = part(x.value, begin), p.x.gradient = part(x.gradient, begin), p.x.write = x.write;
    p.w = w;
    if (begin > 0 && w.wanted()) p.w.write = Write::add;
    p.y.value = p.y.gradient = part(logits.value, 0);
    return p;
  }
};
CROSSTALK_OP(CrossEntropy)

}  // namespace crosstalk
