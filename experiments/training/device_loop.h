// Repeats a fixed sequence of ops: on the CPU by calling it, on CUDA by replaying it as one captured graph.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <memory>

#include "kernels/base/device/cuda_runtime.h"
#include "kernels/base/exec.h"

namespace crosstalk {

/// A piece of work that only queues ops (no allocation, no synchronisation), and its captured form.
class Replay {
 public:
  /// `work` queues the ops on exec.
  explicit Replay(std::function<void(const Exec&)> work) : work_(std::move(work)) {}
  /// Does the work once. On CUDA the first call captures.
  void operator()(const Exec& exec, const CudaStream* stream) {
    if (!stream) return work_(exec);
    if (!graph_) {
      CudaGraph graph;
      graph.begin(*stream);
      try {
        work_(exec);
      } catch (...) {
        graph.abandon();
        throw;
      }
      graph.end();
      graph_ = std::make_unique<CudaGraph>(std::move(graph));
    }
    graph_->launch(*stream);
  }

 private:
  std::function<void(const Exec&)> work_;
  std::unique_ptr<CudaGraph> graph_;
};

}  // namespace crosstalk
