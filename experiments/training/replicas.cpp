// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/replicas.h"

#include "kernels/base/text/narrow.h"

namespace crosstalk {
namespace {

Precision products_of(const Options& config) {
  const std::string& precision = config.get_string("train.precision");
  return precision == "tf32" ? Precision::tf32 : precision == "bf16" ? Precision::bf16 : Precision::full;
}

}  // namespace

template <class Real>
Replicas<Real>::Replicas(const Options& config, const Vocabulary& vocabulary, Device device, int R,
                         double priority)
    : report(shaped<double>(R, {report_size(narrow<int>(config, "eval.every"))})),
      seed(shaped<std::int32_t>(R, {2})),
      step(shaped<std::int32_t>(R, {1})),
      evaluations(step),
      zero(step),
      stream_(device == Device::cuda && !MemoryMeasure::active() ? std::make_unique<CudaStream>(priority)
                                                                 : nullptr),
      model_(make_model<Real>(config, vocabulary, device, R, products_of(config))),
      scalars_(device) {
  exec_.device = device;
  exec_.stream = stream_ ? stream_->get() : nullptr;
  scalars_.reserve(&report);
  for (auto* t : {&seed, &step, &evaluations, &zero}) scalars_.reserve(t);
  scalars_.allocate();
  for (int r = 0; r < R; ++r) put(zero, r, {0});
}

template <class Real>
Exec Replicas<Real>::exec(const std::vector<int>& active) const {
  Exec exec = exec_;
  if (device() == Device::cpu) {
    exec.replicas = active.data();
    exec.replica_count = static_cast<int>(active.size());
  }
  return exec;
}

template <class Real>
void Replicas<Real>::bind(ModelGraph<Real>& graph, const Tensor<std::int32_t>& counter) const {
  *graph.feature_seed = seed;
  *graph.feature_draw = graph.redraws ? counter : zero;
  if (graph.dropout_draw) *graph.dropout_draw = step;
}

template <class Real>
DrawArgs Replicas<Real>::draw_args(const ModelGraph<Real>& graph, Split split, int B) const {
  DrawArgs args;
  args.split = split;
  args.shape = {graph.batch.T, graph.batch.C, graph.batch.Q};
  args.B = B;
  args.seed = seed;
  args.tokens = *graph.batch.tokens;
  args.query = *graph.batch.query;
  args.position = *graph.batch.position;
  args.target = *graph.batch.target;
  return args;
}

template class Replicas<float>;
template class Replicas<double>;

}  // namespace crosstalk
