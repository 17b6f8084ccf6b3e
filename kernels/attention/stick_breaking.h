// Weights of stick-breaking attention: the nearest token that a query sees breaks its share off a stick of length 1, the next one off
// what is left, and so on: A_ij = sigmoid(s_ij) prod_{j < l} (1 - sigmoid(s_il)) over tokens l that i sees, 0 for those that it does
// not see (Tan et al. 2024, arXiv 2410.17980). Logarithms are added up from the query, so that nothing vanishes.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/base/functions.h"
#include "kernels/base/sweep.h"
#include "kernels/elementwise/elementwise.h"

namespace crosstalk {

template <class Real>
struct StickBreaking {
  bool strict = false;  ///< a query does not see the token at which it stands

  In<Real> s;    ///< [R,B,H,Q,T]: scores
  Ids position;  ///< int32 [R,B,Q]: tokens that a query sees, its own the last; absent: query t sees t + 1
  Out<Real> y;   ///< as s

  static constexpr const char* kName = "stick_breaking";
  CROSSTALK_FIELDS(s, position, y)
  void plan() {
    const PlanCheck want{kName};
    want(s && s.value.rank == 4);
    want(position || s.value.dim(2) == s.value.dim(3));
    y.value = without_memory(s.value);
  }
  CROSSTALK_SWEEP(rows(), take)
  CROSSTALK_SWEEP_BACK(s, rows(), give_back)
  CT_HD std::int64_t rows() const {
    return static_cast<std::int64_t>(s.value.dim(0)) * s.value.dim(1) * s.value.dim(2);
  }
  /// Row i of y, and of the gradient of s, in replica r.
  CT_HD void take(int r, std::int64_t i) const {
    const int T = s.value.dim(3), n = seen(r, i);
    const Real* score = s.value.at(r) + i * T;
    Real* weight = y.value.at(r) + i * T;
    for (int j = n; j < T; ++j) weight[j] = 0;
    Real left = 0;  // log of what is left of the stick
    for (int j = n - 1; j >= 0; --j) {
      weight[j] = exp_(mapped(MapKind::log_sigmoid, score[j]) + left);
      left += mapped(MapKind::log_sigmoid, -score[j]);
    }
  }
  CT_HD void give_back(int r, std::int64_t i) const {
    const int T = s.value.dim(3), n = seen(r, i);
    const Real *score = s.value.at(r) + i * T, *weight = y.value.at(r) + i * T,
               *d_weight = y.gradient.at(r) + i * T;
    Real* d_score = s.gradient.at(r) + i * T;
    Real farther = 0;  // of tokens before j, which had what j left
    for (int j = 0; j < n; ++j) {
      const Real own = d_weight[j] * weight[j];
      put(s.write, d_score + j, own * sigmoid_(-score[j]) - farther * sigmoid_(score[j]));
      farther += own;
    }
    for (int j = n; j < T; ++j) put(s.write, d_score + j, Real(0));
  }

 private:
  CT_HD int seen(int r, std::int64_t i) const {
    const int H = s.value.dim(1), Q = s.value.dim(2);
    const std::int64_t b = i / (static_cast<std::int64_t>(H) * Q), q = i % Q;
    const int n = (position ? position.value.at(r)[b * Q + q] : static_cast<int>(q) + 1) - (strict ? 1 : 0);
    return n < 0 ? 0 : n;
  }
};
CROSSTALK_SWEPT(StickBreaking)

}  // namespace crosstalk
