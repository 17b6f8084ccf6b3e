// The recurrence engine on the CPU, token after token (state_read_law.h), whatever the form: the specification.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/law/law_cpu.h"
#include "kernels/recurrence/state_read_law.h"

namespace crosstalk {
CROSSTALK_LAW_CPU(StateRead, law::State)
}
