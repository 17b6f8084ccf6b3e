// --set.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "results/test_refusal.h"

#include "experiments/study/study.h"
#include "experiments/study/study_fixture.h"

namespace crosstalk {
namespace {

Study set(const std::vector<std::string>& sets, const std::string& text = example_study()) {
  StudyOptions options;
  options.set = sets;
  return parse_study(fixture_schema(), text, "x.toml", options);
}

std::string product(const std::vector<std::string>& sets) { return set(sets).product; }

std::string error(const std::string& one) {
  const std::string said = crosstalk::testing::refusal_of<ConfigError>([&] { set({one}); });
  EXPECT_NE(said, "") << "accepted: " << one;
  return said;
}

TEST(StudySet, ReplacesInBase) {
  for (const auto& run : set({"train.batch=64"}).runs) EXPECT_EQ(run.config.get_int("train.batch"), 64);
}

TEST(StudySet, OneKeyIsSetOnce) {
  EXPECT_EQ(
      crosstalk::testing::refusal_of<ConfigError>([&] {
        set({"train.batch=64", "seeds=1", "train.batch=32"});
      }),
      "--set train.batch=32: train.batch is set already, by --set train.batch=64; keep one of the two (several "
      "values: --set train.batch=VALUE,VALUE)");
  EXPECT_EQ(set({"train.batch=64", "train.batch = 64"}).runs.at(0).config.get_int("train.batch"), 64);
}

TEST(StudySet, OneValueReplacesAnAxis) {
  const Study study = set({"task.associations=40"});
  EXPECT_EQ(study.product, "3 memories x 2 d_key+learning_rate x 5 seeds = 30 runs");
  for (const auto& run : study.runs) EXPECT_EQ(run.config.get_int("task.associations"), 40);
}

TEST(StudySet, SeveralValuesReplaceAnAxisInItsPlace) {
  EXPECT_EQ(product({"task.associations=40, 60"}),
            "3 memories x 2 associations x 2 d_key+learning_rate x 5 seeds = 60 runs");
  EXPECT_EQ(product({"task.associations=range(40,80,20)"}),
            "3 memories x 3 associations x 2 d_key+learning_rate x 5 seeds = 90 runs");
}

TEST(StudySet, MakesAnAxisWhereNoneWas) {
  EXPECT_EQ(product({"task.associations=40", "train.batch=logrange(16,64)"}),
            "3 memories x 2 d_key+learning_rate x 3 batch x 5 seeds = 90 runs");
}

TEST(StudySet, LeavesTheRestOfAZip) {
  const Study study = set({"model.d_key=8", "task.associations=20"});
  EXPECT_EQ(study.product, "3 memories x 2 learning_rate x 5 seeds = 30 runs");
  EXPECT_EQ(product({"model.d_key=8", "train.learning_rate=1e-2", "task.associations=20"}),
            "3 memories x 5 seeds = 15 runs");
}

TEST(StudySet, ReplacesWhatAMemoryOverrides) {
  const std::string text = example_with("name = \"softmax\"", "name = \"softmax\"\ntrain.batch = 128");
  for (const auto& run : set({"train.batch=4"}, text).runs) EXPECT_EQ(run.config.get_int("train.batch"), 4);
  for (const auto& run : set({"memory.nu=3", "memory=dpfp2"}).runs)
    EXPECT_EQ(run.config.get_int("memory.nu"), 3);
}

TEST(StudySet, Seeds) {
  const std::string rest = "3 memories x 2 d_key+learning_rate x ";
  EXPECT_EQ(product({"task.associations=40", "seeds=7"}), rest + "1 seed = 6 runs");
  EXPECT_EQ(product({"task.associations=40", "seeds=1,2,3"}), rest + "3 seeds = 18 runs");
  EXPECT_EQ(product({"task.associations=40", "seeds=range(0,9)"}), rest + "10 seeds = 60 runs");
  EXPECT_EQ(set({"task.associations=40", "seeds=7"}).runs[0].seed, 7);
}

TEST(StudySet, SelectsMemories) {
  const auto labels = [](const std::string& one, const std::string& text) {
    std::vector<std::string> out;
    for (const auto& run : set({one, "seeds=1", "train.learning_rate=1", "model.d_key=8"}, text).runs) {
      out.push_back(run.label + " " + std::to_string(run.config.get_int("task.associations")));
    }
    return out;
  };
  const std::string two_blocks = example_study().substr(0, example_study().find("[[grid]]")) +
                                 "[[grid]]\nmemory = [\"linear\", \"softmax\"]\ntask.associations = 10\n"
                                 "[[grid]]\nmemory = \"dpfp2\"\ntask.associations = 20\n";
  using Labels = std::vector<std::string>;
  EXPECT_EQ(labels("memory=linear", two_blocks), (Labels{"linear 10"}));
  EXPECT_EQ(labels("memory=dpfp2,softmax", two_blocks), (Labels{"softmax 10", "dpfp2 20"}));
  // A label that no block has joins every block.
  EXPECT_EQ(labels("memory=dpfp1_delta", two_blocks), (Labels{"dpfp1_delta 10", "dpfp1_delta 20"}));
}

// What makes a combination impossible in one part of the study may be what somebody meant to take of another.
TEST(StudySet, ErrorsNameTheConditionThatTakesAPart) {
  const std::string two_blocks =
      example_study().substr(0, example_study().find("[[grid]]")) +
      "[[grid]]\nmemory = \"linear\"\ntask.name = \"recall\"\ntask.associations = 10\n"
      "[[grid]]\nmemory = \"linear\"\ntask.name = \"reassign\"\ntask.update_fraction = 0.5\n";
  const auto message = [&](const std::string& one) -> std::string {
    return crosstalk::testing::refusal_of<ConfigError>([&] { set({one}, two_blocks); }, "accepted");
  };
  const std::string hint =
      " (--set puts task.name = recall into every part of the study; 'run' and 'plan' with --where task.name=recall take the runs that have it)";
  EXPECT_TRUE(message("task.name=recall").ends_with(hint)) << message("task.name=recall");
  EXPECT_FALSE(message("task.name=recoll").ends_with(")")) << "no run has it";
}

TEST(StudySet, StringsNeedNoQuotes) {
  const auto protocol = [](const std::string& one) {
    return set({one, "memory=linear"}).runs[0].config.get_string("eval.protocol");
  };
  EXPECT_EQ(protocol("eval.protocol=uniform"), "uniform");
  EXPECT_EQ(protocol("eval.protocol=\"uniform\""), "uniform");
  EXPECT_EQ(set({"eval.length_factors=1"}).runs[0].config.get_string("eval.length_factors"), "1");
  EXPECT_EQ(
      set({"eval.length_factors=1 2", "task.name=reassign"}).runs[0].config.get_string("eval.length_factors"),
      "1 2");
}

TEST(StudySet, IdsAreThoseOfTheEditedFile) {
  const std::string edited = example_with("train.batch         = 32", "train.batch = 48");
  const Study a = set({"train.batch=48"}), b = set({}, edited);
  ASSERT_EQ(a.runs.size(), b.runs.size());
  for (std::size_t i = 0; i < a.runs.size(); ++i) EXPECT_EQ(a.runs[i].id, b.runs[i].id);
}

TEST(StudySet, ErrorsNameTheSet) {
  const auto expect = [](const std::string& one, const std::string& message) {
    EXPECT_EQ(error(one), "--set " + one + ": " + message);
  };
  expect("train.bach=3", "unknown key train.bach; did you mean train.batch?");
  expect("batch=3", "unknown key batch; did you mean train.batch?");
  expect("train.batch", "wants KEY=VALUE, such as train.batch=64 or seeds=1,2,3");
  expect("train.batch=", "train.batch has no value");
  expect("train.batch=1,,2", "a value between two commas is missing");
  expect("train.batch=many", "train.batch wants an integer, got \"many\"");
  expect("train.batch=8,0", "train.batch = 0 is out of range; it must be between 1 and 1048576");
  expect("train.batch=[1,2]", "[1,2] is no value; write a number, true, false, a word or a \"string\"");
  expect("train.learning_rate=nan", "nan and inf are no values that a study can use");
  expect("memory=lineer", "unknown memory lineer; did you mean linear?");
  expect("label=delta", "memories are chosen by their label: --set memory=LABEL[,LABEL]");
  expect("memory.name=delta", "memories are chosen by their label: --set memory=LABEL[,LABEL]");
  expect("seed=1", "unknown key seed; did you mean seeds? (data_seed and init_seed may be set alone)");
  expect("seeds=one", "seeds wants integers from 0, got \"one\"");
  expect("seeds=-1", "seeds wants integers from 0, got -1");
  expect("seeds=range(5,1)",
         "range is empty: no steps of 1 lead from 5 to 1; write it as range(1,5) or range(20,600,20)");
  expect(
      "task.associations=range(8,64)",
      "range has no step, so that it is every number from 8 to 64; give one, such as range(8,64,8), or 1 for every number");
  expect("seeds=1,range(2,3)", "range(2,3) stands alone; write either a range or a list");
  expect("task.name=recal", "unknown task \"recal\"; did you mean recall?");
  expect("task.update_fraction=0.5",
         "task.update_fraction means nothing to task recall; it belongs to reassign");
  expect("task.keys=10", "task.keys must be at least task.associations");
  expect("memory.d_dot=100", "memory.d_dot = 100 has no solution, got 16");
}

}  // namespace
}  // namespace crosstalk
