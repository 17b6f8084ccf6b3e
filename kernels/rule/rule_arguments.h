// What a compiled law gets at its launch (rule_registers.cuh). Its text is also part of what NVRTC compiles: no includes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace crosstalk {

/// Tensors of a RuleRead. Pointers to replica 0; strides in numbers from replica to replica; absent: null.
template <class Real>
struct RuleArguments {
  struct Input {
    const Real* value;
    Real* gradient;
    long long value_stride, gradient_stride;
    int adds;  ///< the gradient is added to
  };
  struct End {
    Real* value;
    const Real* gradient;
    long long value_stride, gradient_stride;
  };
  Input inputs[24];
  End ends[8];
  const int* position;
  Real *o, *states, *work;
  const Real* d_o;
  long long position_stride, o_stride, d_o_stride, states_stride, work_stride, work_numbers;
  int T, Q, H;
  int length;  ///< tokens between two kept states
  int shared;  ///< inputs of tokens and of queries are one tensor: its gradient is stored twice, and added to
};

}  // namespace crosstalk
