// Progress of a run on stderr: one line redrawn on a terminal, a line every 30 s in a log file.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <string>

#include "results/store/record.h"

namespace crosstalk::program {

enum class ProgressStyle {
  quiet,    ///< failures only
  lines,    ///< a line every 30 s
  terminal  ///< one line, redrawn at most 5 times a second
};

struct ProgressPlan {
  std::int64_t runs = 0;  ///< to be trained now
  double cost = 0;        ///< sum of the runs' costs, in any unit
};

/// Not thread-safe: the caller holds one lock around all calls.
class Progress {
 public:
  /// Monotonic seconds; tests bring their own.
  using Clock = std::function<double()>;
  /// Columns of the terminal, asked at every redraw since windows are resized.
  using Width = std::function<int()>;

  Progress(std::ostream& err, ProgressStyle style, ProgressPlan plan, Clock clock, Width width);

  void finished(RunStatus status, double cost);
  /// A run that another process trained.
  void elsewhere(double cost);
  void stepped(std::int64_t steps);
  /// Of the runs that train now: costs done here, and costs beyond those planned since they outlive what was expected.
  void half_way(double done, double beyond);
  /// Draws if it is time to. Called a few times a second.
  void tick();
  /// Prints lines at once, above the line that is redrawn.
  void announce(const std::string& text);
  /// Wipes the redrawn line.
  void close();

  /// "12/60 runs, 3 of them by others, 1 failed, 0.8 runs/s, 3120 steps/s, about 1 min 0 s left".
  std::string line() const;
  std::int64_t count(RunStatus status) const;
  std::int64_t ended() const { return done_ + diverged_ + failed_; }  ///< in this process
  std::int64_t ended_elsewhere() const { return elsewhere_; }
  std::int64_t steps() const { return steps_; }
  double elapsed() const { return clock_() - started_; }

 private:
  std::ostream& err_;
  ProgressStyle style_;
  ProgressPlan plan_;
  Clock clock_;
  Width width_;
  double started_, drawn_;
  double cost_ended_ = 0, cost_half_way_ = 0, cost_beyond_ = 0;
  std::int64_t done_ = 0, diverged_ = 0, failed_ = 0, elsewhere_ = 0, steps_ = 0;
  bool on_screen_ = false;
};

/// Monotonic seconds of this machine.
double steady_seconds();

/// Columns of the terminal behind stderr; 80 if unknown.
int terminal_width();

}  // namespace crosstalk::program
