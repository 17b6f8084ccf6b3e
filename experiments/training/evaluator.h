// Reading trained replicas on a split of a task: sums for the report of an evaluation, or query by query.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "experiments/training/device_loop.h"
#include "experiments/training/evaluation.h"
#include "experiments/training/piece_reader.h"
#include "experiments/training/replicas.h"

namespace crosstalk {

/// A part of a split whose sequences have one shape.
struct SplitPart {
  std::string name;  ///< of the segment; "" where there are none
  std::shared_ptr<const Task> segment;
  const Task* task = nullptr;
  int sequences = 0;
};

/// The parts of a split; `sequences` of each segment that does not say how many. The task must outlive them.
std::vector<SplitPart> split_parts(const Task& task, Split split, int sequences);

/// Sequences of a batch; for tokens bounded by the size of a layer's activations.
int evaluation_batch(Device device, int sequences, const SequenceShape& shape, const Vocabulary& vocabulary);

template <class Real>
class Evaluator {
 public:
  /// The task must outlive it.
  Evaluator(const Options& config, const Task& task, Split split, Replicas<Real>& replicas);

  /// Queues an evaluation of the active replicas, whose sums join their reports.
  void evaluate(const std::vector<int>& active);
  /// The numbers of a report; losses as the protocol averages them.
  EvalSummary summary(const double* report) const;

  /// Reads the active replicas query by query: for each of them, results by part; of the test split with their answers.
  std::vector<std::vector<QueryResults>> read(const std::vector<int>& active);

  /// Means over read() of one replica.
  EvalSummary summary(const std::vector<QueryResults>& results) const {
    return is_mixture() ? summarise_mixture(results) : summarise(results[0]);
  }

  const std::vector<SplitPart>& parts() const { return parts_; }
  /// The forms that the graphs have taken (provenance).
  std::string forms() const { return graphs_[0] ? graphs_[0]->graph.forms() : readers_[0]->forms(); }
  bool is_mixture() const { return !parts_[0].name.empty(); }

 private:
  void queue(const Exec& exec);
  DrawArgs draw_args(std::size_t part, int from) const;

  Replicas<Real>& replicas_;
  Split split_;
  bool schlag_;
  int sequences_, chunk_;
  std::vector<SplitPart> parts_;
  std::vector<std::shared_ptr<ModelGraph<Real>>> graphs_;  ///< of the parts; those of one shape share it
  std::vector<std::unique_ptr<PieceReader<Real>>>
      readers_;  ///< of parts that are read in pieces, which have no graph
  std::unique_ptr<DrawScratch> scratch_;
  Arena arena_;
  Tensor<double> workspace_;
  Tensor<std::int32_t> answers_;  ///< [R,B,Q] of the largest part; of the test split alone
  Replay replay_;
};

}  // namespace crosstalk
