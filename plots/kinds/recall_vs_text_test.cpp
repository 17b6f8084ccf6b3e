// A task against text: a point a memory, the rank correlation, what is refused.
// SPDX-License-Identifier: Apache-2.0
#include "plots/test_records.h"

namespace crosstalk::recall_vs_text_test {

/// Five memories, the better at recall the fewer bits, but for the last two.
RecordMap both() {
  RecordMap records;
  const double bits[] = {2.4, 2.2, 2.0, 1.7, 1.8}, accuracy[] = {0.2, 0.4, 0.6, 0.8, 0.9};
  for (int i = 0; i < 5; ++i)
    for (int seed = 1; seed <= 3; ++seed) {
      const std::string label(1, static_cast<char>('a' + i));
      add_record(records, label, seed, 0, {{"task.name", "text"}, {"model.name", "language"}}, 1)
          .metrics["test_bits_per_token"] = bits[i] + 0.01 * seed;
      add_record(records, label, seed, 0, {{"task.name", "mqar"}, {"model.name", "language"}}, 1)
          .metrics["test_accuracy"] = accuracy[i] - 0.01 * seed;
    }
  return records;
}
CROSSTALK_FIGURE_RECORDS(recall_vs_text, both);

using RecallVsText = FigureTest;

TEST_F(RecallVsText, IsAPointAMemoryWithTheRankCorrelation) {
  const std::string csv = draw("recall-vs-text", both());
  EXPECT_THAT(csv, HasSubstr("label,d_dot,bits,n,median,lo,hi,censored,unsolved\n"));
  EXPECT_THAT(csv, HasSubstr("\nb,,2.22,3,0.38,0.37,0.39,0,\n"));
  EXPECT_THAT(csv, HasSubstr("\ne,,1.82,3,0.88,"));
  EXPECT_THAT(caption(), HasSubstr("Rank correlation -0.90 [-1.00, 0.17]"));
  EXPECT_THAT(caption(), HasSubstr("over 5 memories"));
  // The stairs from d (1.72 bits, .78) over e (1.82, .88): a, b and c are worse at both.
  EXPECT_THAT(csv,
              HasSubstr("\nfront,,1.72,0,0.78,,,0,\nfront,,1.82,0,0.78,,,0,\nfront,,1.82,0,0.88,,,0,\n"));
  EXPECT_EQ(csv.find("front,,2"), std::string::npos);
}

TEST_F(RecallVsText, FarBitsStandAtTheEdgeAndFamiliesHaveColours) {
  RecordMap records = both();
  for (auto& [id, record] : records) record.config["memory.name"] = record.label == "a" ? "delta" : "softmax";
  options_.memories.families = {{"delta", "erases what it replaces"}};
  draw("recall-vs-text", records);
  EXPECT_THAT(script(), HasSubstr("\"families\": {\"a\":\"erases what it replaces\"}"));
  EXPECT_THAT(caption(), Not(HasSubstr("Arrows")));
  add_record(records, "f", 1, 0, {{"task.name", "text"}}, 1).metrics["test_bits_per_token"] = 9;
  add_record(records, "f", 1, 0, {{"task.name", "mqar"}}, 1).metrics["test_accuracy"] = 1;
  draw("recall-vs-text", records);
  EXPECT_THAT(caption(), HasSubstr("Arrows: beyond the axis"));
}

TEST_F(RecallVsText, OtherRecordsAreRefusedOrLeftOut) {
  RecordMap records = both();
  std::erase_if(records, [](const auto& one) { return one.second.metrics.contains("test_bits_per_token"); });
  EXPECT_THAT(refusal("recall-vs-text", records),
              HasSubstr("task text (0 here) and of one other task (15 here)"));
  records = both();
  add_record(records, "a", 1, 0, {{"task.name", "mqar"}, {"task.pairs", 8}}, 1).metrics["test_accuracy"] = 1;
  EXPECT_THAT(refusal("recall-vs-text", records), HasSubstr("'a' has several runs of seed 1"));
  records = both();
  add_record(records, "f", 1, 0, {{"task.name", "mqar"}}, 1).metrics["test_accuracy"] = 1;
  draw("recall-vs-text", records);
  EXPECT_THAT(notes(), HasSubstr("without a run of text, left out: f"));
}

}  // namespace crosstalk::recall_vs_text_test
