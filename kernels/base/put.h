// Stores or adds, as a Write says: the same on the CPU and on CUDA.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/base/exec.h"

namespace crosstalk {

template <class Real>
CT_HD inline void put(Write mode, Real* target, Real value) {
  *target = mode == Write::add ? *target + value : value;
}

}  // namespace crosstalk
