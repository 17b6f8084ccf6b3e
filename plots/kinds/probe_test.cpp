// The figure of a probe: its CSV, its theory, what it refuses.
// SPDX-License-Identifier: Apache-2.0
#include "plots/test_records.h"

namespace crosstalk::probe_test {

Record& add_probe(RecordMap& records, const std::string& label, const std::string& memory, int d_key,
                  int load, std::int64_t seed, double error, double recall) {
  Record& record = add_record(records, label, seed, d_key,
                              {{"task.name", "recall"},
                               {"task.associations", load},
                               {"task.values", load},
                               {"model.name", "probe"},
                               {"model.d_key", d_key},
                               {"model.probe_values", d_key},
                               {"model.probe_keys", "random"},
                               {"memory.name", memory}},
                              error / 2);
  record.metrics = {{"squared_error", error}, {"test_accuracy", recall}, {"snr", 1 / error}};
  return record;
}

RecordMap probes() {
  RecordMap records;
  for (const int d_key : {16, 32})
    for (const int load : {8, 32})
      for (int seed = 1; seed <= 3; ++seed) {
        add_probe(records, "sum", "linear_attention", d_key, load, seed, 0.1 * load / d_key * seed,
                  1.0 / seed);
        add_probe(records, "other", "rwkv4", d_key, load, seed, 1, 1.0 / load);
      }
  return records;
}

TEST_F(FigureTest, ProbeGolden) {
  options_.theory = false;
  EXPECT_EQ(
      draw("probe", probes()),
      "label,d_dot,associations,n,median,lo,hi,model.d_key,metric\nsum,16,8,3,0.1,0.05,0.15000000000000002,16,squared_error\nsum,16,32,3,0.4,0.2,0.6000000000000001,16,squared_error\nsum,32,8,3,0.05,0.025,0.07500000000000001,32,squared_error\nsum,32,32,3,0.2,0.1,0.30000000000000004,32,squared_error\nother,16,8,3,1,1,1,16,squared_error\nother,16,32,3,1,1,1,16,squared_error\nother,32,8,3,1,1,1,32,squared_error\nother,32,32,3,1,1,1,32,squared_error\nsum,16,8,3,0.5,0.3333333333333333,1,16,recall\nsum,16,32,3,0.5,0.3333333333333333,1,16,recall\nsum,32,8,3,0.5,0.3333333333333333,1,32,recall\nsum,32,32,3,0.5,0.3333333333333333,1,32,recall\nother,16,8,3,0.125,0.125,0.125,16,recall\nother,16,32,3,0.03125,0.03125,0.03125,16,recall\nother,32,8,3,0.125,0.125,0.125,32,recall\nother,32,32,3,0.03125,0.03125,0.03125,32,recall\n");
  EXPECT_THAT(script(), HasSubstr(R"py("panels": [["16", "$d_{\\mathrm{key}}$ = 16"], ["32",)py"));
  EXPECT_THAT(script(), HasSubstr(R"py("vertical": {})py"));
}

TEST_F(FigureTest, ProbeDrawsTheoryWhereItKnowsTheMemory) {
  const std::string csv = draw("probe", probes());
  EXPECT_THAT(csv, HasSubstr("theory: sum,16,8,0,0.4375,,,16,squared_error\n"));  // (n - 1) / d
  EXPECT_THAT(csv, HasSubstr("theory: sum,32,32,0,0.96875,,,32,squared_error\n"));
  EXPECT_THAT(csv, HasSubstr("theory: sum,32,32,0,0.9"));
  EXPECT_THAT(csv, Not(HasSubstr("theory: other")));
  EXPECT_THAT(script(), HasSubstr(R"py(("theory: sum", 0):)py"));
  EXPECT_THAT(
      script(),
      HasSubstr(
          R"py("vertical": {"16":[[0.7888,"Limit of the sum rule"]],"32":[[1.118,"Limit of the sum rule"]]})py"));
}

TEST_F(FigureTest, AFewOfManyLabelsHaveColoursOfTheirOwn) {
  RecordMap many = probes();
  for (int i = 0; i < 13; ++i)
    add_probe(many, std::string("m").append(std::to_string(i)), "rwkv4", 16, 8, 1, 1, 0.5);
  options_.where = {{"label", "sum,m11,m12"}, {"task.associations", "8"}, {"model.d_key", "16"}};
  LabelledRecords rows = rows_of(many);
  for (int i = 0; i < 13; ++i)
    rows.labels.push_back({"m" + std::to_string(i), "", {}});  // as a study has them
  draw_figure("probe", rows, options_, notes_);
  EXPECT_THAT(script(), Not(HasSubstr(", \"--\")")));
  EXPECT_THAT(script(), HasSubstr(R"py(("m12", 0): ("m12)py"));
}

TEST_F(FigureTest, ProbeRefusesWhatItCannotDraw) {
  RecordMap trained;
  add_recall(trained, "linear", 1, 5, 4, 0.1);
  EXPECT_THAT(refusal("probe", trained), HasSubstr("experiments/probe.toml"));
  RecordMap many;
  for (int i = 0; i < 13; ++i)
    add_probe(many, std::string("m").append(std::to_string(i)), "rwkv4", 8, 4, 1, 1, 0.5);
  EXPECT_THAT(refusal("probe", many), HasSubstr("13 memories"));
  options_.facet = "model.d_key";
  EXPECT_THAT(refusal("probe", probes()), HasSubstr("leave out --facet"));
}

}  // namespace crosstalk::probe_test
