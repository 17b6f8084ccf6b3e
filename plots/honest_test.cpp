// Figures and tables that say no more than what the runs show: axes, captions, colours, numbers.
// SPDX-License-Identifier: Apache-2.0
#include <regex>

#include "plots/test_records.h"

namespace crosstalk::honest_test {

class HonestTest : public FigureTest {
 protected:
  /// The line below the picture.
  std::string footnote() const {
    std::smatch found;
    const std::string text = script();
    return std::regex_search(text, found, std::regex("\"footnote\": \"(.*)\",\n")) ? found[1].str()
                                                                                   : "(none)";
  }
  std::string colour_of(const std::string& label) const {
    std::smatch found;
    const std::string text = script();
    return std::regex_search(text, found, std::regex("\\(\"" + label + "\", \\d+\\): \\(.*(\"#.*?\", \".\")"))
               ? found[1].str()
               : "(none)";
  }
};

/// One setting: three memories at one load.
RecordMap one_setting() {
  RecordMap records;
  for (int seed = 1; seed <= 3; ++seed)
    for (const char* label : {"deltanet", "gated", "gla"}) {
      Record& record = add_recall(records, label, seed, 8, 8, 0.1 * seed);
      record.config["memory.name"] = label == std::string("gated") ? "gated_delta" : label;
      record.config["model.width"] = 64;
      record.eval_accuracy = 0.5;
      record.curves["eval_loss"] = {{100, 200}, {0.5, record.eval_loss}};
      record.metrics["chance_accuracy"] = 0.125;
    }
  return records;
}

TEST_F(HonestTest, OneSettingStandsAtItsLoadAndOnNoScale) {
  EXPECT_THAT(draw("accuracy", one_setting()), StartsWith("label,d_dot,task.associations,n,"));
  EXPECT_THAT(script(), HasSubstr(" = 8\","));
  EXPECT_THAT(script(), HasSubstr("\"xticks\": [],"));
  draw("updates", one_setting());
  EXPECT_THAT(script(), HasSubstr("\"xlabel\": \"Associations $S$ = 8\","));
  EXPECT_THAT(script(), HasSubstr("\"xlim\": [7.2, 8.8],"));  // in the middle, not on the frame
  EXPECT_THAT(script(), HasSubstr("\"xticks\": [],"));
}

TEST_F(HonestTest, CurvesOfTheBestRateShowValidation) {
  RecordMap records = one_setting();
  for (auto& [id, record] : one_setting()) {
    record.id = id + "0";
    record.config["train.learning_rate"] = 0.01;
    records[record.id] = record;
    records[id].config["train.learning_rate"] = 0.001;
  }
  options_.best = {"train.learning_rate"};
  draw("curves", records);
  EXPECT_THAT(caption(), HasSubstr("chosen for each line; shown is eval_loss."));
  EXPECT_THAT(caption(), Not(HasSubstr("test split")));
  for (auto& [id, record] : records) record.metrics["test_loss"] = 0.5;
  draw("updates", records);
  EXPECT_THAT(caption(),
              HasSubstr("chosen for each line and each x value; shown is the untouched test split."));
}

TEST_F(HonestTest, OneLineBelowThePictureAndTheRestInTheCaption) {
  RecordMap records = one_setting();
  for (auto& [id, record] : records) record.config["memory.feature_map"] = record.label;
  draw("updates", records);
  EXPECT_THAT(footnote(),
              StartsWith("Markers: median over 3 seeds; whiskers: range of 3 seeds (75 % interval)."));
  EXPECT_LE(footnote().size(), 120u);
  EXPECT_THAT(caption(),
              HasSubstr("Labels differ in feature_map: deltanet (deltanet), gated (gated), gla (gla).\n"));
  for (auto& [id, record] : records) record.eval_accuracy = 0.1;
  draw(
      "updates",
      records);  // what makes one doubt comes before all else { EXPECT_THAT(footnote(), HasSubstr("all 9 runs lie within its noise.")); }
  options_.width = 3.25;
  draw("updates", records);
  EXPECT_EQ(footnote(), "Median, range of 3 seeds. 9 of 9 runs at chance.");
  options_.footnote = false;
  draw("updates", records);
  EXPECT_EQ(footnote(), "");
  EXPECT_THAT(caption(), HasSubstr("all 9 runs lie within its noise."));
}

TEST_F(HonestTest, TheCaptionNamesWhatIsDrawn) {
  RecordMap records = one_setting();
  for (const auto& [id, record] : one_setting())
    for (const int load : {16, 32, 64}) {
      if (record.seed > 1 && load == 16) continue;  // 8 stands by itself, 16 has no interval
      Record& other = records[id + std::to_string(load)] = record;
      other.id = id + std::to_string(load), other.config["task.associations"] = load;
    }
  draw("updates", records);
  EXPECT_THAT(caption(),
              HasSubstr("Lines: median over 1 to 3 seeds; bands and whiskers: range of 1 to 3 seeds."));
  std::erase_if(records, [](const auto& one) { return one.second.config["task.associations"] > 20; });
  draw("updates", records);
  EXPECT_THAT(caption(), HasSubstr("Lines: median over 1 to 3 seeds; whiskers: range of 1 to 3 seeds."));
}

// Runs that stop by an accuracy have no loss at which they are solved.
TEST_F(HonestTest, SolvedIsBehindTheCriterionOfTheStudy) {
  RecordMap records = one_setting();
  for (auto& [id, record] : records) {
    record.config["train.stop_accuracy"] = 0.9;
    record.eval_accuracy = record.label == "gla" ? 0.5 : 0.95;
  }
  const std::string solved = "Solved: median validation accuracy at least 0.9, at which training stops";
  for (const char* figure : {"curves", "updates"}) {
    draw(figure, records);
    EXPECT_THAT(caption(), HasSubstr(solved));
    EXPECT_THAT(script(), HasSubstr("\"solved\": None,"));
  }
  EXPECT_THAT(draw("capacity-vs-state", records),
              AllOf(HasSubstr("deltanet,8,64,3,8,"), HasSubstr("gla,8,64,3,0,")));
  EXPECT_THAT(caption(),
              HasSubstr("is solved (median validation accuracy at least 0.9, at which training stops)"));
  options_.threshold = 0.25;
  draw("curves", records);
  EXPECT_THAT(caption(), HasSubstr("Solved: median validation loss at most 0.25."));
}

TEST_F(HonestTest, AMemoryKeepsItsColourWhateverStandsBesideIt) {
  draw("updates", one_setting());
  const std::string gated = colour_of("gated"), gla = colour_of("gla");
  EXPECT_NE(gated, gla);
  RecordMap fewer = one_setting();
  std::erase_if(fewer, [](const auto& entry) { return entry.second.label == "deltanet"; });
  for (auto& [id, record] : fewer)
    if (record.label == "gated") record.label = "a";  // first in the alphabet, and another name
  draw("updates", fewer);
  EXPECT_EQ(colour_of("a"), gated);
  EXPECT_EQ(colour_of("gla"), gla);
  for (auto& [id, record] :
       fewer)  // Mamba first, which does not take the colour of another that is often compared
    if (record.label == "gla") record.label = "A", record.config["memory.name"] = "mamba1";
  draw("updates", fewer);
  EXPECT_EQ(colour_of("a"), gated);
  EXPECT_NE(colour_of("A"), gla);
}

// What a head can hold, beside what it is asked to.
TEST_F(HonestTest, AccuracyMarksTheFeaturesOfAHead) {
  RecordMap records;
  for (const int pairs : {4, 8, 16})
    for (const char* label : {"a", "softmax"}) {
      Record& record = add_record(
          records, label, 1, label[0] == 'a' ? 16 : 0,
          {{"task.name", "mqar"}, {"task.pairs", pairs}, {"model.name", "language"}, {"model.heads", 2}},
          0.5);
      record.eval_accuracy = 0.5;
    }
  draw("accuracy", records);
  EXPECT_THAT(script(), HasSubstr("\"vertical\": [8],"));
  EXPECT_THAT(script(), HasSubstr("\"vertical_name\": \"$d_{\\\\mathrm{dot}}$ of a head\","));
  for (auto& [id, record] : records) record.config["model.heads"] = 8;  // 2 lies outside of the axis
  draw("accuracy", records);
  EXPECT_THAT(script(), HasSubstr("\"vertical\": [],"));
}

TEST_F(HonestTest, LatexHasPowersOfTenShortCaptionsAndPlainNames) {
  RecordMap records = one_setting();
  for (auto& [id, record] : records) record.eval_loss = record.label == "gla" ? 9.76e-6 : 0.00048;
  records.erase(records.begin());  // a seed of deltanet
  const std::string latex = table_text("final", rows_of(records), options_, TableFormat::latex, notes_);
  EXPECT_THAT(latex, HasSubstr("$9.76{\\cdot}10^{-6}$"));
  EXPECT_THAT(latex, Not(HasSubstr("e-6")));
  EXPECT_THAT(latex, HasSubstr("\ndeltanet & "));
  EXPECT_THAT(latex, HasSubstr("Fewer than 3 seeds: deltanet."));
  std::smatch words;
  ASSERT_TRUE(std::regex_search(latex, words, std::regex("caption\\{(.*)\\}\n")));
  const std::string text = words[1].str();
  EXPECT_LE(std::ranges::count(text, ' '), 45) << text;
  EXPECT_THAT(latex, HasSubstr("% needs \\usepackage{booktabs"));
}

}  // namespace crosstalk::honest_test
