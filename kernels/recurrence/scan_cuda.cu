// Scans: a thread a channel.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/cuda_launch.cuh"
#include "kernels/recurrence/scan_steps.h"

namespace crosstalk {
namespace {
using namespace device;

constexpr int kThreads = 64;

template <class Channel, class Op>
__global__ void __launch_bounds__(kThreads) walk_forward(const __grid_constant__ Op op, int B, int T, int N) {
  const std::int64_t channel = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (channel >= static_cast<std::int64_t>(B) * N) return;
  const Channel c(op, blockIdx.y, static_cast<int>(channel / N), static_cast<int>(channel % N));
  auto carried = c.before(0);
#pragma unroll 4
  for (int t = 0; t < T; ++t) c.forward(t, carried);
}

template <class Channel, class Op>
__global__ void __launch_bounds__(kThreads)
    walk_backward(const __grid_constant__ Op op, int B, int T, int N) {
  const std::int64_t channel = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (channel >= static_cast<std::int64_t>(B) * N) return;
  const Channel c(op, blockIdx.y, static_cast<int>(channel / N), static_cast<int>(channel % N));
  decltype(c.before(0)) carried{};
#pragma unroll 4
  for (int t = T - 1; t >= 0; --t) c.backward(t, carried);
  c.finish(carried);
}

template <class Real, class Kernel, class Op>
void launch(const Exec& exec, const char* name, Kernel kernel, const Op& op, const Tensor<Real>& shape) {
  if (shape.size() == 0 || shape.R == 0) return;
  const int B = shape.dim(0), T = shape.dim(1), N = shape.dim(2);
  const dim3 grid(blocks_for(static_cast<std::int64_t>(B) * N, kThreads), static_cast<unsigned>(shape.R));
  kernel<<<grid, kThreads, 0, stream_of(exec)>>>(op, B, T, N);
  check_launch(name);
}

}  // namespace

template <class Real>
void forward_cuda(const Exec& exec, const Scan<Real>& op) {
  launch(exec, "scan", walk_forward<ScanChannel<Real>, Scan<Real>>, op, op.log_a.value);
}
template <class Real>
void backward_cuda(const Exec& exec, const Scan<Real>& op) {
  launch(exec, "scan backward", walk_backward<ScanChannel<Real>, Scan<Real>>, op, op.log_a.value);
}
template <class Real>
void forward_cuda(const Exec& exec, const LogScan<Real>& op) {
  launch(exec, "logscan", walk_forward<LogScanChannel<Real>, LogScan<Real>>, op, op.d.value);
}
template <class Real>
void backward_cuda(const Exec& exec, const LogScan<Real>& op) {
  launch(exec, "logscan backward", walk_backward<LogScanChannel<Real>, LogScan<Real>>, op, op.d.value);
}

CROSSTALK_INSTANTIATE(cuda, Scan)
CROSSTALK_INSTANTIATE(cuda, LogScan)

}  // namespace crosstalk
