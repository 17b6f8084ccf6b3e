// Packs of different shapes side by side: one worker thread a core takes the longest pack that is left; when
// fewer packs than cores remain, those that run share the cores. Results do not depend on any of this.
//
// On a GPU packs share the device, and the kernels of the higher priority go first. Where there is much to train, light packs
// are: each of their many steps would wait for long kernels of heavy ones, which fill the rest. (With the heaviest
// first, two H200s took 115.2 s for 1,600 runs where they take 110.7: light runs of many steps began late, and ended last.)
// Where there is little, the costliest runs decide when all have ended, and the heaviest packs go first: 28.4 s for 320
// runs where light ones first took 32.1 (benchmarks/README.md, "Many GPUs of one host").
//
// A pack begins when the memory of its graphs is free (Admission): until then it waits for its neighbours to end, and lighter
// ones go before it. One that is too large for the whole device is halved; a run that does not fit alone has failed, unless
// other programs hold the memory: then it waits for them.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <iterator>
#include <mutex>
#include <new>
#include <optional>
#include <set>
#include <system_error>
#include <thread>

#include "experiments/training/admission.h"
#include "experiments/training/pack.h"
#include "experiments/training/pack_queue.h"
#include "experiments/training/state/record_of.h"
#include "experiments/training/state/run_state.h"
#include "experiments/training/threads.h"
#include "experiments/training/training.h"
#include "kernels/base/buffer.h"
#include "kernels/base/device/cuda_runtime.h"
#include "kernels/base/device/memory_reserve.h"
#include "kernels/base/error.h"
#include "kernels/base/text/file_stamps.h"

namespace crosstalk {
namespace {

using Clock = std::chrono::steady_clock;

/// For the caller, and for threads of OpenMP that end a little after others have begun.
constexpr int spare_threads = 4;

struct Queue {
  std::vector<QueuedPack> packs;  ///< longest last
  std::mutex mutex;
  std::condition_variable changed;
  std::multiset<std::string> trained;  ///< runs of the packs that are trained now
  std::set<std::string> told;          ///< runs of which the client knows that they wait for memory
  int working = 0;
  int measuring = 0;  ///< of those that work
  bool asking = false, interrupted = false;
  Clock::time_point looked = Clock::now();  ///< for runs that other processes left
};

/// Between two questions for more runs.
constexpr std::chrono::milliseconds kAskAgain(100);
/// Between two trials of a run that other programs leave no room: at least, and at most.
constexpr double kTryAgain = 1, kTryAnyway = 60;

class Scheduler {
 public:
  Scheduler(const std::string& study, const TrainingOptions& options, int workers, int slots,
            TrainingClient& client)
      : study_(study),
        options_(options),
        workers_(workers),
        slots_(slots),
        client_(client),
        admission_(options.device) {}

  bool run(std::vector<QueuedPack> packs) {
    queue_.packs = std::move(packs);
    {
      std::vector<std::jthread> pool;  // joins
      try {
        for (int i = 0; i < workers_; ++i) pool.emplace_back([this] { work(); });
      } catch (const std::system_error&) {  // no thread to be had
        stop_all(std::current_exception());
      }
    }
    if (error_) std::rethrow_exception(error_);
    return !queue_.interrupted;
  }

 private:
  static double since(Clock::time_point when) {
    return std::chrono::duration<double>(Clock::now() - when).count();
  }

  bool stopped() const { return client_.stopped() || failed_.load(); }

  void work() {
    try {
      train_packs();
    } catch (...) {  // nothing may leave a thread
      stop_all(std::current_exception());
    }
  }

  void train_packs() {
    if (options_.device == Device::cuda) cuda_set_device(options_.cuda_device);
    while (std::optional<Taken> taken = next_pack()) {
      std::vector<std::string> ids;
      for (const QueuedRun& run : taken->pack.runs) ids.push_back(run.run->id);
      const bool trains = taken->place.has_value();
      if (trains) {
        train(std::move(*taken));
      } else {
        measure(taken->pack);
      }
      const std::lock_guard lock(queue_.mutex);
      if (!trains) {
        --queue_.measuring;
        put_back(std::move(taken->pack));
      }
      for (const std::string& id : ids) queue_.trained.extract(id);
      --queue_.working;
      queue_.changed.notify_all();
    }
  }

  /// A pack of the queue: to be trained, or, without a place, to be measured.
  struct Taken {
    QueuedPack pack;
    std::optional<Admission::Holder> place;
  };

  int slots_of(const QueuedPack& pack) const {
    const auto race = largest_race(pack.runs, [](const QueuedRun& run) { return race_of(run.run->config); });
    return std::max(pack.slots > 0 ? pack.slots : slots_, static_cast<int>(race));
  }

  void measure(QueuedPack& pack) const {
    const QueuedRun& first = pack.runs.front();
    const int replicas = std::min(slots_of(pack), static_cast<int>(pack.runs.size()));
    pack.bytes = 1;
    try {
      pack.bytes =
          pack_bytes(first.run->config, place_of_state(first.state).stage, replicas, options_.device);
    } catch (const std::exception&) {  // training will report it
    }
  }

  // After the waiting packs of its cost.
  void put_back(QueuedPack pack) {
    const auto at = std::find_if(queue_.packs.begin(), queue_.packs.end(),
                                 [&](const QueuedPack& x) { return x.cost > pack.cost; });
    queue_.packs.insert(at, std::move(pack));
  }

  void put_halves_back(const QueuedPack& pack) {
    auto [first, second] = halves(pack, slots_of(pack));
    queue_.packs.push_back(std::move(first));
    queue_.packs.push_back(std::move(second));
  }

  // Of the packs that wait, the longest that can begin, or is yet to be measured.
  std::optional<Taken> take() {
    if (queue_.packs.empty()) return std::nullopt;  // idle workers leave the driver alone
    const bool counts = admission_.counts();
    for (std::size_t i = queue_.packs.size(); i-- > 0;) {
      const auto at = queue_.packs.begin() + static_cast<std::ptrdiff_t>(i);
      const bool known = at->bytes > 0 || !counts;
      if (known && !admission_.ever_fits(at->bytes) && races_of(*at).size() > 1) {
        const QueuedPack whole = std::move(*at);
        queue_.packs.erase(at);
        put_halves_back(whole);
        i = queue_.packs.size();
        continue;
      }
      if (known && !admission_.fits(at->bytes)) continue;
      if (at->crowded_out && !may_try_again(*at)) continue;
      Taken taken{std::move(*at), std::nullopt};
      queue_.packs.erase(at);
      for (const QueuedRun& run : taken.pack.runs) queue_.trained.insert(run.run->id);
      ++queue_.working;
      if (known) {
        taken.place = admission_.enter(taken.pack.bytes);
      } else {
        ++queue_.measuring;
      }
      return taken;
    }
    return std::nullopt;
  }

  // Whether there seems to be room for a run that other programs had left none.
  bool may_try_again(const QueuedPack& pack) const {
    const double waited = since(*pack.crowded_out);
    return waited > kTryAnyway || (waited > kTryAgain && pack.bytes < free_memory(options_.device));
  }

  // The longest waiting pack that fits. A thread without one asks for more while others train; nothing: all has ended.
  std::optional<Taken> next_pack() {
    std::unique_lock lock(queue_.mutex);
    for (;;) {
      if (stopped()) {
        queue_.interrupted |= !queue_.packs.empty();
        return std::nullopt;
      }
      if (!queue_.packs.empty() && !queue_.asking && since(queue_.looked) >= options_.look_again) {
        const Clock::time_point begin = Clock::now();
        ask_for_more(lock, false);
        queue_.looked = Clock::now();
        if (options_.look_again > 0) queue_.looked += 20 * (queue_.looked - begin);  // a large store: seldom
      }
      if (std::optional<Taken> taken = take()) return taken;
      if (queue_.packs.empty() && queue_.measuring == 0) {
        if (queue_.working == 0 && !queue_.asking) return std::nullopt;
        if (!queue_.asking) ask_for_more(lock, true);
        if (!queue_.packs.empty()) continue;
      }
      queue_.changed.wait_for(lock, kAskAgain);
    }
  }

  void ask_for_more(std::unique_lock<std::mutex>& lock, bool idle) {
    queue_.asking = true;
    std::set<std::string> here(queue_.trained.begin(), queue_.trained.end());
    for (const QueuedPack& pack : queue_.packs)
      for (const QueuedRun& run : pack.runs) here.insert(run.run->id);
    lock.unlock();
    std::vector<QueuedPack> packs = make_packs(client_.more_runs(here, idle), options_, client_);
    lock.lock();
    add_packs(queue_.packs, std::move(packs));
    queue_.asking = false;
    queue_.changed.notify_all();
  }

  // Claims the runs that would begin at once, and leaves out those that cannot be claimed; the others are claimed when a slot
  // is free.
  std::vector<QueuedRun> claimed(std::vector<QueuedRun> runs, int slots) const {
    std::vector<QueuedRun> kept;
    for (auto& race :
         races_in(std::move(runs), [](const QueuedRun& run) { return race_of(run.run->config); }))
      if (kept.size() >= static_cast<std::size_t>(slots) ||
          std::all_of(race.begin(), race.end(),
                      [&](const QueuedRun& run) { return client_.claim(run.run->id); }))
        std::move(race.begin(), race.end(), std::back_inserter(kept));
    return kept;
  }

  // The pack is gone and its memory free. Returns its place as it was.
  Admission::Place leave(const Taken& taken) {
    const std::lock_guard lock(queue_.mutex);
    const Admission::Place place = **taken.place;
    admission_.leave(*taken.place);
    return place;
  }

  void train(Taken taken) {
    QueuedPack& queued = taken.pack;
    const int slots = slots_of(queued);
    const double cost = queued.cost / static_cast<double>(queued.runs.size());
    const std::vector<QueuedRun> kept = claimed(std::move(queued.runs), slots);
    if (kept.empty()) {
      leave(taken);
      return;
    }
    keep_memory_reserve();  // another pack may have let it go
    std::vector<PackRun> pack;
    for (const QueuedRun& run : kept) pack.push_back({*run.run, run.state});
    PackClient client(*this);
    const auto threads = [this] {
      const std::lock_guard lock(queue_.mutex);
      const int side_by_side = std::min(workers_, queue_.working + static_cast<int>(queue_.packs.size()));
      return std::max(1, workers_ / std::max(1, side_by_side));
    };
    const auto side_by_side = [this] {
      const std::lock_guard lock(queue_.mutex);
      return queue_.working - queue_.measuring;
    };
    const auto unfinished = [&] {
      QueuedPack rest{cost, queued.priority, {}, queued.slots, queued.bytes};
      for (const QueuedRun& run : kept) {
        if (client.ended.count(run.run->id) == 0) rest.runs.push_back(run);
      }
      rest.cost *= static_cast<double>(rest.runs.size());
      return rest;
    };
    // The rest of the work, once the memory is free again.
    std::function<void(const Admission::Place&)> then;
    try {
      if (!train_pack(study_, pack, {slots, options_.device, queued.priority, threads, side_by_side}, client,
                      options_.make_task ? options_.make_task : registered_task)) {
        const std::lock_guard lock(queue_.mutex);
        queue_.interrupted = true;
      }
    } catch (const OutOfMemory& error) {
      then = [&, message = std::string(error.what())](const Admission::Place& place) {
        out_of_memory(unfinished(), message, place);
      };
    } catch (const FilesChanged&) {
      stop_all(std::current_exception());  // other runs are saved; these have not failed
    } catch (const DeviceError&) {
      stop_all(std::current_exception());  // the device is lost: nothing more can be trained on it
    } catch (const MisfitState& error) {
      then = [&, error](const Admission::Place&) { reject(unfinished(), error); };
    } catch (const std::bad_alloc&) {
      then = [&](const Admission::Place& place) { out_of_memory(unfinished(), "out of memory", place); };
    } catch (const StopTraining&) {  // the store failed: error_ is set
    } catch (const std::exception& error) {
      then = [&, message = std::string(error.what())](const Admission::Place&) {
        for (const QueuedRun& run : unfinished().runs) report_failure(*run.run, message);
      };
    }
    const Admission::Place place = leave(taken);
    if (then) then(place);
  }

  // A pack that shared the device is tried again when there is more room. One that was alone is halved; a run (or a race, whose
  // runs train side by side) that does not fit alone has failed, unless other programs hold the memory.
  void out_of_memory(QueuedPack pack, const std::string& message, const Admission::Place& place) {
    if (pack.runs.empty()) return;
    if (!place.shared && races_of(pack).size() == 1) {
      if (pack.bytes <= 1) measure(pack);
      if (wait_for_others(pack, place.crowded)) return;
      const std::string why =
          pack.runs.size() == 1
              ? message
              : fmt::format(
                    "{} (the {} runs of a race train side by side; train.race = false trains them one by one)",
                    message, pack.runs.size());
      for (const QueuedRun& run : pack.runs) report_failure(*run.run, why);
      return;
    }
    const std::lock_guard lock(queue_.mutex);
    if (place.shared) {
      pack.bytes = admission_.after_shortage(pack.bytes);
      put_back(std::move(pack));
    } else {
      put_halves_back(pack);
    }
  }

  // Returns false if the run would not fit without other programs either, or shall not wait. crowded: they held memory when it
  // began.
  bool wait_for_others(QueuedPack& pack, bool crowded) {
    const Run& run = *pack.runs[0].run;
    std::string why;
    {
      const std::lock_guard lock(queue_.mutex);
      if (!(crowded || admission_.crowded()) || !admission_.ever_fits_alone(pack.bytes)) return false;
      give_memory_back(options_.device);
      if (queue_.told.insert(run.id).second) {
        const auto gib = [](std::size_t bytes) { return static_cast<double>(bytes) / (1 << 30); };
        why = fmt::format("it needs {:.1f} GiB, and of the device's {:.1f} GiB {:.1f} are free",
                          gib(pack.bytes), gib(whole_memory(options_.device)),
                          gib(free_memory(options_.device)));
      }
    }
    bool waits = true;
    if (!why.empty()) report([&] { waits = client_.waits_for_memory(run.id, why); });
    if (!waits) return false;
    pack.crowded_out = Clock::now();
    const std::lock_guard lock(queue_.mutex);
    put_back(std::move(pack));
    return true;
  }

  // The run, with its siblings of a race, starts anew in another pack: it no longer stands where the others do.
  void reject(QueuedPack pack, const MisfitState& error) {
    QueuedPack anew{0, pack.priority, {}, pack.slots};
    std::vector<QueuedRun> rest;
    for (std::vector<QueuedRun>& race : races_of(pack)) {
      const bool found = std::any_of(race.begin(), race.end(),
                                     [&](const QueuedRun& run) { return run.run->id == error.id; });
      for (QueuedRun& run : race) {
        if (found) report([&] { client_.reject_state(run.run->id, error.what()); });
        if (found) run.state.clear();
        (found ? anew.runs : rest).push_back(std::move(run));
      }
    }
    if (anew.runs.empty()) throw std::logic_error("a state that fits no run of its pack");
    anew.cost = pack.cost * static_cast<double>(anew.runs.size()) / static_cast<double>(pack.runs.size());
    pack.cost -= anew.cost;
    pack.runs = std::move(rest);
    const std::lock_guard lock(queue_.mutex);
    queue_.packs.push_back(std::move(anew));
    if (!pack.runs.empty()) queue_.packs.push_back(std::move(pack));
  }

  struct StopTraining {};

  // Everything stops; the first error is the one that train_runs throws.
  void stop_all(std::exception_ptr error) {
    const std::lock_guard lock(report_mutex_);
    if (!error_) error_ = std::move(error);
    failed_.store(true);
  }

  void report_failure(const Run& run, const std::string& message) {
    Record record = record_of(study_, run, RunStatus::failed);
    record.message = message;
    report([&] { client_.finished(std::move(record)); });
  }

  // Has the client told something. If that throws (the store is full), everything stops and the error is kept.
  template <class Tell>
  void report(const Tell& tell) {
    const std::lock_guard lock(report_mutex_);
    try {
      tell();  // may need the reserve
    } catch (...) {
      if (!error_) error_ = std::current_exception();
      failed_.store(true);
      throw StopTraining();
    }
    keep_memory_reserve();
  }

  /// The client as one pack sees it.
  class PackClient final : public TrainingClient {
   public:
    explicit PackClient(Scheduler& all) : all_(all), client_(all.client_) {}
    bool stopped() const override { return all_.stopped(); }
    bool claim(const std::string& id) override { return client_.claim(id); }
    std::int64_t solved_at(const std::string& race) override { return client_.solved_at(race); }
    bool rests(const Run& run, std::int64_t steps) override { return client_.rests(run, steps); }
    void save_state(const std::string& id, const std::string& state) override {
      all_.report([&] { client_.save_state(id, state); });
    }
    void progressed(std::int64_t steps) override {
      all_.report([&] { client_.progressed(steps); });
    }
    void advanced(const std::vector<RunPlace>& runs) override {
      all_.report([&] { client_.advanced(runs); });
    }
    void evaluated(const Run& run, const RunPoint& point) override {
      all_.report([&] { client_.evaluated(run, point); });
    }
    void keep_weights(const std::string& id, const std::string& npz) override {
      all_.report([&] { client_.keep_weights(id, npz); });
    }
    void finished(Record&& record) override {
      ended.insert(record.id);
      all_.report([&] { client_.finished(std::move(record)); });
    }

    std::set<std::string> ended;  ///< runs

   private:
    Scheduler& all_;
    TrainingClient& client_;
  };

  const std::string& study_;
  const TrainingOptions& options_;
  int workers_, slots_;
  TrainingClient& client_;
  Queue queue_;
  Admission admission_;  ///< guarded by the queue's mutex
  std::mutex report_mutex_;
  std::exception_ptr error_;
  std::atomic<bool> failed_{false};
};

}  // namespace

bool train_runs(const std::string& study, const std::vector<const Run*>& runs, const TrainingOptions& options,
                TrainingClient& client) {
  if (runs.empty()) return true;
  require_threads(packs_at_once(options) + spare_threads);
  std::vector<QueuedPack> packs = make_packs(runs, options, client);
  if (client.stopped()) return false;
  return Scheduler(study, options, packs_at_once(options), slots_of_a_pack(options), client)
      .run(std::move(packs));
}

}  // namespace crosstalk
