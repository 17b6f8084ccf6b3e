// The published file as it is in the repository, and comparisons with it.
// SPDX-License-Identifier: Apache-2.0
#include "results/replay/published.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <stdexcept>

#include "results/readers_fuzz.h"
#include "results/replay/replay.h"
#include "results/test_records.h"
#include "results/test_refusal.h"

namespace crosstalk {
namespace {

using testing::check_mutations;
using ::testing::HasSubstr;
using testing::refusal_of;
using testing::spill;
using testing::TemporaryFolder;

std::filesystem::path literature() {
  return std::filesystem::path(CROSSTALK_SOURCE_DIR) / "results" / "published" / "literature" /
         "schlag2021_final_losses.csv";
}

const PublishedPoint& find(const std::vector<PublishedPoint>& points, int setting, const std::string& label,
                           std::int64_t associations) {
  const auto found = std::ranges::find_if(points, [&](const PublishedPoint& point) {
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
  EXPECT_EQ(find(points, 1, "linear", 200).steps, 2400);
  EXPECT_EQ(find(points, 2, "dpfp1_delta", 100).loss, 8.620099e-05);
  EXPECT_EQ(find(points, 2, "dpfp1_delta", 100).d_dot, 128);
  EXPECT_TRUE(std::isnan(find(points, 2, "favor64_delta", 60).loss));
}

TEST(Published, AnyBytesArePointsOrAreRefused) {
  for (const std::string& good :
       {std::string("label,setting,S_unique_keys,final_eval_loss,d_dot,steps\nlinear,1,20,0.5,64,100\n"),
        std::string(
            "# c\nlabel,task.name,task.associations,eval_loss,\"a \"\"b\"\"\"\r\nx,recall,8,nan,\"1,\n2\"\n"),
        std::string("label,task.name,eval_accuracy,state_bytes\nx,mqar,0.5,1e3\n")})
    check_mutations(good, {'"', ',', '\n', '\r', '#', '-', '9', 'e', '\0', '\xff'}, check_published_reader);
}

TEST(Published, ASettingIsOneOfTwo) {
  for (const char* setting : {"0", "3", "-1", "4294967297"}) {
    EXPECT_THAT(refusal_of([&] {
                  parse_published(
                      std::string("label,setting,S_unique_keys,final_eval_loss\nx,") + setting + ",20,0.5\n",
                      "p.csv");
                }),
                HasSubstr("p.csv:2: column 'setting'"));
  }
}

TEST(Published, WrongFilesAreNamedWithTheirLine) {
  const TemporaryFolder folder;
  const auto problem = [&](const std::string& text) -> std::string {
    spill(folder.path() / "x.csv", text);
    return refusal_of([&] { read_published(folder.path() / "x.csv"); });
  };
  EXPECT_THAT(problem("a,b\n1\n"), HasSubstr("x.csv:2: has 1 cells, the head has 2"));
  EXPECT_THAT(problem("label,setting,eval_loss\nx,one,1\n"),
              HasSubstr("x.csv:2: column 'setting': 'one' is not a number"));
  EXPECT_THAT(problem("label\nx\n"),
              HasSubstr("x.csv:2: published points need a column task.name, such as mqar"));
  EXPECT_THAT(
      problem("label,task.name,acuracy\nx,mqar,0.9\n"),
      HasSubstr(
          "eval_loss with task.associations; the columns are label, task.name, acuracy; did you mean eval_accuracy?"));
  EXPECT_THAT(problem("label,task.name,eval_accuracy\nx,mqar,97.5\n"), HasSubstr("97.5 is more than 1"));
  EXPECT_THAT(problem("label,task.name,task.associations,eval_loss\nx,recall,8,-3\n"),
              HasSubstr("-3 is below 0; losses are"));
  EXPECT_THAT(problem("label\n"), HasSubstr("holds no rows"));
  EXPECT_THROW(read_published(folder.path() / "missing.csv"), std::invalid_argument);
}

/// A resolved run of the paper's linear memory at S = 200, but for what `change` says.
Record paper_run(const nlohmann::json& change = {}) {
  Record record;
  record.id = "ct-1";
  record.label = "linear";
  record.d_dot = 64;
  record.eval_loss = 0.34;
  record.config = {{"task.name", "recall"},
                   {"task.associations", 200},
                   {"task.queries", 1},
                   {"model.d_key", 64},
                   {"memory.name", "linear_attention"},
                   {"memory.feature_map", "elu1"},
                   {"memory.nu", 0},
                   {"memory.key_norm", "none"},
                   {"memory.read_norm", "attention"},
                   {"train.learning_rate", 0.001},
                   {"train.batch", 32},
                   {"train.max_steps", 100000},
                   {"train.stop_loss", 0.001},
                   {"train.patience", 10},
                   {"eval.every", 100},
                   {"eval.protocol", "schlag2021"}};
  if (change.is_object())
    for (const auto& [key, value] : change.items()) record.config.set(key, value);
  return record;
}

TEST(Published, MatchesEverythingThatIsKnown) {
  const auto points = default_published();
  EXPECT_EQ(points.size(), 144U);
  const PublishedPoint& point = find(points, 1, "linear", 200);
  EXPECT_TRUE(differences(paper_run(), point).empty());
  for (const nlohmann::json& change : std::vector<nlohmann::json>{nlohmann::json{{"model.d_key", 16}},
                                                                  {{"train.batch", 64}},
                                                                  {{"eval.protocol", "uniform"}},
                                                                  {{"memory.feature_map", "relu"}},
                                                                  {{"train.learning_rate", 0.003}},
                                                                  {{"task.associations", 100}}})
    EXPECT_EQ(differences(paper_run(change), point).size(), 1U) << change.dump();
  EXPECT_TRUE(differences(paper_run({{"task.associations", 100}}), point, true).empty());
  Record renamed = paper_run();  // the memory says what it is, whatever it is called
  renamed.label = "mine";
  EXPECT_TRUE(differences(renamed, point).empty());
  renamed.d_dot = 128;
  EXPECT_EQ(differences(renamed, point), std::vector<std::string>{"d_dot (128, published 64)"});
}

TEST(Published, SaysHowManyHaveNoPartnerAndWhy) {
  std::map<std::string, Record> records;
  records["a"] = paper_run({{"model.d_key", 16}});
  EXPECT_TRUE(compare(default_published(), records).empty());
  const auto lines = without_partner(default_published(), records);
  ASSERT_GE(lines.size(), 2U);
  EXPECT_EQ(lines[0], "144 of 144 published points have no run here");
  bool said = false;
  for (const std::string& line : lines) said = said || line.find("no run has the label") != std::string::npos;
  EXPECT_TRUE(said);
}

TEST(Published, OwnResultsNeedALabelALossAndATask) {
  const TemporaryFolder folder;
  spill(
      folder.path() / "own.csv",
      "label,task.name,task.associations,model.d_key,eval_loss\nmine,recall,40,16,0.25\nmine,recall,80,,nan\n");
  const auto points = read_published(folder.path() / "own.csv");
  ASSERT_EQ(points.size(), 2U);
  EXPECT_EQ(points[0].setting, 0);
  EXPECT_EQ(points[0].associations, 40);
  EXPECT_EQ(points[0].known.at("model.d_key"), "16");
  EXPECT_EQ(points[1].known.count("model.d_key"), 0U);
  EXPECT_TRUE(std::isnan(points[1].loss));
}

}  // namespace
TEST(Published, AccuraciesNeedNoLossAndMeetNoLosses) {
  const std::filesystem::path folder =
      std::filesystem::path(CROSSTALK_SOURCE_DIR) / "results/published/literature";
  int files = 0;
  for (const char* name : {"zoology2023_fig2", "based2024_fig2", "mqar_rerun2026", "deltaformer2025_table1",
                           "complex_kda2026_words", "deltanet2024_mqar", "loglinear2025_table6"}) {
    const auto points = read_published(folder / (std::string(name) + ".csv"));
    for (const PublishedPoint& point : points) {
      EXPECT_FALSE(point.has_loss) << name;
      const auto accuracy = point.metrics.find(
          std::string(name) == "complex_kda2026_words" ? "scaled_accuracy" : "eval_accuracy");
      ASSERT_NE(accuracy, point.metrics.end()) << name;
      EXPECT_GE(accuracy->second, 0) << name;
      EXPECT_LE(accuracy->second, 1) << name;
    }
    EXPECT_TRUE(compare(points, {}).empty());
    ++files;
  }
  EXPECT_EQ(files, 7);
}

}  // namespace crosstalk
