// What memories reach against what a token costs them: means over settings, the front, what is refused.
// SPDX-License-Identifier: Apache-2.0
#include "plots/test_records.h"

namespace crosstalk::front_test {

/// Three memories of 64, 128 and 256 floats, the second no better than the first; two settings, of losses a and 4 a.
RecordMap three() {
  RecordMap records;
  const double loss[] = {0.2, 0.3, 0.01};
  for (int i = 0; i < 3; ++i)
    for (const int load : {4, 8})
      for (int seed = 1; seed <= 3; ++seed) {
        Record& record =
            add_record(records, std::string(1, static_cast<char>('a' + i)), seed, 0,
                       {{"task.name", "recall"}, {"task.associations", load}}, loss[i] * load * load / 16);
        record.state_size = 64 << i;
      }
  return records;
}
CROSSTALK_FIGURE_RECORDS(front, three);

using Front = FigureTest;

TEST_F(Front, IsAStairOfMeansOverSettings) {
  options_.x = "state_size";
  const std::string csv = draw("front", three());
  EXPECT_THAT(csv, HasSubstr("label,d_dot,cost,n,median,lo,hi"));
  EXPECT_THAT(csv, HasSubstr("\na,,64,3,0.4,0.4,0.4,"));
  EXPECT_THAT(csv, HasSubstr("\nb,,128,3,0.6,0.6,0.6,"));
  EXPECT_THAT(csv, HasSubstr("\nfront,,64,0,0.4,"));
  EXPECT_THAT(csv, HasSubstr("\nfront,,256,0,0.02"));
  EXPECT_EQ(csv.find("\nfront,,128,"), std::string::npos);
  EXPECT_THAT(caption(), HasSubstr("geometric mean over settings"));
}

}  // namespace crosstalk::front_test
