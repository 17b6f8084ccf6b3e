// Results of one replica of a pack so far, and the rules that end it.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "experiments/study/study.h"
#include "experiments/training/evaluation.h"
#include "results/store/record.h"

namespace crosstalk {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

struct Slot {
  const Run* run = nullptr;  ///< nullptr: empty
  std::string race = {};
  double device_s = 0;  ///< seconds of the device: its share of its pack's, and of those side by side
  std::int64_t steps = 0, strikes = 0;
  double best = std::numeric_limits<double>::infinity();
  EvalSummary last{kNaN, kNaN, kNaN};
  std::map<std::string, Series> curves;
  std::vector<std::int64_t> promotions;  ///< steps at which a stage of a curriculum was left

  void add_point(const char* name, double y) {
    curves[name].x.push_back(static_cast<double>(steps));
    curves[name].y.push_back(y);
  }

  /// Takes an evaluation into account.
  void evaluated(const EvalSummary& summary) {
    add_point("eval_loss", summary.loss);
    add_point("eval_accuracy", summary.accuracy);
    add_point("eval_exact", summary.exact);
    last = summary;
    strikes = summary.loss < best ? 0 : strikes + 1;
    if (std::isfinite(summary.loss)) best = std::min(best, summary.loss);
  }

  bool is_solved() const {
    const double stop_loss = run->config.get_double("train.stop_loss"),
                 stop_accuracy = run->config.get_double("train.stop_accuracy");
    return (stop_loss > 0 && last.loss <= stop_loss) || (stop_accuracy > 0 && last.accuracy >= stop_accuracy);
  }
  /// Whether its last evaluation ends it. `last_stage`: of its curriculum; a stage that is learned before ends nothing.
  bool ends(bool last_stage) const {
    const Options& config = run->config;
    const bool patient = strikes <= config.get_int("train.patience") || (is_scheduled() && !last_stage);
    return (is_solved() && last_stage) || !patient || steps >= config.get_int("train.max_steps");
  }
  /// Whether it goes on to the next of `stages` stages.
  bool leaves_stage(std::size_t stages) const {
    const Options& config = run->config;
    if (!is_scheduled()) return last.accuracy >= config.get_double("train.promote_accuracy");
    const auto share = static_cast<std::int64_t>(promotions.size() + 1);
    return steps * static_cast<std::int64_t>(stages) >= config.get_int("train.max_steps") * share;
  }
  bool is_scheduled() const { return run->config.get_string("train.promote") == "schedule"; }

  /// Steps that each stage begun so far took, over 1, 2, ...
  Series steps_by_stage() const {
    Series series;
    std::int64_t begin = 0;
    for (std::size_t i = 0; i <= promotions.size(); ++i) {
      const std::int64_t end = i < promotions.size() ? promotions[i] : steps;
      series.x.push_back(static_cast<double>(i + 1));
      series.y.push_back(static_cast<double>(end - begin));
      begin = end;
    }
    return series;
  }
};

}  // namespace crosstalk
