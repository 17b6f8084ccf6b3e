// From records back to runs, and how far records agree.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/program/verify.h"

#include <gtest/gtest.h>

#include <cmath>

#include "experiments/training/state/record_of.h"
#include "results/store/record_io.h"
#include "results/test_refusal.h"

namespace crosstalk::program {
namespace {

Study small_study() {
  return parse_study(
      "[study]\nname = \"s\"\nseeds = [1, 2]\n[base]\ntask.associations = 4\nmodel.d_key = 8\n"
      "train.learning_rate = 2e-3\ntrain.max_steps = 20\neval.every = 10\neval.sequences = 4\n"
      "[memories.softmax]\nname = \"softmax\"\n"
      "[memories.dpfp]\nname = \"delta\"\nfeature_map = \"dpfp\"\nnu = 2\n"
      "[[grid]]\n\"task.name\" = [\"recall\", \"reassign\", \"swap\"]\n",
      "s.toml");
}

/// As a store gives it back: through its line of JSON.
Record stored(const Record& record) { return from_line(to_line(record)).record.value(); }

TEST(Verify, ARecordLeadsBackToItsRun) {
  const Study study = small_study();
  ASSERT_EQ(study.runs.size(), 12u);
  for (const crosstalk::Run& run : study.runs) {
    const crosstalk::Run back = run_of(stored(record_of("s", run, RunStatus::done)));
    EXPECT_EQ(back.id, run.id);
    EXPECT_EQ(back.config, run.config);
    EXPECT_EQ(back.label, run.label);
    EXPECT_EQ(back.seed, run.seed);
    EXPECT_EQ(back.d_dot, run.d_dot);
    EXPECT_EQ(back.state_size, run.state_size);
  }
}

std::string refusal(const Record& record) {
  return crosstalk::testing::refusal_of<std::exception>([&] { run_of(record); }, "accepted");
}

TEST(Verify, AChangedRecordIsRefused) {
  const Record record = stored(record_of("s", small_study().runs[0], RunStatus::done));
  Record changed = record;
  changed.config["train.learning_rate"] = 3e-3;
  EXPECT_NE(refusal(changed).find("the record was changed"), std::string::npos) << refusal(changed);
  changed = record;
  changed.config["task.colour"] = 1;
  EXPECT_NE(refusal(changed).find("no option task.colour"), std::string::npos) << refusal(changed);
  changed = record;
  changed.config["memory.name"] = "elephant";
  EXPECT_NE(refusal(changed).find("no memory 'elephant'"), std::string::npos) << refusal(changed);
  changed = record;
  changed.config["train.max_steps"] = "many";
  EXPECT_NE(refusal(changed), "accepted");
  changed.config["train.max_steps"] = nullptr;
  EXPECT_NE(refusal(changed), "accepted");
}

// An option that was registered after the record was made does not orphan it.
TEST(Verify, AnOptionThatTheRecordDoesNotKnowIsNeutral) {
  const crosstalk::Run run = small_study().runs[0];
  Record record = record_of("s", run, RunStatus::done);
  record.config.erase("eval.length_factors");
  EXPECT_EQ(run_of(record).config, run.config);
}

TEST(Verify, AgreementHasThreeGrades) {
  Record a;
  a.status = RunStatus::done;
  a.eval_loss = a.best_eval_loss = 0.4;
  a.eval_accuracy = 0.5;
  Record b = a;
  EXPECT_EQ(compare(a, b, true, 0.05), Agreement::identical);
  b.eval_loss = std::nextafter(0.4, 1);
  EXPECT_EQ(compare(a, b, true, 0.05), Agreement::differs);
  EXPECT_EQ(compare(a, b, false, 0.05), Agreement::within_tolerance);
  b.eval_loss = 0.4 * 1.04;
  EXPECT_EQ(compare(a, b, false, 0.05), Agreement::within_tolerance);
  b.eval_loss = 0.4 * 1.06;
  EXPECT_EQ(compare(a, b, false, 0.05), Agreement::differs);
  EXPECT_EQ(compare(a, b, false, 0.1), Agreement::within_tolerance);
  a.eval_loss = a.best_eval_loss = 1e-3;
  b.eval_loss = b.best_eval_loss = 9e-3;
  EXPECT_EQ(compare(a, b, false, 0.05), Agreement::within_tolerance);
  b.best_eval_loss = 12e-3;
  EXPECT_EQ(compare(a, b, false, 0.05), Agreement::differs);
  b = a;
  b.eval_loss = std::nan("");
  EXPECT_EQ(compare(a, b, false, 1e9), Agreement::differs);
  b = a;
  b.steps = 1;
  b.status = RunStatus::diverged;
  EXPECT_EQ(compare(a, b, false, 1e9), Agreement::differs);
}

}  // namespace
}  // namespace crosstalk::program
