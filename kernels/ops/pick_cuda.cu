// A thread a number.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/cuda_launch.cuh"
#include "kernels/ops/pick.h"

namespace crosstalk {
namespace {
using namespace device;

constexpr int kThreads = 128;

template <class F>
__global__ void __launch_bounds__(kThreads) each_kernel(std::int64_t n, const F f) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < n) f(static_cast<int>(blockIdx.y), i);
}

template <class F>
void each(const Exec& exec, const char* name, int R, std::int64_t n, const F& f) {
  if (n == 0 || R == 0) return;
  each_kernel<<<dim3(blocks_for(n, kThreads), static_cast<unsigned>(R)), kThreads, 0, stream_of(exec)>>>(n,
                                                                                                         f);
  check_launch(name);
}

}  // namespace

template <class Real>
void forward_cuda(const Exec& exec, const Pick<Real>& op) {
  const int Q = op.Q(), T = op.T(), N = op.columns();
  each(exec, "pick", op.x.value.R, op.y.value.size(), [=] __device__(int r, std::int64_t i) {
    const int b = static_cast<int>(i / N / Q), t = op.token(r, b, static_cast<int>(i / N % Q));
    op.y.value.at(r)[i] =
        t < 0 ? Real(0) : op.x.value.at(r)[(static_cast<std::int64_t>(b) * T + t) * N + i % N];
  });
}

template <class Real>
void backward_cuda(const Exec& exec, const Pick<Real>& op) {
  if (!op.x.wanted()) return;
  const int Q = op.Q(), T = op.T(), N = op.columns();
  each(exec, "pick backward", op.x.value.R, op.x.value.size(), [=] __device__(int r, std::int64_t i) {
    const int b = static_cast<int>(i / N / T), t = static_cast<int>(i / N % T);
    Real sum = 0;
    for (int q = 0; q < Q; ++q) {
      if (op.token(r, b, q) == t)
        sum += op.y.gradient.at(r)[(static_cast<std::int64_t>(b) * Q + q) * N + i % N];
    }
    put(op.x.write, op.x.gradient.at(r) + i, sum);
  });
}

template <class Real>
void forward_cuda(const Exec& exec, const Signs<Real>& op) {
  const int N = op.columns();
  each(exec, "signs", op.x.value.R, static_cast<std::int64_t>(op.B()) * N,
       [=] __device__(int r, std::int64_t i) {
         op.walk(r, static_cast<int>(i / N), static_cast<int>(i % N));
       });
}

template <class Real>
void backward_cuda(const Exec&, const Signs<Real>&) {}

CROSSTALK_INSTANTIATE(cuda, Pick)
CROSSTALK_INSTANTIATE(cuda, Signs)

}  // namespace crosstalk
