// Turns: a thread a row.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/each.cuh"
#include "kernels/elementwise/turn.h"

namespace crosstalk {
using namespace device;

template <class Real>
void forward_cuda(const Exec& exec, const Turn<Real>& op) {
  each(exec, "turn", op.x.value.R, op.x.value.rows(),
       [=] __device__(int r, std::int64_t row) { op.turn_row(r, row); });
}
template <class Real>
void backward_cuda(const Exec& exec, const Turn<Real>& op) {
  each(exec, "turn backward", op.x.value.R, op.x.value.rows(),
       [=] __device__(int r, std::int64_t row) { op.turn_back(r, row); });
}

CROSSTALK_INSTANTIATE(cuda, Turn)

}  // namespace crosstalk
