// The choice of records: what every reported learning rate rests on.
// SPDX-License-Identifier: Apache-2.0
#include "results/numbers/select.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "results/numbers/verdict.h"
#include "results/test_refusal.h"

namespace crosstalk {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kRate = "train.learning_rate";

/// Runs by hand: each has a place of its own in the list.
class Runs {
 public:
  Record& add(double rate, std::int64_t seed, double loss, int associations = 20,
              const std::string& label = "linear") {
    Record record;
    record.id = "ct-" + std::to_string(all_.size());
    record.label = label;
    record.seed = seed;
    record.config = {{"task.associations", associations}, {kRate, rate}};
    record.eval_loss = loss;
    record.best_eval_loss = 0.01;
    record.eval_accuracy = 0.5;
    return all_[record.id] = record;
  }
  RecordList list() const { return list_of(all_); }
  std::map<std::string, Record>& all() { return all_; }
  /// The rates of what is chosen, one a run.
  std::vector<double> best(BestBy by = BestBy::loss) const {
    std::vector<double> rates;
    for (const Record* record : choose_best(list(), {kRate}, by))
      rates.push_back(*config_number(*record, kRate));
    return rates;
  }

 private:
  std::map<std::string, Record> all_;
};

TEST(ChooseBest, TakesTheSmallestMedianOfTheLossAtTheEnd) {
  Runs runs;
  for (const double loss : {0.1, 0.2, 0.9}) runs.add(1e-3, static_cast<std::int64_t>(10 * loss), loss);
  for (const double loss : {0.1, 0.3, 0.4})
    runs.add(1e-2, static_cast<std::int64_t>(loss == 0.4 ? 9 : loss == 0.3 ? 2 : 1), loss);
  EXPECT_THAT(runs.best(), ElementsAre(1e-3, 1e-3, 1e-3));  // .2 against .3; means would say the other
}

TEST(ChooseBest, OfEqualLossesTheFirstValue) {
  Runs runs;
  runs.add(1e-2, 1, 0.25);
  runs.add(1e-3, 1, 0.25);
  runs.add(3e-3, 1, 0.25);
  EXPECT_THAT(runs.best(), ElementsAre(1e-3));
  EXPECT_THAT(runs.best(BestBy::accuracy), ElementsAre(1e-3));
}

TEST(ChooseBest, ByAccuracyTheLargest) {
  Runs runs;
  runs.add(1e-3, 1, 0.1).eval_accuracy = 0.7;
  runs.add(1e-2, 1, 0.2).eval_accuracy = 0.8;
  EXPECT_THAT(runs.best(), ElementsAre(1e-3));
  EXPECT_THAT(runs.best(BestBy::accuracy), ElementsAre(1e-2));
  runs.all().begin()->second.eval_accuracy = std::nan("");
  EXPECT_THAT(crosstalk::testing::refusal_of([&] { runs.best(BestBy::accuracy); }),
              HasSubstr("have no eval_accuracy"));
}

TEST(ChooseBest, DivergedIsTheWorstAndFailedIsNotThere) {
  Runs runs;
  runs.add(1e-3, 1, 5);
  runs.add(1e-2, 1, 0.001).status = RunStatus::diverged;
  runs.add(3e-2, 1, 0.001).status = RunStatus::failed;
  EXPECT_THAT(runs.best(), ElementsAre(1e-3));
  Record& silent = runs.add(1e-1, 1, std::nan(""));
  silent.best_eval_loss = silent.eval_accuracy = std::nan("");
  EXPECT_THAT(runs.best(), ElementsAre(1e-3));
}

TEST(ChooseBest, AFailedSeedIsNoSeedOfItsRate) {
  Runs runs;
  for (const int seed : {1, 2, 3}) {
    runs.add(1e-3, seed, 0.1).status = seed == 1 ? RunStatus::done : RunStatus::failed;
    runs.add(1e-2, seed, 0.2);
  }
  EXPECT_THAT(runs.best(), ElementsAre(1e-3));  // by the one seed that both have
}

TEST(ChooseBest, BySharedSeedsAndForEachSetting) {
  Runs runs;
  runs.add(1e-3, 1, 0.3);
  runs.add(1e-3, 2, 0.01);  // a seed that the other rate does not have
  runs.add(1e-3, 3, 0.01);
  runs.add(1e-2, 1, 0.2);
  runs.add(1e-3, 1, 0.1, 40);
  runs.add(1e-2, 1, 0.2, 40);
  EXPECT_THAT(runs.best(), ElementsAre(1e-2, 1e-3));
  EXPECT_EQ(
      unequal_seeds_text(runs.list(), {kRate}),
      "At 1 of 2 points the values were tried with unequal seeds: chosen by the seeds that all of them share (1).");
  for (auto& [id, record] : runs.all())
    if (record.seed == 1 && *config_number(record, kRate) == 1e-2) record.seed = 7;
  EXPECT_THAT(runs.best(), ElementsAre(1e-3, 1e-3, 1e-3, 1e-3));  // none is shared: by all
}

TEST(ChooseBest, OfARacedPointTheBestOfEachSeedAndNeverOneThatWasOutrun) {
  Runs runs;
  const auto outrun = [&](double rate, std::int64_t seed) {
    runs.add(rate, seed, 1e-9).metrics[kOutrun] = 1;
  };
  runs.add(1e-3, 1, 0.3);
  outrun(1e-2, 1);
  outrun(1e-3, 2);
  runs.add(1e-2, 2, 0.2);
  runs.add(1e-2, 3, 0.2);  // solved at one evaluation
  runs.add(1e-3, 3, 0.1);
  runs.add(1e-3, 1, 0.5, 40);  // solved by nobody
  runs.add(1e-2, 1, 0.4, 40);
  EXPECT_THAT(runs.best(), ElementsAre(1e-3, 1e-2, 1e-3, 1e-2));
  EXPECT_EQ(edge_choices(runs.list(), {kRate}, kRate).at(0).choices, 1);
  EXPECT_EQ(unequal_seeds_text(runs.list(), {kRate}), "");
}

TEST(ChooseBest, RefusesWhereNothingIsToBeChosen) {
  Runs runs;
  runs.add(1e-3, 1, 0.3);
  runs.add(1e-2, 1, 0.3, 40);
  EXPECT_THAT(crosstalk::testing::refusal_of([&] { runs.best(); }),
              HasSubstr("no two runs differ in it alone"));
  EXPECT_THAT(crosstalk::testing::refusal_of([&] { choose_best(runs.list(), {"train.learning_rat"}); }),
              HasSubstr("did you mean \"train.learning_rate\"?"));
  for (const char* seed : {"seed", "data_seed", "init_seed"})
    EXPECT_THAT(crosstalk::testing::refusal_of([&] { choose_best(runs.list(), {seed}); }),
                HasSubstr("the luckiest of the repeats"));
  EXPECT_THAT(crosstalk::testing::refusal_of([&] { check_varies(runs.list(), {"label"}); }),
              HasSubstr("it is linear in all runs"));
}

TEST(EdgeChoices, CountBothEndsOfTheGrid) {
  Runs runs;
  for (const auto& [associations, best] : {std::pair{20, 1e-3}, {40, 1e-2}, {80, 1e-1}, {160, 1e-1}})
    for (const double rate : {1e-3, 1e-2, 1e-1}) runs.add(rate, 1, rate == best ? 0.1 : 0.2, associations);
  runs.add(1e-2, 1, 0.1, 320);  // of one rate: no choice
  const auto edges = edge_choices(runs.list(), {kRate}, kRate);
  ASSERT_EQ(edges.size(), 1U);
  EXPECT_EQ(edges[0].choices, 4);
  EXPECT_EQ(edges[0].smallest, 1);
  EXPECT_EQ(edges[0].largest, 2);
  EXPECT_EQ(
      edges_text(edges),
      "The best learning rate is the largest tried for linear (2 of 4 points); the smallest tried for linear (1 of 4 "
      "points): a better one may lie beyond.");
  EXPECT_EQ(edges_text({}), "");
}

TEST(ChooseRecords, ByTextNumberAndPattern) {
  Runs runs;
  runs.add(1e-3, 1, 0.1, 20, "dpfp-1").provenance = {{"semantics", 3}};
  runs.add(1e-2, 2, 0.1, 40, "dpfp-2").provenance = {{"semantics", 4}};
  runs.add(1e-2, 3, 0.1, 80, "delta").provenance = {{"semantics", 4}};
  const auto count = [&](const std::map<std::string, std::string>& where) {
    return choose_records(runs.list(), where).size();
  };
  EXPECT_EQ(count({{kRate, "0.010"}}), 2U);
  EXPECT_EQ(count({{"label", "dpfp-*"}}), 2U);
  EXPECT_EQ(count({{"label", "dpfp-*"}, {kRate, "1e-2"}}), 1U);
  EXPECT_EQ(count({{"task.associations", "20, 80"}}), 2U);
  EXPECT_EQ(count({{"semantics", "4"}}), 2U);
  EXPECT_THAT(crosstalk::testing::refusal_of([&] { count({{"label", "delta,dlta"}}); }), HasSubstr("dlta"));
  EXPECT_THAT(crosstalk::testing::refusal_of([&] { count({{"seed", "4"}}); }), HasSubstr("1, 2, 3"));
  EXPECT_THAT(crosstalk::testing::refusal_of([&] {
                count({{"label", "delta"}, {"seed", "1"}});
              }),
              HasSubstr("no record matches; there are 3"));
}

TEST(ChooseRecords, NoneIsAlsoNoSuchKey) {
  Runs runs;
  runs.add(1e-3, 1, 0.1, 20, "text").config.erase("task.associations");
  runs.add(1e-3, 1, 0.1, 20, "recall");
  runs.add(1e-3, 1, 0.1, 40, "recall");
  const auto count = [&](const std::string& wanted) {
    return choose_records(runs.list(), {{"task.associations", wanted}}).size();
  };
  EXPECT_EQ(count("20"), 1U);
  EXPECT_EQ(count("20,none"), 2U);
  EXPECT_EQ(count("20, none"), 2U);
  EXPECT_EQ(count("none"), 1U);
  EXPECT_EQ(count("*"), 2U);
  EXPECT_THAT(crosstalk::testing::refusal_of([&] {
                choose_records(runs.list(), {{"seed", "1,none"}});
              }),
              HasSubstr("none"));
}

TEST(SortedValues, NumbersByTheirValueThenWords) {
  EXPECT_THAT(sorted_values({"10", "b", "9", "1e-3", "a", "9"}), ElementsAre("1e-3", "9", "10", "a", "b"));
}

TEST(Repeats, OfOneSeedCountOnceOrAreRefused) {
  Runs runs;
  runs.add(1e-3, 1, 0.1);
  runs.add(1e-3, 2, 0.2);
  runs.add(1e-2, 1, 0.1);
  runs.add(1e-3, 1, 0.1, 20, "other");
  EXPECT_EQ(drop_repeats(runs.all()), "");
  EXPECT_EQ(runs.all().size(), 4U);
  runs.add(1e-3, 1, 0.1);
  runs.add(1e-3, 2, 0.2);
  runs.add(1e-3, 2, 7).status = RunStatus::failed;
  EXPECT_EQ(drop_repeats(runs.all(), {{"ct-0", "a.csv:2"}, {"ct-4", "b.csv:2"}}),
            "b.csv:2 repeats a.csv:2, and 1 more rows repeat others");
  EXPECT_EQ(runs.all().size(), 5U);
  runs.add(1e-3, 2, 0.25).provenance = {{"semantics", 3}};
  const std::string message = crosstalk::testing::refusal_of([&] { drop_repeats(runs.all()); });
  EXPECT_THAT(message, HasSubstr("run ct-1 and run ct-5 (semantics 3) are of one label (\"linear\")"));
  runs.all().at("ct-5").config["data_seed"] = 5;
  EXPECT_EQ(drop_repeats(runs.all()), "");
}

TEST(Repeats, OneTrainingUnderTwoSeedsCountsOnce) {
  Runs runs;
  for (const int seed : {1, 2}) runs.add(1e-3, seed, 0.1).config["data_seed"] = 7;
  EXPECT_EQ(drop_repeats(runs.all()), "");  // each has its initialisation
  for (auto& [id, record] : runs.all()) record.config["init_seed"] = 7;
  EXPECT_EQ(drop_repeats(runs.all()), "run ct-1 repeats run ct-0");
  Record& other = runs.add(1e-3, 3, 0.2);
  other.config["data_seed"] = 7;
  other.config["init_seed"] = 7;
  EXPECT_THAT(crosstalk::testing::refusal_of([&] { drop_repeats(runs.all()); }),
              HasSubstr("data_seed (7) and initialisation, whatever their seeds (1, 3), and differ"));
  Runs given;
  for (const int seed : {1, 2}) {
    Record& record = given.add(1e-3, 1, 0.1);
    record.config["init_seed"] = seed;
    record.config["train.init_from"] = "s:ct-0";
  }
  EXPECT_EQ(drop_repeats(given.all()), "run ct-1 repeats run ct-0");
}

// A table spells numbers and empty texts otherwise than a store, and may lack curves and columns.
TEST(Repeats, AreFoundInTablesToo) {
  Runs runs;
  Record& stored = runs.add(1e-3, 1, 0.1);
  stored.config["task.associations"] = 20U;
  stored.config["eval.length_factors"] = "";
  stored.curves["eval_loss"] = {{1}, {0.1}};
  stored.d_dot = 8;
  Record& row = runs.add(1e-3, 1, 0.1);
  row.config["task.associations"] = 20.0;
  row.id = "b.csv:2";
  EXPECT_EQ(drop_repeats(runs.all(), {{"ct-1", "b.csv:2"}}), "b.csv:2 repeats run ct-0");
  ASSERT_EQ(runs.all().size(), 1U);
  EXPECT_EQ(runs.all().begin()->second.curves.size(), 1U);
}

TEST(Pooled, ABlankCellBesideAValueIsADifference) {
  Runs runs;
  runs.add(1e-3, 1, 0.1).config["model.heads"] = 8;
  Record& other = runs.add(1e-3, 2, 0.1);
  EXPECT_EQ(pooled_differences(runs.list()).key, "");  // of another version of the program
  other.id = "own.csv:3";
  EXPECT_EQ(pooled_differences(runs.list()).key, "model.heads");
  EXPECT_EQ(pooled_differences(runs.list()).value, "8");
}

TEST(Pooled, SemanticsTellRunsApartWhereTheyAreKnown) {
  Runs runs;
  runs.add(1e-3, 1, 0.1).provenance = {{"semantics", 4}};
  runs.add(1e-3, 2, 0.1);
  EXPECT_EQ(pooled_differences(runs.list()).key, "");
  runs.add(1e-2, 1, 0.2).provenance = {{"semantics", 5}};
  runs.add(1e-2, 2, 0.3).provenance = {{"semantics", 4}};
  EXPECT_EQ(pooled_differences(runs.list()).key, "semantics");
  EXPECT_EQ(pooled_differences(runs.list()).value, "4");
  EXPECT_THAT(pooled_differences(runs.list()).differing,
              ElementsAre("semantics (4, 5)", "train.learning_rate (0.001, 0.01)"));
  // Of semantics 4 alone two rates are held against each other.
  EXPECT_THAT(runs.best(), ElementsAre(1e-3, 1e-3, 1e-2));
}

TEST(Pooled, NamesTheKeyThatSaysMost) {
  Runs runs;
  runs.add(1e-3, 1, 0.1, 20);
  runs.add(1e-2, 1, 0.1, 40);
  EXPECT_EQ(pooled_differences(runs.list()).key, "task.associations");
  EXPECT_EQ(pooled_differences(runs.list()).value, "20");
  EXPECT_THAT(pooled_differences(runs.list()).differing,
              ElementsAre("task.associations (20, 40)", "train.learning_rate (0.001, 0.01)"));
  Runs rates;
  rates.add(1e-3, 1, 0.1);
  rates.add(1e-2, 1, 0.1);
  EXPECT_EQ(pooled_differences(rates.list()).key, kRate);
  EXPECT_EQ(pooled_differences({}).key, "");
}

TEST(StateBytes, AreFourAFloatWhereNobodySaysOtherwise) {
  Runs runs;
  Record& record = runs.add(1e-3, 1, 0.1);
  EXPECT_EQ(state_bytes(record), 0);
  record.state_size = 64;
  EXPECT_EQ(state_bytes(record), 256);
  record.metrics[kStateBytes] = 100;
  EXPECT_EQ(state_bytes(record), 100);
  EXPECT_EQ(state_floats(record), 64);
  record.state_size = 0;
  EXPECT_EQ(state_floats(record), 25);
}

}  // namespace
}  // namespace crosstalk
