// Where and how an op runs, and the one place that chooses between the CPU and the CUDA version of an op.
//
// An op is a struct of arguments (XForward, XBackward: tensors and constants) with two overloads:
//   run_cpu(const Exec&, const Args&)   in x_cpu.cpp: the specification
//   run_cuda(const Exec&, const Args&)  in x_cuda.cu, or a throwing stub in a build without CUDA
// Ops never allocate and never synchronise.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "kernels/base/tensor.h"

namespace crosstalk {

enum class Device { cpu, cuda };

/// CUDA: blocks along y and z of a grid, where replicas and sequences of a batch stand.
inline constexpr int kMostGridRows = 65535;

struct Exec {
  Device device = Device::cpu;
  int threads = 1;                ///< CPU: OpenMP threads an op may use
  const int* replicas = nullptr;  ///< CPU: ids of the replicas to compute; null = all R
  int replica_count = 0;
  void* stream = nullptr;  ///< CUDA: cudaStream_t

  /// Number of replicas to compute out of R, and the i-th of them.
  int count(int R) const { return replicas ? replica_count : R; }
  int replica(int i) const { return replicas ? replicas[i] : i; }
};

template <class Args>
void run(const Exec& exec, const Args& args) {
  if (exec.device == Device::cuda) {
    run_cuda(exec, args);
  } else {
    run_cpu(exec, args);
  }
}

}  // namespace crosstalk
