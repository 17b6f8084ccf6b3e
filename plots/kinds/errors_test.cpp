// The figure of wrong answers: its CSV, its order, what it refuses.
// SPDX-License-Identifier: Apache-2.0
#include "plots/test_records.h"

namespace crosstalk::errors_test {

RecordMap wrong_answers() {
  RecordMap records;
  for (const char* label : {"delta", "linear"})
    for (int seed = 1; seed <= 2; ++seed) {
      Record& record = add_recall(records, label, seed, 4, 8, 0.1);
      const double old = label[0] == 'l' ? 0.1 * seed : 0;
      record.metrics = {{"test_accuracy", 0.7 - old},
                        {"error_oldest", old},
                        {"error_other_value", 0.25},
                        {"error_never", 0.05},
                        {"error_key", 0}};
    }
  return records;
}

using ErrorsTest = FigureTest;

TEST_F(ErrorsTest, AreMeansOverSeeds) {
  const std::string csv = draw("errors", wrong_answers());
  EXPECT_THAT(csv, HasSubstr("label,d_dot,test_accuracy,n,mean,lo,hi,metric\n"));
  EXPECT_THAT(csv, HasSubstr(",2,0.15000000000000002,0.1,0.2,error_oldest\n"));
  EXPECT_THAT(csv, HasSubstr("delta,,0.7,2,0,0,0,error_oldest\n"));
  EXPECT_THAT(script(), HasSubstr("Oldest value of the key"));
  EXPECT_THAT(script(), Not(HasSubstr("The key itself"))) << "nobody does that";
  EXPECT_THAT(script(), HasSubstr("\"xlim\": [0, 0.5]"));
}

TEST_F(ErrorsTest, OfDivergedRunsAreNone) {
  RecordMap records = wrong_answers();
  records.begin()->second.status = RunStatus::diverged;
  records.begin()->second.metrics.clear();
  EXPECT_THAT(draw("errors", records), HasSubstr("delta,,0.7,1,0,0,0,error_oldest\n"));
}

TEST_F(ErrorsTest, RefusesRunsWithoutThem) {
  RecordMap records = wrong_answers();
  for (auto& [id, record] : records) record.metrics.clear();
  EXPECT_THAT(refusal("errors", records), HasSubstr("errors needs records of recall tasks"));
}

}  // namespace crosstalk::errors_test
