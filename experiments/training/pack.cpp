// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/pack.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <limits>
#include <numeric>

#include "experiments/training/device_loop.h"
#include "experiments/training/evaluation.h"
#include "experiments/training/length_factors.h"
#include "experiments/training/pack_parts.h"
#include "experiments/training/record_of.h"
#include "experiments/training/run_state.h"
#include "experiments/training/weights.h"
#include "kernels/base/buffer.h"
#include "kernels/ops/adam.h"
#include "kernels/ops/book_keeping.h"
#include "models/memory.h"
#include "models/model.h"
#include "results/theory.h"
#include "tasks/task.h"

namespace crosstalk {
namespace {

template <class Real>
class Pack {
 public:
  Pack(const std::string& study, const std::vector<PackRun>& runs, int slots, Device device,
       const PackEvents& events)
      : study_(study),
        events_(events),
        config_(runs[0].run.config),
        device_(device),
        R_(std::min(slots, static_cast<int>(runs.size()))),
        every_(config_.get_int("eval.every")),
        max_steps_(config_.get_int("train.max_steps")),
        unroll_(unrolled_steps(device, every_, std::gcd(max_steps_, steps_of_state(runs[0].state)))),
        batch_(static_cast<int>(config_.get_int("train.batch"))),
        sequences_(static_cast<int>(config_.get_int("eval.sequences"))),
        schlag_(config_.get_string("eval.protocol") == "schlag2021"),
        task_(find_task(config_.get_string("task.name"))->make(config_)),
        vocabulary_(task_->vocabulary()),
        model_(make_model<Real>(config_, {vocabulary_.keys, vocabulary_.values, vocabulary_.second_key},
                                device, R_, products_of(config_))),
        baselines_(task_->baselines()),
        scalars_(device) {
    if (device == Device::cuda) stream_ = std::make_unique<CudaStream>(events.urgency);
    exec_.device = device;
    exec_.stream = stream_ ? stream_->get() : nullptr;
    task_->prepare(device);
    for (const PackRun& run : runs) waiting_.push_back(&run);
    make_scalars();
    if (max_steps_ > 0) train_graph_ = model_->graph(batch_, task_->shape(Split::train), true, unroll_);
    const SequenceShape shape = task_->shape(Split::eval, schlag_ ? kSchlagQueries : 0);
    eval_graph_ = model_->graph(evaluation_batch(sequences_, shape, vocabulary_.values), shape, false, 1);
    if (train_graph_) bind(*train_graph_, step_);
    bind(*eval_graph_, evaluations_);
    slots_.resize(static_cast<std::size_t>(R_));
    for (int r = 0; r < R_; ++r) fill_slot(r);
  }

  /// How training ended. too_wide: most slots are empty and nothing waits; unfinished() goes on in a smaller
  /// pack.
  enum class Outcome { done, stopped, too_wide };

  /// Until all runs have ended. `start`: when the first of them began.
  Outcome train(std::chrono::steady_clock::time_point start) {
    ThreadChooser chooser;
    Replay steps([this](const Exec& exec) { queue_training(exec); });
    Replay evaluation([this](const Exec& exec) { queue_evaluation(exec); });
    start_ = start;
    while (!active_.empty()) {
      const std::int64_t done = slots_[static_cast<std::size_t>(active_[0])].steps;
      const std::int64_t chunk = std::min(every_ - done % every_, max_steps_ - done);
      const auto chunk_start = std::chrono::steady_clock::now();
      exec_.threads = chooser.choose(events_.threads());
      for (std::int64_t step = 0; step < chunk; step += unroll_) {
        if (events_.stopped()) return save_all(), Outcome::stopped;
        steps(active_exec(), stream_.get());
      }
      evaluation(active_exec(), stream_.get());
      if (stream_) stream_->synchronise();
      events_.progressed(chunk * static_cast<std::int64_t>(active_.size()));
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - chunk_start;
      chooser.measured(exec_.threads,
                       seconds.count() / static_cast<double>(std::max<std::int64_t>(1, chunk)));
      after_evaluation(chunk);
      // An empty slot costs as much as a full one on CUDA. A new graph costs milliseconds.
      const int active = static_cast<int>(active_.size());
      if (device_ == Device::cuda && waiting_.empty() && active > 0 && 4 * active <= 3 * R_)
        return Outcome::too_wide;
    }
    return Outcome::done;
  }

  /// The runs that have begun and not ended, as they stand at an evaluation.
  std::vector<PackRun> unfinished() {
    std::vector<PackRun> runs;
    for (const int r : active_)
      runs.push_back({*slots_[static_cast<std::size_t>(r)].run, to_bytes(state_of(r))});
    return runs;
  }

 private:
  using Graph = ModelGraph<Real>;

  void make_scalars() {
    learning_rate_ = shaped<double>(R_, {1});
    report_ = shaped<double>(R_, {kReportSize});
    workspace_ = shaped<double>(R_, {sequences_, report_exact + 1});
    seed_ = shaped<std::int32_t>(R_, {2});
    step_ = evaluations_ = zero_ = shaped<std::int32_t>(R_, {1});
    for (auto* t : {&learning_rate_, &report_, &workspace_}) scalars_.reserve(t);
    for (auto* t : {&seed_, &step_, &evaluations_, &zero_}) scalars_.reserve(t);
    const int scratch = task_->scratch_size() + 1;
    if (device_ == Device::cuda) {
      scratch_ = shaped<std::int32_t>(R_, {std::max(batch_ * unroll_, sequences_), scratch});
      scalars_.reserve(&scratch_);
    }
    scalars_.allocate();
    for (int r = 0; r < R_; ++r) put(zero_, r, {0});
  }

  template <class T>
  void put(const Tensor<T>& tensor, int r, std::initializer_list<T> values) {
    scalars_.copy_from_host(tensor.at(r), values.begin(), values.size() * sizeof(T));
  }

  // Random features are drawn anew in every forward pass (numbered by the counter), unless the study wants
  // them fixed.
  void bind(Graph& graph, const Tensor<std::int32_t>& counter) {
    *graph.feature_seed = seed_;
    *graph.feature_draw = graph.redraws ? counter : zero_;
  }

  bool is_wanted(const Run& run) const { return !events_.wanted || events_.wanted(run.id); }

  // Starts the next waiting run in slot r; leaves the slot empty if there is none.
  void fill_slot(int r) {
    Slot& slot = slots_[static_cast<std::size_t>(r)];
    slot = Slot{};
    while (!waiting_.empty() && !is_wanted(waiting_.front()->run)) waiting_.pop_front();
    if (waiting_.empty()) return;
    const PackRun& next = *waiting_.front();
    waiting_.pop_front();
    slot.run = &next.run;
    const Options& config = slot.run->config;
    const auto seed = static_cast<std::uint64_t>(config.get_int("data_seed"));
    model_->initialise(r, static_cast<std::uint64_t>(config.get_int("init_seed")));
    if (const auto weights = initial_weights(config))
      load_weights(*weights, model_->parameters(), device_, r);
    put(seed_, r, {static_cast<std::int32_t>(seed), static_cast<std::int32_t>(seed >> 32)});
    put(learning_rate_, r, {config.get_double("train.learning_rate")});
    put(step_, r, {0});
    put(evaluations_, r, {0});
    put(report_, r, {0., 0., 0., 0., 0., 0., 0., 0.});
    if (!next.state.empty()) restore(r, run_state(next.state));
    active_.push_back(r);
    std::sort(active_.begin(), active_.end());
  }

  void restore(int r, const RunState& state) {
    Slot& slot = slots_[static_cast<std::size_t>(r)];
    slot.steps = state.steps;
    slot.strikes = state.strikes;
    slot.best = state.best;
    slot.curves = state.curves;
    put(step_, r, {static_cast<std::int32_t>(state.steps)});
    put(evaluations_, r, {static_cast<std::int32_t>(state.evaluations)});
    if (state.parameters.size() != model_->parameters().snapshot(r).size())
      throw MisfitState(state.id, "it has parameters of another model");
    scalars_.copy_from_host(report_.at(r), state.report.data(), sizeof(double) * kReportSize);
    model_->parameters().restore(r, state.parameters);
  }

  // Every unfinished run as it stands; waiting ones have not begun.
  void save_all() {
    if (stream_) stream_->synchronise();
    if (!events_.save) return;
    for (const int r : active_) {
      const RunState state = state_of(r);
      if (state.steps > 0) events_.save(state.id, to_bytes(state));
    }
  }

  RunState state_of(int r) {
    const Slot& slot = slots_[static_cast<std::size_t>(r)];
    RunState state;
    state.id = slot.run->id;
    state.steps = copy_replica(step_, r, 1)[0];
    state.evaluations = copy_replica(evaluations_, r, 1)[0];
    state.strikes = slot.strikes;
    state.best = slot.best;
    state.curves = slot.curves;
    state.report = copy_replica(report_, r, kReportSize);
    state.parameters = model_->parameters().snapshot(r);
    return state;
  }

  // The CPU computes active replicas only; on CUDA an empty slot computes along and nobody looks.
  Exec active_exec() const {
    Exec exec = exec_;
    if (device_ == Device::cpu) {
      exec.replicas = active_.data();
      exec.replica_count = static_cast<int>(active_.size());
    }
    return exec;
  }

  DrawArgs draw_args(const Graph& graph, Split split, int B) const {
    DrawArgs args;
    args.split = split;
    args.shape = {graph.batch.T, graph.batch.C, graph.batch.Q};
    args.B = B;
    args.seed = seed_;
    args.tokens = *graph.batch.tokens;
    args.query = *graph.batch.query;
    args.position = *graph.batch.position;
    args.target = *graph.batch.target;
    args.scratch = scratch_;
    return args;
  }

  // `unroll_` training steps: their batches are drawn together, which hides the latency of drawing.
  void queue_training(const Exec& exec) {
    DrawArgs draw = draw_args(*train_graph_, Split::train, batch_ * unroll_);
    draw.counter = step_;
    draw.stride = batch_;
    task_->draw(exec, draw);
    train_graph_->prepare(exec);
    ParameterBlock<Real>& p = model_->parameters();
    for (int u = 0; u < unroll_; ++u) {
      train_graph_->select(u);
      train_graph_->graph.forward(exec);
      CountStep<Real> count;
      count.period = static_cast<int>(every_);
      count.loss = train_graph_->loss.loss->value;
      count.step = step_;
      count.report = report_;
      run(exec, count);
      train_graph_->graph.backward(exec);
      AdamStep<Real> adam;
      adam.parameter = p.values();
      adam.gradient = p.gradients();
      adam.m = p.first_moments();
      adam.v = p.second_moments();
      adam.learning_rate = learning_rate_;
      adam.step = step_;
      run(exec, adam);
    }
    train_graph_->select(0);
  }

  void queue_evaluation(const Exec& exec) {
    // schlag2021: fresh sequences at every evaluation; uniform: always the same.
    queue_evaluation_of(exec, *task_, *eval_graph_, Split::eval, evaluations_, schlag_ ? sequences_ : 0);
  }

  void queue_evaluation_of(const Exec& exec, const Task& task, Graph& graph, Split split,
                           const Tensor<std::int32_t>& counter, std::int64_t stride) {
    const int B = graph.batch.B;
    for (int done = 0; done < sequences_; done += B) {
      DrawArgs draw = draw_args(graph, split, B);
      draw.counter = counter;
      draw.stride = stride;
      draw.offset = done;
      task.draw(exec, draw);
      graph.graph.forward(exec);
      CountEvaluation<Real> count;
      count.sequences = std::min(B, sequences_ - done);
      count.chunk = schlag_ ? batch_ : 0;
      count.first = done == 0;
      count.last = done + B >= sequences_;
      count.query_loss = graph.loss.query_loss->value;
      count.correct = *graph.loss.correct;
      count.evaluations = evaluations_;
      count.workspace = workspace_;
      count.report = report_;
      run(exec, count);
    }
  }

  void after_evaluation(std::int64_t chunk) {
    const std::vector<double> reports = scalars_.copy_of(report_);
    const std::vector<int> evaluated = active_;
    for (const int r : evaluated) {
      const double* report = reports.data() + static_cast<std::size_t>(r) * kReportSize;
      Slot& slot = slots_[static_cast<std::size_t>(r)];
      if (chunk > 0 && report[report_diverged_step] > 0) {
        slot.steps = static_cast<std::int64_t>(report[report_diverged_step]);
        slot.last = {kNaN, kNaN, kNaN};
        finish(r, RunStatus::diverged);
        continue;
      }
      slot.steps += chunk;
      const EvalSummary summary{report[report_loss_sum] / report[report_loss_weight],
                                report[report_right] / report[report_queries],
                                report[report_exact] / sequences_};
      add_point(slot, "eval_loss", summary.loss);
      add_point(slot, "eval_accuracy", summary.accuracy);
      add_point(slot, "eval_exact", summary.exact);
      if (chunk > 0) add_point(slot, "train_loss", report[report_train_loss] / report[report_train_steps]);
      slot.last = summary;
      if (!std::isfinite(summary.loss)) {
        finish(r, RunStatus::diverged);
        continue;
      }
      slot.strikes = summary.loss < slot.best ? 0 : slot.strikes + 1;
      slot.best = std::min(slot.best, summary.loss);
      const Options& config = slot.run->config;
      const double stop_loss = config.get_double("train.stop_loss");
      const bool solved = stop_loss > 0 && summary.loss <= stop_loss;
      if (solved || slot.strikes > config.get_int("train.patience") || slot.steps >= max_steps_) {
        finish(r, RunStatus::done);
      } else if (!is_wanted(*slot.run)) {
        vacate(r);
      }
    }
  }

  static void add_point(Slot& slot, const char* name, double y) {
    slot.curves[name].x.push_back(static_cast<double>(slot.steps));
    slot.curves[name].y.push_back(y);
  }

  void finish(int r, RunStatus status) {
    const Slot& slot = slots_[static_cast<std::size_t>(r)];
    Record record = record_of(study_, *slot.run, status);
    record.steps = slot.steps;
    record.eval_loss = slot.last.loss;
    record.eval_accuracy = slot.last.accuracy;
    record.best_eval_loss = std::isfinite(slot.best) ? slot.best : kNaN;
    record.metrics = baselines_;
    record.metrics["eval_exact"] = slot.last.exact;
    record.metrics["parameters"] = static_cast<double>(model_->trainable());
    if (const auto bound = rank_bound(record)) record.metrics["rank_bound"] = *bound;
    record.curves = slot.curves;
    if (status == RunStatus::done) {
      const QueryResults results = test_results(*task_, r);  // a split that no stop rule has seen
      const EvalSummary test = summarise(results);
      record.metrics["test_loss"] = test.loss;
      record.metrics["test_accuracy"] = test.accuracy;
      if (!results.metrics.empty()) {
        for (const auto& [name, mean] : metric_means(results)) record.metrics[name] = mean;
        model_->derive(record.metrics);
      }
      add_profiles(r, record);
    }
    record.provenance = {
        {"pack", R_},
        {"forms", (train_graph_ ? train_graph_ : eval_graph_)->graph.forms()},
        {"wall_s", std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count()},
    };
    if (slot.run->keep_weights && status == RunStatus::done && events_.keep)
      events_.keep(record.id, to_npz(weights_of(model_->parameters(), device_, r)));
    events_.finished(std::move(record));
    vacate(r);
  }

  // The next waiting run takes slot r, now or when all are free.
  void vacate(int r) {
    active_.erase(std::find(active_.begin(), active_.end(), r));
    // Slots march in step: a new run may start only where all stand at a multiple of the evaluation period.
    if (max_steps_ % every_ == 0) fill_slot(r);
    if (active_.empty()) {
      for (int next = 0; next < R_ && active_.size() < static_cast<std::size_t>(R_); ++next) fill_slot(next);
    }
  }

  // The trained memory read at other lengths, and by the number of operations before a read.
  void add_profiles(int r, Record& record) {
    std::vector<int> factors = length_factors(config_.get_string("eval.length_factors"));
    const bool by_length = !factors.empty();
    if (!by_length) {
      if (!config_.has("task.operations")) return;
      factors = {1};
    }
    for (const int factor : factors) {
      const auto task = task_->lengthened(factor);
      const QueryResults results = test_results(*task, r);
      if (by_length) {
        const EvalSummary summary = summarise(results);
        const auto point = [&](const char* name, double y) {
          record.profiles[name].x.push_back(factor);
          record.profiles[name].y.push_back(y);
        };
        point("loss_by_length", summary.loss);
        point("accuracy_by_length", summary.accuracy);
        point("exact_by_length", summary.exact);
      }
      if (factor == factors.back() && config_.has("task.operations")) {
        const OperationProfile profile = by_operations(
            results, operations_before_reads(*task, *slots_[static_cast<std::size_t>(r)].run, sequences_));
        record.profiles["accuracy_by_operations"] = profile.accuracy;
        record.profiles["exact_by_operations"] = profile.exact;
      }
    }
  }

  // Replica r on the test split of `task`, query by query.
  QueryResults test_results(const Task& task, int r) {
    const SequenceShape shape = task.shape(Split::test);
    const auto graph =
        model_->graph(evaluation_batch(sequences_, shape, vocabulary_.values), shape, false, 1);
    bind(*graph, zero_);
    Exec exec = exec_;
    if (device_ == Device::cpu) {
      exec.replicas = &r;
      exec.replica_count = 1;
    }
    QueryResults results;
    results.sequences = sequences_;
    results.Q = shape.Q;
    for (int done = 0; done < sequences_; done += graph->batch.B) {
      DrawArgs draw = draw_args(*graph, Split::test, graph->batch.B);
      draw.counter = zero_;
      draw.offset = done;
      task.draw(exec, draw);
      graph->graph.forward(exec);
      if (stream_) stream_->synchronise();
      const auto take = static_cast<std::size_t>(std::min(graph->batch.B, sequences_ - done) * shape.Q);
      const auto loss = copy_replica(graph->loss.query_loss->value, r, take);
      const auto correct = copy_replica(*graph->loss.correct, r, take);
      results.loss.insert(results.loss.end(), loss.begin(), loss.end());
      results.correct.insert(results.correct.end(), correct.begin(), correct.end());
      for (const auto& [name, metric] : graph->query_metrics) {
        const auto x = copy_replica(metric->value, r, take);
        results.metrics[name].insert(results.metrics[name].end(), x.begin(), x.end());
      }
    }
    return results;
  }

  template <class T>
  std::vector<T> copy_replica(const Tensor<T>& tensor, int r, std::size_t n) const {
    std::vector<T> host(n);
    copy_to_host(device_, host.data(), tensor.at(r), n * sizeof(T));
    return host;
  }

  const std::string& study_;
  const PackEvents& events_;
  const Options& config_;
  Device device_;
  int R_;
  std::int64_t every_, max_steps_;
  int unroll_, batch_, sequences_;
  bool schlag_;
  std::unique_ptr<Task> task_;
  Vocabulary vocabulary_;
  std::unique_ptr<CudaStream> stream_;
  Exec exec_;
  std::unique_ptr<Model<Real>> model_;
  std::map<std::string, double> baselines_;
  Arena scalars_;
  Tensor<double> learning_rate_, report_, workspace_;
  Tensor<std::int32_t> seed_, step_, evaluations_, zero_, scratch_;
  std::unique_ptr<Graph> train_graph_, eval_graph_;
  std::deque<const PackRun*> waiting_;
  std::vector<Slot> slots_;
  std::vector<int> active_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace

std::string pack_key(const Options& config) {
  static const std::vector<std::string> free = {"seed",           "data_seed",       "init_seed",
                                                "train.patience", "train.stop_loss", "train.learning_rate"};
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
  const double state = find_memory(run.config.get_string("memory.name"))->forms_state ? values : 1;
  const double tables = 6 * keys * static_cast<double>(run.config.get_int("model.embedding")) * d;
  const double steps = std::min<double>(5000, static_cast<double>(run.config.get_int("train.max_steps")));
  return (tables + 20 * batch * shape.T * p * state * shape.Q) * steps;
}

std::int64_t steps_of_state(const std::string& state) { return state.empty() ? 0 : run_state(state).steps; }

namespace {

template <class Real>
bool train_all(const std::string& study, std::vector<PackRun> runs, int slots, Device device,
               PackEvents events) {
  using Outcome = typename Pack<Real>::Outcome;
  const auto start = std::chrono::steady_clock::now();
  for (;;) {
    std::vector<PackRun> rest;
    {
      Pack<Real> pack(study, runs, slots, device, events);
      const Outcome outcome = pack.train(start);
      if (outcome != Outcome::too_wide) return outcome == Outcome::done;
      rest = pack.unfinished();
    }
    runs = std::move(rest);
    slots = static_cast<int>(runs.size());
    // Whoever outlives its pack-mates may end the study: a few replicas that go first cost others little.
    events.urgency = 1;
  }
}

}  // namespace

bool train_pack(const std::string& study, const std::vector<PackRun>& runs, int slots, Device device,
                const PackEvents& events) {
  if (runs[0].run.config.get_string("train.precision") == "fp64")
    return train_all<double>(study, runs, slots, device, events);
  return train_all<float>(study, runs, slots, device, events);
}

}  // namespace crosstalk
