// Taylor: phi(q).phi(k) = sum over m <= n of (q.k)^m / m!, exactly: features x^a / sqrt(a!) for all monomials
// up to degree n. The series of exp(q.k), without the d^(-1/4) of Based (Arora et al. 2024).
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/feature_map/maps/monomials.h"

namespace crosstalk::maps {

struct TaylorWeight {  // (q.k)^m / m! = sum over |a| = m of q^a k^a / a!
  template <class Real>
  CT_HD static Real factor(int, int index, int same, int) {
    return index == 0 ? Real(1) : 1 / static_cast<Real>(same);
  }
};

struct taylor : Monomials<TaylorWeight> {
  static MapInfo info() {
    return {.name = "taylor",
            .formula =
                "phi(x) = x^a / sqrt(a!) for all |a| <= n: phi(q).phi(k) = sum of (q.k)^m / m! over m <= n",
            .d_dot = "C(d_key + degree, degree)",
            .source = "Su 2021, spaces.ac.cn/archives/8601; Arora et al. 2024, arXiv 2402.18668 (n = 2)",
            .divides = even,  // its minimum is 0.5 at n = 2, 0.27 at n = 4
            .options = {degree_option()},
            .resolve = resolve,
            .number = degree};
  }
};

}  // namespace crosstalk::maps
