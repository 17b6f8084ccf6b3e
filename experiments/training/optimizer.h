// The optimizer of a pack: Adam, AdamW, or Muon with AdamW for all but matrices, with a schedule and clipping, each replica
// with its own learning rates and weight decay.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "experiments/training/epoch.h"
#include "experiments/training/replicas.h"
#include "kernels/optimizer/adam.h"
#include "kernels/optimizer/muon.h"

namespace crosstalk {

/// The learning rate over the steps of a run. `epoch`: steps of one, where there are any.
RateSchedule schedule_of(const Options& config, std::int64_t epoch);

/// Parameters that Muon trains, by their index: weights of linear maps, [outputs, inputs]. The embedding, the head, learned
/// positions, filters of convolutions, gains, biases and numbers of a head are AdamW's.
template <class Real>
std::vector<int> hidden_matrices(const ParameterBlock<Real>& parameters);

/// Which parameters train.no_decay takes out of weight decay. Throws OptionError for words that name none.
template <class Real>
std::vector<bool> undecayed_parameters(const Options& config, const ParameterBlock<Real>& parameters);

template <class Real>
class Optimizer {
 public:
  Optimizer(const Options& config, std::int64_t epoch, Replicas<Real>& replicas);

  /// Replica r trains a run with this configuration from now on.
  void begin(int r, const Options& config);

  /// Queues the counting of a step, after its forward pass, with its loss.
  void count(const Exec& exec, const Tensor<Real>& loss);
  /// Queues the update after the backward pass.
  void update(const Exec& exec);
  /// Queues the end of a series of steps, before reports are read.
  void close(const Exec& exec);

 private:
  Replicas<Real>& replicas_;
  int every_;
  double beta1_, beta2_, clip_norm_;
  bool decays_;
  RateSchedule schedule_;
  Arena arena_;
  Tensor<double> learning_rate_, weight_decay_, rate_, scale_;
  Tensor<double> squares_;  ///< [R,blocks] parts of the square of the gradient's norm, of the last step
  void find_matrices();
  void find_pieces(const std::vector<bool>& undecayed);
  /// Whether the gradient's norm is summed up on its own: where it is clipped, and where Adam sees a part of it only.
  bool summed() const { return clip_norm_ > 0 || pieces_.size() > 1 || !matrices_.empty(); }

  /// Numbers of the block that Adam trains: `size` from `begin` on.
  struct Piece {
    std::int64_t begin, size;
    bool decays;
  };
  std::vector<Piece> pieces_;
  std::vector<std::int32_t> matrices_;  ///< [M,kMuonColumns]; empty without Muon
  double momentum_, low_momentum_;
  Tensor<std::int32_t> matrix_table_;
  Tensor<Real> workspace_;
  Tensor<double> muon_rate_;
};

}  // namespace crosstalk
