// The largest numbers of rows, entry after entry.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/parallel.h"
#include "kernels/elementwise/largest.h"

namespace crosstalk {
namespace {

constexpr std::int64_t kEntries = 1024;

template <class Op, class F>
void entries(const Exec& exec, const Op& op, const F& f) {
  parallel_blocks(exec, op.x.value.R, op.x.value.size(), kEntries,
                  [&](int r, std::int64_t begin, std::int64_t end) {
                    for (std::int64_t i = begin; i < end; ++i) f(r, i);
                  });
}

}  // namespace

template <class Real>
void forward_cpu(const Exec& exec, const Largest<Real>& op) {
  entries(exec, op, [&](int r, std::int64_t i) { op.take(r, i); });
}
template <class Real>
void backward_cpu(const Exec& exec, const Largest<Real>& op) {
  if (op.x.wanted()) entries(exec, op, [&](int r, std::int64_t i) { op.give_back(r, i); });
}
template <class Real>
void forward_cpu(const Exec& exec, const MarkLargest<Real>& op) {
  entries(exec, op, [&](int r, std::int64_t i) { op.take(r, i); });
}
template <class Real>
void backward_cpu(const Exec&, const MarkLargest<Real>&) {}

CROSSTALK_INSTANTIATE(cpu, Largest)
CROSSTALK_INSTANTIATE(cpu, MarkLargest)

}  // namespace crosstalk
