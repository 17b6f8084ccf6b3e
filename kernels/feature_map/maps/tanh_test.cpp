// tanh against its definition.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/testing/map_oracle.h"

namespace crosstalk::checks::tanh_test {
namespace {

Numbers tanh(const Numbers& x, int, const Numbers&) {
  Numbers y;
  for (const double e : x) y.push_back(1 - 2 / (std::exp(2 * e) + 1));
  return y;
}
CROSSTALK_MAP_ORACLE(tanh, tanh, {7}, {33});

}  // namespace
}  // namespace crosstalk::checks::tanh_test
