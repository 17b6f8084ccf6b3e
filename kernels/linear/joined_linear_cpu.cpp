// Affine maps of one input on the CPU: Linear, one after the other.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/parallel.h"
#include "kernels/linear/joined_linear.h"

namespace crosstalk {

template <class Real>
void forward_cpu(const Exec& exec, const JoinedLinear<Real>& a) {
  for (int i = 0; i < a.outputs; ++i) forward_cpu(exec, a.part(i));
}

template <class Real>
void backward_cpu(const Exec& exec, const JoinedLinear<Real>& a) {
  a.backward_in_order([&](const Linear<Real>& one) { backward_cpu(exec, one); });
  // An output without a gradient adds nothing.
  for (int i = 0; i < a.outputs; ++i) {
    if (a.y[i].gradient.data) continue;
    for (const In<Real>* field : {&a.w[i], &a.b[i]}) {
      if (field->write != Write::overwrite) continue;
      parallel_items(exec, a.x.value.R, 1, [&](int r, std::int64_t) {
        std::fill_n(field->gradient.at(r), field->gradient.size(), Real(0));
      });
    }
  }
}

CROSSTALK_INSTANTIATE(cpu, JoinedLinear)

}  // namespace crosstalk
