// Numbers of tokens as rows: a thread a number.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/each.cuh"
#include "kernels/embedding/token_numbers.h"

namespace crosstalk {
CROSSTALK_SWEEPS(cuda, TokenNumbers)
}
