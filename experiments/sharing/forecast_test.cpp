// Time and memory that a plan tells.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/sharing/forecast.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/training/state/record_of.h"
#include "tasks/kinds/file_example.h"

namespace crosstalk::program {
namespace {

using ::testing::HasSubstr;

Study four_runs(const std::string& keys = "0") {
  return parse_study(
      "[study]\nname = \"s\"\nseeds = [1, 2, 3, 4]\n[base]\ntask.name = \"recall\"\ntask.associations = 4\n"
      "task.keys = " +
          keys + "\nmodel.d_key = 8\n[memories.softmax]\nname = \"softmax\"\n",
      "s.toml");
}

Record trained(const Run& run, const char* host, const char* started, const char* finished) {
  Record record = record_of("s", run, RunStatus::done);
  record.provenance = {{"device", "cpu"}, {"host", host}, {"started", started}, {"finished", finished}};
  return record;
}

TEST(Forecast, TimeGoesByWhatEarlierSittingsTook) {
  const Study study = four_runs();
  const crosstalk::testing::ExampleFolder folder;
  const std::string store = folder.path() + "/store";
  {
    StoreWriter writer(store);
    EXPECT_THAT(time_forecast(study.runs, read_heads(store)).text, HasSubstr("not known"));
    writer.append(trained(study.runs[0], "a", "2026-01-31T23:59:50Z", "2026-02-01T00:00:10Z"));
    EXPECT_EQ(time_forecast(study.runs, read_heads(store)).text,
              "about 1 min 0 s for one process, at the rate of 1 earlier run on cpu of a");
    // The same sitting went on for ten seconds, and another one took thirty for one run: 60 s for three.
    writer.append(trained(study.runs[1], "a", "2026-01-31T23:59:50Z", "2026-02-01T00:00:20Z"));
    writer.append(trained(study.runs[2], "b", "2026-02-02T00:00:00Z", "2026-02-02T00:00:30Z"));
  }
  EXPECT_EQ(time_forecast(study.runs, read_heads(store)).text,
            "about 20 s for one process, at the rate of 3 earlier runs on cpu of a and cpu of b");
}

TEST(Forecast, TimesThatAreNoneAreLeftOut) {
  const Study study = four_runs();
  const crosstalk::testing::ExampleFolder folder;
  const std::string store = folder.path() + "/store";
  StoreWriter writer(store);
  for (int i = 0; i < 2; ++i) {
    Record record = record_of("s", study.runs[static_cast<std::size_t>(i)], RunStatus::done);
    if (i == 0) record.provenance = {{"started", "yesterday"}, {"finished", 7}};
    writer.append(record);
  }
  EXPECT_THAT(time_forecast(study.runs, read_heads(store)).text, HasSubstr("not known"));
}

TEST(Forecast, MemoryThatParametersAloneWouldExceedIsTold) {
  const Study small = four_runs(), large = four_runs("1000000");
  std::vector<const crosstalk::Run*> runs = {&small.runs[0], &large.runs[0], &large.runs[1]};
  // 1,000,000 keys x int(1.1 x 1,000,004) and 2 projections of that and one of 4 values to 8 numbers, 16 bytes each
  const double bytes = 16 * (1e6 * 1100004.0 + (2 * 1100004.0 + 4) * 8);
  EXPECT_EQ(parameter_bytes(*runs[1]), bytes);
  EXPECT_EQ(memory_shortage(runs, static_cast<std::uint64_t>(bytes)), "");
  EXPECT_THAT(
      memory_shortage(runs, static_cast<std::uint64_t>(bytes) - 1),
      HasSubstr(
          "2 runs cannot be trained here: the parameters of softmax (seed 1) need 17600.3 GB at least"));
  EXPECT_GT(available_memory(), std::uint64_t{1} << 24);
}

}  // namespace
}  // namespace crosstalk::program
