// Exec says where and how an op runs. A step is an op without a gradient (Adam, counters of a run): one
// struct of tensors and constants, run_cpu in x_cpu.cpp (the specification) and run_cuda in x_cuda.cu. What
// has a gradient is an op of kernels/base/op.h. Neither kind allocates or synchronises.
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

/// Declares the two versions of a step, CROSSTALK_STEP(AdamStep), or one alone.
#define CROSSTALK_STEP(Step)   \
  CROSSTALK_STEP_ON(cpu, Step) \
  CROSSTALK_STEP_ON(cuda, Step)
#define CROSSTALK_STEP_ON(device, Step) \
  template <class Real>                 \
  void run_##device(const Exec& exec, const Step<Real>& args);

/// Instantiates one device's version for both precisions: CROSSTALK_INSTANTIATE_STEP(cpu, AdamStep).
#define CROSSTALK_INSTANTIATE_STEP(device, Step)                    \
  template void run_##device(const Exec& exec, const Step<float>&); \
  template void run_##device(const Exec& exec, const Step<double>&);

void run(const Exec& exec, const auto& args) {
  if (exec.device == Device::cuda)
    run_cuda(exec, args);
  else
    run_cpu(exec, args);
}

}  // namespace crosstalk
