// Nonlinear recurrences on the CPU: the specification (cell_read_law.h).
// SPDX-License-Identifier: Apache-2.0
#include "kernels/law/cell_read_law.h"
#include "kernels/law/law_cpu.h"

namespace crosstalk {
CROSSTALK_LAW_CPU(CellRead, law::CellLaw)
}
