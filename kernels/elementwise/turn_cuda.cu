// Turns: a thread a row.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/each.cuh"
#include "kernels/elementwise/turn.h"

namespace crosstalk {
CROSSTALK_SWEEPS(cuda, Turn)
}
