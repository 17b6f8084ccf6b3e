// The trainer once more, for tests: one run, one sequence after the other, means written out. In double
// precision: forms that depend on the size of a batch (one table of queries or single rows) then agree to
// 1e-12.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "experiments/study/study.h"
#include "experiments/training/pack.h"
#include "kernels/base/buffer.h"
#include "kernels/base/text/narrow.h"
#include "kernels/optimizer/adam.h"
#include "models/model.h"
#include "results/store/record.h"
#include "tasks/task.h"

namespace crosstalk::checks {

struct PlainEvaluation {
  std::int64_t step = 0;
  double loss = 0, accuracy = 0, exact = 0, train_loss = 0;
  double norm_median = 0, norm_largest = 0;  ///< of gradients before they are clipped
};

/// One used query of the test split.
struct PlainQuery {
  int sequence = 0, operations = 0, gap = 0, position = 0;
  double loss = 0;
  bool right = false;
};

class PlainTrainer {
 public:
  explicit PlainTrainer(const Run& run_, const TaskMaker& make_task = registered_task)
      : config_(run_.config),
        task_(make_task(config_)),
        schlag_(config_.get_string("eval.protocol") == "schlag2021"),
        model_(make_model<double>(config_, task_->vocabulary(), Device::cpu, 1)),
        scalars_(Device::cpu) {
    if (config_.get_string("train.precision") != "fp64") throw std::logic_error("the plain trainer is fp64");
    rate_ = shaped<double>(1, {1});
    step_ = shaped<std::int32_t>(1, {1});
    scalars_.reserve(&rate_);
    scalars_.reserve(&step_);
    scalars_.allocate();
    model_->initialise(0, static_cast<std::uint64_t>(config_.get_int("init_seed")));
  }

  RunStatus status = RunStatus::done;
  std::int64_t steps = 0;
  double best = std::numeric_limits<double>::infinity();
  std::vector<PlainEvaluation> evaluations;
  std::vector<std::int64_t> promotions;  ///< steps at which a stage was left
  double epoch = 1;                      ///< steps of an epoch, for cosine_epoch

  void train() {
    const int B = narrow<int>(config_, "train.batch");
    const std::int64_t every = config_.get_int("eval.every"), most = config_.get_int("train.max_steps");
    for (const TaskSegment& stage : task_->stages()) stages_.push_back(stage.task.get());
    if (stages_.empty()) stages_.push_back(task_.get());
    Order order(*this, *stages_[0], B);
    const bool scheduled = config_.get_string("train.promote") == "schedule";
    std::int64_t without_gain = 0;
    for (;;) {
      double train_loss = 0;
      std::vector<double> norms;
      std::int64_t taken = 0;
      while (steps < most && (taken == 0 || steps % every != 0)) {
        auto& [task, graph, batches] = order.at(steps);
        fill(*graph, *task, Split::train, (order.parts.size() == 1 ? steps : batches++) * B, steps);
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
        double squares = 0;
        for (std::int64_t i = 0; i < model_->parameters().gradients().size(); ++i)
          squares += std::pow(model_->parameters().gradients().at(0)[i], 2);
        norms.push_back(std::sqrt(squares));
        adam();
      }
      PlainEvaluation evaluation = evaluate(static_cast<std::int64_t>(evaluations.size()));
      evaluation.step = steps;
      evaluation.train_loss = train_loss / static_cast<double>(taken);
      if (!norms.empty()) {
        std::sort(norms.begin(), norms.end());
        evaluation.norm_median = (norms[(norms.size() - 1) / 2] + norms[norms.size() / 2]) / 2;
        evaluation.norm_largest = norms.back();
      }
      evaluations.push_back(evaluation);
      if (!std::isfinite(evaluation.loss)) {
        status = RunStatus::diverged;
        return;
      }
      without_gain = evaluation.loss < best ? 0 : without_gain + 1;
      best = std::min(best, evaluation.loss);
      const bool last = promotions.size() + 1 == stages_.size();
      const double stop = last ? config_.get_double("train.stop_loss") : 0,
                   enough = last ? config_.get_double("train.stop_accuracy") : 0;
      if ((stop > 0 && evaluation.loss <= stop) || (enough > 0 && evaluation.accuracy >= enough) ||
          (without_gain > config_.get_int("train.patience") && (last || !scheduled)) || steps >= most)
        return;
      const double share = static_cast<double>(promotions.size() + 1) / static_cast<double>(stages_.size());
      if (!last && (scheduled ? static_cast<double>(steps) >= share * static_cast<double>(most)
                              : evaluation.accuracy >= config_.get_double("train.promote_accuracy"))) {
        promotions.push_back(steps);
        best = std::numeric_limits<double>::infinity();
        without_gain = 0;
        order = Order(*this, *stages_[promotions.size()], B);
      }
    }
  }

  /// Every used query of the test split, read from sequences `factor` times as long.
  std::vector<PlainQuery> test(int factor) {
    const auto task = task_->lengthened(factor);
    const auto graph = model_->graph(1, task->shape(Split::test), false);
    std::vector<PlainQuery> queries;
    for (int s = 0; s < config_.get_int("eval.sequences"); ++s) {
      const auto meta = fill(*graph, *task, Split::test, s, 0);
      graph->graph.forward({});
      for (int i = 0; i < graph->batch.Q; ++i) {
        if (graph->batch.target->at(0)[i] < 0) continue;
        const auto* of = meta.data() + i * meta_count;
        queries.push_back({s, of[meta_operations], of[meta_gap], graph->batch.position->at(0)[i],
                           graph->loss.query_loss->value.at(0)[i], right(*graph, i)});
      }
    }
    return queries;
  }

 private:
  using Graph = ModelGraph<double>;

  // Which part each step of an epoch belongs to, written out.
  struct Order {
    struct Part {
      const Task* task;
      std::unique_ptr<Graph> graph;
      std::int64_t batches;  ///< drawn so far
    };
    std::vector<Part> parts;
    std::vector<std::size_t> epoch;

    Order(PlainTrainer& trainer, const Task& whole, int B) {
      kept = whole.segments(Split::train);
      for (const TaskSegment& segment : kept) {
        for (std::int64_t n = 0; n < segment.sequences; n += B) epoch.push_back(parts.size());
        parts.push_back({segment.task.get(), nullptr, 0});
      }
      if (parts.empty()) parts.push_back({&whole, nullptr, 0}), epoch.push_back(0);
      for (Part& part : parts) part.graph = trainer.model_->graph(B, part.task->shape(Split::train), true);
    }
    Part& at(std::int64_t step) { return parts[epoch[static_cast<std::size_t>(step) % epoch.size()]]; }

    std::vector<TaskSegment> kept;
  };

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
    if (graph.dropout_draw) graph.dropout_draw->at(0)[0] = static_cast<std::int32_t>(draw);
    return meta;
  }

  // The target's entry is larger than every other.
  static bool right(const Graph& graph, int i) {
    if (!graph.output) return graph.loss.correct->at(0)[i] == 1;  // logits are not kept
    const Tensor<double> y = graph.output->value;
    const double* row = y.at(0) + i * y.columns();
    const int target = graph.batch.target->at(0)[i];
    for (int v = 0; v < y.columns(); ++v) {
      if (v != target && !(row[v] < row[target])) return false;
    }
    return true;
  }

  PlainEvaluation evaluate(std::int64_t number) {
    const Task& whole = *stages_[promotions.size()];
    const auto segments = whole.segments(Split::eval);
    if (segments.empty()) return evaluate_one(whole, number);
    PlainEvaluation means;  // each sequence counts once, whatever its number of queries
    double all = 0;
    for (const TaskSegment& segment : segments) {
      const auto graph = model_->graph(1, segment.task->shape(Split::eval), false);
      const std::int64_t sequences =
          segment.sequences > 0 ? segment.sequences : config_.get_int("eval.sequences");
      for (std::int64_t s = 0; s < sequences; ++s, all += 1) {
        fill(*graph, *segment.task, Split::eval, s, number);
        graph->graph.forward({});
        double loss = 0, hits = 0, queries = 0;
        for (int i = 0; i < graph->batch.Q; ++i) {
          if (graph->batch.target->at(0)[i] < 0) continue;
          loss += graph->loss.query_loss->value.at(0)[i];
          hits += right(*graph, i);
          queries += 1;
        }
        means.loss += loss / queries;
        means.accuracy += hits / queries;
        means.exact += hits == queries;
      }
    }
    return {0, means.loss / all, means.accuracy / all, means.exact / all, 0};
  }

  PlainEvaluation evaluate_one(const Task& task, std::int64_t number) {
    const auto graph = model_->graph(1, task.shape(Split::eval, schlag_ ? 200 : 0), false);
    const int sequences = narrow<int>(config_, "eval.sequences");
    const int chunk = schlag_ ? narrow<int>(config_, "train.batch") : 1 << 30;
    double means = 0, chunks = 0, total = 0, queries = 0, hits = 0, exact = 0;
    for (int s = 0; s < sequences; ++s) {
      fill(*graph, task, Split::eval, schlag_ ? number * sequences + s : s, number);
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

  // What PyTorch's schedulers make of the rate for the step that has just been counted.
  double rate() const {
    const double t = static_cast<double>(steps),
                 all = static_cast<double>(config_.get_int("train.max_steps")),
                 warmup = static_cast<double>(config_.get_int("train.warmup_steps"));
    const std::string& schedule = config_.get_string("train.schedule");
    double rate = config_.get_double("train.learning_rate");
    if (schedule == "one_cycle") {  // torch.optim.lr_scheduler.OneCycleLR, pct_start * all = warmup
      const auto between = [](double from, double to, double share) {
        return to + (from - to) / 2 * (std::cos(std::acos(-1.) * share) + 1);
      };
      return t - 1 <= warmup - 1 ? between(rate / 25, rate, (t - 1) / (warmup - 1))
                                 : between(rate, rate / 25e4, (t - warmup) / (all - warmup));
    }
    if (t < warmup) rate *= t / warmup;
    const double passed = schedule == "cosine"         ? std::max(0., t - 1 - warmup) / (all - warmup)
                          : schedule == "cosine_epoch" ? std::floor((t - 1) / epoch) / std::ceil(all / epoch)
                                                       : 0;
    const double least = config_.get_double("train.least_rate");
    if (schedule == "linear" || schedule == "wsd") {
      const double length =
          schedule == "linear" ? all - warmup : config_.get_double("train.decay_share") * all;
      return rate * (1 - (1 - least) * std::max(0., t - 1 - (all - length)) / length);
    }
    return rate * (least + (1 - least) * (1 + std::cos(std::acos(-1.) * passed)) / 2);
  }

  struct Matrix {
    int index;
    std::vector<double> p, m;
  };
  // What Muon trains, before a step.
  std::vector<Matrix> matrices() const {
    std::vector<Matrix> found;
    auto& p = model_->parameters();
    for (int i = 0; i < p.count() && config_.get_string("train.optimizer") == "muon"; ++i) {
      const Tensor<double> value = p.value(i);
      const std::string& name = p.name(i);
      const bool is_weight = name.size() > 7 && name.substr(name.size() - 7) == ".weight";
      if (value.rank != 2 || !is_weight || name.find("conv") != std::string::npos) continue;
      const double* m = p.first_moments().at(0) + (value.data - p.values().data);
      found.push_back({i, {value.at(0), value.at(0) + value.size()}, {m, m + value.size()}});
    }
    return found;
  }

  // Muon in plain loops over the clipped gradient, in place of what Adam made of the matrix.
  void muon(const Matrix& matrix) {
    auto& p = model_->parameters();
    const Tensor<double> value = p.value(matrix.index), gradient = p.gradient(matrix.index);
    const int n = value.dim(0), k = value.dim(1);
    const double factor = rate() / config_.get_double("train.learning_rate"),
                 lr = factor * config_.get_double("train.muon_rate");
    double mu = config_.get_double("train.muon_momentum");
    if (config_.get_string("train.schedule") == "one_cycle") {
      const double t = static_cast<double>(steps),
                   all = static_cast<double>(config_.get_int("train.max_steps")),
                   top = static_cast<double>(config_.get_int("train.warmup_steps")),
                   low = config_.get_double("train.muon_low_momentum"),
                   share = t <= top ? (t - 1) / (top - 1) : 1 - (t - top) / (all - top);
      mu = low + (mu - low) * (std::cos(std::acos(-1.) * share) + 1) / 2;
    }
    std::vector<double> X(matrix.p.size()), m = matrix.m;
    double squares = 0;
    for (std::size_t i = 0; i < m.size(); ++i) {
      m[i] = mu * m[i] + gradient.at(0)[i];
      X[i] = gradient.at(0)[i] + mu * m[i];
      squares += X[i] * X[i];
    }
    for (double& x : X) x /= std::sqrt(squares) + 1e-7;
    for (int iteration = 0; iteration < 5; ++iteration) {  // X X^T X = X (X^T X), whichever side is shorter
      const auto cube = [&](const std::vector<double>& Y) {
        std::vector<double> A(static_cast<std::size_t>(n * n), 0.), Z(Y.size(), 0.);
        for (int i = 0; i < n; ++i)
          for (int j = 0; j < n; ++j)
            for (int l = 0; l < k; ++l)
              A[static_cast<std::size_t>(i * n + j)] +=
                  X[static_cast<std::size_t>(i * k + l)] * X[static_cast<std::size_t>(j * k + l)];
        for (int i = 0; i < n; ++i)
          for (int j = 0; j < n; ++j)
            for (int l = 0; l < k; ++l)
              Z[static_cast<std::size_t>(i * k + l)] +=
                  A[static_cast<std::size_t>(i * n + j)] * Y[static_cast<std::size_t>(j * k + l)];
        return Z;
      };
      const std::vector<double> third = cube(X), fifth = cube(third);
      for (std::size_t i = 0; i < X.size(); ++i) X[i] = 3.4445 * X[i] - 4.7750 * third[i] + 2.0315 * fifth[i];
    }
    double* moment = p.first_moments().at(0) + (value.data - p.values().data);
    for (std::size_t i = 0; i < X.size(); ++i) {
      moment[i] = m[i];
      value.at(0)[i] = matrix.p[i] * (1 - lr * config_.get_double("train.weight_decay")) -
                       lr * std::sqrt(std::max(1., static_cast<double>(n) / k)) * X[i];
    }
  }

  // Numbers that train.no_decay, ends of names with commas, leaves alone.
  std::vector<bool> undecayed() const {
    const auto& p = model_->parameters();
    std::vector<bool> kept(static_cast<std::size_t>(p.values().size()));
    const std::string words = fmt::format(",{},", config_.get_string("train.no_decay"));
    for (int i = 0; i < p.count(); ++i) {
      const std::string& name = p.name(i);
      bool named = false;
      for (std::size_t at = 0; at < name.size(); ++at)
        named |= (at == 0 || name[at - 1] == '.') &&
                 words.find(fmt::format(",{},", name.substr(at))) != words.npos;
      const std::int64_t begin = p.value(i).data - p.values().data;
      for (std::int64_t j = 0; named && j < p.value(i).size(); ++j)
        kept[static_cast<std::size_t>(begin + j)] = true;
    }
    return kept;
  }

  // Decay and clipping in plain loops; Adam itself has a test of its own.
  void adam() {
    const std::vector<Matrix> before = matrices();
    step_.at(0)[0] = static_cast<std::int32_t>(steps);
    rate_.at(0)[0] = rate();
    auto& p = model_->parameters();
    const double clip = config_.get_double("train.clip_norm"),
                 decay = config_.get_double("train.weight_decay");
    double squares = 0;
    for (std::int64_t i = 0; i < p.values().size(); ++i) squares += std::pow(p.gradients().at(0)[i], 2);
    const std::vector<bool> kept = undecayed();
    for (std::int64_t i = 0; i < p.values().size(); ++i) {
      if (!kept[static_cast<std::size_t>(i)]) p.values().at(0)[i] *= 1 - rate_.at(0)[0] * decay;
      if (clip > 0) p.gradients().at(0)[i] *= std::min(1., clip / (std::sqrt(squares) + 1e-6));
    }
    AdamStep<double> args;
    args.beta1 = config_.get_double("train.beta1");
    args.beta2 = config_.get_double("train.beta2");
    args.parameter = p.values();
    args.gradient = p.gradients();
    args.m = p.first_moments();
    args.v = p.second_moments();
    args.learning_rate = rate_;
    args.step = step_;
    run(Exec{}, args);
    for (const Matrix& matrix : before) muon(matrix);
  }

  const Options config_;
  std::unique_ptr<Task> task_;
  std::vector<const Task*> stages_;
  bool schlag_;
  std::unique_ptr<Model<double>> model_;
  Arena scalars_;
  Tensor<double> rate_;
  Tensor<std::int32_t> step_;
};

}  // namespace crosstalk::checks
