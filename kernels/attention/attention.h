// Scores of queries against keys, and their softmax: a_qt = scale q.k_t for the tokens that query q sees.
//
// position [R,B,Q] is the number of tokens that a query sees; weights of later tokens are 0 and pass no
// gradient.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <stdexcept>

#include "kernels/base/buffer.h"
#include "kernels/base/op.h"

namespace crosstalk {

/// a = scale q.k.
template <class Real>
struct Scores {
  double scale = 1;
  In<Real> k;    ///< [R,B,T,P]
  In<Real> q;    ///< [R,B,Q,P]
  Ids position;  ///< int32 [R,B,Q]
  Out<Real> a;   ///< [R,B,Q,T]

  static constexpr const char* kName = "scores";
  template <class F>
  void fields(F&& f) {
    f("k", k), f("q", q), f("position", position), f("a", a);
  }
  void plan() {
    if (k.value.columns() != q.value.columns()) throw std::logic_error("[scores] k and q do not fit");
    a.value = shaped<Real>(k.value.R, {k.value.dim(0), q.value.dim(1), k.value.dim(1)});
  }
};
CROSSTALK_OP(Scores)

/// Softmax over the tokens seen, 0 elsewhere; all 0 for a query that sees none.
template <class Real>
struct Softmax {
  In<Real> x;    ///< [R,B,Q,T]
  Ids position;  ///< int32 [R,B,Q]
  Out<Real> y;   ///< [R,B,Q,T]

  static constexpr const char* kName = "softmax";
  template <class F>
  void fields(F&& f) {
    f("x", x), f("position", position), f("y", y);
  }
  void plan() { y.value = without_memory(x.value); }
};
CROSSTALK_OP(Softmax)

}  // namespace crosstalk
