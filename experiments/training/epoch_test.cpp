// The order of segments within an epoch, and the phases of evaluation schedules.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/epoch.h"

#include <gtest/gtest.h>

#include "experiments/training/evaluation_schedule.h"
#include "kernels/optimizer/book_keeping.h"
#include "tasks/testing.h"

namespace crosstalk::checks {
namespace {

using crosstalk::testing::make_task;
using crosstalk::testing::Settings;

std::unique_ptr<Task> mixture() {
  return make_task("mqar", Settings{{"vocabulary", std::int64_t{64}},
                                    {"segments", std::string("16:2:70 32:4:20 16:4:32")}});
}

// Zoology's order: all batches of the first segment, then of the next, a short last batch kept (here: filled up from
// the segment's beginning).
TEST(Epoch, GoesThroughTheSegmentsInOrder) {
  const auto task = mixture();
  const Epoch epoch(*task, 16);
  ASSERT_EQ(epoch.parts().size(), 3u);
  EXPECT_EQ(epoch.steps(), 5 + 2 + 2);
  std::int64_t seen[3] = {0, 0, 0};
  for (std::int64_t step = 0; step < 3 * epoch.steps(); ++step) {
    const std::int64_t within = step % 9;
    const std::size_t part = within < 5 ? 0 : within < 7 ? 1 : 2;
    const Epoch::Place place = epoch.at(step);
    EXPECT_EQ(place.part, part) << step;
    EXPECT_EQ(place.left, (part == 0 ? 5 : part == 1 ? 7 : 9) - within) << step;
    const EpochPart& where = epoch.parts()[part];
    CountBatches<float> count;
    count.epoch = static_cast<std::int32_t>(epoch.steps());
    count.start = static_cast<std::int32_t>(where.start);
    count.steps = static_cast<std::int32_t>(where.steps);
    EXPECT_EQ(count.of(static_cast<std::int32_t>(step)), seen[part]++)
        << "batches of a segment follow each other";
  }
}

TEST(Epoch, IsThePublishedOneOfTheStandardMixture) {
  const auto task = make_task(
      "mqar",
      Settings{{"segments", std::string("64:4:100000 128:8:20000 256:16:20000 256:32:20000 256:64:20000")}});
  EXPECT_EQ(Epoch(*task, 256).steps(), 707);
}

TEST(Epoch, OfASetWithoutSegmentsAndOfAnEndlessStream) {
  const auto finite = make_task("mqar", Settings{{"examples", std::int64_t{100}}});
  EXPECT_EQ(Epoch(*finite, 32).steps(), 4);
  const auto endless = make_task("recall");
  const Epoch epoch(*endless, 32);
  EXPECT_EQ(epoch.steps(), 0);
  EXPECT_GT(epoch.at(123456789).left, 1000000000);
}

TEST(EvaluationSchedule, IsThatOfEvaluationsAndSegments) {
  const auto task = mixture(), plain = make_task("recall");
  const Epoch epoch(*task, 16), none(*plain, 16);
  const auto schedule = [](std::int64_t every, std::int64_t last, const Epoch& of) {
    Options config;
    config.set("eval.every", every);
    config.set("train.max_steps", last);
    return EvaluationSchedule(config, of);
  };
  EXPECT_EQ(schedule(6, 600, none).phase(27), 3);
  EXPECT_EQ(schedule(6, 600, epoch).phase(27), 9) << "lcm(6, 9) = 18";
  EXPECT_EQ(schedule(6, 601, epoch).phase(27), 27) << "the last evaluation comes out of turn";
  EXPECT_EQ(schedule(6, 601, none).to_evaluation(598), 2);
  EXPECT_EQ(schedule(6, 601, none).to_evaluation(600), 1);
}

}  // namespace
}  // namespace crosstalk::checks
