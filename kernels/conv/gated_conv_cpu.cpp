// GatedConv on the CPU, channel by channel.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv/gated_conv.h"

#include "kernels/base/parallel.h"

namespace crosstalk {
namespace {
constexpr std::int64_t kBlock = 1024;
}

template <class Real>
void forward_cpu(const Exec& exec, const GatedConv<Real>& op) {
  parallel_blocks(exec, op.y.value.R, op.y.value.size(), kBlock,
                  [&](int r, std::int64_t begin, std::int64_t end) {
                    for (std::int64_t n = begin; n < end; ++n)
                      op.y.value.at(r)[n] = op.conv(r, n) * op.gate.value.at(r)[n] + op.x.value.at(r)[n];
                  });
}

template <class Real>
void backward_cpu(const Exec& exec, const GatedConv<Real>& op) {
  const std::int64_t size = op.y.gradient.size();
  const int R = op.y.gradient.R, C = op.C(), W = op.W();
  parallel_blocks(exec, R, size, kBlock, [&](int r, std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n) {
      if (op.x.wanted()) put(op.x.write, op.x.gradient.at(r) + n, op.d_x(r, n));
      if (op.gate.wanted())
        put(op.gate.write, op.gate.gradient.at(r) + n, op.y.gradient.at(r)[n] * op.conv(r, n));
    }
  });
  parallel_items(exec, R, C, [&](int r, std::int64_t c) {
    for (int e = 0; e <= W; ++e) {
      Real sum = 0;
      for (std::int64_t n = c; n < size; n += C) sum += op.d_weight(r, n, e);
      if (e < W && op.w.wanted()) put(op.w.write, op.w.gradient.at(r) + c * W + e, sum);
      if (e == W && op.bias.wanted()) put(op.bias.write, op.bias.gradient.at(r) + c, sum);
    }
  });
}

CROSSTALK_INSTANTIATE(cpu, GatedConv)

}  // namespace crosstalk
