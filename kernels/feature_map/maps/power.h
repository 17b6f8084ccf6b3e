// (1 + q.k / n)^n, exactly: features sqrt(n! / ((n - |a|)! a! n^|a|)) x^a for all monomials up to degree n.
// It goes to exp(q.k) as n grows, and is not negative for even n.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/feature_map/maps/monomials.h"

namespace crosstalk::maps {

struct PowerWeight {  // n! / (a_0! a_1! ...) n^-(n - a_0)
  template <class Real>
  CT_HD static Real factor(int k, int index, int same, int n) {
    return static_cast<Real>(k) / static_cast<Real>(index == 0 ? same : same * n);
  }
};

struct power : Monomials<PowerWeight> {
  static MapInfo info() {
    return {
        .name = "power",
        .formula =
            "phi(x) = sqrt(n! / ((n - |a|)! a! n^|a|)) x^a for all |a| <= n: phi(q).phi(k) = (1 + q.k / n)^n",
        .d_dot = "C(d_key + degree, degree)",
        .source = "Su 2021, spaces.ac.cn/archives/8601",
        .divides = even,
        .options = {degree_option()},
        .resolve = resolve,
        .number = degree};
  }
};

}  // namespace crosstalk::maps
