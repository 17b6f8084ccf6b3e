// Numbers of a rule_program.h's memory, one or four neighbours at a time: one text of an operation for both.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/base/host_device.h"

namespace crosstalk::law {

/// Four neighbouring numbers, which move in wide accesses.
template <class Real>
struct alignas(16) Four {
  Real x[4];
};
/// Four neighbouring indices.
struct Quad {
  int first;
};
CT_HD inline Quad operator+(int i, Quad j) { return {i + j.first}; }

#define CROSSTALK_FOUR(value)                     \
  {                                               \
    Four<Real> y;                                 \
    for (int i = 0; i < 4; ++i) y.x[i] = (value); \
    return y;                                     \
  }
#define CROSSTALK_FOUR_OPERATOR(op)                                             \
  template <class Real>                                                         \
  CT_HD inline Four<Real> operator op(const Four<Real>& p, const Four<Real>& q) \
      CROSSTALK_FOUR(p.x[i] op q.x[i]) template <class Real>                    \
      CT_HD inline Four<Real> operator op(const Four<Real>& p, Real q)          \
          CROSSTALK_FOUR(p.x[i] op q) template <class Real>                     \
          CT_HD inline Four<Real> operator op(Real p, const Four<Real>& q) CROSSTALK_FOUR(p op q.x[i])
CROSSTALK_FOUR_OPERATOR(+)
CROSSTALK_FOUR_OPERATOR(-)
CROSSTALK_FOUR_OPERATOR(*)
CROSSTALK_FOUR_OPERATOR(/)

/// f(x), entry by entry.
CT_HD inline float each_of(float x, auto&& f) { return f(x); }
CT_HD inline double each_of(double x, auto&& f) { return f(x); }
template <class Real, class F>
CT_HD inline Four<Real> each_of(const Four<Real>& x, F&& f) CROSSTALK_FOUR(f(x.x[i])) template <class Real>
CT_HD inline Real larger(Real p, Real q) {
  return p < q ? q : p;
}
template <class Real>
CT_HD inline Real smaller(Real p, Real q) {
  return q < p ? q : p;
}
#define CROSSTALK_FOUR_FUNCTION(f)                                    \
  template <class Real>                                               \
  CT_HD inline Four<Real> f(const Four<Real>& p, const Four<Real>& q) \
      CROSSTALK_FOUR(f(p.x[i], q.x[i])) template <class Real>         \
      CT_HD inline Four<Real> f(const Four<Real>& p, Real q)          \
          CROSSTALK_FOUR(f(p.x[i], q)) template <class Real>          \
          CT_HD inline Four<Real> f(Real p, const Four<Real>& q) CROSSTALK_FOUR(f(p, q.x[i]))
CROSSTALK_FOUR_FUNCTION(larger)
CROSSTALK_FOUR_FUNCTION(smaller)

/// Numbers of the program's memory that one index or four reach.
template <class Real>
struct Numbers {
  const Real* at;
  CT_HD Real operator[](int i) const { return at[i]; }
  CT_HD Four<Real> operator[](Quad i) const { return *reinterpret_cast<const Four<Real>*>(at + i.first); }
};

#undef CROSSTALK_FOUR
#undef CROSSTALK_FOUR_OPERATOR
#undef CROSSTALK_FOUR_FUNCTION

}  // namespace crosstalk::law
