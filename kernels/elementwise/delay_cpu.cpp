// Delays, number after number.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/elementwise/delay.h"

#include "kernels/base/parallel.h"

namespace crosstalk {
namespace {

constexpr std::int64_t kNumbers = 1024;

template <class F>
void numbers(const Exec& exec, int R, std::int64_t n, const F& f) {
  parallel_blocks(exec, R, n, kNumbers, [&](int r, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) f(r, i);
  });
}

}  // namespace

template <class Real>
void forward_cpu(const Exec& exec, const Delay<Real>& op) {
  numbers(exec, op.x.value.R, op.x.value.size(), [&](int r, std::int64_t i) { op.take(r, i); });
}
template <class Real>
void backward_cpu(const Exec& exec, const Delay<Real>& op) {
  if (op.x.wanted())
    numbers(exec, op.x.value.R, op.x.value.size(), [&](int r, std::int64_t i) { op.give_back(r, i); });
  if (op.start.wanted())
    numbers(exec, op.x.value.R, op.start.value.size(), [&](int r, std::int64_t i) { op.give_start(r, i); });
}

CROSSTALK_INSTANTIATE(cpu, Delay)

}  // namespace crosstalk
