// Delays: a thread a number.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/each.cuh"
#include "kernels/elementwise/delay.h"

namespace crosstalk {
CROSSTALK_SWEEPS(cuda, Delay)
}
