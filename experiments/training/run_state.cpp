// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/run_state.h"

#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace crosstalk {
namespace {

constexpr int kVersion = 1;

// Doubles as their bits: infinity and NaN have no JSON, and nothing may be rounded.
nlohmann::json bits(const std::vector<double>& values) {
  nlohmann::json result = nlohmann::json::array();
  for (const double x : values) result.push_back(std::bit_cast<std::uint64_t>(x));
  return result;
}

std::vector<double> doubles(const nlohmann::json& words) {
  std::vector<double> result;
  for (const auto& word : words) result.push_back(std::bit_cast<double>(word.get<std::uint64_t>()));
  return result;
}

}  // namespace

std::string to_bytes(const RunState& state) {
  nlohmann::json head = {{"version", kVersion},          {"id", state.id},
                         {"steps", state.steps},         {"evaluations", state.evaluations},
                         {"strikes", state.strikes},     {"best", bits({state.best})},
                         {"report", bits(state.report)}, {"bytes", state.parameters.size()}};
  for (const auto& [name, curve] : state.curves)
    head["curves"][name] = {{"x", bits(curve.x)}, {"y", bits(curve.y)}};
  return head.dump() + "\n" + state.parameters;
}

RunState run_state(const std::string& bytes) {
  RunState state;
  try {
    const std::size_t line = bytes.find('\n');
    if (line == std::string::npos) throw std::runtime_error("no header");
    const auto head = nlohmann::json::parse(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(line));
    if (head.at("version") != kVersion) throw std::runtime_error("another version");
    state.id = head.at("id");
    state.steps = head.at("steps");
    state.evaluations = head.at("evaluations");
    state.strikes = head.at("strikes");
    state.best = doubles(head.at("best")).at(0);
    state.report = doubles(head.at("report"));
    const nlohmann::json curves = head.value("curves", nlohmann::json::object());
    for (const auto& [name, curve] : curves.items()) {
      state.curves[name] = {doubles(curve.at("x")), doubles(curve.at("y"))};
    }
    state.parameters = bytes.substr(line + 1);
    if (state.parameters.size() != head.at("bytes").get<std::size_t>()) throw std::runtime_error("cut short");
  } catch (const std::exception& error) {
    throw std::runtime_error(std::string("a saved run cannot be read: ") + error.what());
  }
  return state;
}

}  // namespace crosstalk
