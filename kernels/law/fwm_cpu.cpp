// The fast weight memory on the CPU: the specification (fwm_law.h).
// SPDX-License-Identifier: Apache-2.0
#include "kernels/law/fwm_law.h"
#include "kernels/law/law_cpu.h"

namespace crosstalk {
CROSSTALK_LAW_CPU(FwmRead, law::Fwm)
}
