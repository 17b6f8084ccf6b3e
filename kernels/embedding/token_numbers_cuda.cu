// A thread a number.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/each.cuh"
#include "kernels/embedding/token_numbers.h"

namespace crosstalk {
namespace {
using namespace device;
}

template <class Real>
void forward_cuda(const Exec& exec, const TokenNumbers<Real>& op) {
  each(exec, "token_numbers", op.y.value.R, op.y.value.size(),
       [=] __device__(int r, std::int64_t i) { op.y.value.at(r)[i] = op.number(r, i); });
}

template <class Real>
void backward_cuda(const Exec&, const TokenNumbers<Real>&) {}

CROSSTALK_INSTANTIATE(cuda, TokenNumbers)

}  // namespace crosstalk
