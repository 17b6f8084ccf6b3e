// A thread a number; backward a warp a token, whose lanes look for the queries that stand there.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/ops/each.cuh"
#include "kernels/ops/pick.h"

namespace crosstalk {
namespace {
using namespace device;

constexpr int kThreads = 128;

template <class Real>
__global__ void __launch_bounds__(kThreads) pick_backward(const __grid_constant__ Pick<Real> op) {
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * (kThreads / 32) + threadIdx.x / 32;
  const int r = blockIdx.y, lane = threadIdx.x % 32, Q = op.Q(), T = op.T(), N = op.columns();
  if (row >= static_cast<std::int64_t>(op.x.value.dim(0)) * T) return;
  const int b = static_cast<int>(row / T), t = static_cast<int>(row % T);
  for (int i = lane; i - lane < N; i += 32) {
    Real sum = 0;
    bool any = op.x.write == Write::overwrite;
    for (int q0 = 0; q0 < Q; q0 += 32) {
      unsigned here = __ballot_sync(kFullWarp, q0 + lane < Q && op.token(r, b, q0 + lane) == t);
      any = any || here;
      for (; here; here &= here - 1) {
        const int q = q0 + __ffs(static_cast<int>(here)) - 1;
        if (i < N) sum += op.y.gradient.at(r)[(static_cast<std::int64_t>(b) * Q + q) * N + i];
      }
    }
    if (i < N && any) put(op.x.write, op.x.gradient.at(r) + row * N + i, sum);
  }
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
  const std::int64_t rows = static_cast<std::int64_t>(op.x.value.dim(0)) * op.T();
  if (rows == 0 || op.columns() == 0 || op.x.value.R == 0) return;
  pick_backward<<<dim3(blocks_for(rows, kThreads / 32), static_cast<unsigned>(op.x.value.R)), kThreads, 0,
                  stream_of(exec)>>>(op);
  check_launch("pick backward");
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
