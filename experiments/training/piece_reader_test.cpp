// A trained language model says at other lengths in pieces what it says of whole sequences, whatever the task.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "experiments/training/pack.h"
#include "experiments/training/testing/training_fixture.h"
#include "results/test_refusal.h"

namespace crosstalk::checks {
namespace {

/// Runs that are equal but for eval.piece.
std::vector<Run> read_by(const std::string& base, const std::string& memory, int piece) {
  return token_runs_of(base +
                           "model.layers = 2\nmodel.heads = 2\ntrain.batch = 8\ntrain.max_steps = 30\n"
                           "train.learning_rate = 1e-2\neval.every = 30\neval.sequences = 9\neval.piece = " +
                           std::to_string(piece) + "\n",
                       memory, "[1, 2]");
}

void expect_equal(const std::string& base, const std::string& memory, int piece) {
  const std::vector<Run> whole = read_by(base, memory, 0), pieces = read_by(base, memory, piece);
  const Records a = train(whole), b = train(pieces, 2);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    EXPECT_NE(whole[i].id, pieces[i].id) << "another rounding is another run";
    const Record &x = a.at(whole[i].id), &y = b.at(pieces[i].id);
    EXPECT_EQ(x.eval_loss, y.eval_loss) << "validation is read whole";
    ASSERT_FALSE(x.profiles.empty());
    ASSERT_EQ(x.profiles.size(), y.profiles.size());
    for (const auto& [name, series] : x.profiles) {
      const Series& other = y.profiles.at(name);
      ASSERT_EQ(series.x, other.x) << name;
      for (std::size_t j = 0; j < series.y.size(); ++j)
        EXPECT_NEAR(series.y[j], other.y[j], 1e-4 * (1 + std::abs(series.y[j])))
            << name << " at " << series.x[j];
    }
    ASSERT_EQ(x.metrics.size(), y.metrics.size());
    for (const auto& [name, value] : x.metrics)
      EXPECT_NEAR(value, y.metrics.at(name), 1e-4 * (1 + std::abs(value))) << name;
  }
}

TEST(Pieces, ReadAtOtherLengthsAsTheWhole) {
  const std::string induction =
                        "task.name = \"induction\"\ntask.length = 16\neval.length_factors = \"1 2 5\"\n",
                    words = "task.name = \"words\"\ntask.length = 8\neval.length_factors = \"1 3\"\n",
                    mqar =
                        "task.name = \"mqar\"\ntask.vocabulary = 32\ntask.length = 24\ntask.pairs = 4\n"
                        "task.segments = \"16:2:64 24:4:64\"\ntask.test_segments = \"16:2:9 48:8:9\"\n";
  ASSERT_NO_FATAL_FAILURE(expect_equal(induction, "name = \"gated_delta\"", 16));
  ASSERT_NO_FATAL_FAILURE(expect_equal(induction + "model.layer = \"published\"\n", "name = \"mamba1\"", 7));
  ASSERT_NO_FATAL_FAILURE(expect_equal(words, "name = \"deltanet\"", 5));
  ASSERT_NO_FATAL_FAILURE(
      expect_equal(mqar + "model.stack = \"base_conv memory\"\n", "name = \"mamba2\"", 16));
}

TEST(Pieces, AreRefusedWhereTheyCannotBeReadBeforeAnythingIsTrained) {
  const auto refusal = [](const std::string& base, const std::string& memory) {
    return crosstalk::testing::refusal_of<std::exception>([&] { read_by(base, memory, 4); });
  };
  const std::string induction = "task.name = \"induction\"\ntask.length = 16\n";
  EXPECT_NE(refusal(induction, "name = \"softmax\"").find("softmax has none"), std::string::npos);
  EXPECT_NE(refusal(induction + "model.positions = \"learned\"\nmodel.max_length = 64\n", "name = \"delta\"")
                .find("model.positions"),
            std::string::npos);
  EXPECT_EQ(refusal(induction, "name = \"delta\""), "");
}

// A third of a step of as many tokens: reading takes no gradients. What attention reads whole grows with the square.
TEST(Pieces, CountInWhatAStudyTakes) {
  const auto work = [](const char* memory, const char* factors, int piece) {
    const auto runs = read_by("task.name = \"induction\"\ntask.length = 64\neval.length_factors = \"" +
                                  std::string(factors) + "\"\n",
                              "name = \"" + std::string(memory) + "\"", piece);
    return work_of_lengths(runs[0]) / work_of_step(runs[0]);
  };
  const double sequences = 9.0 / 8;  // of a test, of a step
  EXPECT_EQ(work("delta", "", 0), 0);
  EXPECT_NEAR(work("delta", "1", 0), sequences / 3, 1e-2);
  EXPECT_NEAR(work("delta", "16", 64), 16 * sequences / 3, 0.2);
  EXPECT_EQ(work("delta", "16", 64), work("delta", "16", 0));
  EXPECT_GT(work("softmax", "16", 0), 4 * work("delta", "16", 0));
}

}  // namespace
}  // namespace crosstalk::checks
