// ReLU against its definition.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/testing/map_oracle.h"

namespace crosstalk::checks::relu_test {
namespace {

Numbers relu(const Numbers& x, int, const Numbers&) {
  Numbers y;
  for (const double e : x) y.push_back(std::max(0.0, e));
  return y;
}
CROSSTALK_MAP_ORACLE(relu, relu, {7}, {33});

}  // namespace
}  // namespace crosstalk::checks::relu_test
