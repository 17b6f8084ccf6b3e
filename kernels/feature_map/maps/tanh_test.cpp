// tanh against its definition.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/testing/map_oracle.h"

namespace crosstalk::checks::tanh_test {
namespace {

double tanh(double e) { return 1 - 2 / (std::exp(2 * e) + 1); }
CROSSTALK_MAP_ORACLE(tanh, entries<tanh>, {7}, {33});

}  // namespace
}  // namespace crosstalk::checks::tanh_test
