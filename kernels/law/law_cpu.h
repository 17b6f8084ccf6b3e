// Runs a law (law_walk.h) on the CPU: a sequence and head an item of work.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/base/parallel.h"
#include "kernels/law/law_walk.h"

namespace crosstalk::law {

/// walk(law, team) of every sequence and head.
template <class Law, class Op, class Walk>
void run(const Exec& exec, const Op& op, const Walk& walk) {
  parallel_items(exec, op.o.value.R, std::int64_t{op.B()} * op.H(),
                 [&](int r, std::int64_t item) { walk(Law(op, r, static_cast<int>(item)), Alone{}); });
}

#define CROSSTALK_LAW_CPU(Op, Law)                                                                     \
  template <class Real>                                                                                \
  void forward_cpu(const Exec& exec, const Op<Real>& op) {                                             \
    law::run<Law<Real>>(exec, op, [](const auto& law, law::Alone team) { walk_forward(law, team); });  \
  }                                                                                                    \
  template <class Real>                                                                                \
  void backward_cpu(const Exec& exec, const Op<Real>& op) {                                            \
    law::run<Law<Real>>(exec, op, [](const auto& law, law::Alone team) { walk_backward(law, team); }); \
  }                                                                                                    \
  CROSSTALK_INSTANTIATE(cpu, Op)

}  // namespace crosstalk::law
