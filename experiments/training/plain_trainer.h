// The trainer once more, for tests: one run, one sequence after the other, means written out. In double
// precision: forms that depend on the size of a batch (one table of queries or single rows) then agree to
// 1e-12.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "experiments/study.h"
#include "kernels/base/buffer.h"
#include "kernels/ops/adam.h"
#include "models/retrieval_model.h"
#include "results/record.h"
#include "tasks/task.h"

namespace crosstalk::checks {

struct PlainEvaluation {
  std::int64_t step = 0;
  double loss = 0, accuracy = 0, exact = 0, train_loss = 0;
};

/// One used query of the test split.
struct PlainQuery {
  int sequence = 0, operations = 0;
  double loss = 0;
  bool right = false;
};

class PlainTrainer {
 public:
  explicit PlainTrainer(const Run& run_)
      : config_(run_.config),
        task_(find_task(config_.get_string("task.name"))->make(config_)),
        schlag_(config_.get_string("eval.protocol") == "schlag2021"),
        model_(config_, task_->vocabulary(), Device::cpu, 1),
        scalars_(Device::cpu) {
    if (config_.get_string("train.precision") != "fp64") throw std::logic_error("the plain trainer is fp64");
    rate_ = shaped<double>(1, {1});
    step_ = shaped<std::int32_t>(1, {1});
    scalars_.reserve(&rate_);
    scalars_.reserve(&step_);
    scalars_.allocate();
    model_.initialise(0, static_cast<std::uint64_t>(config_.get_int("init_seed")));
  }

  RunStatus status = RunStatus::done;
  std::int64_t steps = 0;
  double best = std::numeric_limits<double>::infinity();
  std::vector<PlainEvaluation> evaluations;

  void train() {
    const int B = static_cast<int>(config_.get_int("train.batch"));
    const std::int64_t every = config_.get_int("eval.every"), most = config_.get_int("train.max_steps");
    const auto graph = model_.graph(B, task_->shape(Split::train), true);
    rate_.at(0)[0] = config_.get_double("train.learning_rate");
    std::int64_t without_gain = 0;
    for (;;) {
      double train_loss = 0;
      std::int64_t taken = 0;
      while (steps < most && (taken == 0 || steps % every != 0)) {
        fill(*graph, *task_, Split::train, steps * B, steps);
        graph->graph.forward({});
        const double loss = graph->loss.loss->value.at(0)[0];
        ++steps;
        ++taken;
        if (!std::isfinite(loss)) {
          status = RunStatus::diverged;
          return;
        }
        train_loss += loss;
        graph->graph.backward({});
        adam();
      }
      PlainEvaluation evaluation = evaluate(static_cast<std::int64_t>(evaluations.size()));
      evaluation.step = steps;
      evaluation.train_loss = train_loss / static_cast<double>(taken);
      evaluations.push_back(evaluation);
      if (!std::isfinite(evaluation.loss)) {
        status = RunStatus::diverged;
        return;
      }
      without_gain = evaluation.loss < best ? 0 : without_gain + 1;
      best = std::min(best, evaluation.loss);
      const double stop = config_.get_double("train.stop_loss");
      if ((stop > 0 && evaluation.loss <= stop) || without_gain > config_.get_int("train.patience") ||
          steps >= most)
        return;
    }
  }

  /// Every used query of the test split, read from sequences `factor` times as long.
  std::vector<PlainQuery> test(int factor) {
    const auto task = task_->lengthened(factor);
    const auto graph = model_.graph(1, task->shape(Split::test), false);
    std::vector<PlainQuery> queries;
    for (int s = 0; s < config_.get_int("eval.sequences"); ++s) {
      const auto meta = fill(*graph, *task, Split::test, s, 0);
      graph->graph.forward({});
      for (int i = 0; i < graph->batch.Q; ++i) {
        if (graph->batch.target->at(0)[i] < 0) continue;
        queries.push_back({s, meta[static_cast<std::size_t>(i * meta_count + meta_operations)],
                           graph->loss.query_loss->value.at(0)[i], right(*graph, i)});
      }
    }
    return queries;
  }

 private:
  using Graph = ModelGraph<double>;

  // Sequences first .. first + B - 1 and the random features of draw `draw`; metadata of the last one.
  std::vector<std::int32_t> fill(Graph& graph, const Task& task, Split split, std::int64_t first,
                                 std::int64_t draw) {
    const SequenceShape shape{graph.batch.T, graph.batch.C, graph.batch.Q};
    std::vector<std::int32_t> meta(static_cast<std::size_t>(shape.Q * meta_count)),
        role(static_cast<std::size_t>(shape.T)), scratch(static_cast<std::size_t>(task.scratch_size()) + 1);
    const auto seed = static_cast<std::uint64_t>(config_.get_int("data_seed"));
    for (int b = 0; b < graph.batch.B; ++b) {
      const SequenceView view{shape,
                              graph.batch.tokens->at(0) + b * shape.T * shape.C,
                              role.data(),
                              graph.batch.query->at(0) + b * shape.Q,
                              graph.batch.position->at(0) + b * shape.Q,
                              graph.batch.target->at(0) + b * shape.Q,
                              meta.data()};
      task.sequence(seed, split, static_cast<std::uint64_t>(first + b), view, scratch.data());
    }
    graph.feature_seed->at(0)[0] = static_cast<std::int32_t>(seed);
    graph.feature_seed->at(0)[1] = static_cast<std::int32_t>(seed >> 32);
    graph.feature_draw->at(0)[0] = static_cast<std::int32_t>(draw);
    return meta;
  }

  // The target's entry is larger than every other.
  static bool right(const Graph& graph, int i) {
    const Tensor<double> y = graph.output->value;
    const double* row = y.at(0) + i * y.columns();
    const int target = graph.batch.target->at(0)[i];
    for (int v = 0; v < y.columns(); ++v) {
      if (v != target && !(row[v] < row[target])) return false;
    }
    return true;
  }

  PlainEvaluation evaluate(std::int64_t number) {
    const auto graph = model_.graph(1, task_->shape(Split::eval, schlag_ ? 200 : 0), false);
    const int sequences = static_cast<int>(config_.get_int("eval.sequences"));
    const int chunk = schlag_ ? static_cast<int>(config_.get_int("train.batch")) : 1 << 30;
    double means = 0, chunks = 0, total = 0, queries = 0, hits = 0, exact = 0;
    for (int s = 0; s < sequences; ++s) {
      fill(*graph, *task_, Split::eval, schlag_ ? number * sequences + s : s, number);
      graph->graph.forward({});
      std::vector<double> losses;
      bool all = true;
      for (int i = 0; i < graph->batch.Q; ++i) {
        if (graph->batch.target->at(0)[i] < 0) continue;
        losses.push_back(graph->loss.query_loss->value.at(0)[i]);
        hits += right(*graph, i);
        all = all && right(*graph, i);
      }
      exact += all;
      queries += static_cast<double>(losses.size());
      for (std::size_t begin = 0; begin < losses.size(); begin += static_cast<std::size_t>(chunk)) {
        const std::size_t end = std::min(losses.size(), begin + static_cast<std::size_t>(chunk));
        double part = 0;
        for (std::size_t i = begin; i < end; ++i) part += losses[i];
        total += part;
        means += part / static_cast<double>(end - begin);
        chunks += 1;
      }
    }
    return {0, schlag_ ? means / chunks : total / queries, hits / queries, exact / sequences, 0};
  }

  void adam() {
    step_.at(0)[0] = static_cast<std::int32_t>(steps);
    auto& p = model_.parameters();
    AdamStep<double> args;
    args.parameter = p.values();
    args.gradient = p.gradients();
    args.m = p.first_moments();
    args.v = p.second_moments();
    args.learning_rate = rate_;
    args.step = step_;
    run(Exec{}, args);
  }

  const Options config_;
  std::unique_ptr<Task> task_;
  bool schlag_;
  RetrievalModel<double> model_;
  Arena scalars_;
  Tensor<double> rate_;
  Tensor<std::int32_t> step_;
};

}  // namespace crosstalk::checks
