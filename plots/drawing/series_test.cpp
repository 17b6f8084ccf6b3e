// Choosing records, styles and names of labels.
// SPDX-License-Identifier: Apache-2.0
#include "plots/drawing/series.h"

#include <tuple>

#include "plots/drawing/styles.h"
#include "plots/test_records.h"
#include "results/test_refusal.h"

namespace crosstalk::series_test {

RecordMap three_labels() {
  RecordMap records;
  for (const char* label : {"linear", "dpfp1", "dpfp2"})
    for (int seed = 1; seed <= 2; ++seed) add_recall(records, label, seed, 8, 10 * seed, 0.1);
  for (auto& [id, record] : records) record.config["train.learning_rate"] = 1e-3;
  return records;
}

std::string refused(const RecordMap& records, const std::map<std::string, std::string>& where) {
  return crosstalk::testing::refusal_of([&] { choose_records(list_of(records), where); }, "(chosen)");
}

TEST(ChooseRecords, ComparesTextAndNumbers) {
  const RecordMap records = three_labels();
  EXPECT_EQ(choose_records(list_of(records), {}).size(), 6u);
  EXPECT_EQ(choose_records(list_of(records), {{"label", "linear, dpfp2"}}).size(), 4u);
  EXPECT_EQ(choose_records(list_of(records), {{"train.learning_rate", "1e-3"}}).size(), 6u);
  EXPECT_EQ(choose_records(list_of(records), {{"task.name", "\"recall\""}}).size(), 6u);
  const auto one = choose_records(list_of(records), {{"label", "dpfp1"}, {"task.associations", "20.0"}});
  ASSERT_EQ(one.size(), 1u);
  EXPECT_EQ(one[0]->seed, 2);
}

TEST(ChooseRecords, SaysWhatThereIs) {
  const RecordMap records = three_labels();
  EXPECT_THAT(refused(records, {{"task.asociations", "20"}}),
              HasSubstr("did you mean \"task.associations\"?"));
  EXPECT_THAT(refused(records, {{"task.associations", "30"}}), HasSubstr("there are 10, 20"));
  EXPECT_THAT(refused(records, {{"associations", "20"}}), HasSubstr("did you mean \"task.associations\"?"));
  EXPECT_THAT(refused(records, {{"task", "recall"}}), HasSubstr("did you mean \"task.name\"?"));
}

TEST(ChooseRecords, EveryValueBetweenCommasMustBeThere) {
  const RecordMap records = three_labels();
  EXPECT_EQ(refused(records, {{"label", "linear,dfpf1"}}),
            "--where label=linear,dfpf1: no record matches dfpf1; there are dpfp1, dpfp2, linear");
  // As in the grid of a study, memory is the label.
  EXPECT_EQ(choose_records(list_of(records), {{"memory", "dpfp1"}}).size(),
            choose_records(list_of(records), {{"label", "dpfp1"}}).size());
  EXPECT_EQ(refused(records, {{"memory", "DPFP"}}),
            "--where memory=DPFP: no record matches; there are the labels dpfp1, dpfp2, linear");
  EXPECT_EQ(refused(records, {{"label", "linear,task.associations=20"}}),
            "--where label=linear,task.associations=20: a comma stands between values of label; give another "
            "condition by itself: --where task.associations=20");
  RecordMap two = records;  // a value that another condition takes away is there all the same
  for (auto& [id, record] : two)
    if (record.label == "linear") record.config["task.name"] = "swap";
  EXPECT_EQ(choose_records(list_of(two), {{"label", "linear,dpfp1"}, {"task.name", "recall"}}).size(), 2u);
}

TEST(ChooseRecords, AnUnknownKeyIsSaidUnderItsOption) {
  const RecordMap records = three_labels();
  EXPECT_NO_THROW(check_key(list_of(records), "--by", "task.associations"));
  EXPECT_NO_THROW(check_key(list_of(records), "--by", "label"));
  EXPECT_EQ(crosstalk::testing::refusal_of([&] { check_key(list_of(records), "--by", "associations"); }),
            "--by associations: no record has the key \"associations\"; did you mean \"task.associations\"?");
}

TEST(LabelStyles, KnownLabelsKeepTheirColourInEveryCompany) {
  const auto all = label_styles({"softmax", "linear", "dpfp1", "dpfp2", "mine"});
  const auto some = label_styles({"dpfp2", "linear"});
  EXPECT_EQ(all.at("dpfp2").colour, some.at("dpfp2").colour);
  EXPECT_EQ(all.at("linear").marker, some.at("linear").marker);
  EXPECT_LT(all.at("softmax").rank, all.at("dpfp2").rank);
  EXPECT_LT(all.at("dpfp2").rank, all.at("mine").rank);
}

TEST(LabelStyles, ManyLabelsStayDistinct) {
  std::set<std::string> labels = {"dpfp1", "dpfp1_delta", "softmax", "linear"};
  for (int i = 0; i < 18; ++i) labels.insert("memory" + std::to_string(i));
  std::set<std::tuple<std::string, std::string, std::string>> seen;
  std::set<std::string> solid, colours;
  for (const auto& [label, style] : label_styles(labels)) {
    seen.insert({style.colour, style.marker, style.dash});
    colours.insert(style.colour);
    if (style.dash != "-") continue;
    EXPECT_TRUE(solid.insert(style.colour).second) << label;
  }
  EXPECT_EQ(seen.size(), labels.size());
  EXPECT_EQ(colours.size(), labels.size()) << "each has a colour of its own";
  EXPECT_EQ(solid.size(), 8u);
}

TEST(LabelStyles, OrderAndNamesOfAStudy) {
  const auto styles = label_styles({"a", "b", "softmax"}, {"b", "softmax", "a"}, {{"a", "A, $\\beta$"}});
  EXPECT_LT(styles.at("b").rank, styles.at("softmax").rank);
  EXPECT_LT(styles.at("softmax").rank, styles.at("a").rank);
  EXPECT_EQ(styles.at("a").name, "A, $\\beta$");
  EXPECT_EQ(styles.at("softmax").name, "Softmax");
}

TEST(LabelStyles, WhatIsPublishedSharesNoColour) {
  auto styles = label_styles({"attention", "based", "deltanet", "gated_deltanet", "gla"});
  const auto own = styles;
  add_styles(styles, {"based", "h3", "hyena", "mamba", "mamba2", "rwkv7"});
  std::set<std::string> colours;
  for (const auto& [label, style] : styles) {
    EXPECT_FALSE(style.name.empty()) << label;
    EXPECT_TRUE(colours.insert(style.colour).second) << label;
  }
  EXPECT_EQ(styles.size(), 10u);
  for (const auto& [label, style] : own) EXPECT_EQ(styles.at(label).colour, style.colour) << label;
  std::set<std::string> many;
  for (int i = 0; i < 60; ++i) many.insert("memory" + std::to_string(i));
  add_styles(styles, many);  // more than there are colours: all have one, and the 48 are used
  for (const auto& [label, style] : styles) colours.insert(style.colour);
  EXPECT_EQ(styles.size(), 70u);
  EXPECT_EQ(colours.size(), 48u);
}

TEST(LabelName, LeavesOtherPeoplesLabelsAlone) {
  EXPECT_EQ(label_name("dpfp2"), "DPFP-2");
  EXPECT_EQ(label_name("dpfp1_delta"), "DPFP-1 delta");
  EXPECT_EQ(label_name("linear_tuned"), "linear_tuned");
  EXPECT_EQ(label_name("my_memory"), "my_memory");
  EXPECT_EQ(label_name("cost$"), "cost\\$");
  EXPECT_EQ(label_name("_hidden"), " _hidden");
}

}  // namespace crosstalk::series_test
