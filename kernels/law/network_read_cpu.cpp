// A memory that is a network, on the CPU: the specification (network_read_law.h).
// SPDX-License-Identifier: Apache-2.0
#include "kernels/law/law_cpu.h"
#include "kernels/law/network_read_law.h"

namespace crosstalk {
CROSSTALK_LAW_CPU(NetworkRead, law::Network)
}
