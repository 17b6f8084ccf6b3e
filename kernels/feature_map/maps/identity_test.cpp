// The identity against itself.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/testing/map_oracle.h"

namespace crosstalk::checks::identity_test {
namespace {

Numbers identity(const Numbers& x, int, const Numbers&) { return x; }
CROSSTALK_MAP_ORACLE(identity, identity, {7}, {1});

}  // namespace
}  // namespace crosstalk::checks::identity_test
