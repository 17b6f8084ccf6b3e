// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/state/record_of.h"

#include <limits>

namespace crosstalk {

Record record_of(const std::string& study, const Run& run, RunStatus status) {
  Record record;
  record.id = run.id;
  record.study = study;
  record.label = run.label;
  record.status = status;
  record.seed = run.seed;
  for (const auto& [key, value] : run.config.values()) {
    std::visit([&, &name = key](const auto& v) { record.config.set(name, v); }, value);
  }
  record.d_dot = run.d_dot;
  record.state_size = run.state_size;
  record.eval_loss = record.best_eval_loss = record.eval_accuracy = std::numeric_limits<double>::quiet_NaN();
  return record;
}

Record record_of(const std::string& study, const Slot& slot, RunStatus status) {
  Record record = record_of(study, *slot.run, status);
  record.steps = slot.steps;
  record.eval_loss = slot.last.loss;
  record.eval_accuracy = slot.last.accuracy;
  record.best_eval_loss = std::isfinite(slot.best) ? slot.best : kNaN;
  record.metrics["eval_exact"] = slot.last.exact;
  record.curves = slot.curves;
  return record;
}

}  // namespace crosstalk
