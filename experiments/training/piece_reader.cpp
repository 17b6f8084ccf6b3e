// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/piece_reader.h"

#include <algorithm>
#include <stdexcept>

#include "experiments/training/evaluator.h"
#include "kernels/loss/answers.h"

namespace crosstalk {
namespace {

constexpr std::int64_t kTokensDrawn = 1 << 23;  ///< of a replica, which stay on the host while they are read

std::vector<std::int32_t> filled(std::int64_t n, std::int32_t value) {
  return std::vector<std::int32_t>(static_cast<std::size_t>(n), value);
}

}  // namespace

template <class Real>
PieceReader<Real>::PieceReader(const Task& task, Split split, int sequences, int piece,
                               Replicas<Real>& replicas)
    : task_(task),
      split_(split),
      shape_(task.shape(split)),
      sequences_(sequences),
      piece_(piece),
      replicas_(replicas),
      drawn_(static_cast<std::size_t>(replicas.count())),
      arena_(replicas.device()),
      first_([this](const Exec& exec) {
        graphs_->first->graph.forward(exec);
        graphs_->hand_on(exec, true);
      }),
      next_([this](const Exec& exec) {
        graphs_->next->graph.forward(exec);
        graphs_->hand_on(exec, false);
      }) {
  const SequenceShape shape{piece, shape_.C, std::min(shape_.Q, piece)};
  const auto held = static_cast<int>(std::max<std::int64_t>(1, kTokensDrawn / shape_.T));
  batch_ = std::min(held, evaluation_batch(replicas.device(), sequences, shape, task.vocabulary()));
  graphs_ = replicas.model().pieces(batch_, shape);
  answers_ = shaped<std::int32_t>(replicas.count(), {batch_ * shape.Q});
  sums_ = shaped<double>(replicas.count(), {batch_, report_exact + 1});
  arena_.reserve(&answers_), arena_.reserve(&sums_);
  arena_.allocate();
  for (auto* graph : {graphs_->first.get(), graphs_->next.get()}) {
    replicas.bind(*graph, replicas.zero);
    const BatchTensors& batch = graph->batch;
    for (int r = 0; r < replicas.count(); ++r) {  // a GPU computes empty slots, too
      replicas.put(*batch.tokens, r, filled(batch.tokens->size(), 0));
      for (auto* tensor : {batch.query, batch.position}) replicas.put(*tensor, r, filled(tensor->size(), 0));
      replicas.put(*batch.target, r, filled(batch.target->size(), -1));
    }
  }
}

template <class Real>
std::vector<typename PieceReader<Real>::Due> PieceReader<Real>::give(const ModelGraph<Real>& graph, int r,
                                                                     int first, int from) {
  const BatchTensors& batch = graph.batch;
  const int C = batch.C, Q = batch.Q, count = std::min(piece_, shape_.T - from);
  // Padding after the last token changes nothing before it.
  auto tokens = filled(batch.tokens->size(), 0), query = filled(batch.query->size(), 0), position = query,
       target = filled(batch.target->size(), -1);
  std::vector<Due> due;
  for (int b = 0; b < batch.B && first + b < sequences_; ++b) {
    Drawn& drawn = drawn_[static_cast<std::size_t>(r)][static_cast<std::size_t>(b)];
    const SequenceView s = drawn.sequence.view();
    std::copy_n(s.tokens + static_cast<std::ptrdiff_t>(from) * C, static_cast<std::ptrdiff_t>(count) * C,
                tokens.begin() + static_cast<std::ptrdiff_t>(b) * piece_ * C);
    int row = b * Q;
    for (int& q = drawn.next; q < shape_.Q; ++q) {  // used slots stand in rising order
      if (s.target[q] < 0) continue;
      const int place = s.query_position[q] - from;
      if (place > piece_) break;
      if (row == (b + 1) * Q) throw std::logic_error("[pieces] more answers than tokens are due in a piece");
      const auto at = static_cast<std::size_t>(row);
      query[at] = s.query[q] - from, position[at] = place, target[at] = s.target[q];
      due.push_back({static_cast<std::int64_t>(first + b) * shape_.Q + q, row++});
    }
  }
  replicas_.put(*batch.tokens, r, tokens);
  replicas_.put(*batch.query, r, query);
  replicas_.put(*batch.position, r, position);
  replicas_.put(*batch.target, r, target);
  if (&graph == graphs_->next.get()) {
    auto places = filled(graphs_->places->size(), 0);
    for (std::size_t i = 0; i < places.size(); ++i)
      places[i] = from + 1 + static_cast<std::int32_t>(i) % piece_;
    replicas_.put(*graphs_->places, r, places);
  }
  return due;
}

template <class Real>
void PieceReader<Real>::take(const ModelGraph<Real>& graph, int r, const std::vector<Due>& due,
                             QueryResults& results) {
  if (due.empty()) return;
  const auto rows = static_cast<std::size_t>(batch_) * static_cast<std::size_t>(graph.batch.Q);
  const auto loss = replicas_.copy_of(graph.loss.query_loss->value, r, rows);
  const auto correct = replicas_.copy_of(*graph.loss.correct, r, rows);
  const auto said = replicas_.copy_of(answers_, r, rows);
  for (const Due& one : due) {
    const auto slot = static_cast<std::size_t>(one.slot), row = static_cast<std::size_t>(one.row);
    results.loss[slot] = loss[row], results.correct[slot] = correct[row], results.answer[slot] = said[row];
  }
}

template <class Real>
template <class F>
void PieceReader<Real>::each_piece(const std::vector<int>& active, const F& f) {
  const Exec exec = replicas_.exec(active);
  for (int first = 0; first < sequences_; first += batch_) {
    for (const int r : active) {
      const auto words = replicas_.copy_of(replicas_.seed, r, 2);
      const auto seed = static_cast<std::uint32_t>(words[0]) |
                        static_cast<std::uint64_t>(static_cast<std::uint32_t>(words[1])) << 32;
      auto& drawn = drawn_[static_cast<std::size_t>(r)];
      for (int b = 0; b < batch_ && first + b < sequences_; ++b) {
        if (drawn.size() <= static_cast<std::size_t>(b)) drawn.push_back({{task_, split_, 0, false}});
        Drawn& one = drawn[static_cast<std::size_t>(b)];
        one.sequence.draw(seed, static_cast<std::uint64_t>(first + b));
        one.next = 0;
      }
    }
    for (int from = 0; from < shape_.T; from += piece_) {
      const ModelGraph<Real>& graph = from == 0 ? *graphs_->first : *graphs_->next;
      replicas_.synchronise();  // the piece before has been read
      std::vector<std::vector<Due>> due;
      for (const int r : active) due.push_back(give(graph, r, first, from));
      (from == 0 ? first_ : next_)(exec, replicas_.stream());
      f(exec, graph, std::min(batch_, sequences_ - first), first == 0 && from == 0,
        first + batch_ >= sequences_ && from + piece_ >= shape_.T, due);
    }
  }
}

template <class Real>
std::vector<QueryResults> PieceReader<Real>::read(const std::vector<int>& active) {
  const auto slots = static_cast<std::size_t>(sequences_) * static_cast<std::size_t>(shape_.Q);
  QueryResults nothing{sequences_, shape_.Q, std::vector<double>(slots),
                       std::vector<std::int32_t>(slots, -1)};
  nothing.answer = nothing.correct;
  std::vector<QueryResults> results(active.size(), nothing);
  each_piece(active, [&](const Exec& exec, const ModelGraph<Real>& graph, int, bool, bool, const auto& due) {
    if (std::all_of(due.begin(), due.end(), [](const auto& of_run) { return of_run.empty(); })) return;
    run(exec, Answers<Real>{graph.answer_x->value, graph.answer_w ? graph.answer_w->value : Tensor<Real>(),
                            answers_});
    replicas_.synchronise();
    for (std::size_t i = 0; i < active.size(); ++i) take(graph, active[i], due[i], results[i]);
  });
  return results;
}

template <class Real>
void PieceReader<Real>::evaluate(const std::vector<int>& active) {
  each_piece(active, [&](const Exec& exec, const ModelGraph<Real>& graph, int sequences, bool first,
                         bool last, const auto&) {
    CountEvaluation<Real> count;
    count.sequences = sequences, count.first = first, count.last = last;
    count.query_loss = graph.loss.query_loss->value, count.correct = *graph.loss.correct;
    count.evaluations = replicas_.evaluations;
    count.workspace = sums_, count.report = replicas_.report;
    run(exec, count);
  });
}

template class PieceReader<float>;
template class PieceReader<double>;

}  // namespace crosstalk
