// The fast weight memory on CUDA: the form that the op was planned with, else token after token (fwm_law.h).
// SPDX-License-Identifier: Apache-2.0
#include "kernels/law/fwm_law.h"
#include "kernels/law/law_team.cuh"

namespace crosstalk {
CROSSTALK_LAW_CUDA(FwmRead, law::Fwm)
}
