// Progress of a run.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/sharing/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ostream>

#include "experiments/common/text.h"
#include "results/printable.h"

namespace crosstalk::program {
namespace {

constexpr double kRedraw = 0.2, kLine = 30.0;

/// Three significant digits below 100, whole numbers above.
std::string rate(double value) {
  return value < 100 ? fmt::format("{:.3g}", value) : fmt::format("{:.0f}", value);
}

}  // namespace

Progress::Progress(std::ostream& err, ProgressStyle style, ProgressPlan plan, Clock clock, Width width)
    : err_(err),
      style_(style),
      plan_(plan),
      clock_(std::move(clock)),
      width_(std::move(width)),
      started_(clock_()),
      drawn_(style == ProgressStyle::terminal ? started_ - kRedraw : started_) {}

void Progress::finished(RunStatus status, double cost) {
  ++(status == RunStatus::done ? done_ : status == RunStatus::diverged ? diverged_ : failed_);
  cost_ended_ += cost;
}

void Progress::elsewhere(double cost) {
  ++elsewhere_;
  cost_ended_ += cost;
}

void Progress::half_way(double done, double beyond) {
  cost_half_way_ = done;
  cost_beyond_ = beyond;
}

void Progress::stepped(std::int64_t steps) { steps_ += steps; }

std::int64_t Progress::count(RunStatus status) const {
  return status == RunStatus::done ? done_ : status == RunStatus::diverged ? diverged_ : failed_;
}

std::string Progress::line() const {
  const double seconds = elapsed();
  std::string text = fmt::format("{}/{} runs", ended() + elsewhere_, plan_.runs);
  if (elsewhere_ > 0) text += fmt::format(", {} of them by others", elsewhere_);
  if (failed_ > 0) text += fmt::format(", {} failed", failed_);
  if (diverged_ > 0) text += fmt::format(", {} diverged", diverged_);
  if (seconds > 0 && ended() > 0)
    text += fmt::format(", {} runs/s", rate(static_cast<double>(ended()) / seconds));
  if (seconds > 0 && steps_ > 0)
    text += fmt::format(", {} steps/s", rate(static_cast<double>(steps_) / seconds));
  // Runs of one pack end together and early stops cannot be foreseen: the estimate is rough, and says so.
  const double done = cost_ended_ + cost_half_way_;
  if (done > 0 && ended() + elsewhere_ < plan_.runs)
    text += fmt::format(", about {} left",
                        duration(seconds * std::max(0.0, plan_.cost + cost_beyond_ - done) / done));
  return text;
}

void Progress::tick() {
  const double now = clock_();
  if (style_ == ProgressStyle::quiet) return;
  if (now - drawn_ < (style_ == ProgressStyle::terminal ? kRedraw : kLine)) return;
  drawn_ = now;
  if (style_ == ProgressStyle::lines) {
    err_ << "crosstalk: " << line() << '\n' << std::flush;
    return;
  }
  // One column stays free: some terminals wrap when the last one is written.
  const auto room = static_cast<std::size_t>(std::max(1, width_() - 1));
  err_ << "\r\x1b[K" << line().substr(0, room) << std::flush;
  on_screen_ = true;
}

void Progress::announce(const std::string& text) {
  close();
  err_ << printable(text) << std::flush;
}

void Progress::close() {
  if (on_screen_) err_ << "\r\x1b[K" << std::flush;
  on_screen_ = false;
}

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int terminal_width() {
  winsize size = {};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace crosstalk::program
