// Dropout, four elements after four.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/sweep_cpu.h"
#include "kernels/elementwise/dropout.h"

namespace crosstalk {
CROSSTALK_SWEEPS(cpu, Dropout)
}
