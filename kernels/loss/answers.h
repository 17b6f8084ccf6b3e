// Which class a model answers: the largest of its logits, for whoever looks at wrong answers.
//
//   answer_n = argmax_v w_v . x_n    (without w: argmax_v x_nv)
//
// Of equal ones the first; -1 where none is larger than minus infinity.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/base/exec.h"

namespace crosstalk {

/// x [R,..,D] rows, w [R,V,D] or absent: answer int32 [R,N], N at least the number of rows. Products are summed in the order
/// of D in the precision of x, on every device.
template <class Real>
struct Answers {
  Tensor<Real> x, w;
  Tensor<std::int32_t> answer;

  CT_HD int V() const { return w ? w.dim(0) : x.columns(); }
  /// Logit v of row n of replica r.
  CT_HD Real logit(int r, std::int64_t n, int v) const {
    const int D = x.columns();
    const Real* row = x.at(r) + n * D;
    if (!w) return row[v];
    const Real* of = w.at(r) + static_cast<std::int64_t>(v) * D;
    Real sum = 0;
    for (int d = 0; d < D; ++d) sum += row[d] * of[d];
    return sum;
  }
};

CROSSTALK_STEP(Answers)

}  // namespace crosstalk
