// Runs a law (law_walk.h) on the CPU: a sequence and head an item of work.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/base/parallel.h"
#include "kernels/law/law_walk.h"

namespace crosstalk::law {

/// Walks every sequence and head.
template <template <class> class Law, bool kBack, template <class> class Op, class Real>
void run(const Exec& exec, const Op<Real>& op) {
  parallel_items(exec, op.o.value.R, std::int64_t{op.B()} * op.H(), [&](int r, std::int64_t item) {
    const Law<Real> law(op, r, static_cast<int>(item));
    kBack ? walk_backward(law, Alone{}) : walk_forward(law, Alone{});
  });
}

}  // namespace crosstalk::law
