// Progress with a clock that the test moves.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/sharing/progress.h"

#include <gtest/gtest.h>

#include <sstream>

namespace crosstalk::program {
namespace {

class ProgressTest : public testing::Test {
 protected:
  Progress make(ProgressStyle style, ProgressPlan plan, int width = 80) {
    return Progress(
        err_, style, plan, [this] { return now_; }, [width] { return width; });
  }
  /// Text written since the last call.
  std::string written() {
    const std::string text = err_.str();
    err_.str("");
    return text;
  }

  std::ostringstream err_;
  double now_ = 1000;  // not 0: elapsed time counts, not the clock
};

TEST_F(ProgressTest, LineSaysWhatIsKnown) {
  Progress progress = make(ProgressStyle::lines, {60, 60});
  EXPECT_EQ(progress.line(), "0/60 runs");
  for (int i = 0; i < 10; ++i) progress.finished(RunStatus::done, 1);
  progress.finished(RunStatus::failed, 1);
  progress.finished(RunStatus::diverged, 1);
  progress.stepped(31200);
  now_ += 10;
  // 12 of 60 in 10 s: 48 more at the same pace take 40 s.
  EXPECT_EQ(progress.line(), "12/60 runs, 1 failed, 1 diverged, 1.2 runs/s, 3120 steps/s, about 40 s left");
  EXPECT_EQ(progress.ended(), 12);
  EXPECT_EQ(progress.count(RunStatus::done), 10);
}

TEST_F(ProgressTest, TimeLeftIsWeightedByCost) {
  Progress progress = make(ProgressStyle::lines, {2, 10});
  progress.finished(RunStatus::done, 9);  // the long one is over
  now_ += 90;
  EXPECT_NE(progress.line().find("about 10 s left"), std::string::npos) << progress.line();
  progress.finished(RunStatus::done, 1);
  EXPECT_EQ(progress.line().find("left"), std::string::npos) << progress.line();
}

// A tenth of the first run in 3 s: before anything has ended, 10 runs are known to take 300 s.
TEST_F(ProgressTest, TimeLeftCountsRunsThatTrain) {
  Progress progress = make(ProgressStyle::lines, {10, 1000});
  now_ += 3;
  EXPECT_EQ(progress.line(), "0/10 runs");
  progress.half_way(10, 0);
  EXPECT_EQ(progress.line(), "0/10 runs, about 4 min 57 s left");
  progress.half_way(10, 1000);  // and twice as much where runs go on for twice as long as expected
  EXPECT_EQ(progress.line(), "0/10 runs, about 9 min 57 s left");
}

TEST_F(ProgressTest, LogFileGetsALineEvery30Seconds) {
  Progress progress = make(ProgressStyle::lines, {60, 60});
  progress.finished(RunStatus::done, 1);
  for (int i = 0; i < 299; ++i) {
    progress.tick();
    now_ += 0.1;
  }
  EXPECT_EQ(written(), "");
  now_ += 0.2;
  progress.tick();
  const std::string line = written();
  EXPECT_EQ(line.rfind("crosstalk: 1/60 runs, ", 0), 0u) << line;
  EXPECT_EQ(line.find_first_of("\r\x1b"), std::string::npos) << line;
  EXPECT_EQ(line.back(), '\n');
  now_ += 29;
  progress.tick();
  EXPECT_EQ(written(), "");
}

TEST_F(ProgressTest, TerminalIsRedrawnAtMostFiveTimesASecond) {
  Progress progress = make(ProgressStyle::terminal, {60, 60});
  int drawn = 0;
  for (int i = 0; i < 1000; ++i) {  // one second
    progress.tick();
    drawn += written().empty() ? 0 : 1;
    now_ += 0.001;
  }
  EXPECT_GE(drawn, 4);
  EXPECT_LE(drawn, 5);
}

TEST_F(ProgressTest, TerminalLineFitsTheWindow) {
  Progress progress = make(ProgressStyle::terminal, {60, 60}, 20);
  for (int i = 0; i < 12; ++i) progress.finished(RunStatus::failed, 1);
  now_ += 10;
  progress.tick();
  EXPECT_EQ(written(), "\r\x1b[K12/60 runs, 12 fail");
}

TEST_F(ProgressTest, AnnouncementsWipeTheLine) {
  Progress progress = make(ProgressStyle::terminal, {60, 60});
  progress.tick();
  written();
  progress.announce("run ct-1 failed\n");
  EXPECT_EQ(written(), "\r\x1b[Krun ct-1 failed\n");
  progress.announce("run ct-2 failed\n");  // nothing to wipe
  EXPECT_EQ(written(), "run ct-2 failed\n");
}

TEST_F(ProgressTest, QuietStillAnnounces) {
  Progress progress = make(ProgressStyle::quiet, {60, 60});
  now_ += 100;
  progress.tick();
  EXPECT_EQ(written(), "");
  progress.announce("run ct-1 failed\n");
  EXPECT_EQ(written(), "run ct-1 failed\n");
}

}  // namespace
}  // namespace crosstalk::program
