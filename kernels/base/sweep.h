// An op each of whose elements is worked out alone: one text for the CPU and for CUDA. It says which of its functions run, and
// over how many elements of a replica:
//
//   template <class Sweep>
//   void sweep_forward(const Sweep& sweep) const { sweep(y.value.size(), by<&Delay::take>); }  // take(r, i) of element i
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

template <auto kFunction>
struct By {
  template <class Op>
  CT_HD static void call(const Op& op, int r, std::int64_t i) {
    (op.*kFunction)(r, i);
  }
};
template <auto kFunction>
inline constexpr By<kFunction> by{};

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
