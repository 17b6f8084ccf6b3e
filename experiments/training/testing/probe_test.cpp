// Probes through the machinery of studies: nothing is trained, and what is recorded is what theory says.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "experiments/training/testing/training_fixture.h"
#include "results/numbers/probe_theory.h"
#include "results/test_refusal.h"

namespace crosstalk::checks {
namespace {

const std::string kProbe =
    "model.name = \"probe\"\ntrain.max_steps = 0\nmodel.d_key = 16\neval.sequences = 8\n";
const std::string kSum = "name = \"linear_attention\"\nfeature_map = \"identity\"\nread_norm = \"none\"";
const std::string kDelta = "name = \"delta\"\nfeature_map = \"identity\"\nkey_norm = \"none\"";

std::vector<Run> probes_of(const std::string& memory, int n, const std::string& more = "") {
  return runs_of(kProbe + "task.associations = " + std::to_string(n) + "\n" + more, memory,
                 "{ range = [1, 8] }");
}
std::string refusal(const std::string& more) {
  return crosstalk::testing::refusal_of<std::exception>([&] { probes_of(kSum, 4, more); });
}

TEST(ProbeTraining, RecordsWhatTheorySays) {
  for (const std::string& memory : {kSum, kDelta, std::string("name = \"mesa\"")}) {
    SCOPED_TRACE(memory);
    const auto records = train(probes_of(memory, 32));
    double error = 0, right = 0, snr = 0;
    for (const auto& [id, record] : records) {
      EXPECT_EQ(record.status, RunStatus::done);
      EXPECT_EQ(record.steps, 0);
      EXPECT_EQ(record.metrics.at("parameters"), 0);
      EXPECT_DOUBLE_EQ(record.metrics.at("squared_error"), 2 * record.metrics.at("test_loss"));
      error += record.metrics.at("squared_error") / 8, right += record.metrics.at("test_accuracy") / 8;
      snr += record.metrics.at("snr") / 8;
    }
    const Record& first = records.begin()->second;
    const auto reads = probe_reads(first, 32);
    ASSERT_TRUE(reads.has_value());
    double want = 0, found = 0;
    for (const ProbeRead& read : *reads) {
      want += squared_error(read) / static_cast<double>(reads->size());
      found += recall(read, 16, 32) / static_cast<double>(reads->size());
    }
    EXPECT_NEAR(error, want, 0.08 * want);
    EXPECT_NEAR(right, found, 0.06);
    if (reads->size() == 1) {
      EXPECT_NEAR(snr, reads->at(0).signal * reads->at(0).signal / reads->at(0).noise, 0.12 * snr);
    }
  }
}

TEST(ProbeTraining, StateIsThatOfTheCodesNotOfTheVocabulary) {
  EXPECT_EQ(probes_of(kSum, 40)[0].state_size, 16 * 16);
  EXPECT_EQ(probes_of(kSum, 40, "model.probe_values = 5\n")[0].state_size, 16 * 5);
}

TEST(ProbeTraining, PacksAndThreadsChangeNothing) {
  const auto runs = probes_of(kDelta, 12);
  const auto alone = train(runs, 1), together = train(runs, 0, 2);
  for (const auto& [id, record] : alone) EXPECT_TRUE(identical_records(record, together.at(id))) << id;
}

TEST(ProbeTraining, OrthonormalKeysAreExact) {
  const auto record = train(probes_of(kDelta, 16, "model.probe_keys = \"orthonormal\"\n")).begin()->second;
  EXPECT_LT(record.metrics.at("squared_error"), 1e-10);
  EXPECT_EQ(record.metrics.at("test_accuracy"), 1);
}

// A swap writes nothing under the difference of two keys, which the delta rule follows and the sum rule does not.
TEST(ProbeTraining, SwapsOfOrthonormalKeysAreExact) {
  const std::string swap =
      "model.probe_keys = \"orthonormal\"\ntask.name = \"swap\"\ntask.operations = 40\ntask.query_at = \"end\"\n";
  const auto delta = train(probes_of(kDelta, 8, swap)).begin()->second,
             sum = train(probes_of(kSum, 8, swap)).begin()->second;
  EXPECT_LT(delta.metrics.at("squared_error"), 1e-8);
  EXPECT_EQ(delta.metrics.at("test_accuracy"), 1);
  EXPECT_NEAR(sum.metrics.at("test_accuracy"), sum.metrics.at("baseline_unchanged_accuracy"), 0.1);
  EXPECT_FALSE(probe_reads(delta, 8).has_value());
}

// A model that learns may be looked at before it has learned anything, too.
TEST(ProbeTraining, NoStepIsAStudyOfTheRetrievalModel) {
  const Record record = train_one(runs_of("train.max_steps = 0\n", kDelta));
  EXPECT_EQ(record.steps, 0);
  EXPECT_TRUE(std::isfinite(record.eval_loss));
  EXPECT_GT(record.metrics.at("parameters"), 0);
  EXPECT_EQ(record.metrics.count("snr"), 0u);
}

TEST(ProbeTraining, RefusesWhatItCannotDo) {
  EXPECT_NE(refusal("train.max_steps = 10\n").find("give 0"), std::string::npos)
      << refusal("train.max_steps = 10\n");
  EXPECT_NE(refusal("model.heads = 2\n").find("one head"), std::string::npos);
  EXPECT_NE(refusal("model.probe_keys = \"orthonormal\"\ntask.keys = 20\n").find("cannot be orthonormal"),
            std::string::npos);
  EXPECT_EQ(refusal(""), "");
}

}  // namespace
}  // namespace crosstalk::checks
