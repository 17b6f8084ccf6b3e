// MesaNet's memory on CUDA: the form that the op was planned with, else token after token (ridge_read_law.h).
// SPDX-License-Identifier: Apache-2.0
#include "kernels/law/law_team.cuh"
#include "kernels/law/ridge_read_law.h"

namespace crosstalk {
CROSSTALK_LAW_CUDA(RidgeRead, law::Ridge)
}
