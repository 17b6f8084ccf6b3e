// Packs of different shapes side by side: one worker thread a core takes the longest pack that is left; when
// fewer packs than cores remain, those that run share the cores. Results do not depend on any of this.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <mutex>
#include <new>
#include <thread>

#include "experiments/training.h"
#include "experiments/training/pack.h"
#include "experiments/training/record_of.h"
#include "kernels/base/error.h"

namespace crosstalk {
namespace {

struct Queue {
  std::vector<std::vector<Run>> packs;  ///< longest last
  std::mutex mutex;
  int working = 0;
  bool interrupted = false;
};

std::vector<std::vector<Run>> make_packs(const std::vector<Run>& runs, int pack_size) {
  std::map<std::string, std::vector<Run>> groups;
  for (const Run& run : runs) groups[pack_key(run.config)].push_back(run);
  std::vector<std::pair<double, std::vector<Run>>> packs;
  for (auto& [key, group] : groups) {
    for (std::size_t begin = 0; begin < group.size(); begin += static_cast<std::size_t>(pack_size)) {
      const std::size_t end = std::min(group.size(), begin + static_cast<std::size_t>(pack_size));
      std::vector<Run> pack(group.begin() + static_cast<std::ptrdiff_t>(begin),
                            group.begin() + static_cast<std::ptrdiff_t>(end));
      const double cost = estimated_cost(pack[0]) * static_cast<double>(pack.size());
      packs.emplace_back(cost, std::move(pack));
    }
  }
  std::stable_sort(packs.begin(), packs.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::vector<Run>> result;
  for (auto& [cost, pack] : packs) result.push_back(std::move(pack));
  return result;
}

class Scheduler {
 public:
  Scheduler(const std::string& study, int threads, const TrainingEvents& events)
      : study_(study), threads_(threads), events_(events) {}

  bool run(std::vector<std::vector<Run>> packs) {
    queue_.packs = std::move(packs);
    const int workers = std::min<int>(threads_, static_cast<int>(queue_.packs.size()));
    queue_.working = workers;
    std::vector<std::thread> pool;
    for (int i = 0; i < workers; ++i) pool.emplace_back([this] { work(); });
    for (auto& worker : pool) worker.join();
    if (error_) std::rethrow_exception(error_);
    return !queue_.interrupted;
  }

 private:
  bool stopped() const { return (events_.stop && events_.stop->load()) || failed_.load(); }

  void work() {
    for (;;) {
      std::vector<Run> pack;
      {
        const std::lock_guard lock(queue_.mutex);
        if (queue_.packs.empty() || stopped()) {
          queue_.interrupted |= !queue_.packs.empty();
          --queue_.working;
          return;
        }
        pack = std::move(queue_.packs.back());
        queue_.packs.pop_back();
      }
      train(std::move(pack));
    }
  }

  void train(std::vector<Run> pack) {
    std::vector<std::string> finished;
    PackEvents events;
    events.finished = [&](Record&& record) {
      finished.push_back(record.id);
      report(std::move(record));
    };
    events.progressed = [&](std::int64_t steps) {
      const std::lock_guard lock(event_mutex_);
      if (events_.progressed) events_.progressed(steps);
    };
    events.stopped = [this] { return stopped(); };
    events.threads = [this] {
      const std::lock_guard lock(queue_.mutex);
      return std::max(1, threads_ / std::max(1, queue_.working));
    };
    const auto unfinished = [&] {
      std::vector<Run> rest;
      for (const Run& run : pack) {
        if (std::find(finished.begin(), finished.end(), run.id) == finished.end()) rest.push_back(run);
      }
      return rest;
    };
    try {
      if (!train_pack(study_, pack, static_cast<int>(pack.size()), Device::cpu, events)) {
        const std::lock_guard lock(queue_.mutex);
        queue_.interrupted = true;
      }
      return;
    } catch (const DeviceError& error) {
      out_of_memory(unfinished(), error.what());
    } catch (const std::bad_alloc&) {
      out_of_memory(unfinished(), "out of memory");
    } catch (const StopTraining&) {
      return;  // the store failed: error_ is set
    } catch (const std::exception& error) {
      for (const Run& run : unfinished()) report_failure(run, error.what());
    }
  }

  // A pack that does not fit is halved; a run that does not fit alone has failed.
  void out_of_memory(std::vector<Run> rest, const std::string& message) {
    if (rest.size() > 1) {
      const auto middle = rest.begin() + static_cast<std::ptrdiff_t>(rest.size() / 2);
      const std::lock_guard lock(queue_.mutex);
      queue_.packs.emplace_back(rest.begin(), middle);
      queue_.packs.emplace_back(middle, rest.end());
    } else if (!rest.empty()) {
      report_failure(rest[0], message);
    }
  }

  struct StopTraining {};

  void report_failure(const Run& run, const std::string& message) {
    Record record = record_of(study_, run, RunStatus::failed);
    record.message = message;
    report(std::move(record));
  }

  // Hands a record to the caller. If that throws (the store is full), everything stops and the error is kept.
  void report(Record&& record) {
    const std::lock_guard lock(event_mutex_);
    try {
      events_.finished(std::move(record));
    } catch (...) {
      if (!error_) error_ = std::current_exception();
      failed_.store(true);
      throw StopTraining();
    }
  }

  const std::string& study_;
  int threads_;
  const TrainingEvents& events_;
  Queue queue_;
  std::mutex event_mutex_;
  std::exception_ptr error_;
  std::atomic<bool> failed_{false};
};

}  // namespace

bool train_runs(const std::string& study, const std::vector<Run>& runs, const TrainingOptions& options,
                const TrainingEvents& events) {
  if (runs.empty()) return true;
  const int threads = options.threads > 0
                          ? options.threads
                          : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  // On the CPU lockstep gains nothing and costs cache, so a pack is one run unless asked otherwise.
  const int pack = options.pack > 0 ? options.pack : 1;
  return Scheduler(study, threads, events).run(make_packs(runs, pack));
}

}  // namespace crosstalk
