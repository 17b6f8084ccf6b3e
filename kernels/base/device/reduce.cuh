// Sums in a fixed order that many kernels want: over the lanes of a warp so far, over a block, over pieces.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/base/device/early_launch.cuh"

namespace crosstalk::device {

/// Sum of x over this lane and those before it.
template <class Real>
CT_DEVICE Real warp_scan(Real x) {
  CT_UNROLL(int offset = 1; offset < 32; offset *= 2) {
    const Real other = __shfl_up_sync(kFullWarp, x, offset);
    if (CT_LANE >= offset) x += other;
  }
  return x;
}

/// f(.., f(f(x_0, x_1), x_2) ..) of what a block's warps have, the same in every thread. All must call it; a block is of
/// whole warps.
template <class Real, class F>
CT_DEVICE Real over_warps(Real x, const F& f) {
  __shared__ Real warps[32];
  __syncthreads();  // who calls it twice has read the first
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = x;
  __syncthreads();
  Real all = warps[0];
  for (int w = 1; w < static_cast<int>(blockDim.x) / 32; ++w) all = f(all, warps[w]);
  return all;
}

/// Sum over a block, the same in every thread.
template <class Real>
CT_DEVICE Real block_sum(Real x) {
  return over_warps(warp_sum(x), [](Real a, Real b) { return a + b; });
}

namespace {

/// A block has kColumns entries, and kRows threads an entry take pieces in turn.
template <int kColumns, int kRows, class Real, class First, class Keep>
__global__ void __launch_bounds__(kColumns* kRows)
    sum_pieces_kernel(std::int64_t n, int pieces, std::int64_t step, const First first, const Keep keep) {
  wait_for_earlier();
  __shared__ Real sums[kRows > 1 ? kRows : 1][kColumns];
  const int r = static_cast<int>(blockIdx.y), row = CT_THREAD / kColumns, column = CT_THREAD % kColumns;
  const std::int64_t i = std::int64_t{blockIdx.x} * kColumns + column;
  Real sum = 0;
  if (i < n) {
    const Real* const from = first(r, i);
#pragma unroll 8
    for (int p = row; p < pieces; p += kRows) sum += from[p * step];
  }
  if constexpr (kRows > 1) {
    sums[row][column] = sum;
    __syncthreads();
    if (row > 0) return;
#pragma unroll 8
    for (int p = 1; p < kRows; ++p) sum += sums[p][column];
  }
  if (i < n) keep(r, i, sum);
}

/// keep(r, i, sum) for every entry i of every replica: the sum over its pieces, of which the first lies at first(r, i)
/// and the others `step` apart. kRows threads take the pieces of an entry in turn; what each has is added in their order.
template <class Real, int kColumns, int kRows, class First, class Keep>
void sum_pieces(const Exec& exec, const char* name, int R, std::int64_t n, int pieces, std::int64_t step,
                const First& first, const Keep& keep) {
  launch_early(exec, name, sum_pieces_kernel<kColumns, kRows, Real, First, Keep>,
               per_replica(blocks_for(n, kColumns), R), kColumns * kRows, 0, n, pieces, step, first, keep);
}

}  // namespace
}  // namespace crosstalk::device
