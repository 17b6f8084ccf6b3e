// Arguments of kernels of a chain of elementwise ops (map_chain.h).
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/base/device/cuda_launch.cuh"
#include "kernels/elementwise/map_chain.h"

namespace crosstalk {
namespace {

enum class Access : int { whole, row, parameter };

/// Facts of a chain that kernels want to know. Bit n of a set says something of register n.
template <class Real>
struct ChainArgs {
  using Op = MapChain<Real>;
  struct Input {
    Tensor<Real> value, gradient;
    Write write;
    Access access;
    Broadcast within;  ///< of a parameter: against the numbers that a block takes at once
    int period;        ///< of a parameter that has a number for each of a token's: how many; else 0
    int piece_at;
  };
  int inputs, outputs, steps, D, C, n, span, piece_size;
  unsigned wanted = 0;  ///< their gradients lead to some input's
  unsigned needed = 0;  ///< their values are read by backward
  unsigned given = 0;   ///< outputs whose gradients come in
  StepMath<Real> step[Op::kMostSteps];
  Input x[Op::kMostInputs];
  Tensor<Real> y[Op::kMostOutputs], d_y[Op::kMostOutputs], pieces;
  int made_by[Op::kMostOutputs];

  explicit ChainArgs(const Op& op)
      : inputs(op.inputs),
        outputs(op.outputs),
        steps(op.steps),
        D(op.D()),
        C(op.dims[2]),
        n(static_cast<int>(op.size())),
        span(op.span()),
        piece_size(op.piece_at(op.inputs)),
        pieces(op.pieces.value) {
    for (int i = 0; i < inputs; ++i) {
      const bool parameter = op.is_parameter(i);
      x[i] = {op.x[i].value,
              op.x[i].gradient,
              op.x[i].write,
              op.whole(i) ? Access::whole
              : parameter ? Access::parameter
                          : Access::row,
              {},
              parameter && op.x[i].value.size() == op.period() ? op.period() : 0,
              op.piece_at(i)};
      wanted |= op.x[i].wanted() ? 1u << i : 0;
      if (!parameter) continue;
      Tensor<Real> block = shaped<Real>(1, {1, span / op.period(), op.dims[2], op.dims[3]});
      x[i].within = broadcast(block, op.x[i].value);
    }
    for (int s = 0; s < steps; ++s) {
      step[s] = StepMath<Real>(op.step[s]);
      const bool leads = has(wanted, step[s].a) || (has_two(step[s].kind) && has(wanted, step[s].b));
      wanted |= leads ? 1u << (inputs + s) : 0;
    }
    for (int o = 0; o < outputs; ++o)
      y[o] = op.y[o].value, d_y[o] = op.y[o].gradient, made_by[o] = op.made_by[o];
    for (int o = 0; o < outputs; ++o) given |= d_y[o].data ? 1u << made_by[o] : 0;
    for (int s = steps - 1; s >= 0; --s) {
      const StepMath<Real>& one = step[s];
      const bool again = has(needed, inputs + s), back = has(wanted, inputs + s),
                 both = one.kind == ChainKind::multiply || one.kind == ChainKind::larger;
      const bool norm = one.kind == ChainKind::l2 || one.kind == ChainKind::rms;
      if (again || (back && (both || norm || one.of_a.map != MapKind::affine))) needed |= 1u << one.a;
      if (has_two(one.kind) && (again || (back && (both || one.of_b.map != MapKind::affine))))
        needed |= 1u << one.b;
    }
  }
  /// Numbers of a token.
  CT_HD int period() const { return C * D; }
  CT_HD static bool has(unsigned set, int n) { return set >> n & 1; }
};

}  // namespace
}  // namespace crosstalk
