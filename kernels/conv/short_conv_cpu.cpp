// Short convolutions, element by element; weights channel by channel.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv/short_conv.h"

#include <vector>

#include "kernels/base/parallel.h"

namespace crosstalk {
namespace {
constexpr std::int64_t kBlock = 1024, kChannels = 16;  ///< elements and channels of an item of work
}

template <class Real>
void forward_cpu(const Exec& exec, const ShortConv<Real>& op) {
  parallel_each(exec, op.x.value.R, op.x.value.size(), kBlock,
                [&](int r, std::int64_t n) { op.y.value.at(r)[n] = op.output(r, n); });
}

template <class Real>
void backward_cpu(const Exec& exec, const ShortConv<Real>& op) {
  const std::int64_t size = op.x.value.size();
  const int R = op.x.value.R, C = op.C(), W = op.W();
  if (op.x.wanted() || op.gate.wanted())
    parallel_each(exec, R, size, kBlock, [&](int r, std::int64_t n) { op.put_inputs(r, n); });
  if (!op.wants_weights()) return;
  parallel_blocks(exec, R, C, kChannels, [&](int r, std::int64_t begin, std::int64_t end) {
    std::vector<Real> sum(static_cast<std::size_t>(W) + 1);
    for (std::int64_t c = begin; c < end; ++c) {
      std::fill(sum.begin(), sum.end(), Real(0));
      for (std::int64_t n = c; n < size; n += C) {
        const Real d_u = op.d_u(r, n);
        for (int e = 0; e <= W; ++e) sum[static_cast<std::size_t>(e)] += d_u * op.factor(r, n, e);
      }
      for (int e = 0; e <= W; ++e) op.put_weight(r, static_cast<int>(c), e, sum[static_cast<std::size_t>(e)]);
    }
  });
}

CROSSTALK_INSTANTIATE(cpu, ShortConv)

}  // namespace crosstalk
