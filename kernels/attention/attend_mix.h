// Attention that reads values at once, without its weights in memory: Attend with the kernel exp or identity, then Mix.
// On a GPU, of floats in heads of up to 128, of products in bf16 256; that chain is what a CPU, doubles and wider heads run.
//
//   e_ij = scale x_i . k_j + b_ij,   b_ij = sum_{s = j+1 .. p_i - 1} g_s - slope_h (p_i - 1 - j)
//   L_i  = log(sum_j e^{e_ij} + eps + e^{sink_h})   (normalised) or 0
//   o_i  = sum_j a_ij v_j,   a_ij = e^{e_ij - L_i}, over the tokens j that query i sees (attend.h)
//
// linear: a_ij = scale x_i . k_j e^{b_ij}, not normalised; then d_ij = e^{b_ij} d_o_i . v_j, and what biases take is a_ij d_o_i . v_j.
//
// L is all that forward keeps; backward makes the weights again. With D_i = d_o_i . o_i (normalised) or 0:
//   d_ij = a_ij (d_o_i . v_j - D_i)           the gradient of e_ij
//   d_x_i = scale sum_j d_ij k_j,   d_k_j = scale sum_i d_ij x_i,   d_v_j = sum_i a_ij d_o_i
//   d_g_n = sum of d_ij with j < n <= own_i = p_i - 1,   d_slope = - sum d_ij (own_i - j),   d_sink = - sum_i
//   D_i e^{sink - L_i}
// A row that sees nothing is 0 (Dao et al. 2022, arXiv 2205.14135; the bias: Lin et al. 2025, arXiv
// 2503.02130).
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "kernels/attention/whole_head.h"
#include "kernels/base/buffer.h"
#include "kernels/base/device/cuda_runtime.h"
#include "kernels/base/op.h"
#include "kernels/base/precision.h"

namespace crosstalk {

template <class Real>
struct AttendMix {
  bool normalised = true, strict = false, before = false;  ///< as Attend's
  bool linear = false;  ///< Attend's kernel is identity; not normalised, in heads of more than 128
  double eps = 0, scale = 1;
  int window = 0;
  Precision products = Precision::full;  ///< of the operands; CUDA, float

  In<Real> x;          ///< [R,B,Q,H,K]: queries
  In<Real> k;          ///< [R,B,T,H,K]
  In<Real> v;          ///< [R,B,T,H,V]
  In<Real> log_decay;  ///< g [R,B,T,H]; absent: 0
  In<Real> slope;      ///< [R,H]; absent: 0
  In<Real> sink;       ///< [R,H]; normalised only; absent: none
  Ids position;        ///< int32 [R,B,Q]; absent: Q = T, p_t = t + 1 (before: t)
  Out<Real> o;         ///< [R,B,Q,H,V]
  Saved<Real> row;     ///< L / log 2 [R,B,H,Q]
  Work<Real>
      phase;  ///< [R,B,H,T,2]: sum_{s <= t} g_s - slope t over log 2, in two parts, where there is a bias
  Work<Real> d_rows;     ///< [R,B,H,Q,2]: D, and sum_j d_ij
  Work<Real> d_columns;  ///< [R,B,H,T]: sum_i d_ij, where there is a bias

  static constexpr const char* kName = "attend_mix";
  CROSSTALK_FIELDS(x, k, v, log_decay, slope, sink, position, o, row, phase, d_rows, d_columns)
  CROSSTALK_BF16_FIELDS(x, k, v, o)
  CT_HD int B() const { return k.value.dim(0); }
  CT_HD int T() const { return k.value.dim(1); }
  CT_HD int H() const { return k.value.dim(2); }
  CT_HD int K() const { return k.value.dim(3); }
  CT_HD int Q() const { return x.value.dim(1); }
  CT_HD int V() const { return v.value.dim(3); }
  /// True if tiles hold the heads: the sizes and precision of both forms.
  CT_HD bool fits_tiles() const {
    const int most = products == Precision::bf16 ? 256 : 128;
    return sizeof(Real) == sizeof(float) && K() <= most && V() <= most && (!linear || K() > 128 || V() > 128);
  }
  /// True if heads are many, and a block holds one with all of its queries and tokens (attend_mix_whole.cuh).
  static constexpr int kWholeRows = 256;  ///< most of them
  WholeHead whole_head(std::size_t limit) const { return {Q(), T(), std::max(K(), V()), limit}; }
  bool fits_whole(std::size_t limit = shared_memory_limit()) const {
    constexpr int kFewestHeads = 64, kNarrow = 32;
    return products == Precision::bf16 && !biased() && fits_tiles() && K() <= 128 && V() <= 128 &&
           Q() <= kWholeRows && T() <= kWholeRows && (K() > kNarrow || V() > kNarrow) && K() % 4 == 0 &&
           V() % 4 == 0 && B() * H() >= kFewestHeads && whole_head(limit).fits(limit);
  }
  /// True if x, k, v, o and their gradients are bf16: all of them or none.
  CT_HD bool is_bf16() const { return x.value.is_bf16(); }
  /// True if they may be: whole heads, or such of more than 64, whose numbers move by eights.
  bool takes_bf16() const {
    const bool wide = products == Precision::bf16 && fits_tiles() && (K() > 64 || V() > 64);
    return (fits_whole() || wide) && K() % 8 == 0 && V() % 8 == 0;
  }
  /// The form that runs on a device.
  const char* form_name(Device device) const {
    if (device == Device::cpu) return "";
    return fits_whole() ? "whole" : "tiles";
  }
  CT_HD bool biased() const { return log_decay || slope; }
  /// log(eps + e^sink) of a head: what stands in a row's sum beside the tokens; -inf: nothing.
  CT_HD double beside(int r, int h) const {
    const double a = sink ? static_cast<double>(sink.value.at(r)[h]) : -INFINITY,
                 b = eps > 0 ? ::log(eps) : -INFINITY;
    const double largest = a > b ? a : b;
    return largest == -INFINITY ? largest : largest + ::log(::exp(a - largest) + ::exp(b - largest));
  }
  /// Kernels of whole heads write bf16, and add to no gradient.
  void check_writes() const {
    for (const In<Real>* field : {&x, &k, &v})
      if (field->gradient.is_bf16() && field->write == Write::add)
        throw std::logic_error("[attend_mix] a gradient in bf16 is written, not added to");
  }
  void plan() {
    if (!x || !k || !v || x.value.rank != 4 || k.value.rank != 4 || v.value.rank != 4 ||
        x.value.dim(0) != B() || x.value.dim(2) != H() || x.value.dim(3) != K() || v.value.dim(0) != B() ||
        v.value.dim(1) != T() || v.value.dim(2) != H() || (!position && Q() != T()) ||
        (log_decay && log_decay.value.size() != k.value.rows()) || (slope && slope.value.size() != H()) ||
        (sink && (sink.value.size() != H() || !normalised)) || (linear && normalised))
      throw std::logic_error("[attend_mix] shapes do not fit");
    for (const Tensor<Real>* t :
         {&x.gradient, &k.value, &k.gradient, &v.value, &v.gradient, &o.value, &o.gradient})
      if (t->format != x.value.format)
        throw std::logic_error("[attend_mix] x, k, v, o and their gradients have one format");
    if (is_bf16() && !takes_bf16())
      throw std::logic_error(
          "[attend_mix] only whole heads of multiples of 8, or such of more than 64, may be bf16");
    check_writes();
    const int R = k.value.R;
    o.value = shaped<Real>(R, {B(), Q(), H(), V()});
    row.value = shaped<Real>(R, {B(), H(), Q()});
    d_rows.value = shaped<Real>(R, {B(), H(), Q(), 2});
    if (!biased()) return;
    phase.value = shaped<Real>(R, {B(), H(), T(), 2});
    d_columns.value = shaped<Real>(R, {B(), H(), T()});
  }
};
CROSSTALK_OP(AttendMix)

template <class Real>
void forward_cpu(const Exec&, const AttendMix<Real>&) {
  throw std::logic_error("[attend_mix] has no CPU form: run Attend, then Mix");
}
template <class Real>
void backward_cpu(const Exec& exec, const AttendMix<Real>& op) {
  forward_cpu(exec, op);
}

}  // namespace crosstalk
