// Long convolutions on the CPU: the specification.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/parallel.h"
#include "kernels/conv/long_conv.h"

namespace crosstalk {
namespace {

// Not inlined: products may be contracted in two ways, and each inlined copy could choose its own.
template <class Real>
[[gnu::noinline]] void forward_token(const LongConv<Real>& op, int r, std::int64_t token) {
  for (int c = 0; c < op.C(); ++c)
    op.convolve(r, static_cast<int>(token / op.T()), static_cast<int>(token % op.T()), c);
}
template <class Real>
[[gnu::noinline]] void backward_token(const LongConv<Real>& op, int r, std::int64_t token) {
  for (int c = 0; c < op.C(); ++c)
    op.correlate(r, static_cast<int>(token / op.T()), static_cast<int>(token % op.T()), c);
}
template <class Real>
[[gnu::noinline]] void backward_filter(const LongConv<Real>& op, int r, std::int64_t s) {
  for (int c = 0; c < op.C(); ++c) op.filter_gradient(r, static_cast<int>(s), c);
}

}  // namespace

template <class Real>
void forward_cpu(const Exec& exec, const LongConv<Real>& op) {
  parallel_items(exec, op.x.value.R, std::int64_t{op.B()} * op.T(),
                 [&](int r, std::int64_t token) { forward_token(op, r, token); });
}
template <class Real>
void backward_cpu(const Exec& exec, const LongConv<Real>& op) {
  if (op.x.wanted())
    parallel_items(exec, op.x.value.R, std::int64_t{op.B()} * op.T(),
                   [&](int r, std::int64_t token) { backward_token(op, r, token); });
  if (op.h.wanted())
    parallel_items(exec, op.x.value.R, op.L(), [&](int r, std::int64_t s) { backward_filter(op, r, s); });
}

CROSSTALK_INSTANTIATE(cpu, LongConv)

}  // namespace crosstalk
