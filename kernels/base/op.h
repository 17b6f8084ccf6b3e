// An op: one struct with named tensors, forward and backward together.
//
//   template <class Real> struct Scale {
//     double factor = 1;
//     In<Real> x;   // [R,N,D]
//     Out<Real> y;  // [R,N,D]
//     static constexpr const char* kName = "scale";
//     CROSSTALK_FIELDS(x, y)
//   };
//   CROSSTALK_OP(Scale)
//
// declares its four versions. forward_cpu and backward_cpu stand in x_cpu.cpp (the specification),
// forward_cuda and backward_cuda in x_cuda.cu. Ops never allocate device memory and never synchronise; what
// forward keeps for backward is Saved, what one call needs for itself is Work.
//
// Tensors are Real, unless CROSSTALK_BF16_FIELDS(x, y) names the field: its kernels read both formats, and
// plan() refuses, by a sentence, what they do not read. check_writes(), where an op has it, refuses what backward would
// do to gradients; a graph calls it when it is planned.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <stdexcept>
#include <string>

#include "kernels/base/exec.h"

namespace crosstalk {

/// An input and what backward does to its gradient. Absent (optional) inputs have no value and Write::none.
template <class Real>
struct In {
  Tensor<Real> value = {}, gradient = {};
  Write write = Write::none;
  void* variable = nullptr;      ///< whose value this is; for the graph
  const void* memory = nullptr;  ///< the same of all views of a variable, before there is memory
  CT_HD explicit operator bool() const { return value.R > 0; }
  /// Tells whether backward has something to write.
  CT_HD bool wanted() const { return write != Write::none; }
};

/// An output and its incoming gradient. An output that nobody differentiates has a gradient without memory
/// (gradient.data is null). An op with `kWithoutGradient` is never differentiated; one with `kLoss` is where
/// backward starts: its outputs are never differentiated either, and forward writes the inputs' gradients.
template <class Real>
struct Out {
  Tensor<Real> value = {}, gradient = {};
  void* variable = nullptr;
  CT_HD explicit operator bool() const { return value.R > 0; }
};

/// Written by forward for backward. Has no memory in a graph that does not train: forward then skips it.
template <class Real>
struct Saved {
  Tensor<Real> value;
  void* variable = nullptr;
  CT_HD explicit operator bool() const { return value.data != nullptr; }
};

/// Scratch memory of one call of forward or backward, with nothing in it before or after.
template <class Real>
struct Work {
  Tensor<Real> value;
  void* variable = nullptr;
  CT_HD explicit operator bool() const { return value.data != nullptr; }
};

/// Integers that the batch brings. `source`: where they lie now, since a graph moves from batch to batch.
struct Ids {
  Tensor<std::int32_t> value;
  const Tensor<std::int32_t>* source = nullptr;
  CT_HD explicit operator bool() const { return value.R > 0; }
};

/// Integers that forward writes.
struct OutIds {
  Tensor<std::int32_t> value;
  Tensor<std::int32_t>* source = nullptr;  ///< where a graph keeps them
};

/// Refuses, in an op's plan(), what does not fit: const PlanCheck want{kName}; want(q && k, "q and k are needed").
struct PlanCheck {
  const char* op;
  void operator()(bool ok, const char* what = "shapes do not fit") const {
    if (!ok) throw std::logic_error(std::string("[") + op + "] " + what);
  }
};

/// A tensor's shape.
template <class T>
Tensor<T> without_memory(Tensor<T> tensor) {
  tensor.data = nullptr;
  return tensor;
}

/// Makes fields(f) of an op: f("x", x), f("y", y) for CROSSTALK_FIELDS(x, y), of at most 27 fields.
#define CROSSTALK_FIELDS(...)                     \
  template <class F>                              \
  void fields(F&& f) {                            \
    CROSSTALK_AGAIN(CROSSTALK_FIELD(__VA_ARGS__)) \
  }
#define CROSSTALK_FIELD(field, ...) \
  f(#field, field);                 \
  __VA_OPT__(CROSSTALK_NEXT_FIELD CROSSTALK_PARENTHESES(__VA_ARGS__))
#define CROSSTALK_NEXT_FIELD() CROSSTALK_FIELD
#define CROSSTALK_PARENTHESES ()
#define CROSSTALK_AGAIN(...) CROSSTALK_AGAIN9(CROSSTALK_AGAIN9(CROSSTALK_AGAIN9(__VA_ARGS__)))
#define CROSSTALK_AGAIN9(...) CROSSTALK_AGAIN3(CROSSTALK_AGAIN3(CROSSTALK_AGAIN3(__VA_ARGS__)))
#define CROSSTALK_AGAIN3(...) CROSSTALK_AGAIN1(CROSSTALK_AGAIN1(CROSSTALK_AGAIN1(__VA_ARGS__)))
#define CROSSTALK_AGAIN1(...) __VA_ARGS__

/// Names the fields whose values or gradients may be bf16 (CUDA, float). plan() sees their formats and, of
/// outputs, keeps them: it sets shapes.
#define CROSSTALK_BF16_FIELDS(...)                \
  template <class F>                              \
  void bf16_fields(F&& f) {                       \
    CROSSTALK_AGAIN(CROSSTALK_FIELD(__VA_ARGS__)) \
  }

/// Declares the four versions of an op.
#define CROSSTALK_OP(Op)                                \
  template <class Real>                                 \
  void forward_cpu(const Exec& exec, const Op<Real>&);  \
  template <class Real>                                 \
  void backward_cpu(const Exec& exec, const Op<Real>&); \
  template <class Real>                                 \
  void forward_cuda(const Exec& exec, const Op<Real>&); \
  template <class Real>                                 \
  void backward_cuda(const Exec& exec, const Op<Real>&);

/// Instantiates one device's versions for both precisions: CROSSTALK_INSTANTIATE(cpu, Scale).
#define CROSSTALK_INSTANTIATE(device, Op)                              \
  template void forward_##device(const Exec& exec, const Op<float>&);  \
  template void forward_##device(const Exec& exec, const Op<double>&); \
  template void backward_##device(const Exec& exec, const Op<float>&); \
  template void backward_##device(const Exec& exec, const Op<double>&);

/// Makes one device's versions of an op, for both precisions, by what is called with kBack: CROSSTALK_BOTH_WAYS(cuda, Solve,
/// run<kBack>).
#define CROSSTALK_BOTH_WAYS(device, Op, ...)                     \
  template <class Real>                                          \
  void forward_##device(const Exec& exec, const Op<Real>& op) {  \
    constexpr bool kBack = false;                                \
    __VA_ARGS__(exec, op);                                       \
  }                                                              \
  template <class Real>                                          \
  void backward_##device(const Exec& exec, const Op<Real>& op) { \
    constexpr bool kBack = true;                                 \
    __VA_ARGS__(exec, op);                                       \
  }                                                              \
  CROSSTALK_INSTANTIATE(device, Op)

void forward(const Exec& exec, const auto& op) {
  if (exec.device == Device::cuda)
    forward_cuda(exec, op);
  else
    forward_cpu(exec, op);
}

void backward(const Exec& exec, const auto& op) {
  if (exec.device == Device::cuda)
    backward_cuda(exec, op);
  else
    backward_cpu(exec, op);
}

}  // namespace crosstalk
