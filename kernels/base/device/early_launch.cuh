// Kernels that are brought in while the one before them on their stream ends (programmatic dependent launch, sm_90 and later):
// what launching costs, and the blocks that come first, hide behind its last blocks.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/base/device/cuda_launch.cuh"

namespace crosstalk::device {

/// The first statement of a kernel of launch_early(), of all threads: lets the next kernel come in, then waits until all that
/// was launched before has ended and its memory is written. Who is brought in waits for this kernel's end in the same way.
CT_DEVICE void wait_for_earlier() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// The same as launch(), of a kernel that begins with wait_for_earlier().
template <class... Parameters, class... Args>
void launch_early(const Exec& exec, const char* op, void (*kernel)(Parameters...), dim3 grid, int threads,
                  std::size_t bytes, const Args&... args) {
  cudaFuncAttributes code{};
  cudaFuncGetAttributes(&code, kernel);  // of an error the launch tells
  cudaLaunchAttribute early{};
  if (code.ptxVersion >= 90) early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  launch_with(early, exec, op, kernel, grid, threads, bytes, args...);
}

}  // namespace crosstalk::device
