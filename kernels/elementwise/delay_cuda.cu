// Delays: a thread a number.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/each.cuh"
#include "kernels/elementwise/delay.h"

namespace crosstalk {
using namespace device;

template <class Real>
void forward_cuda(const Exec& exec, const Delay<Real>& op) {
  each(exec, "delay", op.x.value.R, op.x.value.size(),
       [=] __device__(int r, std::int64_t i) { op.take(r, i); });
}
template <class Real>
void backward_cuda(const Exec& exec, const Delay<Real>& op) {
  if (op.x.wanted())
    each(exec, "delay backward", op.x.value.R, op.x.value.size(),
         [=] __device__(int r, std::int64_t i) { op.give_back(r, i); });
  if (op.start.wanted())
    each(exec, "delay start", op.x.value.R, op.start.value.size(),
         [=] __device__(int r, std::int64_t i) { op.give_start(r, i); });
}

CROSSTALK_INSTANTIATE(cuda, Delay)

}  // namespace crosstalk
