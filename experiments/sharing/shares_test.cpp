// Shares of runs and the rounds that workers take of them.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/sharing/shares.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "experiments/common/command.h"
#include "experiments/common/devices.h"
#include "experiments/training/pack.h"
#include "experiments/training/race.h"
#include "kernels/base/device/cuda_runtime.h"
#include "kernels/base/error.h"

namespace crosstalk::program {
namespace {

std::vector<crosstalk::Run> runs_of(const std::string& loads, const std::string& seeds) {
  return parse_study(
             "[study]\nname = \"s\"\nseeds = " + seeds +
                 "\n[base]\ntask.name = \"recall\"\nmodel.d_key = 8\n"
                 "[memories.linear]\nname = \"linear_attention\"\n[memories.delta]\nname = \"delta\"\n"
                 "[[grid]]\n\"task.associations\" = " +
                 loads + "\n",
             "s.toml")
      .runs;
}

double cost_of(const Share& share, const std::vector<Run>& runs, const TrainingOptions& options) {
  double cost = 0;
  for (const Unit& unit : share)
    for (const std::string& id : unit)
      cost += estimated_cost(*std::ranges::find_if(runs, [&](const Run& r) { return r.id == id; }),
                             options.device);
  return cost;
}

TEST(Shares, HoldEveryRunOnceInAboutEqualAmounts) {
  const std::vector<crosstalk::Run> runs = runs_of("{ range = [4, 100, 4] }", "[1, 2, 3]");
  for (const Device device : {Device::cpu, Device::cuda}) {
    TrainingOptions options;
    options.device = device;
    const std::vector<Share> shares = share_out(runs, 3, options);
    ASSERT_EQ(shares.size(), 3u);
    std::multiset<std::string> ids;
    double most = 0, total = 0;
    for (const Share& share : shares) {
      for (const Unit& unit : share) ids.insert(unit.begin(), unit.end());
      most = std::max(most, cost_of(share, runs, options));
      total += cost_of(share, runs, options);
    }
    EXPECT_EQ(ids.size(), runs.size());
    for (const crosstalk::Run& run : runs) EXPECT_EQ(ids.count(run.id), 1u);
    EXPECT_LT(most, 1.05 * total / 3);
    EXPECT_EQ(share_out(runs, 3, options), shares);
  }
}

TEST(Shares, KeepSiblingsOfARaceTogether) {
  const auto runs = parse_study(
                        "[study]\nname = \"s\"\nseeds = { range = [1, 9] }\n[base]\ntask.name = \"recall\"\n"
                        "task.associations = 4\nmodel.d_key = 8\ntrain.race = true\n"
                        "[memories.linear]\nname = \"linear_attention\"\n"
                        "[[grid]]\n\"train.learning_rate\" = [0.1, 0.2, 0.3]\n",
                        "s.toml")
                        .runs;
  std::map<std::string, std::string> race_of_id;
  for (const crosstalk::Run& run : runs) race_of_id[run.id] = race_of(run.config);
  for (const Device device : {Device::cpu, Device::cuda}) {
    TrainingOptions options;
    options.device = device;
    std::size_t all = 0;
    for (const Share& share : share_out(runs, 4, options))
      for (const Unit& unit : share) {
        std::map<std::string, int> races;
        for (const std::string& id : unit) ++races[race_of_id.at(id)];
        for (const auto& [race, siblings] : races) EXPECT_EQ(siblings, 3);
        all += unit.size();
      }
    EXPECT_EQ(all, runs.size());
  }
}

std::size_t count_of(const Share& share) {
  std::size_t count = 0;
  for (const Unit& unit : share) count += unit.size();
  return count;
}

TEST(Shares, KeepSmallPacksTogetherOnAGpu) {
  TrainingOptions options;
  options.device = Device::cuda;
  const std::vector<crosstalk::Run> runs = runs_of("{ range = [20, 100, 2] }", "[1, 2, 3]");
  for (const Share& share : share_out(runs, 2, options))
    for (const Unit& unit : share) EXPECT_EQ(unit.size(), 3u);
}

// How many steps a shape takes is unknown: of a pack that is much of the work every worker has some runs.
TEST(Shares, DealLargePacksToAllWorkersOfAGpu) {
  TrainingOptions options;
  options.device = Device::cuda;
  for (const Share& share : share_out(runs_of("[4]", "{ range = [1, 30] }"), 3, options))
    EXPECT_EQ(count_of(share), 20u);
  const std::vector<crosstalk::Run> runs = runs_of("[20, 60, 100]", "[1, 2, 3, 4, 5]");
  double total = 0;
  for (const crosstalk::Run& run : runs) total += estimated_cost(run, options.device);
  for (const Share& share : share_out(runs, 2, options)) {
    std::ptrdiff_t largest = 0;
    for (const crosstalk::Run& run : runs) {
      if (run.config.get_int("task.associations") != 100) continue;
      for (const Unit& unit : share) largest += std::ranges::count(unit, run.id);
    }
    EXPECT_NEAR(static_cast<double>(largest), 5, 1);  // 10 of either memory
    EXPECT_NEAR(cost_of(share, runs, options), total / 2, total / 20);
  }
}

std::vector<Share> plan_of(std::size_t workers, std::size_t units) {
  std::vector<Share> shares(workers);
  for (std::size_t w = 0; w < workers; ++w)
    for (std::size_t u = 0; u < units; ++u) shares[w].push_back({fmt::format("w{}u{}", w, u)});
  return shares;
}

TEST(Shares, APlanSurvivesItsText) {
  const WorkerPlan plan{"crosstalk run 'ü.toml'", {{"host-1-0.jsonl", 12345678901}}, 8, plan_of(3, 2)};
  const WorkerPlan read = worker_plan(plan_text(plan));
  EXPECT_EQ(read.since, plan.since);
  EXPECT_EQ(read.command, plan.command);
  EXPECT_EQ(read.shares, plan.shares);
  EXPECT_THROW(worker_plan("{}"), std::runtime_error);
  EXPECT_THROW(worker_plan(""), std::runtime_error);
}

TEST(Shares, OwnRunsComeFirstAndInOrder) {
  const std::vector<Share> plan = plan_of(2, 20);
  const std::vector<std::string> round = next_round(plan, 1, 1, [](const std::string&) { return false; });
  EXPECT_EQ(round.size(), 10u);
  EXPECT_EQ(round[0], "w1u0");
  EXPECT_EQ(round[9], "w1u9");
  const auto first_ten = [&](const std::string& id) { return std::ranges::find(round, id) != round.end(); };
  EXPECT_EQ(next_round(plan, 1, 1, first_ten)[0], "w1u10");
  EXPECT_EQ(next_round(plan, 1, 100, first_ten).size(), 10u);
}

TEST(Shares, HelpersTakeDifferentPartsFromTheEnd) {
  const std::vector<Share> plan = plan_of(3, 12);
  const auto only_first_is_left = [](const std::string& id) { return id[1] != '0'; };
  const std::vector<std::string> one = next_round(plan, 1, 1, only_first_is_left),
                                 two = next_round(plan, 2, 1, only_first_is_left);
  EXPECT_EQ(one, (std::vector<std::string>{"w0u10", "w0u7"}));
  EXPECT_EQ(two, (std::vector<std::string>{"w0u11", "w0u8"}));
}

// The last worker ends up with all runs.
TEST(Shares, OneWorkerAloneGetsThroughEverything) {
  const std::vector<Share> plan = plan_of(4, 7);
  std::set<std::string> done;
  const auto recorded = [&](const std::string& id) { return done.count(id) != 0; };
  for (int round = 0;; ++round) {
    ASSERT_LT(round, 100);
    const std::vector<std::string> ids = next_round(plan, 2, 1, recorded);
    if (ids.empty()) break;
    for (const std::string& id : ids) EXPECT_TRUE(done.insert(id).second) << id << " twice";
  }
  EXPECT_EQ(done.size(), 28u);
}

/// When the last of `workers` ends, if each trains one round after the other, and takes of each run's estimated cost as long:
/// the shares and rounds of the program on a clock of their own.
double makespan(const std::vector<crosstalk::Run>& runs, int workers) {
  TrainingOptions options;
  options.device = Device::cuda;
  const std::vector<Share> shares = share_out(runs, workers, options);
  std::map<std::string, double> cost;
  for (const crosstalk::Run& run : runs) cost[run.id] = estimated_cost(run, options.device);
  std::set<std::string> begun;
  std::vector<double> free_at(shares.size(), 0);
  for (;;) {
    const auto next = static_cast<std::size_t>(std::ranges::min_element(free_at) - free_at.begin());
    const std::vector<std::string> ids =
        next_round(shares, next, 1, [&](const std::string& id) { return begun.count(id) != 0; });
    if (ids.empty()) break;
    for (const std::string& id : ids) {
      begun.insert(id);
      free_at[next] += cost.at(id);
    }
  }
  EXPECT_EQ(begun.size(), runs.size());
  return *std::ranges::max_element(free_at);
}

// No worker ends later than a pack after the others; with one heavy load among light ones, and with one pack for many, too.
TEST(Shares, WorkersEndTogether) {
  for (const auto& [loads, seeds] :
       std::vector<std::pair<std::string, std::string>>{{"{ range = [4, 100, 4] }", "[1, 2, 3]"},
                                                        {"[4, 8, 400]", "{ range = [1, 20] }"},
                                                        {"50", "{ range = [1, 64] }"}}) {
    const std::vector<crosstalk::Run> runs = runs_of(loads, seeds);
    const double one = makespan(runs, 1);
    for (const int workers : {2, 4, 8})
      EXPECT_LT(makespan(runs, workers), 1.25 * one / workers) << loads << ", " << workers << " workers";
  }
}

TEST(Devices, AreParsed) {
  EXPECT_EQ(worker_devices("cpu:all:3"), (std::vector<std::string>{"cpu", "cpu", "cpu"}));
  for (const char* alone : {"auto", "cpu", "cuda", "cuda:0"}) EXPECT_TRUE(worker_devices(alone).empty());
  for (const char* wrong : {"cpu:all:0", "cpu:all:", "cpu:all:x", "cpu:all:1000"})
    EXPECT_THROW(worker_devices(wrong), UsageError) << wrong;
  TrainingOptions options;
  for (const char* wrong : {"", "gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:1x", "cudaa", "cuda0"})
    EXPECT_THROW(choose_device(wrong, options), UsageError) << wrong;
  choose_device("cpu", options);
  EXPECT_EQ(device_name(options), "cpu");
  if (!built_with_cuda()) {
    for (const char* text : {"cuda:all", "cuda:0,1"}) EXPECT_THROW(worker_devices(text), DeviceError) << text;
    EXPECT_THROW(choose_device("cuda", options), DeviceError);
  }
  if (cuda_device_count() > 0) {
    EXPECT_EQ(worker_devices("cuda:0,0"), (std::vector<std::string>{"cuda:0", "cuda:0"}));
    EXPECT_THROW(worker_devices("cuda:0,"), UsageError);
    EXPECT_THROW(worker_devices("cuda:0,4000"), DeviceError);
  }
}

}  // namespace
}  // namespace crosstalk::program
