// Standard normals from uniforms without libm: Wichura 1988, Algorithm AS 241 (PPND16), relative accuracy
// about 1e-16. Only + - * / and sqrt, all exactly rounded: where it is compiled without contraction
// (-ffp-contract=off, --fmad=false), every machine and every GPU computes the same bits.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/base/host_device.h"

namespace crosstalk {
namespace detail {

CT_HD inline std::uint64_t bits_of(double x) {
  std::uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

CT_HD inline double double_of(std::uint64_t bits) {
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

// Natural logarithm for 0 < x < 1 by range reduction to m in [sqrt(1/2), sqrt(2)) and the series
// log m = 2 (s + s^3/3 + s^5/5 + ...), s = (m - 1)/(m + 1), |s| < 0.172: 12 terms reach double precision.
CT_HD inline double portable_log(double x) {
  const auto bits = bits_of(x);
  int exponent = static_cast<int>((bits >> 52) & 0x7ff) - 1022;
  double m = double_of((bits & 0x000fffffffffffffULL) | 0x3fe0000000000000ULL);  // in [0.5, 1)
  if (m < 0.70710678118654752) {
    m *= 2;
    --exponent;
  }
  const double s = (m - 1) / (m + 1);
  const double s2 = s * s;
  double series = 1.0 / 23;
  for (int k = 21; k >= 1; k -= 2) series = series * s2 + 1.0 / k;
  return 2 * s * series + exponent * 0.69314718055994530942;
}

template <int N>
CT_HD double polynomial(const double (&c)[N], double x) {
  double sum = c[N - 1];
  for (int i = N - 2; i >= 0; --i) sum = sum * x + c[i];
  return sum;
}

}  // namespace detail

/// The body of normal_from_uniform() (kernels/base/random.h).
CT_HD inline double standard_normal(double u) {
  static constexpr double a[] = {3.3871328727963666080e0,  1.3314166789178437745e+2, 1.9715909503065514427e+3,
                                 1.3731693765509461125e+4, 4.5921953931549871457e+4, 6.7265770927008700853e+4,
                                 3.3430575583588128105e+4, 2.5090809287301226727e+3};
  static constexpr double b[] = {1.0,
                                 4.2313330701600911252e+1,
                                 6.8718700749205790830e+2,
                                 5.3941960214247511077e+3,
                                 2.1213794301586595867e+4,
                                 3.9307895800092710610e+4,
                                 2.8729085735721942674e+4,
                                 5.2264952788528545610e+3};
  static constexpr double c[] = {1.42343711074968357734e0,  4.63033784615654529590e0,
                                 5.76949722146069140550e0,  3.64784832476320460504e0,
                                 1.27045825245236838258e0,  2.41780725177450611770e-1,
                                 2.27238449892691845833e-2, 7.74545014278341407640e-4};
  static constexpr double d[] = {1.0,
                                 2.05319162663775882187e0,
                                 1.67638483018380384940e0,
                                 6.89767334985100004550e-1,
                                 1.48103976427480074590e-1,
                                 1.51986665636164571966e-2,
                                 5.47593808499534494600e-4,
                                 1.05075007164441684324e-9};
  static constexpr double e[] = {6.65790464350110377720e0,  5.46378491116411436990e0,
                                 1.78482653991729133580e0,  2.96560571828504891230e-1,
                                 2.65321895265761230930e-2, 1.24266094738807843860e-3,
                                 2.71155556874348757815e-5, 2.01033439929228813265e-7};
  static constexpr double f[] = {1.0,
                                 5.99832206555887937690e-1,
                                 1.36929880922735805310e-1,
                                 1.48753612908506148525e-2,
                                 7.86869131145613259100e-4,
                                 1.84631831751005468180e-5,
                                 1.42151175831644588870e-7,
                                 2.04426310338993978564e-15};
  const double q = u - 0.5;
  if (std::fabs(q) <= 0.425) {
    const double r = 0.180625 - q * q;
    return q * detail::polynomial(a, r) / detail::polynomial(b, r);
  }
  const double tail =
      std::sqrt(-detail::portable_log(q < 0 ? u : 1 - u));  // sqrt is exactly rounded everywhere
  double x = 0;
  if (tail <= 5)
    x = detail::polynomial(c, tail - 1.6) / detail::polynomial(d, tail - 1.6);
  else
    x = detail::polynomial(e, tail - 5) / detail::polynomial(f, tail - 5);
  return q < 0 ? -x : x;
}

}  // namespace crosstalk
