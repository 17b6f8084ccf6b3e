// e^x in two instructions.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/base/host_device.h"

namespace crosstalk::device {

constexpr float kLog2E = 1.44269504088896340736f;

/// 2^x, 0 where that is no normal float.
CT_DEVICE float power_of_two(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// Exact to the rounding of x log2(e); below the smallest normal number 0.
CT_DEVICE float quick_exp(float x) { return power_of_two(x * kLog2E); }
CT_DEVICE double quick_exp(double x) { return exp(x); }

}  // namespace crosstalk::device
