// Turns, row after row.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/sweep_cpu.h"
#include "kernels/elementwise/turn.h"

namespace crosstalk {
CROSSTALK_SWEEPS(cpu, Turn)
}
