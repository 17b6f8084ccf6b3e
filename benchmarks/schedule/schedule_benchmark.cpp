// Prints how long 1, 2, 4, 8 and 64 GPUs would take for the 2021 section: the program's own shares, rounds, packs and
// hand-overs, on a simulated clock, with packs as they were measured on one GPU (MeasuredSection).
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>

#include "benchmarks/schedule/section.h"
#include "experiments/sharing/shares.h"
#include "experiments/training/pack.h"
#include "experiments/training/pack_queue.h"

namespace crosstalk::program {
namespace {

class Fleet {
 public:
  Fleet(const MeasuredSection& section, int gpus, double move)
      : section_(section), move_(move), gpus_(static_cast<std::size_t>(gpus)) {
    options_.device = Device::cuda;
    if (gpus > 1) shares_ = share_out(section.runs, gpus, options_);
    for (const Run& run : section.runs) {
      by_id_[run.id] = &run;
      free_.insert(run.id);
    }
  }

  /// Seconds until the last run has ended.
  double seconds() {
    for (;;) {
      double next = kNever;
      for (std::size_t g = 0; g < gpus_.size(); ++g) fill(g);
      if (free_.empty() && gpus_.size() > 1) next = hand_over();
      for (Gpu& gpu : gpus_) {
        share_device(gpu.packs);
        next = std::min(next, next_end(gpu.packs));
      }
      if (next == kNever) return now_;
      now_ += next;
      for (Gpu& gpu : gpus_) {
        train(gpu.packs, next);
        std::erase_if(gpu.packs, [](const PackInFlight& pack) { return pack.ends.empty(); });
      }
    }
  }

 private:
  struct Gpu {
    std::vector<QueuedPack> queue;
    std::vector<PackInFlight> packs;
    std::optional<std::size_t> holder;                       ///< of runs that it asks for
    double asked = 0;                                        ///< when
    std::vector<std::pair<std::size_t, PackInFlight>> kept;  ///< for whom
    double kept_since = 0;
    std::vector<PackInFlight> coming;
    double comes = 0;
  };

  /// As a session does: its own share first, the longest packs first, as many as go side by side; then what others have
  /// not begun.
  void fill(std::size_t g) {
    Gpu& gpu = gpus_[g];
    const auto at_once = static_cast<std::size_t>(packs_at_once(options_));
    for (;;) {
      while (gpu.packs.size() < at_once && !gpu.queue.empty()) {
        const MeasuredPack* measured = nullptr;
        std::vector<double> steps;
        for (const QueuedRun& run : gpu.queue.back().runs) {
          if (free_.erase(run.run->id) == 0) continue;  // another has claimed it meanwhile
          measured = section_.pack_of.at(run.run->id);
          steps.push_back(section_.steps.at(run.run->id));
        }
        if (measured) {
          gpu.packs.push_back(begin_pack(*measured, steps, gpu.queue.back().urgency));
          gpu.packs.back().cost = estimated_cost(*gpu.queue.back().runs[0].run, options_.device);
          gpu.packs.back().began = now_;
        }
        gpu.queue.pop_back();
      }
      // All begin at the same time: nobody finds what another is about to begin.
      if (gpu.packs.size() >= at_once || free_.empty() || (now_ == 0 && !gpu.packs.empty())) return;
      std::vector<const Run*> next;
      if (shares_.empty()) {
        for (const Run& run : section_.runs)
          if (free_.count(run.id) != 0) next.push_back(&run);
      } else {
        const auto taken = [&](const std::string& id) { return free_.count(id) == 0; };
        for (const std::string& id : next_round(shares_, g, at_once, taken)) next.push_back(by_id_.at(id));
      }
      if (next.empty()) throw std::logic_error("no worker would train the runs that are left");
      gpu.queue = make_packs(next, options_, {});
    }
  }

  /// What SharedWork does: GPUs with little to train ask the one that has most, which gives what the program would give.
  /// Returns in how many seconds something happens.
  double hand_over() {
    for (Gpu& gpu : gpus_) {
      if (gpu.coming.empty() || !is_due(gpu.comes)) continue;
      for (PackInFlight& pack : gpu.coming) pack.began = now_;
      std::move(gpu.coming.begin(), gpu.coming.end(), std::back_inserter(gpu.packs));
      gpu.coming.clear();
    }
    for (std::size_t g = 0; g < gpus_.size(); ++g)
      if (!gpus_[g].holder || is_due(gpus_[g].asked + kAskAgain)) ask(g);
    for (std::size_t g = 0; g < gpus_.size(); ++g) answer(g);
    double next = kNever;
    const auto until = [&](double when) {
      if (!is_due(when)) next = std::min(next, when - now_);
    };
    for (Gpu& gpu : gpus_) {
      keep(gpu);
      if (!gpu.kept.empty() && (!gives(gpu) || is_due(gpu.kept_since + kLongestWait))) pass_on(gpu);
      if (!gpu.kept.empty()) until(gpu.kept_since + kLongestWait);
    }
    for (const Gpu& gpu : gpus_) {
      until(gpu.comes);
      if (gpu.holder) until(gpu.asked + kRead), until(gpu.asked + kAskAgain);
    }
    return next;
  }
  bool is_due(double when) const { return when <= now_ + 1e-9; }
  static bool gives(const Gpu& gpu) {
    return std::any_of(gpu.packs.begin(), gpu.packs.end(),
                       [](const PackInFlight& pack) { return !pack.leaving.empty(); });
  }

  void ask(std::size_t g) {
    Gpu& gpu = gpus_[g];
    gpu.holder.reset();
    const auto most = std::max_element(gpus_.begin(), gpus_.end(),
                                       [](const Gpu& a, const Gpu& b) { return load_of(a) < load_of(b); });
    if (!gpu.coming.empty() || is_served(g) || runs_in_flight(*most).size() < 2 ||
        load_of(gpu) > kLittle * load_of(*most))
      return;
    gpu.holder = static_cast<std::size_t>(most - gpus_.begin());
    gpu.asked = now_;
  }

  bool is_served(std::size_t g) const {
    for (const Gpu& gpu : gpus_) {
      for (const auto& [to, pack] : gpu.kept)
        if (to == g) return true;
      for (const PackInFlight& pack : gpu.packs)
        for (const auto& [end, to] : pack.leaving)
          if (to == g) return true;
    }
    return false;
  }

  void answer(std::size_t h) {
    Gpu& gpu = gpus_[h];
    if (gives(gpu) || !gpu.kept.empty()) return;
    std::vector<RunInFlight> runs = runs_in_flight(gpu);
    std::set<std::string> wanted;
    for (RunInFlight& run : runs) {
      wanted.insert(run.id);
      run.stays = now_ - gpu.packs[pack_of(run.id)].began < kLeastAge;
    }
    std::vector<ClaimRequest> requests;
    for (std::size_t g = 0; g < gpus_.size(); ++g)
      if (gpus_[g].holder == h && is_due(gpus_[g].asked + kRead))
        requests.push_back(
            {std::to_string(g), wanted, static_cast<std::int64_t>(wanted.size()), "", load_of(gpus_[g])});
    for (const auto& [id, to] : part_in_flight(runs, requests)) {
      PackInFlight& pack = gpu.packs[pack_of(id)];
      pack.leaving.emplace_back(pack.ends[run_of(id)], std::stoul(to));
      pack.leaves = kEvaluated * std::ceil(pack.done / kEvaluated + 1e-9);
      gpus_[std::stoul(to)].holder.reset();
    }
  }

  /// At their evaluation the states of runs that leave are kept.
  void keep(Gpu& gpu) {
    for (PackInFlight& pack : gpu.packs) {
      if (pack.leaving.empty() || pack.done < pack.leaves - 1e-6) continue;
      if (gpu.kept.empty()) gpu.kept_since = now_;
      std::map<std::size_t, std::vector<double>> parts;
      for (const auto& [end, to] : pack.leaving) {
        parts[to].push_back(end);
        pack.ends.erase(std::find(pack.ends.begin(), pack.ends.end(), end));
      }
      pack.leaving.clear();
      for (const auto& [to, ends] : parts) {
        gpu.kept.emplace_back(to, pack);
        gpu.kept.back().second.ends = ends;
        gpu.kept.back().second.whole = ends.size();
      }
    }
    std::erase_if(gpu.packs, [](const PackInFlight& pack) { return pack.ends.empty(); });
  }

  void pass_on(Gpu& gpu) {
    for (PackInFlight& pack : gpu.packs) pack.leaving.clear();
    for (auto& [to, pack] : gpu.kept) {
      std::sort(pack.ends.rbegin(), pack.ends.rend());
      gpus_[to].coming.push_back(std::move(pack));
      gpus_[to].comes = now_ + move_;
    }
    gpu.kept.clear();
  }

  static double load_of(const Gpu& gpu) {
    double load = 0;
    for (const std::vector<PackInFlight>* packs : {&gpu.packs, &gpu.coming})
      for (const PackInFlight& pack : *packs) load += pack.cost * static_cast<double>(pack.ends.size());
    return load;
  }
  static std::vector<RunInFlight> runs_in_flight(const Gpu& gpu) {
    std::vector<RunInFlight> runs;
    for (std::size_t p = 0; p < gpu.packs.size(); ++p)
      for (std::size_t r = 0; r < gpu.packs[p].ends.size(); ++r)
        runs.push_back({fmt::format("{}.{}", p, r), gpu.packs[p].cost});
    return runs;
  }
  static std::size_t pack_of(const std::string& id) { return std::stoul(id); }
  static std::size_t run_of(const std::string& id) { return std::stoul(id.substr(id.find('.') + 1)); }

  const MeasuredSection& section_;
  const double move_;
  TrainingOptions options_;
  std::vector<Share> shares_;
  std::map<std::string, const Run*> by_id_;
  std::set<std::string> free_;
  std::vector<Gpu> gpus_;
  double now_ = 0;
};

/// The mean over moves of different length: which GPU gets which run, and so the end, hangs on the last digit.
double seconds_of(const MeasuredSection& section, int gpus) {
  double sum = 0;
  for (const double move : kMoves) sum += Fleet(section, gpus, move).seconds();
  return sum / static_cast<double>(std::size(kMoves));
}

/// What no number of GPUs goes below: the run that takes longest, in a pack of its own on a GPU of its own.
double longest_run_alone(const MeasuredSection& section) {
  double longest = 0;
  for (const auto& [id, steps] : section.steps)
    longest = std::max(longest, steps * section.pack_of.at(id)->alone.at(1));
  return longest;
}

}  // namespace
}  // namespace crosstalk::program

int main() {
  using namespace crosstalk::program;
  const MeasuredSection section;
  fmt::print(
      "{} runs; packs of the simulation end {:.1f} % off the time at which they ended on the GPU (its fit)\n",
      section.runs.size(), 100 * section.misfit);
  const double one = seconds_of(section, 1), bound = longest_run_alone(section);
  for (const int gpus : {1, 2, 4, 8, 64}) {
    const double seconds = gpus == 1 ? one : seconds_of(section, gpus);
    fmt::print("{:2} GPUs: {:6.1f} s, {:5.2f} times as fast as one\n", gpus, seconds, one / seconds);
  }
  fmt::print("the longest run alone: {:.1f} s; no number of GPUs is more than {:.2f} times as fast as one\n",
             bound, one / bound);
}
