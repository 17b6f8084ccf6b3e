// The rules of a training run, for models that are trained outside of the program: the order of batches, rates, evaluations, when a run
// ends, and what its record says. They are the trainer's own (experiments/training), one object a run.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "experiments/common/provenance.h"
#include "experiments/common/requests.h"
#include "experiments/common/stores.h"
#include "experiments/sharing/progress.h"
#include "experiments/sharing/shared_work.h"
#include "experiments/training/error_kinds.h"
#include "experiments/training/evaluation_schedule.h"
#include "experiments/training/foreign_memory.h"
#include "experiments/training/optimizer.h"
#include "experiments/training/pack.h"
#include "experiments/training/state/record_of.h"
#include "experiments/training/testing/test_reader.h"
#include "kernels/base/text/narrow.h"
#include "kernels/optimizer/book_keeping.h"
#include "python/core/stream.h"
#include "results/numbers/select.h"
#include "results/numbers/statistics.h"
#include "results/store/live.h"
#include "results/store/record_io.h"
#include "results/store/weights.h"
#include "tasks/given_files.h"

using namespace nb::literals;

namespace crosstalk::python {
namespace {

using nlohmann::json;
using Losses = nb::ndarray<const double, nb::c_contig, nb::device::cpu>;
using Hits = nb::ndarray<const std::int32_t, nb::c_contig, nb::device::cpu>;

/// Of each query: its loss, whether it is answered right (-1: not used), and the answer.
using Read = std::tuple<Losses, Hits, Hits>;

std::vector<QueryResults> results_of(const std::vector<Read>& read) {
  std::vector<QueryResults> all;
  for (const auto& [loss, hit, said] : read) {
    for (const Hits* one : {&hit, &said})
      if (loss.ndim() != 2 || one->ndim() != 2 || loss.shape(0) != one->shape(0) ||
          loss.shape(1) != one->shape(1))
        throw nb::value_error("losses, hits and answers are [sequences,Q] each");
    all.push_back({static_cast<int>(loss.shape(0)),
                   static_cast<int>(loss.shape(1)),
                   {loss.data(), loss.data() + loss.size()},
                   {hit.data(), hit.data() + hit.size()}});
    all.back().answer = {said.data(), said.data() + said.size()};
  }
  return all;
}

class Course {
  using Shared = std::shared_ptr<const Task>;

 public:
  Course(const std::string& id, const std::string& label, std::int64_t seed, const nb::dict& config) {
    run_.id = id, run_.label = label, run_.seed = seed, run_.config = options_of(config);
    if (const std::string found = run_id(run_.config); found != id)
      throw nb::value_error(fmt::format("the configuration has the id {}, not {}", found, id).c_str());
    task_ = registered_task(run_.config);
    stages_ = task_->stages();
    slot_.run = &run_;
    seed_ = static_cast<std::uint64_t>(run_.config.get_int("data_seed"));
    enter_stage();
  }
  Course(const Course&) = delete;
  Course& operator=(const Course&) = delete;

  const std::string& id() const { return run_.id; }
  std::int64_t steps() const { return slot_.steps; }
  bool has_stages() const { return !stages_.empty(); }
  Stream whole() const { return {task_, "", 0}; }
  void set_state_size(std::int64_t size) { run_.state_size = size; }

  /// Of step `step`, counted from 0: which part of the epoch, and the number of its first sequence.
  nb::tuple place(std::int64_t step) const {
    const EpochPart& part = epoch_->parts()[epoch_->at(step).part];
    const std::int64_t period = epoch_->steps(), batch = run_.config.get_int("train.batch");
    const bool endless = epoch_->parts().size() == 1;
    const std::int64_t number = endless ? step : step / period * part.steps + step % period - part.start;
    return nb::make_tuple(epoch_->at(step).part, number * batch);
  }
  /// The parts of an epoch of this stage.
  std::vector<Stream> parts() const {
    std::vector<Stream> all;
    for (const EpochPart& part : epoch_->parts())
      all.emplace_back(part.segment ? part.segment : stage_task(), part.name, 0);
    return all;
  }
  /// The learning rate of the update of step `step`, counted from 1.
  double rate(std::int64_t step) const {
    return run_.config.get_double("train.learning_rate") * schedule_.factor(static_cast<std::int32_t>(step));
  }
  std::int64_t to_evaluation() const { return evaluation_schedule_->to_evaluation(slot_.steps); }

  /// (part, sequences) of a split: of this stage, of the whole task, or of the task so many times as long.
  nb::list exam(const std::string& split, int factor) {
    const Shared task = factor > 0 ? lengthened(factor) : split == "eval" ? stage_task() : task_;
    nb::list all;
    for (const SplitPart& part : parts_of(*task, split))
      all.append(nb::make_tuple(Stream(part.segment ? part.segment : task, part.name, part.sequences),
                                part.sequences));
    return all;
  }
  /// Factors of the lengths that the test reads besides.
  std::vector<int> lengths() const { return tested_lengths(run_.config); }

  /// Takes an evaluation into account that stands as many steps after the last as there are norms, those of the gradients before
  /// they are clipped: "on", "promoted", "done" or "diverged".
  std::string evaluated(const std::vector<Read>& read, double train_loss, const std::vector<double>& norms) {
    require_unchanged(*task_);
    slot_.steps += static_cast<std::int64_t>(norms.size());
    slot_.evaluated(summary(parts_of(*stage_task(), "eval"), results_of(read)));
    if (!norms.empty()) add_training_points(train_loss, norms);
    if (!std::isfinite(slot_.last.loss)) return "diverged";
    if (slot_.ends(is_last_stage())) return "done";
    if (is_last_stage() || !slot_.leaves_stage(stages_.size())) return "on";
    slot_.promotions.push_back(slot_.steps);
    slot_.best = std::numeric_limits<double>::infinity();
    slot_.strikes = 0;
    enter_stage();
    return "promoted";
  }
  /// The loss of step `step`, counted from 1, was not finite.
  void diverged(std::int64_t step) {
    slot_.steps = step;
    slot_.last = {kNaN, kNaN, kNaN};
  }
  double loss() const { return slot_.last.loss; }
  double accuracy() const { return slot_.last.accuracy; }
  bool is_last_stage() const { return slot_.promotions.size() + 1 >= stages_.size(); }

  /// Begins the record of a run that has ended.
  void finish(const std::string& study, bool done, double parameters) {
    record_ = record_of(study, slot_, done ? RunStatus::done : RunStatus::diverged);
    const auto baselines = task_->baselines();
    record_.metrics.insert(baselines.begin(), baselines.end());
    record_.metrics["parameters"] = parameters;
    if (stages_.empty()) return;
    record_.profiles["steps_by_stage"] = slot_.steps_by_stage();
    record_.metrics["stage"] = static_cast<double>(slot_.promotions.size() + 1);
  }
  /// A run that ended in an earlier stage is held against others by the task itself.
  void whole_task(const std::vector<Read>& read) {
    const EvalSummary all = summary(parts_of(*task_, "eval"), results_of(read));
    record_.eval_loss = record_.best_eval_loss = all.loss;
    record_.eval_accuracy = all.accuracy;
    record_.metrics["eval_exact"] = all.exact;
  }
  /// Adds what was read of the test split, or of another length.
  void tested(int factor, const std::vector<Read>& read) {
    const Shared shared = factor > 0 ? lengthened(factor) : task_;
    const Task& task = *shared;
    const std::vector<SplitPart> parts = parts_of(task, "test");
    const std::vector<QueryResults> results = results_of(read);
    std::vector<QueryFacts> facts;
    for (const SplitPart& part : parts) facts.push_back(query_facts(*part.task, seed_, part.sequences));
    const EvalSummary test = summary(parts, results);
    require_unchanged(*task_);
    if (factor > 0) return add_length(record_, run_.config, task, factor, test, parts, results, facts);
    record_.metrics["test_loss"] = test.loss;
    record_.metrics["test_accuracy"] = test.accuracy;
    std::vector<const Task*> tasks;
    for (const SplitPart& part : parts) tasks.push_back(part.task);
    add_error_shares(record_, tasks, results, seed_);
    if (!parts[0].name.empty()) add_segment_profiles(record_, parts, results);
    add_token_test(record_, task, test, parts, results, facts);
  }
  /// The last points of its curves.
  LiveRun live() const {
    LiveRun run{run_.label, run_.seed, run_.config.get_int("train.max_steps"), {}};
    for (const char* name : {"eval_loss", "eval_accuracy", "train_loss"})
      if (const auto curve = slot_.curves.find(name); curve != slot_.curves.end())
        run.curves[name] = {{curve->second.x.back()}, {curve->second.y.back()}};
    return run;
  }
  void failed(const std::string& study, const std::string& message) {
    record_ = record_of(study, slot_, RunStatus::failed);
    record_.message = message;
  }
  /// The record with its provenance, JSON objects as text.
  const Record& record(const std::string& provenance) {
    record_.provenance = json::parse(provenance);
    return record_;
  }

  /// What a run has come to, and back.
  std::string state() const {
    json curves = json::object();
    for (const auto& [name, series] : slot_.curves) curves[name] = {series.x, series.y};
    const auto number = [](double x) { return std::isfinite(x) ? json(x) : json(nullptr); };
    return json{{"steps", slot_.steps},
                {"strikes", slot_.strikes},
                {"best", number(slot_.best)},
                {"last", {number(slot_.last.loss), number(slot_.last.accuracy), number(slot_.last.exact)}},
                {"curves", curves},
                {"promotions", slot_.promotions}}
        .dump();
  }
  void restore(const std::string& text) {
    const json state = json::parse(text);
    const auto number = [](const json& x, double none) { return x.is_null() ? none : x.get<double>(); };
    slot_.steps = state.at("steps"), slot_.strikes = state.at("strikes");
    slot_.best = number(state.at("best"), std::numeric_limits<double>::infinity());
    const json& last = state.at("last");
    slot_.last = {number(last[0], kNaN), number(last[1], kNaN), number(last[2], kNaN)};
    slot_.promotions = state.at("promotions").get<std::vector<std::int64_t>>();
    for (const auto& [name, series] : state.at("curves").items())
      slot_.curves[name] = {series[0].get<std::vector<double>>(), series[1].get<std::vector<double>>()};
    if (slot_.promotions.size() >= std::max<std::size_t>(1, stages_.size()))
      throw nb::value_error("it has left more stages than the task has");
    enter_stage();
  }

 private:
  void add_training_points(double train_loss, const std::vector<double>& norms) {
    const auto stride = static_cast<std::size_t>(norm_stride(narrow<int>(run_.config, "eval.every")));
    std::vector<double> some;
    for (std::size_t i = 0; i < norms.size(); i += stride) some.push_back(norms[i]);
    slot_.add_point("train_loss", train_loss);
    slot_.add_point("gradient_norm_median", median(std::move(some)));
    slot_.add_point("gradient_norm_largest", *std::max_element(norms.begin(), norms.end()));
  }
  Shared stage_task() const { return is_last_stage() ? task_ : stages_[slot_.promotions.size()].task; }
  void enter_stage() {
    epoch_ = std::make_unique<Epoch>(*stage_task(), narrow<int>(run_.config, "train.batch"));
    schedule_ = schedule_of(run_.config, epoch_->steps());
    evaluation_schedule_ = std::make_unique<EvaluationSchedule>(run_.config, *epoch_);
  }
  std::vector<SplitPart> parts_of(const Task& task, const std::string& split) const {
    return split_parts(task, split_of(split), narrow<int>(run_.config, "eval.sequences"));
  }
  static EvalSummary summary(const std::vector<SplitPart>& parts, const std::vector<QueryResults>& results) {
    if (parts.size() != results.size())
      throw nb::value_error("there must be losses of every part of the exam");
    return parts[0].name.empty() ? summarise(results[0]) : summarise_mixture(results);
  }
  Shared lengthened(int factor) {
    Shared& task = lengthened_[factor];
    if (!task) task = task_->lengthened(factor);
    return task;
  }

  Run run_;
  Slot slot_;
  std::uint64_t seed_ = 0;
  Shared task_;
  std::vector<TaskSegment> stages_;
  std::map<int, Shared> lengthened_;
  std::unique_ptr<Epoch> epoch_;
  std::unique_ptr<EvaluationSchedule> evaluation_schedule_;
  RateSchedule schedule_;
  Record record_;
};

/// A store that records are added to, and whose runs are shared with the other processes that train into it.
class Store {
 public:
  explicit Store(const std::string& path)
      : path_(path), since_(shard_positions(path)), writer_(path), live_(path) {}

  void append(Course& course, const std::string& provenance) {
    const Record& record = course.record(provenance);
    const nb::gil_scoped_release release;
    if (work_) work_->recording(record.id);
    writer_.append(record);
    if (work_) work_->recorded(record.id);
  }
  /// The study's text and its labels (label, title, ids of its runs, work of each) as its latest version; with `set` as a request, too.
  void keep_study(
      const std::string& name, const std::string& title, const std::string& text,
      const std::vector<std::tuple<std::string, std::string, std::vector<std::string>, std::vector<double>>>&
          labels,
      const std::optional<std::vector<std::string>>& set) {
    writer_.keep_study(name, text);
    Asked asked;
    asked.study = name, asked.title = title;
    for (const auto& [label, shown, runs, work] : labels) asked.labels.push_back({label, shown, runs, work});
    keep_asked(path_, asked);
    if (set) program::keep_request(path_, {name, text, *set, asked.checksum()});
  }
  void keep_weights(const std::string& id, const nb::bytes& npz) {
    save_weights(path_, id, {static_cast<const char*>(npz.data()), npz.size()});
  }

  /// Begins to share these runs; beats until leave().
  void share(const std::vector<std::string>& ids, double lease) {
    std::vector<Run> runs(ids.size());
    for (std::size_t i = 0; i < ids.size(); ++i) runs[i].id = ids[i];
    work_ = std::make_unique<program::SharedWork>(path_, runs, since_, lease);
  }
  /// Claims the run; later, whether it is still ours.
  bool take(const std::string& id) {
    const nb::gil_scoped_release release;
    return work_->claim(id);
  }
  /// Runs that are neither recorded nor claimed by others, and how many have no record.
  std::pair<std::set<std::string>, std::size_t> free() {
    const nb::gil_scoped_release release;
    std::set<std::string> free = work_->free_runs();
    return {std::move(free), work_->unrecorded()};
  }
  /// Why claims cannot be kept; "" if they can.
  std::string problem() const { return work_->problem(); }
  /// What the next heartbeats say, an object of JSON.
  void say(const std::string& activity) { work_->set_activity(json::parse(activity)); }
  /// Shows the last points of a run's curves to `status`.
  void show(const Course& course) { live_.add(course.id(), course.live(), program::steady_seconds()); }
  /// Releases what is claimed and not recorded.
  void leave() { work_.reset(); }

 private:
  std::string path_;
  ShardPositions since_;
  StoreWriter writer_;
  LiveWriter live_;
  std::unique_ptr<program::SharedWork> work_;
};

/// id -> "done", "diverged" or "failed" of the records of a store; empty where there is no store yet.
std::map<std::string, std::string> statuses(const std::string& path) {
  const nb::gil_scoped_release release;
  std::map<std::string, std::string> all;
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return all;
  for (const auto& [id, record] : read_heads(path).contents.records) all[id] = to_text(record.status);
  return all;
}

/// The records of foreign models in a store, as JSON lines.
std::vector<std::string> foreign_records(const std::string& path) {
  const nb::gil_scoped_release release;
  std::vector<std::string> all;
  for (const auto& [id, record] : read_store(path).records)
    if (config_text(record, "memory.name") == kForeignMemory) all.push_back(to_line(record));
  return all;
}

/// Whether two records, lines of JSON, hold the same result.
bool same_records(const std::string& a, const std::string& b) {
  const ParsedLine one = from_line(a), two = from_line(b);
  if (!one.record || !two.record) throw nb::value_error((one.problem + two.problem).c_str());
  return same_result(*one.record, *two.record);
}

}  // namespace

void bind_course(nb::module_& m) {
  m.def("statuses", &statuses, "store"_a);
  m.def("foreign_records", &foreign_records, "store"_a);
  m.def("same_records", &same_records, "a"_a, "b"_a);
  m.def("source_digest", &source_digest, "texts"_a);
  m.def(
      "process_provenance",
      [](const std::string& command, const std::string& device, int threads) {
        return program::process_provenance(command, device, threads).dump();
      },
      "command"_a, "device"_a, "threads"_a);
  nb::class_<Course>(m, "Course")
      .def(nb::init<const std::string&, const std::string&, std::int64_t, const nb::dict&>(), "id"_a,
           "label"_a, "seed"_a, "config"_a)
      .def_prop_ro("id", &Course::id)
      .def_prop_ro("steps", &Course::steps)
      .def_prop_ro("has_stages", &Course::has_stages)
      .def_prop_ro("is_last_stage", &Course::is_last_stage)
      .def_prop_ro("loss", &Course::loss)
      .def_prop_ro("accuracy", &Course::accuracy)
      .def_prop_ro("to_evaluation", &Course::to_evaluation)
      .def_prop_ro("lengths", &Course::lengths)
      .def("whole", &Course::whole)
      .def("parts", &Course::parts)
      .def("exam", &Course::exam, "split"_a, "factor"_a = 0)
      .def("place", &Course::place, "step"_a)
      .def("rate", &Course::rate, "step"_a)
      .def("evaluated", &Course::evaluated, "read"_a, "train_loss"_a, "norms"_a)
      .def("diverged", &Course::diverged, "step"_a)
      .def("set_state_size", &Course::set_state_size, "size"_a)
      .def("finish", &Course::finish, "study"_a, "done"_a, "parameters"_a)
      .def("whole_task", &Course::whole_task, "read"_a)
      .def("tested", &Course::tested, "factor"_a, "read"_a)
      .def("failed", &Course::failed, "study"_a, "message"_a)
      .def(
          "record",
          [](Course& course, const std::string& provenance) { return to_line(course.record(provenance)); },
          "provenance"_a)
      .def("state", &Course::state)
      .def("restore", &Course::restore, "text"_a);
  nb::class_<Store>(m, "Store")
      .def(nb::init<const std::string&>(), "path"_a)
      .def("append", &Store::append, "course"_a, "provenance"_a)
      .def("keep_study", &Store::keep_study, "name"_a, "title"_a, "text"_a, "labels"_a, "set"_a.none())
      .def("keep_weights", &Store::keep_weights, "id"_a, "npz"_a)
      .def("share", &Store::share, "ids"_a, "lease"_a)
      .def("take", &Store::take, "id"_a)
      .def("free", &Store::free)
      .def_prop_ro("problem", &Store::problem)
      .def("say", &Store::say, "activity"_a)
      .def("show", &Store::show, "course"_a)
      .def("leave", &Store::leave);
}

}  // namespace crosstalk::python
