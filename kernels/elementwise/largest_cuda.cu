// The largest numbers of rows: a thread an entry.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/each.cuh"
#include "kernels/elementwise/largest.h"

namespace crosstalk {
CROSSTALK_SWEEPS(cuda, Largest)
CROSSTALK_SWEEPS(cuda, MarkLargest)
}  // namespace crosstalk
