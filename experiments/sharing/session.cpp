// A training session.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/sharing/session.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "experiments/common/exit_codes.h"
#include "experiments/common/provenance.h"
#include "experiments/common/stores.h"
#include "experiments/common/text.h"
#include "experiments/sharing/shared_work.h"
#include "experiments/sharing/signals.h"
#include "experiments/training/pack.h"
#include "kernels/base/error.h"
#include "kernels/base/parallel.h"
#include "results/printable.h"
#include "results/store/checkpoint.h"
#include "results/store/live.h"
#include "results/store/store.h"
#include "results/store/weights.h"

namespace crosstalk::program {
namespace {

/// Seconds between two looks for new requests to the store.
constexpr double kRequestsAgain = 1;
/// Seconds between two looks at other workers: where no run is free, and else.
constexpr double kSoon = 0.05, kNowAndThen = 0.5;

/// A store that cannot even be made is a wrong --out: nothing was created.
std::unique_ptr<StoreWriter> open_store(const std::filesystem::path& path) {
  std::error_code ignored;
  const bool existed = std::filesystem::exists(path, ignored);
  try {
    return std::make_unique<StoreWriter>(path);
  } catch (const StoreError& error) {
    if (!existed && !std::filesystem::exists(path, ignored)) throw StorePathError(error.what());
    throw;
  }
}

void keep_study(StoreWriter& writer, const Study& study, const std::filesystem::path& path,
                const SessionOptions& options) {
  if (!options.keeps_study) return;
  writer.keep_study(study.name, study.text);
  const Asked asked = asked_of(study);
  keep_asked(path, asked);
  if (!options.request) return;
  Request request = *options.request;
  request.version = asked.checksum();
  keep_request(path, request);
}

class Session final : private TrainingClient {
 public:
  Session(const Study& study, const std::vector<Run>& runs, const std::filesystem::path& path,
          const SessionOptions& options, Console& console)
      : study_(study),
        runs_(runs),
        path_(path),
        options_(options),
        by_id_(by_id(runs, options.training.device)),
        plan_(plan_of(by_id_, runs)),
        writer_(open_store(path)),
        work_(path, runs, options.since, options.lease),
        progress_(console.err, options.style, plan_, steady_seconds, terminal_width) {
    const int threads = options.training.threads > 0 ? options.training.threads : available_cores();
    provenance_ = process_provenance(options.command, options.device, threads);
  }

  SessionResult train() {
    if (options_.begins) options_.begins();
    keep_study(*writer_, study_, path_, options_);
    progress_.tick();
    std::exception_ptr error, watch_error;
    std::thread watcher([&] {
      try {
        watch();
      } catch (...) {  // runs are saved, as after a signal
        watch_error = std::current_exception();
        request_stop();
      }
    });
    bool ended = false;
    try {
      ended = train_rounds();
    } catch (...) {
      error = std::current_exception();
    }
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    wake_.notify_all();
    watcher.join();
    progress_.close();
    // A store that cannot be written is the cause, also of an exception of the trainer.
    if (store_error_) std::rethrow_exception(store_error_);
    if (!writer_->is_in_place())
      throw StoreError(
          fmt::format("{}: the store was moved or deleted while runs were trained into it; what was "
                      "recorded lies where it is now, what was half-way is lost",
                      path_.string()));
    if (!error) error = watch_error;
    if (error) std::rethrow_exception(error);
    if (black_hole_)
      throw DeviceError(fmt::format(
          "the first {} runs on {} of {} all failed, so this device is left out; others go on. Once it is "
          "mended, 'crosstalk retry' trains the failed runs again",
          options_.black_hole, options_.device, provenance_.value("host", "this machine")));
    if (ended) sweep_checkpoints(path_, [this](const std::string& id) { return by_id_.count(id) != 0; });
    return result(ended);
  }

 private:
  struct Costed {
    const Run* run;
    double cost;
  };
  using ById = std::unordered_map<std::string, Costed>;

  static ById by_id(const std::vector<Run>& runs, Device device) {
    ById known;
    known.reserve(runs.size());
    for (const Run& run : runs) known.emplace(run.id, Costed{&run, estimated_cost(run, device)});
    return known;
  }
  static ProgressPlan plan_of(const ById& known, const std::vector<Run>& runs) {
    ProgressPlan plan{static_cast<std::int64_t>(runs.size()), 0};
    for (const Run& run : runs) plan.cost += known.at(run.id).cost;
    return plan;
  }
  double cost_of(const std::string& id) const { return by_id_.at(id).cost; }

  std::vector<const Run*> more_runs(const std::set<std::string>& here, bool idle) override {
    if (!idle) return left_runs(here);
    return steady_seconds() < next_look_ ? std::vector<const Run*>() : next_runs(here);
  }

  /// Free runs besides `here`; none: other workers train the rest. The larger the store, the more seldom it is read.
  std::vector<const Run*> next_runs(const std::set<std::string>& here) {
    const double now = steady_seconds();
    std::set<std::string> free = work_.free_runs();
    for (const std::string& id : here) free.erase(id);
    std::vector<const Run*> next;  // no copies: a study may be large
    if (options_.shares.empty()) {
      for (const Run& run : runs_)
        if (free.count(run.id) != 0) next.push_back(&run);
    } else {
      const auto at_once = static_cast<std::size_t>(packs_at_once(options_.training));
      for (const std::string& id : next_round(options_.shares, options_.share, at_once,
                                              [&](const std::string& run) { return free.count(run) == 0; }))
        next.push_back(by_id_.at(id).run);
    }
    nothing_free_ = next.empty();
    next_look_ = steady_seconds() + std::max(0.1, 10 * (steady_seconds() - now));
    return next;
  }

  /// Runs that another process had begun and left.
  std::vector<const Run*> left_runs(const std::set<std::string>& here) {
    std::vector<const Run*> left;
    for (const std::string& id : work_.left_runs())
      if (here.count(id) == 0) left.push_back(by_id_.at(id).run);
    return left;
  }

  bool stopped() const override { return stop_flag(); }

  bool claim(const std::string& id) override { return work_.claim(id); }

  void progressed(std::int64_t steps) override {
    const std::lock_guard lock(mutex_);
    progress_.stepped(steps);
  }

  void advanced(const std::vector<RunPlace>& runs) override {
    const std::lock_guard lock(mutex_);
    for (const RunPlace& at : runs) {
      auto known = half_way_.find(at.run->id);
      if (known == half_way_.end()) {
        const Run* run = by_id_.at(at.run->id).run;  // the pack's own goes with it
        known = half_way_.emplace(run->id, HalfWay{run, at.steps, at.steps, estimated_work(*run)}).first;
      }
      known->second.now = std::max(known->second.now, at.steps);
    }
  }

  void evaluated(const Run& run, const RunPoint& point) override {
    const std::lock_guard lock(mutex_);
    const auto at = [&](double y) { return Series{{static_cast<double>(point.step)}, {y}}; };
    live_.add(run.id,
              {run.label,
               run.seed,
               run.config.get_int("train.max_steps"),
               {{"eval_loss", at(point.eval_loss)},
                {"eval_accuracy", at(point.eval_accuracy)},
                {"train_loss", at(point.train_loss)}}},
              steady_seconds());
  }

  /// A run that trains: steps at which it was seen first, and last, and its work as a whole (estimated_work).
  struct HalfWay {
    const Run* run;
    std::int64_t from, now;
    double work;
  };

  /// Costs of the runs that train, each `cost(half_way)` as a whole: done here, and beyond those that were expected. A run that has
  /// outlived its expectation is expected to take as many steps again.
  template <class Cost>
  std::pair<double, double> half_way_costs(const Cost& cost) const {
    double done = 0, beyond = 0;
    for (const auto& [id, run] : half_way_) {
      const Options& config = run.run->config;
      const double expected = std::max(1., expected_steps(config)), now = static_cast<double>(run.now),
                   here = now - static_cast<double>(run.from);
      const double most = std::max(expected, static_cast<double>(config.get_int("train.max_steps")));
      const double whole = now <= expected ? expected : std::min(most, 2 * now);
      done += cost(run) * here / expected;
      beyond += cost(run) * ((whole - now + here) / expected - 1);
    }
    return {done, beyond};
  }

  bool waits_for_memory(const std::string& id, const std::string& why) override {
    const std::lock_guard lock(mutex_);
    const Run& run = *by_id_.at(id).run;
    progress_.announce(
        fmt::format("crosstalk: run {} ({}, seed {}) waits for memory that other programs hold: {}\n", id,
                    run.label, run.seed, why));
    return true;
  }

  void save_state(const std::string& id, const std::string& state) override {
    const std::lock_guard lock(mutex_);
    try {
      save_checkpoint(path_, id, state);
      ++saved_;
    } catch (const StoreError& error) {  // the run starts anew then, nothing else is lost
      progress_.announce(
          fmt::format("crosstalk: warning: run {} could not be saved: {}\n", id, error.what()));
    }
  }

  /// Trains free runs until all are recorded, here or elsewhere; false: stopped, or the requests have changed.
  bool train_rounds() {
    bool told = false;
    while (!stop_flag()) {
      const std::vector<const Run*> round = next_runs({});
      const std::size_t left = work_.unrecorded();
      if (left == 0) return true;
      if (!round.empty() && !train_runs(study_.name, round, options_.training, *this)) return false;
      if (work_.unrecorded() < left) continue;
      if (round.empty() && !told) tell_that_it_waits();
      told = told || round.empty();
      if (round.empty() && options_.requests_changed && steady_seconds() >= next_requests_) {
        if (options_.requests_changed()) return requests_changed_ = true, false;
        next_requests_ = steady_seconds() + kRequestsAgain;
      }
      const double pause = round.empty() ? next_look_ - steady_seconds() : 0.1;
      std::unique_lock lock(mutex_);
      wake_.wait_for(lock, std::chrono::duration<double>(pause), [] { return stop_flag().load(); });
    }
    return work_.unrecorded() == 0;
  }

  void tell_that_it_waits() {
    const std::lock_guard lock(mutex_);
    if (options_.has_parent || options_.style == ProgressStyle::quiet) return;
    progress_.announce(fmt::format(
        "crosstalk: waiting for {} that other processes train ('crosstalk status {} --watch' shows them); what they leave is trained here\n",
        plural(static_cast<std::int64_t>(work_.unrecorded()), "run"), shell_quote(path_.string())));
  }

  std::string saved_state(const std::string& id) override {
    work_.state_read(id);
    SavedState saved = load_checkpoint(path_, id);
    if (!saved.problem.empty()) reject_state(id, saved.problem);
    return std::move(saved.state);
  }

  /// A state that is not this run's would give wrong results without a word.
  void reject_state(const std::string& id, const std::string& why) override {
    std::string where;
    try {
      where = fmt::format("set aside as {}", set_aside_checkpoint(path_, id).string());
    } catch (const StoreError& error) {
      where = error.what();
    }
    const std::lock_guard lock(mutex_);
    progress_.announce(fmt::format(
        "crosstalk: warning: run {} is trained from its start, as its saved state cannot be used: {} ({})\n",
        id, why, where));
  }

  /// Weights come before the record, so that no run is done without them.
  void keep_weights(const std::string& id, const std::string& npz) override {
    const std::lock_guard lock(mutex_);
    if (store_error_) return;
    try {
      save_weights(path_, id, npz);
    } catch (...) {
      store_error_ = std::current_exception();
      request_stop();
    }
  }

  void finished(Record&& record) override {
    const std::lock_guard lock(mutex_);
    if (store_error_) return;
    record.provenance.update(provenance_);
    record.provenance["finished"] = utc_now();
    if (const auto name = options_.study_names.find(record.id); name != options_.study_names.end())
      record.study = name->second;
    try {
      work_.recording(record.id);
      writer_->append(record);
      drop_checkpoint(path_, record.id);
      work_.recorded(record.id);
    } catch (...) {
      // Exceptions must not cross the trainer's threads.
      store_error_ = std::current_exception();
      request_stop();
      return;
    }
    const auto half_way = half_way_.extract(record.id);  // empty of a run that ended before its first step
    work_ended_here_ += half_way.empty() ? estimated_work(*by_id_.at(record.id).run) : half_way.mapped().work;
    progress_.finished(record.status, cost_of(record.id));
    if (record.status != RunStatus::failed) return;
    progress_.announce(fmt::format("crosstalk: run {} ({}, seed {}) failed: {}\n  alone: {}\n", record.id,
                                   record.label, record.seed, shortened(printable_line(record.message)),
                                   options_.reproduce(record)));
    if (options_.max_failures > 0 && progress_.count(RunStatus::failed) >= options_.max_failures) {
      too_many_failures_ = true;
      request_stop();
    }
    if (options_.black_hole > 0 && progress_.ended() == options_.black_hole &&
        progress_.count(RunStatus::failed) == options_.black_hole) {
      black_hole_ = true;
      request_stop();
    }
  }

  /// Redraws, minds the time limit, and ends the process if a stop takes longer than the grace.
  void watch() {
    std::unique_lock lock(mutex_);
    double stop_seen = -1;
    while (!over_) {
      wake_.wait_for(lock, std::chrono::milliseconds(100));
      if (over_) return;
      const double now = progress_.elapsed();
      if (options_.time_limit > 0 && steady_seconds() - options_.started >= options_.time_limit &&
          !stop_flag()) {
        time_is_up_ = true;
        request_stop();
      }
      if (!stop_flag()) {
        lock.unlock();  // it reads the store
        hear_of_others();
        lock.lock();
        if (over_) return;
      }
      if (!stop_flag()) {
        const auto [done, beyond] =
            half_way_costs([this](const HalfWay& run) { return cost_of(run.run->id); });
        progress_.half_way(done, beyond);
        progress_.tick();
        continue;
      }
      if (stop_seen < 0) {
        stop_seen = now;
        if (!options_.has_parent) progress_.announce("crosstalk: stopping; what is unfinished is saved\n");
      }
      if (now - stop_seen > options_.grace) {
        progress_.announce(
            fmt::format("crosstalk: the trainer did not stop within {} s; leaving. Resume with:\n  {}\n",
                        options_.grace, options_.resume));
        // The lock is held, so no record is half written.
        ::_exit(store_error_ ? exit_store : too_many_failures_ ? exit_some_failed : exit_stopped);
      }
    }
  }

  /// Counts the records of other processes, and sets the activity of this one; now and then.
  void hear_of_others() {
    const double now = steady_seconds();
    if (now < next_news_) return;
    work_.refresh();
    const std::vector<RecordHead> news = work_.news();
    const double took = steady_seconds() - now;
    next_news_ = steady_seconds() + std::max(nothing_free_ ? kSoon : kNowAndThen, 20 * took);
    const std::lock_guard lock(mutex_);
    for (const RecordHead& head : news) {
      half_way_.erase(head.id);
      progress_.elsewhere(cost_of(head.id));
      if (head.status == RunStatus::failed) ++failed_elsewhere_;
    }
    const auto [half_way, beyond] = half_way_costs([](const HalfWay& run) { return run.work; });
    work_.set_activity({{"study", study_.name},
                        {"device", options_.device},
                        {"job", options_.job},
                        {"seconds", progress_.elapsed()},
                        {"ended", progress_.ended()},
                        {"failed", progress_.count(RunStatus::failed)},
                        {"steps", progress_.steps()},
                        {"cost", work_ended_here_},
                        {"half_way", half_way},
                        {"beyond", beyond}});
    if (!problem_told_ && !work_.problem().empty()) {
      problem_told_ = true;
      progress_.announce(fmt::format("crosstalk: warning: {}\n", work_.problem()));
    }
  }

  SessionResult result(bool ended) {
    next_news_ = 0;
    hear_of_others();
    SessionResult result;
    result.done = progress_.count(RunStatus::done);
    result.diverged = progress_.count(RunStatus::diverged);
    result.failed = progress_.count(RunStatus::failed);
    result.seconds = progress_.elapsed();
    result.too_many_failures = too_many_failures_ && !ended;
    result.requests_changed = requests_changed_;
    result.stopped = !ended && !too_many_failures_ && !requests_changed_;
    result.elsewhere = progress_.ended_elsewhere();
    result.failed_elsewhere = failed_elsewhere_;
    result.saved = saved_;
    result.reason = time_is_up_ ? "the time limit" : stop_signal();
    return result;
  }

  const Study& study_;
  const std::vector<Run>& runs_;
  const std::filesystem::path path_;
  const SessionOptions& options_;
  const ById
      by_id_;  // laid out before the store is opened: a large study can still be stopped as if never begun
  const ProgressPlan plan_;
  std::unique_ptr<StoreWriter> writer_;
  SharedWork work_;
  double next_news_ = 0, next_look_ = 0, next_requests_ = 0;
  std::atomic<bool> nothing_free_ = false;  ///< when it was looked at last
  std::mutex mutex_;                        ///< guards all below
  std::condition_variable wake_;
  Progress progress_;
  nlohmann::json provenance_;
  std::exception_ptr store_error_;
  std::unordered_map<std::string, HalfWay> half_way_;
  LiveWriter live_{path_};
  std::int64_t saved_ = 0;  ///< unfinished runs whose state was kept
  std::int64_t failed_elsewhere_ = 0;
  double work_ended_here_ = 0;
  bool over_ = false, too_many_failures_ = false, time_is_up_ = false, problem_told_ = false,
       black_hole_ = false, requests_changed_ = false;
};

}  // namespace

void make_store(const Study& study, const std::filesystem::path& path, const SessionOptions& options) {
  keep_study(*open_store(path), study, path, options);
}

SessionResult train_session(const Study& study, const std::vector<Run>& runs,
                            const std::filesystem::path& path, const SessionOptions& options,
                            Console& console) {
  return Session(study, runs, path, options, console).train();
}

}  // namespace crosstalk::program
