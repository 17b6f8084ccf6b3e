// Delays, number after number.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/sweep_cpu.h"
#include "kernels/elementwise/delay.h"

namespace crosstalk {
CROSSTALK_SWEEPS(cpu, Delay)
}
