// Long convolutions, number after number.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/sweep_cpu.h"
#include "kernels/conv/long_conv.h"

namespace crosstalk {
CROSSTALK_SWEEPS(cpu, LongConv)
}
