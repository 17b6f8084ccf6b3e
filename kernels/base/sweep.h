// An op each of whose elements is worked out alone: one text for the CPU and for CUDA. It says which of its functions run, and
// over how many elements of a replica:
//
//   CROSSTALK_SWEEP(y.value.size(), take)               // forward calls take(r, i) for element i
//   CROSSTALK_SWEEP_BACK(x, x.value.size(), give_back)  // backward likewise, if x wants a gradient; none: there is none
//
// or, of several functions, CROSSTALK_ELEMENT(take) for each, and sweep_forward(sweep) and sweep_backward(sweep), which call
// sweep(elements, take_of{}). Behind the op stands CROSSTALK_SWEPT(Delay), of which the build makes its versions
// (kernels/CMakeLists.txt): CROSSTALK_SWEEPS(cpu, Delay) (sweep_cpu.h) and CROSSTALK_SWEEPS(cuda, Delay) (each.cuh).
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/base/op.h"
#include "kernels/base/put.h"

namespace crosstalk {

/// Names a function of one element by a type, since nvcc takes no pointers to members in the names of kernels.
#define CROSSTALK_ELEMENT(function)                               \
  struct function##_of {                                          \
    template <class Op>                                           \
    CT_HD static void call(const Op& op, int r, std::int64_t i) { \
      op.function(r, i);                                          \
    }                                                             \
  };

#define CROSSTALK_SWEEP(elements, function)      \
  CROSSTALK_ELEMENT(function)                    \
  template <class Sweep>                         \
  void sweep_forward(const Sweep& sweep) const { \
    sweep(elements, function##_of{});            \
  }
#define CROSSTALK_SWEEP_BACK(input, elements, function)   \
  CROSSTALK_ELEMENT(function)                             \
  template <class Sweep>                                  \
  void sweep_backward(const Sweep& sweep) const {         \
    if (input.wanted()) sweep(elements, function##_of{}); \
  }

/// Declares the versions of an op, as CROSSTALK_OP, and lets the build make them.
#define CROSSTALK_SWEPT(Op) CROSSTALK_OP(Op)

#define CROSSTALK_SWEEPS(device, Op)                                                        \
  template <class Real>                                                                     \
  void forward_##device(const Exec& exec, const Op<Real>& op) {                             \
    op.sweep_forward(device##_sweep(exec, op));                                             \
  }                                                                                         \
  template <class Real>                                                                     \
  void backward_##device([[maybe_unused]] const Exec& exec, const Op<Real>& op) {           \
    if constexpr (!without_gradient<Op<Real>>) op.sweep_backward(device##_sweep(exec, op)); \
  }                                                                                         \
  CROSSTALK_INSTANTIATE(device, Op)

template <class Op>
concept without_gradient = requires {
  Op::kWithoutGradient;
};

}  // namespace crosstalk
