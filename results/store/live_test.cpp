// Curves of runs that train now.
// SPDX-License-Identifier: Apache-2.0
#include "results/store/live.h"

#include <gtest/gtest.h>

#include <vector>

#include "results/store/process_identity.h"
#include "results/test_records.h"

namespace crosstalk {
namespace {

using testing::spill;
using testing::TemporaryFolder;

LiveRun at(double step, double loss) { return {"delta", 3, 1000, {{"eval_loss", {{step}, {loss}}}}}; }

TEST(Live, CurvesGrowByAPointASecondAndGoWithTheirProcess) {
  const TemporaryFolder folder;
  {
    LiveWriter writer(folder.path());
    EXPECT_FALSE(std::filesystem::exists(folder.path() / "live"));
    writer.add("a", at(10, 2), 100);
    writer.add("a", at(20, 1.9), 100.5);  // too soon
    writer.add("b", at(10, 4), 100.5);
    writer.add("a", at(30, 1.5), 101.1);
    const auto runs = live_runs(folder.path());
    ASSERT_EQ(runs.size(), 2U);
    EXPECT_EQ(runs.at("a").label, "delta");
    EXPECT_EQ(runs.at("a").seed, 3);
    EXPECT_EQ(runs.at("a").max_steps, 1000);
    EXPECT_EQ(runs.at("a").curves.at("eval_loss").x, (std::vector<double>{10, 30}));
    EXPECT_EQ(runs.at("a").curves.at("eval_loss").y, (std::vector<double>{2, 1.5}));
  }
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "live"));
  EXPECT_TRUE(live_runs(folder.path()).empty());
}

TEST(Live, WhatADeadProcessOrAStrangerLeftIsNotRead) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.path() / "live");
  const std::filesystem::path stale = folder.path() / "live" / "x.jsonl";
  const std::string point = R"({"id":"a","label":"l","seed":1,"max_steps":5,"step":1,"eval_loss":2})"
                            "\n";
  ProcessIdentity dead = this_process();
  dead.pid = 1 << 22;
  spill(stale, nlohmann::json{{"process", to_json(dead)}}.dump() + "\n" + point);
  EXPECT_TRUE(live_runs(folder.path()).empty());
  for (const std::string& text :
       std::vector<std::string>{"[1]\n", "{}\n" + point, "\n", "{\"process\":3}\n" + point}) {
    spill(folder.path() / "live" / "y.jsonl", text);
    EXPECT_TRUE(live_runs(folder.path()).empty()) << text;
  }
  const std::string own = nlohmann::json{{"process", to_json(this_process())}}.dump() + "\n";
  spill(folder.path() / "live" / "y.jsonl",
        own + "{\"id\":7,\"step\":1}\n{\"id\":\"b\",\"label\":\"l\"}\n" + point + "{\"id\":\"half");
  EXPECT_EQ(live_runs(folder.path()).size(), 1U);
  LiveWriter(folder.path()).add("b", at(1, 1), 0);
  EXPECT_FALSE(std::filesystem::exists(stale));  // swept
}

}  // namespace
}  // namespace crosstalk
