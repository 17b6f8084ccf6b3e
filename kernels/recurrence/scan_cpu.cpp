// Scans: a few channels at a time walk through the tokens.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "kernels/base/parallel.h"
#include "kernels/recurrence/scan_steps.h"

namespace crosstalk {
namespace {

constexpr int kChannels = 32;  ///< of an item of work

// Not inlined: a product of complex numbers may be contracted to a fused multiply-add in two ways, and each
// inlined copy (one thread, several threads) could choose its own.
template <class Channel, class Carried, class Op>
[[gnu::noinline]] void walk_forward(const Op& op, int r, int b, int begin, int end, int T) {
  Carried carried[kChannels];
  for (int n = begin; n < end; ++n) carried[n - begin] = Channel(op, r, b, n).before(0);
  for (int t = 0; t < T; ++t) {
    for (int n = begin; n < end; ++n) Channel(op, r, b, n).forward(t, carried[n - begin]);
  }
}

template <class Channel, class Carried, class Op>
[[gnu::noinline]] void walk_backward(const Op& op, int r, int b, int begin, int end, int T) {
  Carried carried[kChannels] = {};
  for (int t = T - 1; t >= 0; --t) {
    for (int n = begin; n < end; ++n) Channel(op, r, b, n).backward(t, carried[n - begin]);
  }
  for (int n = begin; n < end; ++n) Channel(op, r, b, n).finish(carried[n - begin]);
}

/// Calls walk(op, r, b, begin, end, T) for all blocks of channels of [R,B,T,N].
template <class Real, class Op, class Walk>
void for_channels(const Exec& exec, const Op& op, const Tensor<Real>& shape, Walk walk) {
  const int B = shape.dim(0), T = shape.dim(1), N = shape.dim(2), blocks = (N + kChannels - 1) / kChannels;
  parallel_items(exec, shape.R, static_cast<std::int64_t>(B) * blocks, [&](int r, std::int64_t item) {
    const int begin = static_cast<int>(item % blocks) * kChannels;
    walk(op, r, static_cast<int>(item / blocks), begin, std::min(N, begin + kChannels), T);
  });
}

}  // namespace

template <class Real>
void forward_cpu(const Exec& exec, const Scan<Real>& op) {
  for_channels(exec, op, op.log_a.value, walk_forward<ScanChannel<Real>, Complex<Real>, Scan<Real>>);
}
template <class Real>
void backward_cpu(const Exec& exec, const Scan<Real>& op) {
  for_channels(exec, op, op.log_a.value, walk_backward<ScanChannel<Real>, Complex<Real>, Scan<Real>>);
}
template <class Real>
void forward_cpu(const Exec& exec, const LogScan<Real>& op) {
  for_channels(exec, op, op.d.value, walk_forward<LogScanChannel<Real>, Real, LogScan<Real>>);
}
template <class Real>
void backward_cpu(const Exec& exec, const LogScan<Real>& op) {
  for_channels(exec, op, op.d.value, walk_backward<LogScanChannel<Real>, Real, LogScan<Real>>);
}

CROSSTALK_INSTANTIATE(cpu, Scan)
CROSSTALK_INSTANTIATE(cpu, LogScan)

}  // namespace crosstalk
