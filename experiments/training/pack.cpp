// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/pack.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <map>
#include <optional>

#include "experiments/training/evaluation_schedule.h"
#include "experiments/training/evaluator.h"
#include "experiments/training/memory_facts.h"
#include "experiments/training/replicas.h"
#include "experiments/training/state/record_of.h"
#include "experiments/training/state/slot_state.h"
#include "experiments/training/state/weights.h"
#include "experiments/training/testing/test_reader.h"
#include "experiments/training/threads.h"
#include "experiments/training/training_steps.h"
#include "kernels/base/text/narrow.h"
#include "models/graph/slow_forms.h"
#include "results/numbers/statistics.h"
#include "results/numbers/verdict.h"
#include "tasks/given_files.h"
#include "tasks/lanes.h"

namespace crosstalk {
namespace {

using Clock = std::chrono::steady_clock;

/// Runs at one stage of a curriculum, or of a task that has none.
template <class Real>
class Pack {
 public:
  Pack(const std::string& study, const std::vector<PackRun>& runs, const PackSettings& settings,
       TrainingClient& client, const TaskMaker& make_task)
      : study_(study),
        settings_(settings),
        client_(client),
        config_(runs[0].run.config),
        slots_(std::max(std::min(static_cast<std::size_t>(settings.slots), runs.size()),
                        largest_race(runs, [](const PackRun& run) { return race_of(run.run.config); }))),
        stage_(place_of_state(runs[0].state).stage),
        task_(make_task(config_)),
        stages_(task_->stages()),
        last_stage_(static_cast<std::size_t>(stage_) + 1 >= stages_.size()),
        replicas_(config_, task_->vocabulary(), settings.device, static_cast<int>(slots_.size()),
                  settings.priority),
        training_(config_, stage_task(), replicas_),
        evaluator_(config_, stage_task(), Split::eval, replicas_),
        schedule_(config_, training_.epoch()) {
    std::vector<const PackRun*> all;
    for (const PackRun& run : runs) all.push_back(&run);
    for (auto& race : races_in(std::move(all), [](const PackRun* run) { return race_of(run->run.config); }))
      waiting_.push_back({race, schedule_.phase(place_of_state(race[0]->state).steps)});
    fill();
  }

  /// How training ended. too_wide: most slots are empty and nothing waits; unfinished() goes on in a smaller
  /// pack.
  enum class Outcome { done, stopped, too_wide };

  /// Until all runs have ended or been promoted. `start`: when the first of them began.
  Outcome train(Clock::time_point start) {
    ThreadChooser chooser;
    start_ = start;
    while (!active_.empty()) {
      const std::int64_t done = slot(active_[0]).steps, chunk = schedule_.to_evaluation(done);
      const auto chunk_start = Clock::now();
      const int threads = chooser.choose(settings_.threads());
      replicas_.set_threads(threads);
      const auto stopped = [this](std::int64_t queued) {
        tell_places(queued);
        return client_.stopped();
      };
      if (!training_.advance(active_, done, chunk, stopped)) return save_all(), Outcome::stopped;
      evaluator_.evaluate(active_);
      replicas_.synchronise();
      client_.progressed(chunk * static_cast<std::int64_t>(active_.size()));
      const std::chrono::duration<double> seconds = Clock::now() - chunk_start;
      chooser.measured(threads, seconds.count() / static_cast<double>(std::max<std::int64_t>(1, chunk)));
      const double sharers = static_cast<double>(active_.size()) * std::max(1, settings_.side_by_side());
      for (const int r : active_) slot(r).device_s += seconds.count() / sharers;
      require_unchanged(*task_);
      after_evaluation(chunk);
      if (const auto changed = files_changed(*task_)) {  // the data of these steps was in memory, unchanged
        save_all();
        throw *changed;
      }
      // An empty slot costs as much as a full one on CUDA. A new graph costs milliseconds.
      const auto active = active_.size();
      if (replicas_.device() == Device::cuda && waiting_.empty() && active > 0 &&
          4 * active <= 3 * slots_.size())
        return Outcome::too_wide;
    }
    return Outcome::done;
  }

  /// The runs that have begun and not ended, as they stand at an evaluation.
  std::vector<PackRun> unfinished() {
    std::vector<PackRun> runs;
    for (const int r : active_) runs.push_back({*slot(r).run, to_bytes(saved(r))});
    return runs;
  }
  /// Those that go on in the next stage.
  std::vector<PackRun>& promoted() { return promoted_; }

 private:
  struct Waiting {
    std::vector<const PackRun*> runs;  ///< of one race
    std::int64_t phase;
  };
  struct Ended {
    int r;
    RunStatus status;
    bool outrun = false;
  };

  Slot& slot(int r) { return slots_[static_cast<std::size_t>(r)]; }

  const Task& stage_task() const {
    return last_stage_ ? *task_ : *stages_[static_cast<std::size_t>(stage_)].task;
  }

  /// The next waiting runs, of one race, that are in phase with those that train and have room beside them.
  std::vector<const PackRun*> next_waiting() {
    for (auto it = waiting_.begin(); it != waiting_.end();) {
      if (active_.size() + it->runs.size() > slots_.size() ||
          (!active_.empty() && it->phase != schedule_.phase(slot(active_[0]).steps))) {
        ++it;
        continue;
      }
      std::vector<const PackRun*> next = std::move(it->runs);
      it = waiting_.erase(it);
      if (std::all_of(next.begin(), next.end(),
                      [&](const PackRun* one) { return client_.claim(one->run.id); }))
        return next;
    }
    return {};
  }

  /// Waiting runs take the empty slots.
  void fill() {
    while (!waiting_.empty() && active_.size() < slots_.size()) {
      const std::vector<const PackRun*> next = next_waiting();
      if (next.empty()) return;
      const std::string race = race_of(next[0]->run.config);
      if (!race.empty()) solved_[race] = client_.solved_at(race);
      for (const PackRun* run : next) {
        const auto empty =
            std::find_if(slots_.begin(), slots_.end(), [](const Slot& one) { return one.run == nullptr; });
        const int r = static_cast<int>(empty - slots_.begin());
        begin(r, *run);
        slot(r).race = race;
        active_.insert(std::lower_bound(active_.begin(), active_.end(), r), r);
      }
    }
  }

  void begin(int r, const PackRun& next) {
    slot(r) = Slot{};
    slot(r).run = &next.run;
    const Options& config = next.run.config;
    const auto seed = static_cast<std::uint64_t>(config.get_int("data_seed"));
    Model<Real>& model = replicas_.model();
    model.initialise(r, static_cast<std::uint64_t>(config.get_int("init_seed")));
    if (const auto weights = initial_weights(config))
      load_weights(*weights, model.parameters(), replicas_.device(), r);
    replicas_.put(replicas_.seed, r,
                  {static_cast<std::int32_t>(seed), static_cast<std::int32_t>(seed >> 32)});
    training_.begin(r, config);
    replicas_.put(replicas_.step, r, {0});
    replicas_.put(replicas_.evaluations, r, {0});
    replicas_.put(replicas_.report, r,
                  std::vector<double>(static_cast<std::size_t>(replicas_.report.size()), 0.));
    if (next.state.empty()) return;
    RunState state = run_state(next.state);
    if (state.promotions.size() >= std::max<std::size_t>(1, stages_.size()))
      throw MisfitState(state.id, "it has left more stages than the task has");
    const std::size_t own = std::min(model.parameters().snapshot(r).size(), state.parameters.size());
    try {
      training_.restore_carried(r, state.parameters.substr(own));
    } catch (const std::runtime_error& error) {
      throw MisfitState(state.id, error.what());
    }
    state.parameters.resize(own);
    restore(state, slot(r), replicas_, r);
  }

  /// The state of replica r: behind its parameters what its lanes hold.
  RunState saved(int r) {
    RunState state = state_of(slot(r), replicas_, r);
    state.parameters += training_.carried(r);
    return state;
  }

  // Of runs that are `ahead` steps beyond their last evaluation.
  void tell_places(std::int64_t ahead) {
    constexpr auto kEvery = std::chrono::milliseconds(250);
    const auto now = Clock::now();
    if (now - told_ < kEvery) return;
    told_ = now;
    std::vector<RunPlace> places;
    for (const int r : active_) places.push_back({slot(r).run, slot(r).steps + ahead});
    client_.advanced(places);
  }

  // All unfinished runs, also those that wait since an earlier stage.
  void save_all() {
    replicas_.synchronise();
    require_unchanged(*task_);
    for (const int r : active_) {
      const RunState state = saved(r);
      if (state.steps > 0) client_.save_state(state.id, to_bytes(state));
    }
    for (const Waiting& waiting : waiting_)
      for (const PackRun* run : waiting.runs)
        if (!run->state.empty()) client_.save_state(run->run.id, run->state);
  }

  void after_evaluation(std::int64_t chunk) {
    const std::vector<double> reports = replicas_.reports();
    std::vector<Ended> ended;
    std::vector<int> evaluated, left;
    for (const int r : active_) {
      const double* report = reports.data() + static_cast<std::size_t>(r * replicas_.report.size());
      Slot& one = slot(r);
      if (chunk > 0 && report[report_diverged_step] > 0) {
        one.steps = static_cast<std::int64_t>(report[report_diverged_step]);
        one.last = {kNaN, kNaN, kNaN};
        ended.push_back({r, RunStatus::diverged});
        continue;
      }
      one.steps += chunk;
      one.evaluated(evaluator_.summary(report));
      if (chunk > 0) add_training_points(one, report);
      if (!std::isfinite(one.last.loss)) {
        ended.push_back({r, RunStatus::diverged});
        continue;
      }
      evaluated.push_back(r);
      if (!one.race.empty() && one.is_solved())
        solved_.at(one.race) = std::min(solved_.at(one.race), one.steps);
    }
    for (const int r : evaluated) {
      Slot& one = slot(r);
      if (one.ends(last_stage_)) {
        ended.push_back({r, RunStatus::done});
      } else if (!one.race.empty() && one.steps >= solved_.at(one.race)) {
        ended.push_back({r, RunStatus::done, true});
      } else if (!client_.claim(one.run->id)) {
        left.push_back(r);
      } else {
        tell_point(one);
        const std::int64_t every = one.run->keep_every;
        if (every > 0 && one.steps / every > (one.steps - chunk) / every)
          client_.keep_weights(fmt::format("{}@{}", one.run->id, one.steps), npz_of(r));
        if (!last_stage_ && one.leaves_stage(stages_.size())) {
          promote(r);
          left.push_back(r);
        } else if (client_.rests(*one.run, one.steps)) {
          client_.save_state(one.run->id, to_bytes(saved(r)));
          left.push_back(r);
        }
      }
    }
    finish(ended);
    for (const Ended& one : ended) vacate(one.r);
    for (const int r : left) vacate(r);
    fill();
  }

  /// Training loss and gradient norms since the last evaluation.
  void add_training_points(Slot& one, const double* report) const {
    const int stride = norm_stride(narrow<int>(config_, "eval.every"));
    const auto steps = static_cast<std::ptrdiff_t>(report[report_norms]);
    const double* norms = report + kReportSize;
    one.add_point("train_loss", report[report_train_loss] / report[report_train_steps]);
    one.add_point("gradient_norm_median", median({norms, norms + (steps + stride - 1) / stride}));
    one.add_point("gradient_norm_largest", report[report_largest_norm]);
  }

  std::string npz_of(int r) {
    return to_npz(weights_of(replicas_.model().parameters(), replicas_.device(), r));
  }

  void tell_point(const Slot& one) {
    const auto train = one.curves.find("train_loss");
    client_.evaluated(*one.run, {one.steps, one.last.loss, one.last.accuracy,
                                 train == one.curves.end() ? kNaN : train->second.y.back()});
  }

  void vacate(int r) {
    slot(r).run = nullptr;
    active_.erase(std::find(active_.begin(), active_.end(), r));
  }

  // Promotion keeps the state and resets the best loss.
  void promote(int r) {
    Slot& one = slot(r);
    one.promotions.push_back(one.steps);
    one.best = std::numeric_limits<double>::infinity();
    one.strikes = 0;
    promoted_.push_back({*one.run, to_bytes(saved(r))});
  }

  // Records of runs that have ended; the test split is read for all of them at once.
  void finish(const std::vector<Ended>& ended) {
    std::vector<int> done;
    for (const Ended& one : ended)
      if (one.status == RunStatus::done) done.push_back(one.r);
    std::map<int, Record> records;
    for (const Ended& one : ended) {
      Record& record = records[one.r] = record_at_end(one.r, one.status);
      if (one.outrun) record.metrics[kOutrun] = 1;
      const Slot& at = slot(one.r);
      if (one.status == RunStatus::done && !at.race.empty() && at.is_solved())
        record.provenance["race"] = at.race;
    }
    if (!done.empty()) {
      if (!last_stage_) evaluate_whole_task(done, records);
      read_test(done, records);
      require_unchanged(*task_);
    }
    for (const Ended& one : ended) {
      Record& record = records.at(one.r);
      if (slot(one.r).run->keep_weights && one.status == RunStatus::done)
        client_.keep_weights(record.id, npz_of(one.r));
      record.provenance["wall_s"] = std::chrono::duration<double>(Clock::now() - start_).count();
      client_.finished(std::move(record));
    }
  }

  Record record_at_end(int r, RunStatus status) {
    const Slot& one = slot(r);
    Record record = record_of(study_, one, status);
    if (!baselines_) baselines_ = task_->baselines();
    record.metrics.insert(baselines_->begin(), baselines_->end());
    // Losses of baselines are those of one-hot values; codes are scored by cross-entropy.
    if (config_.has("model.value_codes") && config_.get_int("model.value_codes") > 0) {
      for (const char* name : {"constant_loss", "sum_rule_floor", "sum_rule_floor_exact"})
        record.metrics.erase(name);
      record.metrics["chance_loss"] = std::log(static_cast<double>(task_->vocabulary().values));
    }
    record.metrics["parameters"] = static_cast<double>(replicas_.model().trainable());
    if (const auto bound = rank_bound(record, memory_facts())) record.metrics["rank_bound"] = *bound;
    if (!stages_.empty()) {
      record.profiles["steps_by_stage"] = one.steps_by_stage();
      record.metrics["stage"] = static_cast<double>(one.promotions.size() + 1);
    }
    record.provenance = {{"pack", replicas_.count()},
                         {"device_s", one.device_s},
                         {"forms", training_.is_empty() ? evaluator_.forms() : training_.forms()}};
    return record;
  }

  // A run that ended in an earlier stage is held against others by the task itself.
  void evaluate_whole_task(const std::vector<int>& done, std::map<int, Record>& records) {
    Evaluator<Real> evaluator(config_, *task_, Split::eval, replicas_);
    const auto results = evaluator.read(done);
    for (std::size_t i = 0; i < done.size(); ++i) {
      Record& record = records.at(done[i]);
      const EvalSummary summary = evaluator.summary(results[i]);
      record.eval_loss = record.best_eval_loss = summary.loss;
      record.eval_accuracy = summary.accuracy;
      record.metrics["eval_exact"] = summary.exact;
    }
  }

  // A split that no stop rule has seen; and the trained memory read at other lengths.
  void read_test(const std::vector<int>& done, std::map<int, Record>& records) {
    std::vector<TestedRun> runs;
    for (const int r : done) runs.push_back({r, slot(r).run, &records.at(r)});
    crosstalk::read_test(config_, *task_, replicas_, runs);
  }

  const std::string& study_;
  const PackSettings& settings_;
  TrainingClient& client_;
  const Options& config_;
  std::vector<Slot> slots_;
  int stage_;
  std::unique_ptr<Task> task_;
  std::vector<TaskSegment> stages_;
  bool last_stage_;
  Replicas<Real> replicas_;
  TrainingSteps<Real> training_;
  Evaluator<Real> evaluator_;
  EvaluationSchedule schedule_;
  std::optional<std::map<std::string, double>> baselines_;
  std::deque<Waiting> waiting_;
  std::vector<int> active_;
  std::map<std::string, std::int64_t> solved_;  ///< race -> step at which a sibling was solved
  std::vector<PackRun> promoted_;
  Clock::time_point start_, told_ = {};
};

template <class Real>
bool train_all(const std::string& study, const std::vector<PackRun>& runs, PackSettings settings,
               TrainingClient& client, const TaskMaker& make_task) {
  using Outcome = typename Pack<Real>::Outcome;
  const auto start = Clock::now();
  std::map<int, std::vector<PackRun>> stages;  // unfinished runs
  for (const PackRun& run : runs) stages[place_of_state(run.state).stage].push_back(run);
  while (!stages.empty()) {
    const int stage = stages.begin()->first;
    std::vector<PackRun> now = std::move(stages.begin()->second);
    stages.erase(stages.begin());
    for (auto outcome = Outcome::too_wide; outcome == Outcome::too_wide;) {
      std::vector<PackRun> rest;
      {
        Pack<Real> pack(study, now, settings, client, make_task);
        outcome = pack.train(start);
        rest = pack.unfinished();
        auto& next = stages[stage + 1];
        std::move(pack.promoted().begin(), pack.promoted().end(), std::back_inserter(next));
        if (next.empty()) stages.erase(stage + 1);
      }
      if (outcome == Outcome::stopped) {
        for (const auto& [later, waiting] : stages)
          for (const PackRun& run : waiting)
            if (!run.state.empty()) client.save_state(run.run.id, run.state);
        return false;
      }
      now = std::move(rest);
      // Runs that outlive their pack-mates may end the study: a few replicas that go first cost others little.
      if (outcome == Outcome::too_wide) settings.priority = 1;
    }
  }
  return true;
}

/// Makes the graphs of a Pack, and then those of its tests, one after the other.
template <class Real>
void make_all(const Options& config, int stage, int slots, Device device, const TaskMaker& make_task) {
  const std::unique_ptr<Task> task = make_task(config);
  const std::vector<TaskSegment> stages = task->stages();
  for (auto i = static_cast<std::size_t>(stage);; ++i) {
    const bool last = i + 1 >= stages.size();
    const Task& now = last ? *task : *stages[i].task;
    Replicas<Real> replicas(config, task->vocabulary(), device, slots, 0);
    const TrainingSteps<Real> training(config, now, replicas);
    const Evaluator<Real> evaluator(config, now, Split::eval, replicas);
    if (!last) const Evaluator<Real> whole(config, *task, Split::eval, replicas);
    make_tests(config, *task, replicas);
    if (last) return;
  }
}

template <class Real>
std::vector<std::string> ask_forms(const Options& config, const TaskMaker& make_task) {
  const std::unique_ptr<Task> task = make_task(config);
  Replicas<Real> replicas(config, task->vocabulary(), Device::cuda, 1, 0);
  const bool trains = config.get_int("train.max_steps") > 0;
  const SequenceShape shape = task->shape(trains ? Split::train : Split::eval);
  if (const int lanes = train_lanes(*task); lanes > 0 && trains)
    return slow_forms(replicas.model().pieces(1, shape, {"task.lanes", lanes, true})->next->graph);
  const auto graph = replicas.model().graph(1, shape, trains, 1);
  return slow_forms(graph->graph);
}

}  // namespace

std::vector<std::string> slow_forms_of(const Options& config, const TaskMaker& make_task) {
  const MemoryMeasure measure;
  return config.get_string("train.precision") == "fp64" ? ask_forms<double>(config, make_task)
                                                        : ask_forms<float>(config, make_task);
}

std::size_t pack_bytes(const Options& config, int stage, int slots, Device device,
                       const TaskMaker& make_task) {
  // Streams, and graphs as they are captured: a few kilobytes a node.
  constexpr std::size_t kOfGraphs = std::size_t{16} << 20;
  const MemoryMeasure measure;
  if (config.get_string("train.precision") == "fp64") {
    make_all<double>(config, stage, slots, device, make_task);
  } else {
    make_all<float>(config, stage, slots, device, make_task);
  }
  return measure.bytes() + (device == Device::cuda ? kOfGraphs : 0);
}

bool train_pack(const std::string& study, const std::vector<PackRun>& runs, const PackSettings& settings,
                TrainingClient& client, const TaskMaker& make_task) {
  if (runs[0].run.config.get_string("train.precision") == "fp64")
    return train_all<double>(study, runs, settings, client, make_task);
  return train_all<float>(study, runs, settings, client, make_task);
}

}  // namespace crosstalk
