// The state whose entries fade on their own, on CUDA: the form that the op was planned with, else token after token
// (diagonal_read_law.h).
// SPDX-License-Identifier: Apache-2.0
#include "kernels/law/diagonal_read_law.h"
#include "kernels/law/law_team.cuh"

namespace crosstalk {
CROSSTALK_LAW_CUDA(DiagonalRead, law::Diagonal)
}
