// Long convolutions: a thread a channel of a token, or of a tap of the filter.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/each.cuh"
#include "kernels/conv/long_conv.h"

namespace crosstalk {
CROSSTALK_SWEEPS(cuda, LongConv)
}
