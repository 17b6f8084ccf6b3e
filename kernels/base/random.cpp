// Compiled without contraction (CMakeLists.txt), so that every machine computes the same bits.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/random.h"

#include "kernels/base/normal.h"

namespace crosstalk {

double normal_from_uniform(double u) { return standard_normal(u); }

}  // namespace crosstalk
