// The norm in front of a block of a language model, and the sum before it:
//
//   s = x + branch,   y = gain (s - mean) / sqrt(var + eps) + bias      layer
//                     y = gain s / sqrt(mean s^2 + eps) + bias          rms
//
// and behind a memory, where a gate g is given, this times silu(g) or sigmoid(g).
//
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "kernels/base/buffer.h"
#include "kernels/base/functions.h"
#include "kernels/base/op.h"
#include "kernels/norm/normalize.h"

namespace crosstalk {

enum class RowGate : int { silu, sigmoid };

template <class Real>
struct ResidualNorm {
  RowNorm norm = RowNorm::layer;  ///< layer or rms
  RowGate gate_by = RowGate::silu;
  double eps = 0;
  In<Real> x;           ///< [R,N..,D]
  In<Real> branch;      ///< like x; may be absent
  In<Real> gain;        ///< [R,D]
  In<Real> bias;        ///< [R,D]; may be absent
  In<Real> gate;        ///< like x; may be absent
  Out<Real> sum;        ///< s, where there is a branch
  Out<Real> y;          ///< like x
  Saved<Real> mean;     ///< [R,N]: 0 for rms
  Saved<Real> inverse;  ///< [R,N]
  Work<Real> part;      ///< [R,P,2,D]: gradients of gain and bias by pieces of the rows (backward, CUDA)

  static constexpr const char* kName = "residual_norm";
  CROSSTALK_FIELDS(x, branch, gain, bias, gate, sum, y, mean, inverse, part)
  CROSSTALK_BF16_FIELDS(branch, y)
  static constexpr int kMostInBf16 = 512;
  /// Tells whether y and its gradient, and the gradient of the branch, may be bf16.
  bool takes_bf16() const { return D() % 8 == 0 && D() <= kMostInBf16; }
  /// Rows of a piece, and how many pieces there are.
  static std::int64_t piece(std::int64_t rows) { return std::max<std::int64_t>(32, (rows + 1023) / 1024); }
  static int pieces(std::int64_t rows) {
    return static_cast<int>(std::max<std::int64_t>(1, (rows + piece(rows) - 1) / piece(rows)));
  }
  CT_HD int D() const { return x.value.columns(); }
  CT_HD std::int64_t rows() const { return x.value.rows(); }
  /// Factor of a row's number whose gate is g, and the slope of that.
  CT_HD Real opened(Real g) const {
    const Real s = 1 / (1 + exp_(-g));
    return gate_by == RowGate::silu ? g * s : s;
  }
  CT_HD Real gate_slope(Real g) const {
    const Real s = 1 / (1 + exp_(-g));
    return gate_by == RowGate::silu ? s * (1 + g * (1 - s)) : s * (1 - s);
  }
  /// s of all rows.
  CT_HD const Tensor<Real>& total() const { return branch ? sum.value : x.value; }
  /// Fours of bf16 are written, and added to no gradient.
  void check_writes() const {
    if (branch.gradient.is_bf16() && branch.write == Write::add)
      throw std::logic_error("[residual_norm] a gradient in bf16 is written, not added to");
  }
  void plan() {
    const int columns = x.value.columns();
    if (!x || !gain || gain.value.size() != columns || (bias && bias.value.size() != columns) ||
        (branch && (branch.value.size() != x.value.size() || branch.value.columns() != columns)) ||
        (gate && (gate.value.size() != x.value.size() || gate.value.columns() != columns)) ||
        (norm != RowNorm::layer && norm != RowNorm::rms))
      throw std::logic_error("[residual_norm] x, branch, gain, bias and gate do not fit");
    if (branch.value.is_bf16() || y.value.format != y.gradient.format)
      throw std::logic_error("[residual_norm] a branch is fp32, y and its gradient have one format");
    if ((y.value.is_bf16() || branch.gradient.is_bf16()) && !takes_bf16())
      throw std::logic_error("[residual_norm] only rows of multiples of 8, up to 512, may be bf16");
    check_writes();
    y.value = without_memory(x.value);
    if (branch) sum.value = y.value;
    const std::int64_t n = x.value.rows();
    mean.value = inverse.value = shaped<Real>(x.value.R, {n});
    part.value = shaped<Real>(x.value.R, {pieces(n), 2, columns});
  }
};
CROSSTALK_OP(ResidualNorm)

}  // namespace crosstalk
