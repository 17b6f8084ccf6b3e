// The largest numbers of rows, entry after entry.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/sweep_cpu.h"
#include "kernels/elementwise/largest.h"

namespace crosstalk {
CROSSTALK_SWEEPS(cpu, Largest)
CROSSTALK_SWEEPS(cpu, MarkLargest)
}  // namespace crosstalk
