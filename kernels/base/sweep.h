// An op each of whose elements is worked out alone: one text for the CPU and for CUDA. It says which of its functions run, and
// over how many elements of a replica:
//
//   CROSSTALK_ELEMENT(take)
//   template <class Sweep>
//   void sweep_forward(const Sweep& sweep) const { sweep(y.value.size(), take_of{}); }  // take(r, i) of element i
//   template <class Sweep>
//   void sweep_backward(const Sweep& sweep) const { ... }  // none: there is no gradient
//
// CROSSTALK_SWEEPS(cpu, Delay) in x_cpu.cpp (sweep_cpu.h) and CROSSTALK_SWEEPS(cuda, Delay) in x_cuda.cu (each.cuh) make of
// these its versions.
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
