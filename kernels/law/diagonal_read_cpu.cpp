// The state whose entries fade on their own, on the CPU: the specification (diagonal_read_law.h).
// SPDX-License-Identifier: Apache-2.0
#include "kernels/law/diagonal_read_law.h"
#include "kernels/law/law_cpu.h"

namespace crosstalk {
CROSSTALK_LAW_CPU(DiagonalRead, law::Diagonal)
}
