// Runs a law (law_walk.h) on the CPU: a sequence and head an item of work.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/base/parallel.h"
#include "kernels/law/law_walk.h"

namespace crosstalk::law {

// Not inlined: the compiler may contract products in another way in each inlined copy (one thread, several
// threads), and the bits would differ.
template <class Law, class Op>
[[gnu::noinline]] void forward_item(const Op& op, int r, int item) {
  walk_forward(Law(op, r, item), Alone{});
}
template <class Law, class Op>
[[gnu::noinline]] void backward_item(const Op& op, int r, int item) {
  walk_backward(Law(op, r, item), Alone{});
}

template <class Op>
void run(const Exec& exec, const Op& op, void (*item_of)(const Op&, int, int)) {
  parallel_items(exec, op.o.value.R, std::int64_t{op.B()} * op.H(),
                 [&](int r, std::int64_t item) { item_of(op, r, static_cast<int>(item)); });
}

#define CROSSTALK_LAW_CPU(Op, Law)                               \
  template <class Real>                                          \
  void forward_cpu(const Exec& exec, const Op<Real>& op) {       \
    law::run(exec, op, law::forward_item<Law<Real>, Op<Real>>);  \
  }                                                              \
  template <class Real>                                          \
  void backward_cpu(const Exec& exec, const Op<Real>& op) {      \
    law::run(exec, op, law::backward_item<Law<Real>, Op<Real>>); \
  }                                                              \
  CROSSTALK_INSTANTIATE(cpu, Op)

}  // namespace crosstalk::law
