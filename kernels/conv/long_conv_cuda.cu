// Long convolutions: a thread a channel of a token, or of a tap of the filter.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/each.cuh"
#include "kernels/conv/long_conv.h"

namespace crosstalk {
using namespace device;

template <class Real>
void forward_cuda(const Exec& exec, const LongConv<Real>& op) {
  const int T = op.T(), C = op.C();
  each(exec, "long_conv", op.x.value.R, op.x.value.size(), [=] __device__(int r, std::int64_t i) {
    op.convolve(r, static_cast<int>(i / C / T), static_cast<int>(i / C % T), static_cast<int>(i % C));
  });
}
template <class Real>
void backward_cuda(const Exec& exec, const LongConv<Real>& op) {
  const int T = op.T(), C = op.C();
  if (op.x.wanted()) {
    each(exec, "long_conv backward", op.x.value.R, op.x.value.size(), [=] __device__(int r, std::int64_t i) {
      op.correlate(r, static_cast<int>(i / C / T), static_cast<int>(i / C % T), static_cast<int>(i % C));
    });
  }
  if (op.h.wanted()) {
    each(exec, "long_conv filter", op.x.value.R, op.h.value.size(), [=] __device__(int r, std::int64_t i) {
      op.filter_gradient(r, static_cast<int>(i / C), static_cast<int>(i % C));
    });
  }
}

CROSSTALK_INSTANTIATE(cuda, LongConv)

}  // namespace crosstalk
