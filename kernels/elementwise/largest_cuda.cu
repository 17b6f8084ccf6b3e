// The largest numbers of rows: a thread an entry.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/each.cuh"
#include "kernels/elementwise/largest.h"

namespace crosstalk {
using namespace device;

template <class Real>
void forward_cuda(const Exec& exec, const Largest<Real>& op) {
  each(exec, "largest", op.x.value.R, op.x.value.size(),
       [=] __device__(int r, std::int64_t i) { op.take(r, i); });
}
template <class Real>
void backward_cuda(const Exec& exec, const Largest<Real>& op) {
  if (!op.x.wanted()) return;
  each(exec, "largest backward", op.x.value.R, op.x.value.size(),
       [=] __device__(int r, std::int64_t i) { op.give_back(r, i); });
}
template <class Real>
void forward_cuda(const Exec& exec, const MarkLargest<Real>& op) {
  each(exec, "mark_largest", op.x.value.R, op.x.value.size(),
       [=] __device__(int r, std::int64_t i) { op.take(r, i); });
}
template <class Real>
void backward_cuda(const Exec&, const MarkLargest<Real>&) {}

CROSSTALK_INSTANTIATE(cuda, Largest)
CROSSTALK_INSTANTIATE(cuda, MarkLargest)

}  // namespace crosstalk
