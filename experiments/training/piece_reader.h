// Reading trained replicas on long sequences in pieces, with states carried from piece to piece (eval.piece, task.eval_lanes): its memory does
// not grow with the sequence.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <vector>

#include "experiments/training/device_loop.h"
#include "experiments/training/evaluation.h"
#include "experiments/training/replicas.h"
#include "tasks/sequence_buffer.h"

namespace crosstalk {

template <class Real>
class PieceReader {
 public:
  /// Of the first `sequences` sequences of a split, `piece` tokens at a time. The task must outlive it.
  PieceReader(const Task& task, Split split, int sequences, int piece, Replicas<Real>& replicas);

  /// Reads the active replicas query by query, as Evaluator::read() does a part.
  std::vector<QueryResults> read(const std::vector<int>& active);
  /// Reads them for the sums of their reports, as Evaluator::evaluate() does; the share of exact sequences is that of exact pieces.
  void evaluate(const std::vector<int>& active);
  /// Pieces of all sequences.
  double pieces() const { return static_cast<double>(sequences_) * ((shape_.T + piece_ - 1) / piece_); }
  std::string forms() const { return graphs_->next->graph.forms(); }

 private:
  struct Due {
    std::int64_t slot;  ///< of all sequences
    int row;            ///< of the piece's queries
  };
  /// Gives a replica the piece that begins at token `from` of the sequences drawn for it; returns the queries due in it.
  std::vector<Due> give(const ModelGraph<Real>& graph, int r, int first, int from);
  /// Reads the active replicas piece by piece: f(exec, graph, sequences of the batch, is the first piece, is the last, due by replica).
  template <class F>
  void each_piece(const std::vector<int>& active, const F& f);
  void take(const ModelGraph<Real>& graph, int r, const std::vector<Due>& due, QueryResults& results);

  const Task& task_;
  Split split_;
  SequenceShape shape_;
  int sequences_, piece_, batch_ = 0;
  Replicas<Real>& replicas_;
  std::unique_ptr<PieceGraphs<Real>> graphs_;
  struct Drawn {
    SequenceBuffer sequence;
    int next = 0;  ///< the first slot that is not due in a piece before
  };
  std::vector<std::vector<Drawn>> drawn_;  ///< of every replica
  Arena arena_;
  Tensor<std::int32_t> answers_;  ///< [R,B,Q] of a piece
  Tensor<double> sums_;           ///< [R,B,5]: workspace of an evaluation
  Replay first_, next_;
};

}  // namespace crosstalk
