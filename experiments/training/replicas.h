// The replicas of a pack on their device: parameters, counters and reports.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <initializer_list>
#include <memory>
#include <vector>

#include "kernels/base/buffer.h"
#include "kernels/base/device/cuda_runtime.h"
#include "kernels/base/precision.h"
#include "kernels/optimizer/book_keeping.h"
#include "models/model.h"
#include "tasks/task.h"

namespace crosstalk {

template <class Real>
class Replicas {
 public:
  /// `priority`: CUDA: of the stream, in [0, 1].
  Replicas(const Options& config, const Vocabulary& vocabulary, Device device, int R, double priority);

  Device device() const { return exec_.device; }
  const CudaStream* stream() const { return stream_.get(); }
  int count() const { return step.R; }
  Model<Real>& model() { return *model_; }

  /// The CPU computes `active` replicas only, a list that must outlive the work; CUDA computes empty slots, too.
  Exec exec(const std::vector<int>& active) const;
  void set_threads(int threads) { exec_.threads = threads; }
  void synchronise() const {
    if (stream_) stream_->synchronise();
  }

  /// Has a graph take its random features and dropout masks from these replicas' streams: new features at every value
  /// of `counter`, unless the study wants them fixed.
  void bind(ModelGraph<Real>& graph, const Tensor<std::int32_t>& counter) const;

  /// Draws of `B` sequences a replica into `graph`.
  DrawArgs draw_args(const ModelGraph<Real>& graph, Split split, int B) const;

  template <class T>
  void put(const Tensor<T>& tensor, int r, std::initializer_list<T> values) {
    scalars_.copy_from_host(tensor.at(r), values.begin(), values.size() * sizeof(T));
  }
  template <class T>
  void put(const Tensor<T>& tensor, int r, const std::vector<T>& values) {
    scalars_.copy_from_host(tensor.at(r), values.data(), values.size() * sizeof(T));
  }
  /// The first `n` numbers of replica r.
  template <class T>
  std::vector<T> copy_of(const Tensor<T>& tensor, int r, std::size_t n) const {
    std::vector<T> host(n);
    copy_to_host(device(), host.data(), tensor.at(r), n * sizeof(T));
    return host;
  }
  std::vector<double> reports() const { return scalars_.copy_of(report); }

  Tensor<double> report;                         ///< [R,report_size(eval.every)]
  Tensor<std::int32_t> seed;                     ///< [R,2] of the data: low and high word
  Tensor<std::int32_t> step, evaluations, zero;  ///< [R,1]

 private:
  Exec exec_;
  std::unique_ptr<CudaStream> stream_;
  std::unique_ptr<Model<Real>> model_;
  Arena scalars_;
};

/// Memory that draws of B sequences need on CUDA.
class DrawScratch {
 public:
  DrawScratch(Device device, int R, int B, int ints) : arena_(device) {
    if (device == Device::cpu) return;
    scratch_ = shaped<std::int32_t>(R, {B, ints + 1});
    arena_.reserve(&scratch_);
    arena_.allocate();
  }
  const Tensor<std::int32_t>& tensor() const { return scratch_; }

 private:
  Arena arena_;
  Tensor<std::int32_t> scratch_;
};

}  // namespace crosstalk
