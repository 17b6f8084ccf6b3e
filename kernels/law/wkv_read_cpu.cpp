// RWKV-4's memory on the CPU: the specification (wkv_read_law.h).
// SPDX-License-Identifier: Apache-2.0
#include "kernels/law/law_cpu.h"
#include "kernels/law/wkv_read_law.h"

namespace crosstalk {
CROSSTALK_LAW_CPU(WkvRead, law::Wkv)
}
