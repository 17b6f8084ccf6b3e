// The published file as it is in the repository, and comparisons with it. SPDX-License-Identifier: Apache-2.0
#include "results/published.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <stdexcept>

#include "results/test_records.h"

namespace crosstalk {
namespace {

using testing::spill;
using testing::TemporaryFolder;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double inf = std::numeric_limits<double>::infinity();

std::filesystem::path literature() {
  return std::filesystem::path(CROSSTALK_SOURCE_DIR) / "results" / "published" / "literature" /
         "schlag2021_final_losses.csv";
}

const PublishedPoint& find(const std::vector<PublishedPoint>& points, int setting, const std::string& label,
                           std::int64_t associations) {
  const auto found = std::find_if(points.begin(), points.end(), [&](const PublishedPoint& point) {
    return point.setting == setting && point.label == label && point.associations == associations;
  });
  if (found == points.end()) throw std::runtime_error("no point " + label);
  return *found;
}

TEST(Published, TheFileIsWhole) {
  const std::vector<PublishedPoint> points = read_published(literature());
  EXPECT_EQ(points.size(), 144U);
  std::set<std::string> labels[3];
  for (const PublishedPoint& point : points) labels[point.setting].insert(point.label);
  EXPECT_EQ(labels[1], (std::set<std::string>{"softmax", "linear", "dpfp1", "dpfp2", "dpfp3", "favor64",
                                              "favor128", "favor512"}));
  EXPECT_EQ(labels[2],
            (std::set<std::string>{"dpfp1_fwm", "dpfp1_delta", "dpfp1_sum", "dpfp2_delta", "favor128_delta",
                                   "favor64_delta", "linear_delta", "tanh_fwm"}));
  EXPECT_EQ(find(points, 1, "softmax", 40).d_dot, 0);
  EXPECT_EQ(find(points, 1, "linear", 200).loss, 0.34256673);
  EXPECT_EQ(find(points, 1, "linear", 200).best_loss, 0.34195828);
  EXPECT_EQ(find(points, 1, "linear", 200).steps, 2400);
  EXPECT_EQ(find(points, 2, "dpfp1_delta", 100).loss, 8.620099e-05);
  EXPECT_EQ(find(points, 2, "dpfp1_delta", 100).d_dot, 128);
  EXPECT_TRUE(std::isnan(find(points, 2, "favor64_delta", 60).loss));
}

TEST(Published, WrongFilesAreNamedWithTheirLine) {
  const TemporaryFolder folder;
  const auto problem = [&](const std::string& text) -> std::string {
    spill(folder.path() / "x.csv", text);
    try {
      read_published(folder.path() / "x.csv");
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(problem("a,b\n1\n").find("x.csv:2: has 1 cells, the head has 2"), std::string::npos);
  EXPECT_NE(problem("label,setting\nx,one\n").find("x.csv:2: column 'setting': 'one' is not a number"),
            std::string::npos);
  EXPECT_NE(problem("label\nx\n").find("published points need a column 'setting'; there are label"),
            std::string::npos);
  EXPECT_NE(problem("label\n").find("holds no rows"), std::string::npos);
  EXPECT_THROW(read_published(folder.path() / "missing.csv"), std::invalid_argument);
}

TEST(Published, Tolerance) {
  EXPECT_TRUE(is_within(0.001, 0.0005));
  EXPECT_FALSE(is_within(0.0011, 0.0005));
  EXPECT_TRUE(is_within(0.0000001, 0.001));
  EXPECT_TRUE(is_within(0.0146, 0.005));  // 0.01 where 10 % is less
  EXPECT_FALSE(is_within(0.0151, 0.005));
  EXPECT_TRUE(is_within(0.43, 0.4));
  EXPECT_FALSE(is_within(0.45, 0.4));
  EXPECT_FALSE(is_within(nan, 0.4));
  EXPECT_FALSE(is_within(nan, 0.0001));
  EXPECT_FALSE(is_within(inf, 0.4));
  EXPECT_TRUE(is_within(inf, nan));
  EXPECT_FALSE(is_within(0.4, nan));
}

TEST(Published, ComparesMedianOfOurSeeds) {
  std::map<std::string, Record> records;
  const auto add = [&](const std::string& task, const std::string& label, int associations, double loss,
                       RunStatus status = RunStatus::done) {
    Record record;
    record.id = "ct-" + std::to_string(records.size());
    record.label = label;
    record.status = status;
    record.config = {{"task.name", task}, {"task.associations", associations}};
    record.eval_loss = loss;
    record.steps = 100 * static_cast<int>(records.size() + 1);
    records[record.id] = record;
  };
  add("recall", "linear", 200, 0.35);
  add("recall", "linear", 200, 0.34);
  add("recall", "linear", 200, 0.9);
  add("recall", "linear", 200, 7, RunStatus::failed);  // says nothing about the memory
  add("reassign", "linear", 200, 7);                   // another setting
  add("recall", "linear", 210, 7);                     // not published
  add("recall", "dpfp1", 40, nan, RunStatus::diverged);
  const std::vector<Comparison> rows = compare(read_published(literature()), records);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].published.label, "dpfp1");
  EXPECT_EQ(rows[0].loss, inf);
  EXPECT_FALSE(rows[0].within);
  EXPECT_EQ(rows[1].published.label, "linear");
  EXPECT_EQ(rows[1].seeds, 3);
  EXPECT_EQ(rows[1].loss, 0.35);
  EXPECT_EQ(rows[1].steps, 200);
  EXPECT_EQ(rows[1].difference, 0.35 - 0.34256673);
  EXPECT_TRUE(rows[1].within);
  EXPECT_EQ(
      comparison_table(rows),
      "| setting | memory | S | ours (median) | seeds | steps | published | steps | difference | within |\n"
      "|---|---|---|---|---|---|---|---|---|---|\n"
      "| 1 | dpfp1 | 40 | diverged | 1 | 700 | 0.00027 | 200 |  | **no** |\n"
      "| 1 | linear | 200 | 0.35000 | 3 | 200 | 0.34257 | 2400 | +0.00743 | yes |\n");
}

}  // namespace
}  // namespace crosstalk
