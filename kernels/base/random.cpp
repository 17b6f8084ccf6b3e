// Compiled without contraction (CMakeLists.txt), so that every machine computes the same bits.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/random.h"

#include <cmath>

#include "kernels/base/normal.h"

namespace crosstalk {

double normal_from_uniform(double u) { return standard_normal(u); }

double portable_log(double x) { return detail::portable_log(x); }

// e^x = 2^n e^r, |r| <= ln 2 / 2, with ln 2 in two parts and 14 terms of the series of e^r.
double portable_exp(double x) {
  const double n = std::floor(x * 1.44269504088896340736 + 0.5);
  const double r = (x - n * 0.693147180369123816490) - n * 1.90821492927058770002e-10;
  double series = 1;
  for (int k = 14; k >= 1; --k) series = 1 + series * r / k;
  return std::ldexp(series, static_cast<int>(n));
}

}  // namespace crosstalk
