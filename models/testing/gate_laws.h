// The laws of gates as tests state them: in NAME_test.cpp, for every input of the memory NAME that is no weight of its name and that
// no text makes (Memory::law),
//
//   CROSSTALK_GATE_LAW(gla, log_decay, log_sigmoid(x("decay")) / 16);
//
// is the number that the memory must make of its projections and parameters, x(NAME) being what m.token(NAME, ...) or
// m.parameter(NAME, ...) give. gate_laws_test.cpp holds every memory of the registry against its laws, and
//
//   CROSSTALK_HALF_LIFE(gla, 9.7);
//
// is the median of what describe prints: it sees what a gate starts as.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "models/testing/sequence.h"

namespace crosstalk::checks {

/// Numbers that a law may look at, of one token and head.
struct GateArguments {
  const Options& options;
  std::map<std::string, Vector> numbers = {};
  int channel = 0, head = 0, heads = 1;

  const Vector& all(const std::string& name) const {
    const auto found = numbers.find(name);
    if (found == numbers.end())
      throw std::logic_error("the memory makes no projection or parameter `" + name + "`");
    return found->second;
  }
  /// The number of this channel, or the only one.
  double operator()(const std::string& name) const {
    const Vector& x = all(name);
    return x.size() == 1 ? x.front() : x.at(static_cast<std::size_t>(channel));
  }
  double option(const std::string& name) const { return options.get_double("memory." + name); }
  const std::string& text(const std::string& name) const { return options.get_string("memory." + name); }
};
using GateLaw = double (*)(const GateArguments& x);

/// Laws by memory and input.
inline std::map<std::pair<std::string, std::string>, GateLaw>& gate_laws() {
  static std::map<std::pair<std::string, std::string>, GateLaw> all;
  return all;
}
inline std::map<std::string, double>& stated_half_lives() {
  static std::map<std::string, double> all;
  return all;
}
inline bool state_gate_law(const std::string& memory, const std::string& input, GateLaw law) {
  if (!gate_laws().emplace(std::pair(memory, input), law).second)
    throw std::logic_error("two laws of `" + input + "` in " + memory);
  return true;
}
#define CROSSTALK_GATE_LAW(memory, input, ...)                                                 \
  [[maybe_unused]] const bool law_of_##memory##_##input = ::crosstalk::checks::state_gate_law( \
      #memory, #input,                                                                         \
      []([[maybe_unused]] const ::crosstalk::checks::GateArguments& x) -> double { return __VA_ARGS__; })
#define CROSSTALK_HALF_LIFE(memory, median)           \
  [[maybe_unused]] const bool half_life_of_##memory = \
      ::crosstalk::checks::stated_half_lives().emplace(#memory, median).second

inline double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
inline double softplus(double x) { return std::log1p(std::exp(-std::abs(x))) + std::max(x, 0.0); }
inline double log_sigmoid(double x) { return -softplus(-x); }
inline Vector silu_of(Vector x) {
  for (double& e : x) e *= sigmoid(e);
  return x;
}
/// Element `channel` of x / sqrt(|x|^2 + 1e-6).
inline double of_unit(const Vector& x, int channel) {
  return x.at(static_cast<std::size_t>(channel)) / std::sqrt(dot(x, x) + 1e-6);
}
/// -e^A softplus(x): Mamba-2.
inline double mamba_law(const GateArguments& x) { return -std::exp(x("A_log")) * softplus(x("decay")); }

}  // namespace crosstalk::checks
