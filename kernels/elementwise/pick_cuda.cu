// A warp a query; backward the first of those at a token, whose lanes look for the others.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "kernels/base/device/each.cuh"
#include "kernels/base/device/early_launch.cuh"
#include "kernels/elementwise/pick.h"
#include "kernels/matmul/operand_pairs.cuh"

namespace crosstalk {
namespace {
using namespace device;

constexpr int kThreads = 128, kColumns = 4;  ///< of a lane at once

/// Numbers of a token that move: those in bf16 in pairs, which take the place of a Real.
template <class Real>
CT_DEVICE int moved(const Pick<Real>& op) {
  return op.columns() / (op.is_bf16() ? 2 : 1);
}

/// sum += x, or of a pair in its place sum the first and other the second.
template <class Real>
CT_DEVICE void add_to(bool is_pair, Real x, Real& sum, Real& other) {
  if constexpr (std::is_same_v<Real, float>) {
    const unsigned pair = __float_as_uint(x);
    if (is_pair) other += __uint_as_float(pair & 0xffff0000), x = __uint_as_float(pair << 16);
  }
  sum += x;
}

/// A warp a query.
template <class Real>
__global__ void __launch_bounds__(kThreads) pick_rows(const __grid_constant__ Pick<Real> op) {
  wait_for_earlier();
  const std::int64_t query = std::int64_t{blockIdx.x} * (kThreads / 32) + threadIdx.x / 32;
  const int r = blockIdx.y, lane = threadIdx.x % 32, Q = op.Q(), N = moved(op);
  if (query >= std::int64_t{op.x.value.dim(0)} * Q) return;
  const int b = static_cast<int>(query / Q), t = op.token(r, b, static_cast<int>(query % Q));
  const Real* from = op.x.value.at(r) + (std::int64_t{b} * op.T() + max(t, 0)) * N;
  Real* to = op.y.value.at(r) + query * N;
#pragma unroll 4
  for (int i = lane; i < N; i += 32) to[i] = t < 0 ? Real(0) : from[i];
}

/// Adds to the gradient of tokens at which queries stand.
template <class Real>
__global__ void __launch_bounds__(kThreads) pick_backward(const __grid_constant__ Pick<Real> op) {
  const std::int64_t query = std::int64_t{blockIdx.x} * (kThreads / 32) + threadIdx.x / 32;
  const int r = blockIdx.y, lane = threadIdx.x % 32, Q = op.Q(), N = moved(op);
  if (query >= std::int64_t{op.x.value.dim(0)} * Q) return;
  const int b = static_cast<int>(query / Q), first = static_cast<int>(query % Q), t = op.token(r, b, first);
  if (t < 0) return;
  const Real* d_y = op.y.gradient.at(r) + std::int64_t{b} * Q * N;
  Real* d_x = op.x.gradient.at(r) + (std::int64_t{b} * op.T() + t) * N;
  const auto here = [&](int q0) {
    return __ballot_sync(kFullWarp, q0 + lane < Q && op.token(r, b, q0 + lane) == t);
  };
  for (int q0 = 0; q0 <= first; q0 += 32)  // an earlier query at this token has them all
    if (const unsigned found = here(q0); found && q0 + __ffs(static_cast<int>(found)) - 1 < first) return;
  const int q_first = first / 32 * 32;
  const unsigned found_first = here(q_first);
  for (int i0 = lane; i0 - lane < N; i0 += 32 * kColumns) {
    Real sum[kColumns] = {}, other[kColumns] = {};
    const auto add_row = [&](const Real* row) {
      CT_FOR(c, kColumns)
        if (i0 + 32 * c < N) add_to(op.is_bf16(), row[i0 + 32 * c], sum[c], other[c]);
    };
    add_row(d_x);
    for (int q0 = q_first; q0 < Q; q0 += 32)
      for (unsigned found = q0 == q_first ? found_first : here(q0); found; found &= found - 1)
        add_row(d_y + std::int64_t{q0 + __ffs(static_cast<int>(found)) - 1} * N);
    CT_FOR(c, kColumns) {
      if constexpr (std::is_same_v<Real, float>) {
        if (op.is_bf16()) sum[c] = __uint_as_float(bf16_pair(sum[c], other[c]));
      }
      if (i0 + 32 * c < N) d_x[i0 + 32 * c] = sum[c];
    }
  }
}

/// A warp a query.
template <class Real>
dim3 query_grid(const Pick<Real>& op) {
  return per_replica(blocks_for(std::int64_t{op.x.value.dim(0)} * op.Q(), kThreads / 32), op.x.value.R);
}

}  // namespace

template <class Real>
void forward_cuda(const Exec& exec, const Pick<Real>& op) {
  launch_early(exec, "pick", pick_rows<Real>, query_grid(op), kThreads, 0, op);
}

template <class Real>
void backward_cuda(const Exec& exec, const Pick<Real>& op) {
  if (!op.x.wanted()) return;
  const Tensor<Real>& d_x = op.x.gradient;
  if (op.x.value.size() == 0 || op.x.value.R == 0) return;
  if (op.x.write == Write::overwrite) {
    const std::size_t bytes = static_cast<std::size_t>(d_x.bytes()),
                      apart = static_cast<std::size_t>(d_x.replica_stride) * sizeof(Real);
    cudaMemset2DAsync(d_x.data, std::max(bytes, apart), 0, bytes, static_cast<std::size_t>(d_x.R),
                      stream_of(exec));
    check_launch("pick backward");
  }
  launch(exec, "pick backward", pick_backward<Real>, query_grid(op), kThreads, 0, op);
}

CROSSTALK_INSTANTIATE(cuda, Pick)
CROSSTALK_SWEEPS(cuda, Signs)

}  // namespace crosstalk
