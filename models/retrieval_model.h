// The retrieval model of Schlag, Irie, Schmidhuber (2021), section 6.1: one memory between token and answer.
//
//   token     x_t = [onehot(v_t); E[k_t]; E[k'_t]]     frozen one-hot value, learned key embedding (second key of swaps)
//             k_t = W_k x_t + b_k,   q = W_q E[query] + b_q,   gates by projections of x_t,   value = onehot(v_t)
//             y = memory(k, v, gates; q), heads added up,   loss = 0.5 |y - onehot(target)|^2
//
// Neither one-hot vectors nor embedded tokens are formed: W_k x_t is a row of W_k's value part plus a row of
// the small table E W_k^T. SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>

#include "kernels/batch.h"
#include "models/graph/nodes.h"
#include "models/memory.h"

namespace crosstalk {

/// A graph of the model over one batch shape, with what callers fill and read.
template <class Real>
struct RetrievalGraph {
  RetrievalGraph(Device device, int R, bool train) : graph(device, R, train) {}
  Graph<Real> graph;
  BatchTensors batch;  ///< tokens [R,B,T,C], query [R,B,Q,1], position, target [R,B,Q]
  Tensor<std::int32_t>* feature_seed = nullptr;  ///< [R,2] low and high word of the seed of random features
  Tensor<std::int32_t>* feature_draw = nullptr;  ///< [R,1] number of the draw (step, or evaluation)
  SquaredLoss<Real> loss;
  Variable<Real>* output = nullptr;  ///< y [R,B,Q,V]

  int batches = 1;  ///< batches that the integer tensors hold, one after the other
  /// What follows from the integers of all batches: run it whenever they have been filled, with batch 0
  /// selected.
  void prepare(const Exec& exec) const;
  /// Makes the graph read batch u: which one is fixed when ops are queued.
  void select(int u);
  std::vector<Buckets> buckets;  ///< of the tokens' channels, for gradients of tables

 private:
  int selected_ = 0;
};

template <class Real>
class RetrievalModel {
 public:
  /// `options` resolved (model.*, memory.*); vocabulary sizes as the task says. `products`: what the operands
  /// of products are rounded to.
  RetrievalModel(const Options& options, int keys, int values, bool second_key, Device device, int R,
                 Precision products = Precision::full);

  ParameterBlock<Real>& parameters() { return parameters_; }
  void initialise(int r, std::uint64_t init_seed) { parameters_.initialise(r, init_seed); }

  /// A planned graph for batches of B sequences; shares the parameters. Its integer tensors hold `batches`
  /// batches.
  std::unique_ptr<RetrievalGraph<Real>> graph(int B, SequenceShape shape, bool train, int batches = 1);

 private:
  std::unique_ptr<RetrievalGraph<Real>> build(int B, SequenceShape shape, bool train, int batches);

  Options options_;
  int keys_, values_;
  bool second_key_;
  Device device_;
  int R_;
  Precision products_;
  ParameterBlock<Real> parameters_;
};

}  // namespace crosstalk
