// exp against its definition.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/testing/map_oracle.h"

namespace crosstalk::checks::exp_test {
namespace {

double exp(double e) { return std::pow(2.0, e / std::log(2.0)); }
CROSSTALK_MAP_ORACLE(exp, entries<exp>, {7}, {33});

}  // namespace
}  // namespace crosstalk::checks::exp_test
