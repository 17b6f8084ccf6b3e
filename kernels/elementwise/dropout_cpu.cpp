// Dropout on the CPU.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/elementwise/dropout.h"

#include <algorithm>

#include "kernels/base/parallel.h"

namespace crosstalk {
namespace {

constexpr std::int64_t kFours = 256;

/// f(r, element, whether it is kept) for all elements.
template <class Real, class F>
void each(const Exec& exec, const Dropout<Real>& op, const Tensor<std::int32_t>& draw, const F& f) {
  const std::int64_t n = op.x.value.size();
  parallel_blocks(exec, op.x.value.R, (n + 3) / 4, kFours, [&](int r, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const unsigned bits = op.kept(r, i, draw.at(r)[0]);
      for (std::int64_t j = 4 * i; j < std::min(n, 4 * i + 4); ++j) f(r, j, (bits >> (j - 4 * i) & 1u) != 0);
    }
  });
}

}  // namespace

template <class Real>
void forward_cpu(const Exec& exec, const Dropout<Real>& op) {
  const Real scale = op.scale();
  each(exec, op, op.draw.value, [&](int r, std::int64_t i, bool kept) {
    op.y.value.at(r)[i] = kept ? op.x.value.at(r)[i] * scale : Real(0);
  });
  parallel_items(exec, op.x.value.R, 1,
                 [&](int r, std::int64_t) { op.drawn.value.at(r)[0] = op.draw.value.at(r)[0]; });
}

template <class Real>
void backward_cpu(const Exec& exec, const Dropout<Real>& op) {
  if (!op.x.wanted()) return;
  const Real scale = op.scale();
  each(exec, op, op.drawn.value, [&](int r, std::int64_t i, bool kept) {
    put(op.x.write, op.x.gradient.at(r) + i, kept ? op.y.gradient.at(r)[i] * scale : Real(0));
  });
}

CROSSTALK_INSTANTIATE(cpu, Dropout)

}  // namespace crosstalk
