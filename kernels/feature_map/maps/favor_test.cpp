// Its law, E phi(q).phi(k) = exp(q.k), stands in favor_features_test.cpp with that of the random matrix.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/testing/map_oracle.h"

namespace crosstalk::checks::favor_test {
namespace {

/// Powers are put into one exponent, in long double.
Numbers favor(const Numbers& x, int halves, const Numbers& omega) {
  const std::size_t m = omega.size() / x.size();
  long double square = 0;
  for (const double e : x) square += static_cast<long double>(e) * e;
  Numbers y;
  for (int half = 0; half < halves; ++half) {
    for (std::size_t i = 0; i < m; ++i) {
      long double along = 0;
      for (std::size_t j = 0; j < x.size(); ++j)
        along += static_cast<long double>(omega[i * x.size() + j]) * x[j];
      y.push_back(
          static_cast<double>(std::exp((half == 0 ? along : -along) - square / 2) /
                              std::sqrt(static_cast<long double>(halves) * static_cast<long double>(m))));
    }
  }
  return y;
}
CROSSTALK_MAP_ORACLE(favor, favor, {4, 2, 6}, {3, 2, 1}, {17, 2, 35}, {4, 1, 6}, {17, 1, 35});

}  // namespace
}  // namespace crosstalk::checks::favor_test
