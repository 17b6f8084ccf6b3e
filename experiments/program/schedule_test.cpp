// How long many GPUs would take for the 2021 section: the program's own shares, rounds, packs and hand-overs, on a clock that
// is simulated and with packs as they were measured on one GPU (MeasuredSection).
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>

#include "experiments/program/schedule_fixture.h"
#include "experiments/program/shares.h"
#include "experiments/training/pack.h"
#include "experiments/training/pack_queue.h"

namespace crosstalk::program {
namespace {

class Fleet {
 public:
  Fleet(const MeasuredSection& section, int gpus, double handover)
      : section_(section), handover_(handover), gpus_(static_cast<std::size_t>(gpus)) {
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
      for (std::size_t g = 0; g < gpus_.size(); ++g) {
        fill(g);
        if (free_.empty() && gpus_.size() > 1) next = std::min(next, ask(g));
        share_device(gpus_[g].packs);
      }
      for (const Gpu& gpu : gpus_) next = std::min(next, next_end(gpu.packs));
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
    std::vector<PackInFlight> coming;  ///< from another GPU
    double comes = 0, asks = 0;        ///< when; and not before when it asks again
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
      ASSERT_FALSE(next.empty());
      gpu.queue = make_packs(next, options_, {});
    }
  }

  /// A GPU with little to train asks the one that has most, which gives what the program would give. Returns in how many
  /// seconds to look again.
  double ask(std::size_t g) {
    Gpu& gpu = gpus_[g];
    if (!gpu.coming.empty()) {
      if (now_ < gpu.comes - 1e-9) return gpu.comes - now_;
      std::move(gpu.coming.begin(), gpu.coming.end(), std::back_inserter(gpu.packs));
      gpu.coming.clear();
    }
    if (now_ < gpu.asks - 1e-9) return gpu.asks - now_;
    Gpu& most = *std::max_element(gpus_.begin(), gpus_.end(),
                                  [](const Gpu& a, const Gpu& b) { return load_of(a) < load_of(b); });
    std::vector<RunInFlight> runs = runs_in_flight(most);
    if (runs.size() < 2 || load_of(gpu) > kLittle * load_of(most)) return kNever;
    std::set<std::string> wanted;
    for (RunInFlight& run : runs) {
      wanted.insert(run.id);
      run.stays = now_ - most.packs[pack_of(run.id)].began < kLeastAge;
    }
    const std::map<std::string, std::string> given =
        part_in_flight(runs, {{"g", wanted, static_cast<std::int64_t>(wanted.size()), "", load_of(gpu)}});
    for (std::size_t p = 0; p < most.packs.size(); ++p) {
      PackInFlight part = most.packs[p];
      part.ends.clear();
      std::vector<double> stay;
      for (std::size_t r = 0; r < most.packs[p].ends.size(); ++r)
        (given.count(fmt::format("{}.{}", p, r)) ? part.ends : stay).push_back(most.packs[p].ends[r]);
      most.packs[p].ends = stay;
      part.whole = part.ends.size();
      part.began = now_ + handover_;
      if (!part.ends.empty()) gpu.coming.push_back(part);
    }
    std::erase_if(most.packs, [](const PackInFlight& pack) { return pack.ends.empty(); });
    share_device(most.packs);
    gpu.comes = now_ + handover_;
    gpu.asks = now_ + (given.empty() ? kAnswer : handover_);
    return gpu.asks - now_;
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
  static std::size_t pack_of(const std::string& id) { return static_cast<std::size_t>(std::stoi(id)); }

  const MeasuredSection& section_;
  const double handover_;
  TrainingOptions options_;
  std::vector<Share> shares_;
  std::map<std::string, const Run*> by_id_;
  std::set<std::string> free_;
  std::vector<Gpu> gpus_;
  double now_ = 0;
};

/// The mean over handovers of different length: which GPU gets which run, and so the end, hangs on the last digit.
double seconds_of(const MeasuredSection& section, int gpus) {
  double sum = 0;
  for (const double handover : kHandovers) sum += Fleet(section, gpus, handover).seconds();
  return sum / static_cast<double>(std::size(kHandovers));
}

/// What no number of GPUs goes below: the run that takes longest, in a pack of its own on a GPU of its own.
double longest_run_alone(const MeasuredSection& section) {
  double longest = 0;
  for (const auto& [id, steps] : section.steps)
    longest = std::max(longest, steps * section.pack_of.at(id)->alone.at(1));
  return longest;
}

const MeasuredSection& section() {
  static const MeasuredSection measured;
  return measured;
}

// The model of a GPU is as good as this: what one H200 took, by which it is fitted.
TEST(Schedule, TheSimulationTakesWhatOneGpuTook) {
  ASSERT_EQ(section().runs.size(), 1600u);
  ASSERT_EQ(section().steps.size(), 1600u);
  EXPECT_LT(section().misfit, 0.04);
  EXPECT_NEAR(seconds_of(section(), 1), 211.5, 2);
}

TEST(Schedule, ManyGpusShareTheSectionOf2021) {
  std::map<int, double> seconds;
  for (const int gpus : {1, 2, 4, 8, 64}) {
    seconds[gpus] = seconds_of(section(), gpus);
    std::printf("%d GPUs: %.1f s, %.2f times\n", gpus, seconds[gpus], seconds[1] / seconds[gpus]);
    RecordProperty("times_" + std::to_string(gpus), std::to_string(seconds[1] / seconds[gpus]));
  }
  const double bound = longest_run_alone(section());
  std::printf("the longest run alone: %.1f s, %.2f times\n", bound, seconds[1] / bound);
  // DPFP-1 FWM at 200 associations: 1.3 ms a step, however few replicas there are.
  EXPECT_NEAR(bound, 12.5, 0.5);
  EXPECT_LE(seconds[64], 1.2 * bound);
  // What is lost by eight: nobody knows before how many steps a run takes, and at the end one GPU has a pack of the FWM rule
  // left that takes many, while each of its steps takes the longer the more runs are in it.
  EXPECT_GE(seconds[1] / seconds[2], 1.9);
  EXPECT_GE(seconds[1] / seconds[4], 3.7);
  EXPECT_GE(seconds[1] / seconds[8], 6.9);
}

}  // namespace
}  // namespace crosstalk::program
