// Further seeds at chosen rates: which runs of a study are at the best values of other runs, and what is refused.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/program/chosen.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "experiments/common/text.h"
#include "results/test_refusal.h"

namespace crosstalk::program {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

using Runs = std::vector<Run>;  // in tests, Run is a function of theirs

const std::vector<std::string> kRate = {"train.learning_rate"};

std::string study_text(const std::string& seeds, int steps, const std::string& rates = "[0.001, 0.003]") {
  return fmt::format(
      "[study]\nname = \"s\"\nseeds = {}\n[base]\ntask.name = \"recall\"\nmodel.d_key = 4\n"
      "train.batch = 8\ntrain.max_steps = {}\n[memories.a]\nname = \"delta\"\n[memories.b]\nname = \"softmax\"\n"
      "[[grid]]\n\"task.associations\" = [4, 8]\n\"train.learning_rate\" = {}\n",
      seeds, steps, rates);
}

std::vector<Run> runs_of(const std::string& seeds, int steps, const std::string& rates = "[0.001, 0.003]") {
  return parse_study(study_text(seeds, steps, rates), "s.toml").runs;
}

double rate_of(const Run& run) { return run.config.get_double("train.learning_rate"); }

/// The best rate: the larger for delta and 4 associations, else the smaller.
double best_rate(const Run& run) {
  return run.label == "a" && run.config.get_int("task.associations") == 4 ? 0.003 : 0.001;
}

/// As if they had been trained: `loss` says how well.
template <class Loss>
std::map<std::string, Record> trained(const std::vector<Run>& runs, const Loss& loss) {
  std::map<std::string, Record> records;
  for (const Run& run : runs) {
    Record& record = records[run.id];
    record.id = run.id, record.label = run.label, record.seed = run.seed;
    record.config = to_json(run.config);
    record.eval_loss = record.best_eval_loss = loss(run);
  }
  return records;
}

double by_rate(const Run& run) { return rate_of(run) == best_rate(run) ? 0.1 : 0.2; }

std::vector<Run> chosen(const std::vector<Run>& runs, const std::map<std::string, Record>& tried,
                        std::vector<std::string>* said = nullptr) {
  std::vector<std::string> warnings;
  std::vector<Run> kept = chosen_runs(runs, list_of(tried), kRate, BestBy::loss, "--chosen-of x", warnings);
  if (said != nullptr) *said = warnings;
  return kept;
}

std::string refusal(const std::vector<Run>& runs, const std::map<std::string, Record>& tried) {
  return crosstalk::testing::refusal_of([&] { chosen(runs, tried); }, "(chosen)");
}

// Rates from one seed of 2 steps; three seeds of 9 steps are trained at the best.
TEST(Chosen, AllSeedsAtTheRatesThatFewerSeedsAndStepsChose) {
  const Runs all = runs_of("[1, 2, 3]", 9);
  ASSERT_THAT(all, SizeIs(2 * 2 * 2 * 3));
  std::vector<std::string> said;
  const Runs kept = chosen(all, trained(runs_of("[1]", 2), by_rate), &said);
  ASSERT_THAT(kept, SizeIs(2 * 2 * 3));
  for (const auto& run : kept) {
    EXPECT_EQ(rate_of(run), best_rate(run)) << run.label;
    EXPECT_EQ(run.config.get_int("train.max_steps"), 9);
  }
  EXPECT_TRUE(said.empty());
}

// A part of the study, whose memory is told from the others in the store by its label alone.
TEST(Chosen, AStudyOfOneMemoryIsChosenByItsOwnRuns) {
  const std::map<std::string, Record> tried = trained(runs_of("[1]", 2), by_rate);
  for (const char* label : {"a", "b"}) {
    Runs own = runs_of("[1, 2, 3]", 9);
    std::erase_if(own, [&](const auto& run) { return run.label != label; });
    const Runs kept = chosen(own, tried);
    ASSERT_THAT(kept, SizeIs(2 * 3)) << label;
    for (const auto& run : kept) EXPECT_EQ(rate_of(run), best_rate(run)) << label;
  }
}

// A study of one task, whose runs do not differ in it, in a store of more.
TEST(Chosen, AStudyOfOneTaskIsChosenByItsOwnRuns) {
  const std::map<std::string, Record> tried = trained(runs_of("[1]", 2), by_rate);
  for (const std::int64_t associations : {4, 8}) {
    Runs own = runs_of("[1, 2, 3]", 9);
    std::erase_if(own,
                  [&](const auto& run) { return run.config.get_int("task.associations") != associations; });
    const Runs kept = chosen(own, tried);
    ASSERT_THAT(kept, SizeIs(2 * 3)) << associations;
    for (const auto& run : kept) EXPECT_EQ(rate_of(run), best_rate(run)) << run.label << associations;
  }
}

// The same command again, when further seeds are recorded, whatever these turned out to be: the first seed decides.
TEST(Chosen, FurtherSeedsAtTheChosenRatesDoNotChangeTheChoice) {
  const Runs all = runs_of("[1, 2, 3]", 2);
  std::map<std::string, Record> tried = trained(runs_of("[1]", 2), by_rate);
  const Runs kept = chosen(all, tried);
  tried.merge(trained(kept, [](const auto& run) { return run.seed == 1 ? by_rate(run) : 5.0; }));
  std::vector<std::string> said;
  const Runs again = chosen(all, tried, &said);
  ASSERT_EQ(again.size(), kept.size());
  for (std::size_t i = 0; i < kept.size(); ++i) EXPECT_EQ(again[i].id, kept[i].id);
  ASSERT_THAT(said, SizeIs(1));
  EXPECT_THAT(
      said[0],
      HasSubstr(
          "At 4 of 4 points the values were tried with unequal seeds: chosen by the seeds that all of them share (1)."));
}

TEST(Chosen, SaysWhatIsMissingOrAmbiguous) {
  const Runs all = runs_of("[1, 2]", 9);
  std::map<std::string, Record> tried = trained(runs_of("[1]", 2), by_rate);
  std::map<std::string, Record> part = tried;
  std::erase_if(part, [](const auto& one) { return one.second.config.at("task.associations") == 8; });
  // One point that was not tried does not take the others away: its runs are left out, with a word.
  std::vector<std::string> said;
  const Runs kept = chosen(all, part, &said);
  EXPECT_THAT(kept, SizeIs(4));
  for (const auto& run : kept) EXPECT_EQ(run.config.get_int("task.associations"), 4);
  ASSERT_FALSE(said.empty());
  EXPECT_THAT(
      said[0],
      AllOf(
          HasSubstr(
              "--chosen-of x: nothing was tried at 2 of 4 points, whose runs are left out: a, task.associations = 8"),
          HasSubstr("; the nearest run differs in "), HasSubstr("task.associations (4, asked 8)"),
          HasSubstr("; and others")));
  EXPECT_THAT(refusal(all, {}), HasSubstr("none of its 0 runs is at a point of the study"));
  EXPECT_THAT(refusal(runs_of("[1]", 9, "[0.001, 0.01]"), tried),
              HasSubstr("the best train.learning_rate is 0.003, which the study does not have"));

  std::map<std::string, Record> both = tried;  // of 2 steps and of 3, which disagree
  both.merge(trained(runs_of("[1]", 3), [](const auto& run) { return rate_of(run); }));
  EXPECT_THAT(refusal(all, both), HasSubstr("2 best values of train.learning_rate"));

  said.clear();
  chosen(runs_of("[1]", 9, "[0.001, 0.003, 0.01]"), tried, &said);
  ASSERT_THAT(said, SizeIs(1));
  EXPECT_THAT(said[0], HasSubstr("at 4 of 4 points not all values of train.learning_rate"));
}

}  // namespace
}  // namespace crosstalk::program
