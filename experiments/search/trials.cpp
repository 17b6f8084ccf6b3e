// SPDX-License-Identifier: Apache-2.0
#include "experiments/search/trials.h"

#include <chrono>
#include <utility>

#include "experiments/search/shuffled_task.h"
#include "results/store/checkpoint.h"

namespace crosstalk::search {
namespace {

constexpr std::pair<const char*, double Outcome::*> kNumbers[] = {{"loss", &Outcome::loss},
                                                                  {"accuracy", &Outcome::accuracy},
                                                                  {"test_loss", &Outcome::test_loss},
                                                                  {"test_accuracy", &Outcome::test_accuracy}};

}  // namespace

Trials::Trials(Settings settings, Journal& journal) : settings_(std::move(settings)), journal_(journal) {
  if (settings_.keeps_records) writer_ = std::make_unique<StoreWriter>(settings_.store);
  for (const nlohmann::json& line : journal.lines()) {
    if (!line.contains("run") || !line["run"].is_string()) continue;
    Outcome one{line.value("steps", std::int64_t{0}), line.value("ended", false),
                line.value("failed", false)};
    for (const auto& [key, value] : kNumbers)
      if (line.contains(key) && line[key].is_number()) one.*value = line[key];
    (one.ended ? ended_ : rested_)[line["run"]] = one;
  }
}

bool Trials::train(const std::string& study, const std::vector<Run>& runs, bool a_third) {
  std::vector<const Run*> left;
  std::set<std::string> asked;
  for (const Run& run : runs) {
    const bool known = ended_.count(run.id) != 0 || (a_third && rested_.count(run.id) != 0);
    if (!known && asked.insert(run.id).second) left.push_back(&run);
  }
  a_third_ = a_third;
  const auto start = std::chrono::steady_clock::now();
  const bool done = train_runs(study, left, settings_.training, *this);
  seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (!done)
    for (const auto& [id, state] : states_) save_checkpoint(settings_.store, id, state);
  return done;
}

const Outcome& Trials::of(const Run& run, bool a_third) const {
  const auto rested = rested_.find(run.id);
  return a_third && rested != rested_.end() ? rested->second : ended_.at(run.id);
}

bool Trials::rests(const Run& run, std::int64_t steps) {
  if (!a_third_ || 3 * steps < run.config.get_int("train.max_steps")) return false;
  const std::lock_guard lock(mutex_);
  resting_.insert(run.id);
  return true;
}

std::string Trials::saved_state(const std::string& id) {
  const std::lock_guard lock(mutex_);
  std::string state;
  if (const auto found = states_.find(id); found != states_.end()) state = found->second;
  if (state.empty()) state = load_checkpoint(settings_.store, id).state;
  if (state.empty()) {
    ++trained_;
    twice_ += begun_.count(id) != 0;
  }
  begun_.insert(id);
  return state;
}

void Trials::save_state(const std::string& id, const std::string& state) {
  const std::lock_guard lock(mutex_);
  if (resting_.erase(id) == 0) return save_checkpoint(settings_.store, id, state);
  states_[id] = state;
  know(id, points_.at(id));
}

void Trials::reject_state(const std::string& id, const std::string&) {
  const std::lock_guard lock(mutex_);
  states_.erase(id);
  drop_checkpoint(settings_.store, id);
}

void Trials::evaluated(const Run& run, const RunPoint& point) {
  points_[run.id] = {point.step, false, false, point.eval_loss, point.eval_accuracy};
}

void Trials::finished(Record&& record) {
  record.provenance.update(settings_.provenance);
  if (writer_) writer_->append(record);
  drop_checkpoint(settings_.store, record.id);
  Outcome one{record.steps, true, record.status == RunStatus::failed};
  if (record.status == RunStatus::done) {
    one.loss = record.eval_loss, one.accuracy = record.eval_accuracy;
    for (const auto& [key, value] : kNumbers)
      if (const auto test = record.metrics.find(key); test != record.metrics.end()) one.*value = test->second;
  }
  const std::lock_guard lock(mutex_);
  states_.erase(record.id);
  know(record.id, one);
}

void Trials::know(const std::string& id, const Outcome& outcome) {
  (outcome.ended ? ended_ : rested_)[id] = outcome;
  nlohmann::json line = {
      {"run", id}, {"steps", outcome.steps}, {"ended", outcome.ended}, {"failed", outcome.failed}};
  for (const auto& [key, value] : kNumbers) line[key] = outcome.*value;  // NaN: null
  journal_.append(line);
}

}  // namespace crosstalk::search
