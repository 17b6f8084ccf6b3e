// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/state/run_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>

#include "kernels/base/text/narrow.h"
#include "kernels/optimizer/book_keeping.h"
#include "results/json_bounds.h"

namespace crosstalk {
namespace {

constexpr int kVersion = 2;  // 1: without norms of gradients

// Doubles as their bits: infinity and NaN have no JSON, and nothing may be rounded.
nlohmann::json bits(const std::vector<double>& values) {
  nlohmann::json result = nlohmann::json::array();
  for (const double x : values) result.push_back(std::bit_cast<std::uint64_t>(x));
  return result;
}

std::uint64_t word_of(const nlohmann::json& word) {
  if (!word.is_number_unsigned()) throw std::runtime_error("a number is not written as its bits");
  return word.get<std::uint64_t>();
}

std::vector<double> doubles(const nlohmann::json& words) {
  std::vector<double> result;
  for (const auto& word : words) result.push_back(std::bit_cast<double>(word_of(word)));
  return result;
}

std::int64_t integer(const nlohmann::json& head, const char* key) {
  const std::optional<std::int64_t> number = integer_of(head.at(key));
  if (!number) throw std::runtime_error(fmt::format("{} is no 64-bit integer", key));
  return *number;
}

bool same(double a, double b) { return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b); }

// The learning curves have a point an evaluation, at its step.
std::string misfit_of_curves(const RunState& state, std::int64_t every) {
  static const std::vector<std::string> names = {
      "eval_accuracy",         "eval_exact",           "eval_loss",
      "gradient_norm_largest", "gradient_norm_median", "train_loss"};
  for (const auto& [name, curve] : state.curves) {
    if (std::find(names.begin(), names.end(), name) == names.end())
      return fmt::format("it has a learning curve '{}'", name);
  }
  for (const std::string& name : names) {
    const auto found = state.curves.find(name);
    const Series curve = found == state.curves.end() ? Series() : found->second;
    const auto points = static_cast<std::size_t>(state.evaluations);
    if (curve.x.size() != points || curve.y.size() != points)
      return fmt::format("its curve {} does not have {} points", name, points);
    for (std::size_t i = 0; i < points; ++i) {
      if (curve.x[i] != static_cast<double>(every) * static_cast<double>(i + 1))
        return fmt::format("its curve {} has points where no evaluation was", name);
    }
  }
  return "";
}

// Stages are left at evaluations, one after the other.
std::string misfit_of_promotions(const RunState& state, std::int64_t every) {
  std::int64_t last = 0;
  for (const std::int64_t step : state.promotions) {
    if (step <= last || step > state.steps || step % every != 0)
      return fmt::format("it left a stage at step {} of {}", step, state.steps);
    last = step;
  }
  return "";
}

}  // namespace

std::string misfit(const RunState& state, const Run& run) {
  if (state.id != run.id) return fmt::format("it is the state of run {}", state.id);
  const std::int64_t every = run.config.get_int("eval.every"), last = run.config.get_int("train.max_steps");
  if (state.steps <= 0 || state.steps >= last)
    return fmt::format("it stands at step {} of {}", state.steps, last);
  if (state.evaluations != state.steps / every)
    return fmt::format("it has {} evaluations in {} steps, one every {}", state.evaluations, state.steps,
                       every);
  std::string why = misfit_of_curves(state, every);
  if (!why.empty()) return why;
  why = misfit_of_promotions(state, every);
  if (!why.empty()) return why;
  double best = std::numeric_limits<double>::infinity();
  std::int64_t strikes = 0;
  const std::int64_t stage = state.promotions.empty() ? 0 : state.promotions.back() / every;
  for (std::int64_t i = stage; i < state.evaluations; ++i) {
    const double loss = state.curves.at("eval_loss").y[static_cast<std::size_t>(i)];
    strikes = loss < best ? 0 : strikes + 1;
    best = std::min(best, loss);
  }
  if (!same(best, state.best) || strikes != state.strikes)
    return "its best loss, or how long ago that was, is not that of its curve";
  if (state.report.size() != static_cast<std::size_t>(report_size(narrow<int>(run.config, "eval.every"))))
    return "it has a report of another size";
  const double steps = state.report[report_train_steps], diverged = state.report[report_diverged_step];
  if (steps != static_cast<double>((state.steps - 1) % every + 1))
    return "it has counted other steps since its last evaluation";
  if (state.report[report_norms] != steps) return "it has norms of gradients of other steps";
  if (!(diverged >= 0 && diverged <= static_cast<double>(state.steps)))
    return fmt::format("it diverged at step {} of {}", diverged, state.steps);
  return "";
}

std::string to_bytes(const RunState& state) {
  nlohmann::json head = {{"version", kVersion},          {"id", state.id},
                         {"steps", state.steps},         {"evaluations", state.evaluations},
                         {"strikes", state.strikes},     {"best", bits({state.best})},
                         {"report", bits(state.report)}, {"bytes", state.parameters.size()},
                         {"device_s", state.device_s}};
  if (!state.promotions.empty()) head["promotions"] = state.promotions;
  for (const auto& [name, curve] : state.curves)
    head["curves"][name] = {{"x", bits(curve.x)}, {"y", bits(curve.y)}};
  return head.dump() + "\n" + state.parameters;
}

RunState run_state(const std::string& bytes) {
  RunState state;
  try {
    const std::size_t line = bytes.find('\n');
    if (line == std::string::npos) throw std::runtime_error("no header");
    if (nests_deeply(std::string_view(bytes).substr(0, line))) throw std::runtime_error("nested too deep");
    const auto head = nlohmann::json::parse(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(line));
    if (head.at("version") != kVersion) throw std::runtime_error("another version");
    state.id = head.at("id");
    state.steps = integer(head, "steps");
    state.evaluations = integer(head, "evaluations");
    state.strikes = integer(head, "strikes");
    state.best = doubles(head.at("best")).at(0);
    state.report = doubles(head.at("report"));
    state.device_s = head.value("device_s", 0.0);
    const nlohmann::json curves = head.value("curves", nlohmann::json::object());
    for (const auto& [name, curve] : curves.items()) {
      state.curves[name] = {doubles(curve.at("x")), doubles(curve.at("y"))};
    }
    for (const auto& step : head.value("promotions", nlohmann::json::array())) {
      const std::optional<std::int64_t> number = integer_of(step);
      if (!number) throw std::runtime_error("a promotion is no step");
      state.promotions.push_back(*number);
    }
    state.parameters = bytes.substr(line + 1);
    if (state.parameters.size() != word_of(head.at("bytes"))) throw std::runtime_error("cut short");
  } catch (const std::exception& error) {
    throw std::runtime_error(std::string("it cannot be read: ") + error.what());
  }
  return state;
}

}  // namespace crosstalk
