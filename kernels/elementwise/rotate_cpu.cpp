// Rotary positions, pair after pair.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/sweep_cpu.h"
#include "kernels/elementwise/rotate.h"

namespace crosstalk {
CROSSTALK_SWEEPS(cpu, Rotate)
}
