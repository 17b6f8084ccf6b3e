// exp against its definition.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/testing/map_oracle.h"

namespace crosstalk::checks::exp_test {
namespace {

Numbers exp(const Numbers& x, int, const Numbers&) {
  Numbers y;
  for (const double e : x) y.push_back(std::pow(2.0, e / std::log(2.0)));
  return y;
}
CROSSTALK_MAP_ORACLE(exp, exp, {7}, {33});

}  // namespace
}  // namespace crosstalk::checks::exp_test
