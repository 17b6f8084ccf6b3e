// ReLU against its definition.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/testing/map_oracle.h"

namespace crosstalk::checks::relu_test {
namespace {

double relu(double e) { return std::max(0.0, e); }
CROSSTALK_MAP_ORACLE(relu, entries<relu>, {7}, {33});

}  // namespace
}  // namespace crosstalk::checks::relu_test
