// Diagonal recurrences over time, a channel each.
//
//   scan     h_t = a_t h_{t-1} + x_t
//   logscan  L_t = log(e^{L_{t-1} + d_t} + e^{k_t})            L_{-1} = -inf where no start is given
//            L_t = max(L_{t-1} + d_t, k_t)                     largest
//            gap_t = min(k_t - L_{t-1} - d_t, 80)              e^{k_t - L_t} = sigmoid(gap_t), and the rest sigmoid(-gap_t)
//
// Adjoints (engine of Mamba-1, S4D, RWKV-4, stabilisers):
//   lambda_t = dh_t + conj(a_{t+1}) lambda_{t+1}
//   dx       = lambda
//   c_t      = conj(lambda_t) a_t h_{t-1}
//   dlog a_t = Re(c_t)
//   dangle_t = -Im(c_t)
//   dh_{-1}  = conj(a_0) lambda_0
// and of logscan
//   w_t  = sigmoid(L_{t-1} + d_t - k_t)                        largest: 0 or 1
//   mu_t = dL_t + w_{t+1} mu_{t+1} - dgap_{t+1}
//   dd_t = w_t mu_t - dgap_t
//   dk_t = (1 - w_t) mu_t + dgap_t
//
// a is given by its logarithm, so that a = 0 is log a = -inf or very negative, and no division by a occurs.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <stdexcept>

#include "kernels/base/buffer.h"
#include "kernels/base/functions.h"
#include "kernels/base/sweep.h"

namespace crosstalk {

/// A number that may be complex; im is 0 and costs little where it is real.
template <class Real>
struct Complex {
  Real re, im;
  CT_HD Complex operator+(Complex o) const { return {re + o.re, im + o.im}; }
  CT_HD Complex operator*(Complex o) const { return {re * o.re - im * o.im, re * o.im + im * o.re}; }
  CT_HD Complex conjugate() const { return {re, -im}; }
};

template <class Real>
struct Scan {
  bool complex = false;  ///< channels are pairs (real, imaginary) in x, h, start; a = e^{log_a + i angle}
  In<Real> log_a;        ///< log |a| [R,B,T,N]; absent: 0
  In<Real> angle;        ///< [R,B,T,N]: complex only
  In<Real> x;            ///< [R,B,T,N] or, complex, [R,B,T,2N]
  In<Real> start;        ///< h_{-1} [R,B,N] or [R,B,2N]; absent: 0
  Out<Real> h;           ///< like x

  static constexpr const char* kName = "scan";
  CROSSTALK_FIELDS(log_a, angle, x, start, h)
  CT_HD int parts() const { return complex ? 2 : 1; }
  void plan() {
    const auto fits = [&](const In<Real>& f) {
      return f.value.rank == 3 && parts() * f.value.size() == x.value.size();
    };
    if (!x || x.value.rank != 3 || static_cast<bool>(angle) != complex || (log_a && !fits(log_a)) ||
        (angle && !fits(angle)) || (start && start.value.size() * x.value.dim(1) != x.value.size()))
      throw std::logic_error("[scan] shapes do not fit");
    h.value = shaped<Real>(x.value.R, {x.value.dim(0), x.value.dim(1), x.value.dim(2)});
  }
  CT_HD const Tensor<Real>& channels() const { return complex ? angle.value : x.value; }
  bool is_plain() const { return !complex; }
  CT_HD void make_plain() { complex = false, angle = {}; }

  using Carried = Complex<Real>;
  CT_HD Carried begin(int r, std::int64_t first) const {
    return start ? number(start.value, r, first) : Carried{0, 0};
  }
  /// As memory has them: arithmetic between loads would wait for each of them.
  struct Token {
    Real log_a, angle;
    Carried x;
  };
  CT_HD Token token(int r, std::int64_t at) const {
    return {one(log_a, r, at), one(angle, r, at), number(x.value, r, at)};
  }
  /// h_{t-1} -> h_t.
  CT_HD void step(int r, std::int64_t at, const Token& token, Carried& carried) const {
    carried = factor(token.log_a, token.angle) * carried + token.x;
    store(h.value, r, at, carried);
  }
  struct TokenBack {
    Real log_a, angle;
    Carried before, given;
    Real old_log_a, old_angle;  ///< gradients that are added to
    Carried old_x;
  };
  CT_HD TokenBack token_back(int r, std::int64_t at, Carried before) const {
    return {one(log_a, r, at),
            one(angle, r, at),
            before,
            number(h.gradient, r, at),
            held(log_a, r, at),
            held(angle, r, at),
            x.write == Write::add ? number(x.gradient, r, at) : Carried{0, 0}};
  }
  /// conj(a_{t+1}) lambda_{t+1} -> conj(a_t) lambda_t.
  CT_HD void step_back(int r, std::int64_t at, const TokenBack& token, Carried& carried) const {
    const Carried a = factor(token.log_a, token.angle), lambda = token.given + carried;
    const Carried turn = lambda.conjugate() * (a * token.before);
    carried = a.conjugate() * lambda;
    if (log_a.wanted()) log_a.gradient.at(r)[at] = joined(log_a.write, token.old_log_a, turn.re);
    if (angle.wanted()) {
      const Real old = written_by(log_a, angle) ? angle.gradient.at(r)[at] : token.old_angle;
      angle.gradient.at(r)[at] = joined(angle.write, old, -turn.im);
    }
    give(x, r, at, written_by(log_a, x) ? number(x.gradient, r, at) : token.old_x, lambda);
  }
  CT_HD void finish(int r, std::int64_t first, Carried carried) const {
    give(start, r, first, start.write == Write::add ? number(start.gradient, r, first) : Carried{0, 0},
         carried);
  }
  CT_HD Carried made(int r, std::int64_t at) const { return number(h.value, r, at); }

 private:
  CT_HD Carried number(const Tensor<Real>& of, int r, std::int64_t i) const {
    const Real* p = of.at(r) + parts() * i;
    return {p[0], complex ? p[1] : Real(0)};
  }
  CT_HD void store(const Tensor<Real>& to, int r, std::int64_t i, Carried value) const {
    Real* p = to.at(r) + parts() * i;
    p[0] = value.re;
    if (complex) p[1] = value.im;
  }
  CT_HD void give(const In<Real>& in, int r, std::int64_t i, Carried old, Carried value) const {
    if (in.wanted()) store(in.gradient, r, i, joined(in.write, old, value));
  }
  CT_HD static Real one(const In<Real>& in, int r, std::int64_t at) {
    return in ? in.value.at(r)[at] : Real(0);
  }
  CT_HD Carried factor(Real log_size, Real turn) const {
    const Real size = exp_(log_size);
    if (!complex) return {size, 0};
    return {size * cos_(turn), size * sin_(turn)};
  }
};
CROSSTALK_SWEPT(Scan)

/// Gap beyond which nothing is left of what was before, in either precision.
constexpr int kWideGap = 80;

template <class Real>
struct LogScan {
  bool largest = false, gaps = false;  ///< gaps: they are wanted
  In<Real> d;                          ///< [R,B,T,N]
  In<Real> k;                          ///< [R,B,T,N]
  In<Real> start;                      ///< L_{-1} [R,B,N]; absent: -inf
  Out<Real> l;                         ///< [R,B,T,N]
  Out<Real> gap;                       ///< [R,B,T,N]

  static constexpr const char* kName = "logscan";
  CROSSTALK_FIELDS(d, k, start, l, gap)
  void plan() {
    if (!d || !k || d.value.rank != 3 || k.value.rank != 3 || d.value.size() != k.value.size() ||
        (start && start.value.size() * d.value.dim(1) != d.value.size()))
      throw std::logic_error("[logscan] shapes do not fit");
    l.value = shaped<Real>(d.value.R, {d.value.dim(0), d.value.dim(1), d.value.dim(2)});
    if (gaps) gap.value = l.value;
  }
  CT_HD const Tensor<Real>& channels() const { return d.value; }

  using Carried = Real;
  CT_HD Real begin(int r, std::int64_t first) const {
    return start ? start.value.at(r)[first] : -static_cast<Real>(INFINITY);
  }
  struct Token {
    Real d, k;
  };
  CT_HD Token token(int r, std::int64_t at) const { return {d.value.at(r)[at], k.value.at(r)[at]}; }
  CT_HD void step(int r, std::int64_t at, const Token& token, Real& carried) const {
    const Real old = carried + token.d, new_ = token.k, most = old > new_ ? old : new_;
    carried =
        largest || old == -static_cast<Real>(INFINITY) ? most : most + log1p_(exp_(-distance(old, new_)));
    l.value.at(r)[at] = carried;
    if (gaps) gap.value.at(r)[at] = is_wide(old, new_) ? Real(kWideGap) : new_ - old;
  }
  struct TokenBack {
    Real before, d, k, given, given_gap;
    Real old_d, old_k;  ///< gradients that are added to
  };
  CT_HD TokenBack token_back(int r, std::int64_t at, Real before) const {
    return {before,
            d.value.at(r)[at],
            k.value.at(r)[at],
            l.gradient.data ? l.gradient.at(r)[at] : Real(0),
            gap.gradient.data ? gap.gradient.at(r)[at] : Real(0),
            held(d, r, at),
            held(k, r, at)};
  }
  /// w_{t+1} mu_{t+1} -> w_t mu_t.
  CT_HD void step_back(int r, std::int64_t at, const TokenBack& token, Real& carried) const {
    const Real old = token.before + token.d, new_ = token.k, mu = token.given + carried;
    const bool nothing = old == -static_cast<Real>(INFINITY);
    const Real e = nothing || largest ? Real(0) : exp_(-distance(old, new_)),
               larger = quotient(Real(1), 1 + e), smaller = quotient(e, 1 + e);
    const Real turn = is_wide(old, new_) ? Real(0) : token.given_gap;
    carried = (nothing || old < new_ ? smaller : larger) * mu - turn;
    if (d.wanted()) d.gradient.at(r)[at] = joined(d.write, token.old_d, carried);
    if (k.wanted()) {
      const Real held_k = written_by(d, k) ? k.gradient.at(r)[at] : token.old_k;
      k.gradient.at(r)[at] = joined(k.write, held_k, (nothing || old < new_ ? larger : smaller) * mu + turn);
    }
  }
  CT_HD void finish(int r, std::int64_t first, Real carried) const {
    if (start.wanted()) put(start.write, start.gradient.at(r) + first, carried);
  }
  CT_HD Real made(int r, std::int64_t at) const { return l.value.at(r)[at]; }

 private:
  CT_HD static bool is_wide(Real old, Real new_) { return new_ - old >= Real(kWideGap); }
  CT_HD static Real distance(Real x, Real y) { return x < y ? y - x : x - y; }
  /// x / y, 1 <= y <= 2. On CUDA without a branch for other numbers, so that tokens do not wait for each other's.
  CT_HD static Real quotient(Real x, Real y) {
#if defined(__CUDA_ARCH__)
    if constexpr (sizeof(Real) == sizeof(float)) {
      float inverse;
      asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(y));
      return x * fmaf(fmaf(-y, inverse, 1.0f), inverse, inverse);
    }
#endif
    return x / y;
  }
};
CROSSTALK_SWEPT(LogScan)

}  // namespace crosstalk
