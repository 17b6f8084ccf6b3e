// A warp as the team that writes one sequence (tasks/team.h).
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "tasks/draw_cuda.cuh"
#include "tasks/team.h"

namespace crosstalk::drawing {

struct Warp {
  __device__ int lane() const { return static_cast<int>(threadIdx.x % 32); }
  __device__ int lanes() const { return 32; }
  __device__ void sync() const { __syncwarp(); }
  __device__ int rank(bool yes, int& all) const {
    const unsigned votes = __ballot_sync(device::kFullWarp, yes);
    all = __popc(votes);
    return __popc(votes & ((1u << lane()) - 1));
  }
  __device__ bool first_of(std::int32_t x) const {
    return __ffs(static_cast<int>(__match_any_sync(device::kFullWarp, x))) - 1 == lane();
  }
  __device__ void set_bits(std::uint32_t* word, std::uint32_t bits) const { atomicOr(word, bits); }
};

/// One warp a sequence. Scratch lies in shared memory where it fits, else in the workspace, 8-byte aligned in both
/// where its size is odd or even: a sequence's share is rounded up to an even number of integers.
template <class Generator, class Spec>
__global__ void __launch_bounds__(32)
    team_kernel(const __grid_constant__ Spec spec, const __grid_constant__ DrawArgs a, bool shared,
                int stride) {
  extern __shared__ std::int64_t room[];
  const int r = static_cast<int>(blockIdx.y), b = static_cast<int>(blockIdx.x);
  std::int32_t* scratch = shared ? reinterpret_cast<std::int32_t*>(room)
                                 : a.scratch.at(r) + static_cast<std::int64_t>(b) * stride;
  Generator()(Warp(), spec, a.data_seed(r), a.split, static_cast<std::uint64_t>(a.number(r, b)), a.view(r, b),
              scratch);
}

/// `scratch_ints` is even or odd; DrawArgs has room for one more.
template <class Generator, class Spec>
void launch_team(const Spec& spec, int scratch_ints, const Exec& exec, const DrawArgs& a) {
  const int stride = scratch_ints + scratch_ints % 2;
  const bool shared = stride <= kSharedInts;
  const std::size_t bytes = shared ? static_cast<std::size_t>(stride) * 4 : 0;
  device::launch(exec, "draw", team_kernel<Generator, Spec>, device::per_replica(a.B, a.tokens.R), 32, bytes,
                 spec, a, shared, stride);
}

}  // namespace crosstalk::drawing
