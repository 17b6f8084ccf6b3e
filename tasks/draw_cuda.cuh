// One thread writes one sequence. The pools that Fisher-Yates shuffles lie in shared memory where they fit, else in the
// workspace; either way the integers are those of the CPU. The build compiles CROSSTALK_DRAW_ON_CUDA(NAME) for every task
// NAME that has no kernel of its own in NAME_cuda.cu.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/base/device/cuda_launch.cuh"
#include "tasks/draw_cuda.h"

namespace crosstalk::drawing {

constexpr int kThreads = 32;
constexpr int kSharedInts = 24 * 1024;  // 96 KiB: two blocks an SM

template <class Generator, class Spec>
__global__ void draw_kernel(const __grid_constant__ Spec spec, const __grid_constant__ DrawArgs a,
                            int scratch_ints, bool shared) {
  extern __shared__ std::int32_t pools[];
  const int r = static_cast<int>(blockIdx.y), b = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (b >= a.B) return;
  std::int32_t* scratch = shared ? pools + threadIdx.x * scratch_ints
                                 : a.scratch.at(r) + static_cast<std::int64_t>(b) * scratch_ints;
  Generator()(spec, a.data_seed(r), a.split, static_cast<std::uint64_t>(a.number(r, b)), a.view(r, b),
              scratch);
}

template <class Generator, class Spec>
void launch(const Spec& spec, int scratch_ints, const Exec& exec, const DrawArgs& a) {
  scratch_ints |= 1;  // odd: neighbouring threads start in different banks
  const bool shared = scratch_ints * 8 <= kSharedInts;
  int threads = kThreads;
  while (shared && threads * scratch_ints > kSharedInts) threads /= 2;
  const std::size_t bytes =
      shared ? static_cast<std::size_t>(threads) * static_cast<std::size_t>(scratch_ints) * 4 : 0;
  device::launch(exec, "draw", draw_kernel<Generator, Spec>,
                 device::per_replica(device::blocks_for(a.B, threads), a.tokens.R), threads, bytes, spec, a,
                 scratch_ints, shared);
}

}  // namespace crosstalk::drawing

/// The generator of a task as a type.
#define CROSSTALK_GENERATOR(name)                                                                       \
  namespace crosstalk::drawing {                                                                        \
  struct name##_generator {                                                                             \
    __device__ void operator()(const CROSSTALK_SPEC(name) & spec, std::uint64_t seed, Split split,      \
                               std::uint64_t n, const SequenceView& out, std::int32_t* scratch) const { \
      name##_sequence(spec, seed, split, n, out, scratch);                                              \
    }                                                                                                   \
  };                                                                                                    \
  }

#define CROSSTALK_DRAW_ON_CUDA(name)                                                                     \
  CROSSTALK_GENERATOR(name)                                                                              \
  template <>                                                                                            \
  void crosstalk::draw_on_cuda(const CROSSTALK_SPEC(name) & spec, const Exec& exec, const DrawArgs& a) { \
    drawing::launch<drawing::name##_generator>(spec, name##_scratch_size(spec), exec, a);                \
  }
