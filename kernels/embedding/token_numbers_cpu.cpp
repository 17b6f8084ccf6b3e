// Numbers of tokens as rows, on the CPU.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/sweep_cpu.h"
#include "kernels/embedding/token_numbers.h"

namespace crosstalk {
CROSSTALK_SWEEPS(cpu, TokenNumbers)
}
