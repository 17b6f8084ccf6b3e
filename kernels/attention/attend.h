// Attention as a matrix: scores of every query with every token it sees, by a kernel, a bias and a row norm.
//
//   s_ij = scale x_i . k_j + extra_ij,   N_ij = kappa(s_ij) e^{b_ij}
//   A_ij = N_ij / (sum_l N_il + eps + e^{sink_h})   (normalised) or N_ij
//   b_ij = sum_{s = j+1 .. p_i - 1} g_s  -  slope_h (p_i - 1 - j)
//
// where query i sees the p_i first tokens and stands at token p_i - 1; `strict` takes that token itself away,
// `window` leaves its last tokens (the own one counted). kappa:
//   identity  s            relu  max(0, s)       relu2  max(0, s)^2     exp    e^{s + offset}
//   round     s rounded to `digits` decimals, gradient straight through
//   taylor    sum_{m <= order} s^m / m!      power  (1 + s / order)^order
// Sums are taken relative to the row's largest exponent (s + offset + b; b; sink), so that they
// neither overflow nor vanish. Without x and k, s is extra: scores that something else made. b is summed
// afresh between its ends, not as a difference of sums from the start, which would lose the small ones. A row
// that sees nothing, or whose sum and eps are 0, is 0.
// Softmax: Vaswani et al. 2017; ALiBi: Press et al. 2021; FoX: Lin et al. 2025; DeltaFormer: Zhong 2025.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <stdexcept>

#include "kernels/base/buffer.h"
#include "kernels/base/op.h"

namespace crosstalk {

enum class Kernel : int { identity, exp, relu, relu2, round, taylor, power };

template <class Real>
struct Attend {
  Kernel kernel = Kernel::exp;
  bool normalised = true;
  double eps = 0, scale = 1;
  double offset = 0;  ///< exp only
  bool strict = false;
  bool before = false;  ///< without positions: query t stands at token t - 1, and sees t tokens
  int window = 0;       ///< 0: all
  int order = 2, digits = 0;

  In<Real> x;          ///< [R,B,Q,H,K]: queries; absent with k: s = extra
  In<Real> k;          ///< [R,B,T,H,K]
  In<Real> log_decay;  ///< g [R,B,T,H]; absent: 0
  In<Real> slope;      ///< [R,H]; absent: 0
  In<Real>
      sink;  ///< [R,H]: a logit that takes its share of a row and reads nothing; normalised only; or absent
  In<Real> extra;  ///< [R,B,H,Q,T]; absent: 0
  Ids position;    ///< int32 [R,B,Q]: tokens that a query sees, its own the last; absent: Q = T, p_t = t + 1
  Out<Real> a;     ///< [R,B,H,Q,T], 0 for tokens not seen
  Saved<Real>
      row;  ///< [R,B,H,Q,2], unless plain: the row's largest exponent m (not normalised: 0), e^m / (sum +
            ///< eps)
  Work<Real> d_s;  ///< [R,B,H,Q,T]: gradients of the scores (backward, CUDA)

  static constexpr const char* kName = "attend";
  CROSSTALK_FIELDS(x, k, log_decay, slope, sink, extra, position, a, row, d_s)
  CT_HD int B() const { return k ? k.value.dim(0) : extra.value.dim(0); }
  CT_HD int T() const { return k ? k.value.dim(1) : extra.value.dim(3); }
  CT_HD int Q() const { return k ? x.value.dim(1) : extra.value.dim(2); }
  CT_HD int H() const { return k ? k.value.dim(2) : extra.value.dim(1); }
  CT_HD int K() const { return k ? k.value.dim(3) : 0; }
  CT_HD int R() const { return k ? k.value.R : extra.value.R; }
  /// Tells whether weights are the scaled products themselves, up to where each query stands: the sum rule.
  CT_HD bool plain() const {
    return kernel == Kernel::identity && !normalised && H() == 1 && position && !strict && window == 0 &&
           !log_decay && !slope && !extra;
  }
  /// True if the slope of the kernel is a function of the score.
  CT_HD bool curved() const {
    return kernel != Kernel::exp && kernel != Kernel::identity && kernel != Kernel::round;
  }
  void plan() {
    const PlanCheck want{kName};
    want(static_cast<bool>(x) == static_cast<bool>(k) && (k || (extra && extra.value.rank == 4)));
    want(!k || (x.value.rank == 4 && k.value.rank == 4 && x.value.dim(0) == k.value.dim(0) &&
                x.value.dim(2) == k.value.dim(2) && x.value.dim(3) == k.value.dim(3)));
    const std::int64_t tokens = static_cast<std::int64_t>(B()) * T() * H();
    want(position || Q() == T());
    want(!log_decay || log_decay.value.size() == tokens);
    want(!slope || slope.value.size() == H());
    want(!sink || (sink.value.size() == H() && normalised));
    want(!extra || extra.value.size() == tokens * Q());
    want(offset == 0 || kernel == Kernel::exp);
    a.value = shaped<Real>(R(), {B(), H(), Q(), T()});
    if (plain()) return;
    row.value = shaped<Real>(R(), {B(), H(), Q(), 2});
    if (k || log_decay || slope || sink) d_s.value = shaped<Real>(R(), {B(), H(), Q(), T()});
  }
};
CROSSTALK_OP(Attend)

/// o = a v per head: read weights to values.
template <class Real>
struct Mix {
  In<Real> a;   ///< [R,B,H,Q,T]
  In<Real> v;   ///< [R,B,T,H,V]
  Out<Real> o;  ///< [R,B,Q,H,V]

  static constexpr const char* kName = "mix";
  CROSSTALK_FIELDS(a, v, o)
  void plan() {
    if (!a || !v || a.value.rank != 4 || v.value.rank != 4 || v.value.dim(0) != a.value.dim(0) ||
        v.value.dim(1) != a.value.dim(3) || v.value.dim(2) != a.value.dim(1))
      throw std::logic_error("[mix] shapes do not fit");
    o.value = shaped<Real>(a.value.R, {a.value.dim(0), a.value.dim(2), a.value.dim(1), v.value.dim(3)});
  }
};
CROSSTALK_OP(Mix)

}  // namespace crosstalk
