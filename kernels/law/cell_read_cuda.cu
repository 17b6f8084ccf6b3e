// Nonlinear recurrences on CUDA (cell_read_law.h).
// SPDX-License-Identifier: Apache-2.0
#include "kernels/law/cell_read_law.h"
#include "kernels/law/law_team.cuh"

namespace crosstalk {
CROSSTALK_LAW_CUDA(CellRead, law::CellLaw)
}
