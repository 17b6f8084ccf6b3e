// Functions of float and double by one name on the CPU and on CUDA: the C library's, each in its own precision.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>

#include "kernels/base/host_device.h"

namespace crosstalk {

#define CROSSTALK_FUNCTION(name)                               \
  CT_HD inline float name##_(float x) { return ::name##f(x); } \
  CT_HD inline double name##_(double x) { return ::name(x); }
CROSSTALK_FUNCTION(exp)
CROSSTALK_FUNCTION(log1p)
CROSSTALK_FUNCTION(sin)
CROSSTALK_FUNCTION(cos)
CROSSTALK_FUNCTION(tanh)
CROSSTALK_FUNCTION(sqrt)
#undef CROSSTALK_FUNCTION

/// 1 / (1 + e^-x), also of -inf. What is left of 1 is that of -x: a difference would lose its digits.
template <class Real>
CT_HD inline Real sigmoid_(Real x) {
  const Real e = exp_(x < 0 ? x : -x);
  return x < 0 ? e / (1 + e) : 1 / (1 + e);
}

}  // namespace crosstalk
