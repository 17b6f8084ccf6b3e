// Dropout: a thread four neighbours, which share a block of random words.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/each.cuh"
#include "kernels/elementwise/dropout.h"

namespace crosstalk {
CROSSTALK_SWEEPS(cuda, Dropout)
}
