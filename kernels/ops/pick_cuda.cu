// A thread a number; backward a warp a query, the first of those at a token, whose lanes look for the others.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "kernels/ops/each.cuh"
#include "kernels/ops/operand_pairs.cuh"
#include "kernels/ops/pick.h"

namespace crosstalk {
namespace {
using namespace device;

constexpr int kThreads = 128;

/// sum += x, or of two operands in its place sum the first and other the second.
template <class Real>
__device__ __forceinline__ void add_to(bool rounded, Real x, Real& sum, Real& other) {
  if constexpr (std::is_same_v<Real, float>) {
    const unsigned pair = __float_as_uint(x);
    if (rounded) other += __uint_as_float(pair & 0xffff0000), x = __uint_as_float(pair << 16);
  }
  sum += x;
}

/// Adds to the gradient of tokens at which queries stand.
template <class Real>
__global__ void __launch_bounds__(kThreads) pick_backward(const __grid_constant__ Pick<Real> op) {
  const std::int64_t query = static_cast<std::int64_t>(blockIdx.x) * (kThreads / 32) + threadIdx.x / 32;
  const int r = blockIdx.y, lane = threadIdx.x % 32, Q = op.Q(), N = op.columns();
  if (query >= static_cast<std::int64_t>(op.x.value.dim(0)) * Q) return;
  const int b = static_cast<int>(query / Q), first = static_cast<int>(query % Q), t = op.token(r, b, first);
  if (t < 0) return;
  const Real* d_y = op.y.gradient.at(r) + static_cast<std::int64_t>(b) * Q * N;
  Real* d_x = op.x.gradient.at(r) + (static_cast<std::int64_t>(b) * op.T() + t) * N;
  const auto here = [&](int q0) {
    return __ballot_sync(kFullWarp, q0 + lane < Q && op.token(r, b, q0 + lane) == t);
  };
  for (int q0 = 0; q0 <= first; q0 += 32) {  // an earlier query at this token has them all
    if (const unsigned found = here(q0); found && q0 + __ffs(static_cast<int>(found)) - 1 < first) return;
  }
  for (int i = lane; i - lane < N; i += 32) {
    Real sum = 0, other = 0;
    for (int q0 = first / 32 * 32; q0 < Q; q0 += 32) {
      for (unsigned found = here(q0); found; found &= found - 1) {
        const int q = q0 + __ffs(static_cast<int>(found)) - 1;
        if (i < N) add_to(op.rounded, d_y[static_cast<std::int64_t>(q) * N + i], sum, other);
      }
    }
    if (i >= N) continue;
    add_to(op.rounded, d_x[i], sum, other);
    if constexpr (std::is_same_v<Real, float>) {
      if (op.rounded) sum = __uint_as_float(bf16_pair(sum, other));
    }
    d_x[i] = sum;
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
  const std::int64_t queries = static_cast<std::int64_t>(op.x.value.dim(0)) * op.Q();
  const Tensor<Real>& d_x = op.x.gradient;
  if (op.x.value.size() == 0 || op.x.value.R == 0) return;
  if (op.x.write == Write::overwrite) {
    const std::size_t bytes = static_cast<std::size_t>(d_x.size()) * sizeof(Real),
                      apart = static_cast<std::size_t>(d_x.replica_stride) * sizeof(Real);
    cudaMemset2DAsync(d_x.data, std::max(bytes, apart), 0, bytes, static_cast<std::size_t>(d_x.R),
                      stream_of(exec));
    check_launch("pick backward");
  }
  if (queries == 0) return;
  pick_backward<<<dim3(blocks_for(queries, kThreads / 32), static_cast<unsigned>(op.x.value.R)), kThreads, 0,
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
