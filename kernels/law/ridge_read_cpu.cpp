// MesaNet's memory on the CPU: the specification (ridge_read_law.h).
// SPDX-License-Identifier: Apache-2.0
#include "kernels/law/law_cpu.h"
#include "kernels/law/ridge_read_law.h"

namespace crosstalk {
CROSSTALK_LAW_CPU(RidgeRead, law::Ridge)
}
