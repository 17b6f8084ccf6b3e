// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/evaluator.h"

#include <algorithm>

#include "kernels/base/text/narrow.h"
#include "kernels/loss/answers.h"
#include "results/numbers/theory.h"
#include "tasks/lanes.h"

namespace crosstalk {
namespace {

constexpr int kSchlagQueries =
    schlag_max_queries;  // the released code evaluates at most so many queries a sequence

}  // namespace

std::vector<SplitPart> split_parts(const Task& task, Split split, int sequences) {
  std::vector<SplitPart> parts;
  for (TaskSegment& segment : task.segments(split)) {
    const Task* reads = segment.task.get();
    const int there = segment.sequences > 0
                          ? narrow<int>(segment.sequences, "sequences of segment " + segment.name)
                          : sequences;
    parts.push_back({segment.name, std::move(segment.task), reads, there});
  }
  if (parts.empty()) parts.push_back({"", nullptr, &task, sequences});
  return parts;
}

int evaluation_batch(Device device, int sequences, const SequenceShape& shape, const Vocabulary& vocabulary) {
  if (device == Device::cuda) sequences = std::min(sequences, kMostGridRows);
  if (vocabulary.tokens == 0) {  // one replica's read weights stay near 8 MB, whatever the load
    const double row = static_cast<double>(shape.Q) * (shape.T + vocabulary.values);
    return std::clamp(static_cast<int>(2e6 / row), 1, sequences);
  }
  constexpr double floats_of_a_token = 1024;
  const double floats = shape.T * (shape.Q + floats_of_a_token);
  return std::clamp(static_cast<int>((device == Device::cuda ? 6.4e7 : 4e6) / floats), 1, sequences);
}

template <class Real>
Evaluator<Real>::Evaluator(const Options& config, const Task& task, Split split, Replicas<Real>& replicas)
    : replicas_(replicas),
      split_(split),
      schlag_(split == Split::eval && config.get_string("eval.protocol") == "schlag2021"),
      sequences_(narrow<int>(config, "eval.sequences")),
      chunk_(schlag_ ? narrow<int>(config, "train.batch") : 0),
      parts_(split_parts(task, split, sequences_)),
      arena_(replicas.device()),
      replay_([this](const Exec& exec) { queue(exec); }) {
  const Vocabulary vocabulary = task.vocabulary();
  int scratch = 0, most = 1, slots = 1;
  const int window = eval_window(task), given = narrow<int>(config, "eval.piece"),
            piece = given > 0 && (split == Split::test || window > 0) ? given : window;
  std::vector<SequenceShape> shapes;
  for (const SplitPart& part : parts_) {
    part.task->prepare(replicas.device());
    const SequenceShape shape = part.task->shape(split, schlag_ ? kSchlagQueries : 0);
    readers_.push_back(nullptr);
    if (piece > 0 && shape.T > piece) {
      readers_.back() =
          std::make_unique<PieceReader<Real>>(*part.task, split, part.sequences, piece, replicas);
      graphs_.push_back(nullptr);
      shapes.push_back(shape);
      continue;
    }
    const int batch = evaluation_batch(replicas.device(), part.sequences, shape, vocabulary);
    std::shared_ptr<ModelGraph<Real>> graph;
    for (std::size_t i = 0; i < shapes.size(); ++i)
      if (graphs_[i] && shapes[i] == shape && graphs_[i]->batch.B == batch) graph = graphs_[i];
    if (!graph) {
      graph = replicas.model().graph(batch, shape, false, 1);
      replicas.bind(*graph, split == Split::eval ? replicas.evaluations : replicas.zero);
    }
    shapes.push_back(shape);
    graphs_.push_back(graph);
    most = std::max(most, batch);
    slots = std::max(slots, batch * shape.Q);
    scratch = std::max(scratch, part.task->scratch_size());
  }
  scratch_ = std::make_unique<DrawScratch>(replicas.device(), replicas.count(), most, scratch);
  workspace_ = shaped<double>(replicas.count(), {most, report_exact + 1});
  arena_.reserve(&workspace_);
  if (split == Split::test) {
    answers_ = shaped<std::int32_t>(replicas.count(), {slots});
    arena_.reserve(&answers_);
  }
  arena_.allocate();
}

template <class Real>
DrawArgs Evaluator<Real>::draw_args(std::size_t part, int from) const {
  const ModelGraph<Real>& graph = *graphs_[part];
  DrawArgs draw = replicas_.draw_args(graph, split_, graph.batch.B);
  draw.counter = replicas_.zero;
  draw.offset = from;
  draw.scratch = scratch_->tensor();
  if (schlag_) {  // fresh sequences at every evaluation
    draw.counter = replicas_.evaluations;
    draw.stride = sequences_;
  }
  return draw;
}

template <class Real>
void Evaluator<Real>::evaluate(const std::vector<int>& active) {
  if (readers_[0])
    return readers_[0]->evaluate(active);  // of the eval split lanes alone, which have no segments
  replay_(replicas_.exec(active), replicas_.stream());
}

template <class Real>
void Evaluator<Real>::queue(const Exec& exec) {
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    ModelGraph<Real>& graph = *graphs_[p];
    const int B = graph.batch.B;
    for (int done = 0; done < parts_[p].sequences; done += B) {
      parts_[p].task->draw(exec, draw_args(p, done));
      graph.graph.forward(exec);
      CountEvaluation<Real> count;
      count.sequences = std::min(B, parts_[p].sequences - done);
      count.chunk = chunk_;
      count.by_sequence = is_mixture();
      count.first = p == 0 && done == 0;
      count.last = p + 1 == parts_.size() && done + B >= parts_[p].sequences;
      count.query_loss = graph.loss.query_loss->value;
      count.correct = *graph.loss.correct;
      count.evaluations = replicas_.evaluations;
      count.workspace = workspace_;
      count.report = replicas_.report;
      run(exec, count);
    }
  }
}

template <class Real>
EvalSummary Evaluator<Real>::summary(const double* report) const {
  double sequences = 0;
  for (std::size_t p = 0; p < parts_.size(); ++p)
    sequences += readers_[p] ? readers_[p]->pieces() : parts_[p].sequences;
  return {report[report_loss_sum] / report[report_loss_weight], report[report_right] / report[report_queries],
          report[report_exact] / sequences};
}

template <class Real>
std::vector<std::vector<QueryResults>> Evaluator<Real>::read(const std::vector<int>& active) {
  std::vector<std::vector<QueryResults>> results(active.size(), std::vector<QueryResults>(parts_.size()));
  const Exec exec = replicas_.exec(active);
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    if (readers_[p]) {
      std::vector<QueryResults> read = readers_[p]->read(active);
      for (std::size_t i = 0; i < active.size(); ++i) results[i][p] = std::move(read[i]);
      continue;
    }
    ModelGraph<Real>& graph = *graphs_[p];
    const int B = graph.batch.B, Q = graph.batch.Q;
    for (auto& of_replica : results) {
      of_replica[p].sequences = parts_[p].sequences;
      of_replica[p].Q = Q;
    }
    for (int done = 0; done < parts_[p].sequences; done += B) {
      parts_[p].task->draw(exec, draw_args(p, done));
      graph.graph.forward(exec);
      const bool answers = answers_ && graph.answer_x;
      if (answers)
        run(exec, Answers<Real>{graph.answer_x->value,
                                graph.answer_w ? graph.answer_w->value : Tensor<Real>(), answers_});
      replicas_.synchronise();
      const auto take = static_cast<std::size_t>(std::min(B, parts_[p].sequences - done) * Q);
      for (std::size_t i = 0; i < active.size(); ++i) {
        QueryResults& to = results[i][p];
        const auto loss = replicas_.copy_of(graph.loss.query_loss->value, active[i], take);
        const auto correct = replicas_.copy_of(*graph.loss.correct, active[i], take);
        to.loss.insert(to.loss.end(), loss.begin(), loss.end());
        to.correct.insert(to.correct.end(), correct.begin(), correct.end());
        if (answers) {
          const auto said = replicas_.copy_of(answers_, active[i], take);
          to.answer.insert(to.answer.end(), said.begin(), said.end());
        }
        for (const auto& [name, metric] : graph.query_metrics) {
          const auto x = replicas_.copy_of(metric->value, active[i], take);
          to.metrics[name].insert(to.metrics[name].end(), x.begin(), x.end());
        }
      }
    }
  }
  return results;
}

template class Evaluator<float>;
template class Evaluator<double>;

}  // namespace crosstalk
