// Short convolutions, channel after channel.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv/short_conv.h"

#include <vector>

#include "kernels/base/parallel.h"

namespace crosstalk {
namespace {

constexpr int kChannels = 16;  ///< channels of an item of work

/// Calls f(r, b, c) for every channel of every sequence.
template <class Real, class F>
void for_channels(const Exec& exec, const ShortConv<Real>& op, F&& f) {
  const int B = op.x.value.dim(0), C = op.x.value.dim(2), blocks = (C + kChannels - 1) / kChannels;
  parallel_items(exec, op.x.value.R, std::int64_t{B} * blocks, [&](int r, std::int64_t item) {
    const int begin = static_cast<int>(item % blocks) * kChannels;
    for (int c = begin; c < std::min(C, begin + kChannels); ++c) f(r, static_cast<int>(item / blocks), c);
  });
}

}  // namespace

template <class Real>
void forward_cpu(const Exec& exec, const ShortConv<Real>& op) {
  for_channels(exec, op, [&](int r, int b, int c) {
    const ConvChannel<Real> channel(op, r, b, c);
    Real* y = op.y.value.at(r) + (channel.x - op.x.value.at(r));
    for (int t = 0; t < channel.T; ++t) y[channel.at(t)] = channel.y(t);
  });
}

template <class Real>
void backward_cpu(const Exec& exec, const ShortConv<Real>& op) {
  if (op.x.wanted()) {
    for_channels(exec, op, [&](int r, int b, int c) {
      const ConvChannel<Real> channel(op, r, b, c);
      Real* d_x = op.x.gradient.at(r) + (channel.x - op.x.value.at(r));
      for (int t = 0; t < channel.T; ++t) put(op.x.write, d_x + channel.at(t), channel.d_x(t));
    });
  }
  if (!op.w.wanted()) return;
  const int B = op.x.value.dim(0), C = op.x.value.dim(2), W = op.w.value.dim(1);
  parallel_blocks(exec, op.x.value.R, C, kChannels, [&](int r, std::int64_t begin, std::int64_t end) {
    std::vector<Real> sum(static_cast<std::size_t>(W));
    for (std::int64_t c = begin; c < end; ++c) {
      std::fill(sum.begin(), sum.end(), Real(0));
      for (int b = 0; b < B; ++b) {
        const ConvChannel<Real> channel(op, r, b, static_cast<int>(c));
        for (int t = 0; t < channel.T; ++t) {
          const Real d_u = channel.d_u(t);
          for (int i = 0; i < W && i <= t; ++i)
            sum[static_cast<std::size_t>(W - 1 - i)] += d_u * channel.x[channel.at(t - i)];
        }
      }
      for (int i = 0; i < W; ++i)
        put(op.w.write, op.w.gradient.at(r) + c * W + i, sum[static_cast<std::size_t>(i)]);
    }
  });
}

CROSSTALK_INSTANTIATE(cpu, ShortConv)

}  // namespace crosstalk
