// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/pack.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <optional>

#include "experiments/training/evaluation.h"
#include "experiments/training/length_factors.h"
#include "kernels/base/parallel.h"
#include "kernels/ops/adam.h"
#include "models/retrieval_model.h"
#include "tasks/task.h"

namespace crosstalk {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr int kSchlagQueries = 200;  // the released code evaluates at most so many queries a sequence

// Evaluation batches are cut so that one replica's read weights stay near 8 MB, whatever the load.
int evaluation_batch(int sequences, const SequenceShape& shape, int values) {
  const double row = static_cast<double>(shape.Q) * (shape.T + values);
  return std::clamp(static_cast<int>(2e6 / row), 1, sequences);
}

template <class Real>
class Pack {
 public:
  Pack(const std::string& study, const std::vector<Run>& runs, const PackEvents& events)
      : study_(study),
        runs_(runs),
        events_(events),
        config_(runs[0].config),
        R_(static_cast<int>(runs.size())),
        task_(find_task(config_.get_string("task.name"))->make(config_)),
        vocabulary_(task_->vocabulary()),
        model_(config_, vocabulary_.keys, vocabulary_.values, vocabulary_.second_key, Device::cpu, R_),
        batch_(static_cast<int>(config_.get_int("train.batch"))),
        protocol_(config_.get_string("eval.protocol")),
        baselines_(task_->baselines()),
        scratch_(static_cast<std::size_t>(task_->scratch_size())) {
    learning_rate_ = shaped<double>(R_, {1});
    step_ = shaped<std::int32_t>(R_, {1});
    scalars_.reserve(&learning_rate_);
    scalars_.reserve(&step_);
    scalars_.allocate();
    for (int r = 0; r < R_; ++r) {
      const Options& config = runs_[static_cast<std::size_t>(r)].config;
      model_.initialise(r, static_cast<std::uint64_t>(config.get_int("init_seed")));
      *learning_rate_.at(r) = config.get_double("train.learning_rate");
      *step_.at(r) = 0;
      slots_.emplace_back(config);
      active_.push_back(r);
    }
    train_graph_ = model_.graph(batch_, task_->shape(Split::train), true);
    set_feature_seeds(*train_graph_);
    const int max_queries = protocol_ == "schlag2021" ? kSchlagQueries : 0;
    eval_sequences_ = static_cast<int>(config_.get_int("eval.sequences"));
    const SequenceShape shape = task_->shape(Split::eval, max_queries);
    eval_graph_ = model_.graph(evaluation_batch(eval_sequences_, shape, vocabulary_.values), shape, false);
    set_feature_seeds(*eval_graph_);
  }

  bool train() {
    start_ = std::chrono::steady_clock::now();
    exec_.threads = events_.threads();
    std::int64_t step = 0;
    std::int64_t reported = 0;
    evaluate_those([](const Slot& slot) { return slot.max_steps == 0; }, 0);
    while (!active_.empty()) {
      if (events_.stopped()) return false;
      training_step(++step);
      reported += static_cast<std::int64_t>(active_.size());
      finish_diverged(step);
      const bool due = step % config_.get_int("eval.every") == 0;
      evaluate_those([&](const Slot& slot) { return due || step == slot.max_steps; }, step);
      if (due) {
        events_.progressed(reported);
        reported = 0;
        exec_.threads = events_.threads();
      }
    }
    events_.progressed(reported);
    return true;
  }

 private:
  using Graph = RetrievalGraph<Real>;

  // What one replica has come to.
  struct Slot {
    explicit Slot(const Options& config)
        : max_steps(config.get_int("train.max_steps")),
          patience(config.get_int("train.patience")),
          stop_loss(config.get_double("train.stop_loss")),
          data_seed(static_cast<std::uint64_t>(config.get_int("data_seed"))) {}
    std::int64_t max_steps, patience;
    double stop_loss;
    std::uint64_t data_seed;
    std::int64_t strikes = 0, evaluations = 0;
    double best = std::numeric_limits<double>::infinity();
    EvalSummary last{kNaN, kNaN, kNaN};
    double train_total = 0;  // training loss since the last evaluation
    int train_steps = 0;
    std::map<std::string, Series> curves;
  };

  void set_feature_seeds(Graph& graph) {
    for (int r = 0; r < R_; ++r) {
      const std::uint64_t seed = slots_[static_cast<std::size_t>(r)].data_seed;
      graph.feature_seed->at(r)[0] = static_cast<std::int32_t>(seed);
      graph.feature_seed->at(r)[1] = static_cast<std::int32_t>(seed >> 32);
      graph.feature_draw->at(r)[0] = 0;
    }
  }

  // Random features: a new draw in every forward pass, unless the study wants them fixed.
  void set_draw(Graph& graph, std::int64_t draw) {
    if (config_.has("memory.favor_redraw") && config_.get_string("memory.favor_redraw") == "fixed") return;
    for (const int r : active_) *graph.feature_draw->at(r) = static_cast<std::int32_t>(draw);
  }

  Exec exec_for(const std::vector<int>& replicas) const {
    Exec exec = exec_;
    exec.replicas = replicas.data();
    exec.replica_count = static_cast<int>(replicas.size());
    return exec;
  }

  void draw_batch(const Task& task, Graph& graph, Split split, std::int64_t first,
                  const std::vector<int>& replicas) {
    for (const int r : replicas) {
      const std::uint64_t seed = slots_[static_cast<std::size_t>(r)].data_seed;
      for (int b = 0; b < graph.batch.B; ++b) {
        task.sequence(seed, split, static_cast<std::uint64_t>(first + b), graph.sequence(r, b),
                      scratch_.data());
      }
    }
  }

  void training_step(std::int64_t step) {
    const Exec exec = exec_for(active_);
    draw_batch(*task_, *train_graph_, Split::train, (step - 1) * batch_, active_);
    set_draw(*train_graph_, step);
    train_graph_->graph.forward(exec);
    train_graph_->graph.backward(exec);
    for (const int r : active_) {
      *step_.at(r) = static_cast<std::int32_t>(step);
      Slot& slot = slots_[static_cast<std::size_t>(r)];
      slot.train_total += static_cast<double>(*train_graph_->loss.loss->value.at(r));
      ++slot.train_steps;
    }
    AdamStep<Real> adam;
    ParameterBlock<Real>& p = model_.parameters();
    adam.parameter = p.values();
    adam.gradient = p.gradients();
    adam.m = p.first_moments();
    adam.v = p.second_moments();
    adam.learning_rate = learning_rate_;
    adam.step = step_;
    run(exec, adam);
  }

  void finish_diverged(std::int64_t step) {
    const std::vector<int> before = active_;
    for (const int r : before) {
      if (std::isfinite(static_cast<double>(*train_graph_->loss.loss->value.at(r)))) continue;
      slots_[static_cast<std::size_t>(r)].last = {kNaN, kNaN, kNaN};
      finish(r, step, RunStatus::diverged);
    }
  }

  // Results of `replicas` over sequences first .. first + n - 1 of a split, by graph batches.
  std::vector<QueryResults> query_results(const Task& task, Graph& graph, Split split, std::int64_t first,
                                          int n, const std::vector<int>& replicas) {
    const int B = graph.batch.B, Q = graph.batch.Q;
    std::vector<QueryResults> results(replicas.size());
    for (auto& result : results) result.sequences = n, result.Q = Q;
    for (int done = 0; done < n; done += B) {
      draw_batch(task, graph, split, first + done, replicas);
      graph.graph.forward(exec_for(replicas));
      const int take = std::min(B, n - done) * Q;
      for (std::size_t i = 0; i < replicas.size(); ++i) {
        const Real* loss = graph.loss.query_loss->value.at(replicas[i]);
        const std::int32_t* correct = graph.loss.correct->at(replicas[i]);
        results[i].loss.insert(results[i].loss.end(), loss, loss + take);
        results[i].correct.insert(results[i].correct.end(), correct, correct + take);
      }
    }
    return results;
  }

  template <class Due>
  void evaluate_those(const Due& due, std::int64_t step) {
    std::vector<int> replicas;
    for (const int r : active_) {
      if (due(slots_[static_cast<std::size_t>(r)])) replicas.push_back(r);
    }
    if (replicas.empty()) return;
    // Fresh sequences at every evaluation (schlag2021) or always the same: replicas that are evaluated
    // together have been evaluated equally often, except at their own last step.
    std::map<std::int64_t, std::vector<int>> by_count;
    for (const int r : replicas) by_count[slots_[static_cast<std::size_t>(r)].evaluations].push_back(r);
    for (const auto& [count, group] : by_count) {
      set_draw(*eval_graph_, count);
      const std::int64_t first = protocol_ == "schlag2021" ? count * eval_sequences_ : 0;
      const auto results = query_results(*task_, *eval_graph_, Split::eval, first, eval_sequences_, group);
      for (std::size_t i = 0; i < group.size(); ++i) {
        after_evaluation(group[i], step, summarise(results[i], protocol_, batch_));
      }
    }
  }

  void after_evaluation(int r, std::int64_t step, const EvalSummary& summary) {
    Slot& slot = slots_[static_cast<std::size_t>(r)];
    slot.last = summary;
    ++slot.evaluations;
    const auto point = [&](const char* name, double y) {
      slot.curves[name].x.push_back(static_cast<double>(step));
      slot.curves[name].y.push_back(y);
    };
    point("eval_loss", summary.loss);
    point("eval_accuracy", summary.accuracy);
    point("eval_exact", summary.exact);
    if (slot.train_steps > 0) point("train_loss", slot.train_total / slot.train_steps);
    slot.train_total = slot.train_steps = 0;
    if (!std::isfinite(summary.loss)) return finish(r, step, RunStatus::diverged);
    if (summary.loss < slot.best) {
      slot.best = summary.loss;
      slot.strikes = 0;
    } else {
      ++slot.strikes;
    }
    const bool solved = slot.stop_loss > 0 && summary.loss <= slot.stop_loss;
    if (solved || slot.strikes > slot.patience || step >= slot.max_steps) finish(r, step, RunStatus::done);
  }

  void finish(int r, std::int64_t step, RunStatus status) {
    active_.erase(std::find(active_.begin(), active_.end(), r));
    const Slot& slot = slots_[static_cast<std::size_t>(r)];
    const Run& run = runs_[static_cast<std::size_t>(r)];
    Record record;
    record.id = run.id;
    record.study = study_;
    record.label = run.label;
    record.status = status;
    record.seed = run.seed;
    record.config = nlohmann::json::object();
    for (const auto& [key, value] : run.config.values()) {
      std::visit([&, &k = key](const auto& v) { record.config[k] = v; }, value);
    }
    record.d_dot = run.d_dot;
    record.state_size = run.state_size;
    record.steps = step;
    record.eval_loss = slot.last.loss;
    record.eval_accuracy = slot.last.accuracy;
    record.best_eval_loss = std::isfinite(slot.best) ? slot.best : kNaN;
    record.metrics = baselines_;
    record.metrics["eval_exact"] = slot.last.exact;
    record.metrics["parameters"] = static_cast<double>(model_.parameters().trainable());
    if (run.d_dot > 0 && config_.get_string("task.name") == "recall") {
      const double load = static_cast<double>(config_.get_int("task.associations"));
      record.metrics["rank_bound"] = 0.5 * std::max(0.0, 1 - static_cast<double>(run.d_dot) / load);
    }
    record.curves = slot.curves;
    if (status == RunStatus::done) add_profiles(r, record);
    record.provenance = {
        {"pack", R_},
        {"wall_s", std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count()},
    };
    events_.finished(std::move(record));
  }

  // The trained memory read at other lengths, and by the number of operations before a read.
  void add_profiles(int r, Record& record) {
    std::vector<int> factors = length_factors(config_.get_string("eval.length_factors"));
    const bool by_length = !factors.empty();
    if (!by_length) {
      if (!config_.has("task.operations")) return;
      factors = {1};
    }
    const std::vector<int> alone = {r};
    for (const int factor : factors) {
      const auto task = task_->lengthened(factor);
      const SequenceShape shape = task->shape(Split::test);
      if (static_cast<int>(scratch_.size()) < task->scratch_size())
        scratch_.resize(static_cast<std::size_t>(task->scratch_size()));
      auto graph = model_.graph(evaluation_batch(eval_sequences_, shape, vocabulary_.values), shape, false);
      set_feature_seeds(*graph);
      const auto results = query_results(*task, *graph, Split::test, 0, eval_sequences_, alone);
      if (by_length) {
        const EvalSummary summary = summarise(results[0], "uniform", batch_);
        const auto point = [&](const char* name, double y) {
          record.profiles[name].x.push_back(factor);
          record.profiles[name].y.push_back(y);
        };
        point("loss_by_length", summary.loss);
        point("accuracy_by_length", summary.accuracy);
        point("exact_by_length", summary.exact);
      }
      if (factor == factors.back() && config_.has("task.operations")) {
        const OperationProfile profile = by_operations(results[0], operations(*task, shape, r));
        record.profiles["accuracy_by_operations"] = profile.accuracy;
        record.profiles["exact_by_operations"] = profile.exact;
      }
    }
  }

  std::vector<std::int32_t> operations(const Task& task, const SequenceShape& shape, int r) {
    const auto T = static_cast<std::size_t>(shape.T), C = static_cast<std::size_t>(shape.C),
               Q = static_cast<std::size_t>(shape.Q);
    std::vector<std::int32_t> tokens(T * C), role(T), query(Q), position(Q), target(Q), meta(Q * meta_count),
        result;
    const SequenceView view{shape,           tokens.data(), role.data(), query.data(),
                            position.data(), target.data(), meta.data()};
    for (int s = 0; s < eval_sequences_; ++s) {
      task.sequence(slots_[static_cast<std::size_t>(r)].data_seed, Split::test, static_cast<std::uint64_t>(s),
                    view, scratch_.data());
      for (std::size_t q = 0; q < Q; ++q) result.push_back(meta[q * meta_count + meta_operations]);
    }
    return result;
  }

  const std::string& study_;
  const std::vector<Run>& runs_;
  const PackEvents& events_;
  const Options& config_;
  int R_;
  std::unique_ptr<Task> task_;
  Vocabulary vocabulary_;
  RetrievalModel<Real> model_;
  int batch_, eval_sequences_ = 0;
  std::string protocol_;
  std::map<std::string, double> baselines_;
  std::vector<std::int32_t> scratch_;
  Exec exec_;
  Arena scalars_{Device::cpu};
  Tensor<double> learning_rate_;
  Tensor<std::int32_t> step_;
  std::unique_ptr<Graph> train_graph_, eval_graph_;
  std::vector<Slot> slots_;
  std::vector<int> active_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace

std::string pack_key(const Options& config) {
  static const std::vector<std::string> free = {
      "seed",           "data_seed",      "init_seed", "train.learning_rate", "train.max_steps",
      "train.patience", "train.stop_loss"};
  std::string key;
  for (const auto& [name, value] : config.values()) {
    if (std::find(free.begin(), free.end(), name) == free.end()) key += name + "=" + to_text(value) + "\n";
  }
  return key;
}

double estimated_cost(const Run& run) {
  const auto task = find_task(run.config.get_string("task.name"))->make(run.config);
  const SequenceShape shape = task->shape(Split::train);
  const double keys = task->vocabulary().keys, values = task->vocabulary().values;
  const double d = static_cast<double>(run.config.get_int("model.d_key"));
  const double p = std::max<double>(d, static_cast<double>(run.d_dot));
  const double batch = static_cast<double>(run.config.get_int("train.batch"));
  const double state = run.config.get_string("memory.name") == "fwm" ? values : 1;
  const double tables = 6 * keys * static_cast<double>(run.config.get_int("model.embedding")) * d;
  return (tables + 20 * batch * shape.T * p * state * shape.Q) *
         std::min<double>(5000, static_cast<double>(run.config.get_int("train.max_steps")));
}

bool train_pack(const std::string& study, const std::vector<Run>& runs, const PackEvents& events) {
  if (runs[0].config.get_string("train.precision") == "fp64")
    return Pack<double>(study, runs, events).train();
  return Pack<float>(study, runs, events).train();
}

}  // namespace crosstalk
