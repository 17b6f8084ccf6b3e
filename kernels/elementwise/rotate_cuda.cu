// Rotary positions: a thread a pair of channels of all heads.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/each.cuh"
#include "kernels/elementwise/rotate.h"

namespace crosstalk {
CROSSTALK_SWEEPS(cuda, Rotate)
}
