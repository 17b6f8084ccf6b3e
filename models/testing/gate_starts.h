// How gates start where a token says nothing (x = 0): biases and parameters drawn as a memory wants them, many times, and
// the inputs that its laws make of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "models/testing/given_mixer.h"
#include "models/testing/variants.h"

namespace crosstalk::checks {

/// The numbers of an input at the start, of `heads` heads of size d, draw after draw.
inline std::vector<double> input_at_start(const std::string& memory, const std::string& input,
                                          const Settings& settings = {}, int heads = 4, int d = 16,
                                          double depth = 0, int draws = 200) {
  const Memory& kind = *find_memory(memory);
  Options options = memory_options(kind, heads * d, 5, 5);
  options.set("model.heads", std::int64_t{heads});
  for (const auto& [key, value] : settings) options.set(key, value);
  kind.resolve(options);
  Graph<double> graph(Device::cpu, draws, false);
  GivenMixer mixer(graph, options, {1, 1, 1, heads, d, d, d, 1}, depth);
  const Var<double> o = kind.build(mixer);
  graph.keep(o.variable->root());
  graph.plan();
  mixer.fill([](const Init& init, double u, std::int64_t i) { return init.value(u, i); });
  graph.forward({});
  const Tensor<double> x = mixer.made.at(input).variable->value;
  std::vector<double> numbers;
  for (int r = 0; r < draws; ++r) numbers.insert(numbers.end(), x.at(r), x.at(r) + x.size());
  return numbers;
}

/// Half-lives of decays, tokens, in rising order.
struct DecayStart {
  std::vector<double> lives;
  double negative = 0;  ///< share of decays below 0
  /// Interpolates between two numbers.
  double quantile(double share) const {
    const double at = share * static_cast<double>(lives.size() - 1);
    const auto below = static_cast<std::size_t>(at);
    const double next = lives.at(std::min(below + 1, lives.size() - 1));
    return lives.at(below) + (at - static_cast<double>(below)) * (next - lives.at(below));
  }
  double median() const { return lives.at(lives.size() / 2); }
};
/// Start of decays, or of their logarithms.
inline DecayStart decay_start(const std::vector<double>& decays, bool logarithm) {
  DecayStart start;
  for (const double x : decays) {
    start.lives.push_back(std::log(2.0) / std::max(-(logarithm ? x : std::log(std::abs(x))), 1e-300));
    start.negative += (!logarithm && x < 0) / static_cast<double>(decays.size());
  }
  std::sort(start.lives.begin(), start.lives.end());
  return start;
}

/// Start of a memory's decays where one of its options has another value than its default: median half-life, and the share
/// of decays below 0.
struct StatedStart {
  double median = 0, negative = 0;
};
inline std::map<std::vector<std::string>, StatedStart>& stated_starts() {
  static std::map<std::vector<std::string>, StatedStart> all;
  return all;
}
/// CROSSTALK_START(kda, gate, "bounded", 14.0, 0): in the test of a memory, for every value of an option that changes them.
#define CROSSTALK_START_NAME(memory, line) CROSSTALK_START_NAME_OF(memory, line)
#define CROSSTALK_START_NAME_OF(memory, line) start_of_##memory##_##line
#define CROSSTALK_START(memory, option, value, ...)                    \
  [[maybe_unused]] const bool CROSSTALK_START_NAME(memory, __LINE__) = \
      ::crosstalk::checks::stated_starts()                             \
          .emplace(std::vector<std::string>{#memory, #option, value},  \
                   ::crosstalk::checks::StatedStart{__VA_ARGS__})      \
          .second

/// Median half-lives at the start of further decays, by memory and input.
inline std::map<std::pair<std::string, std::string>, double>& stated_input_starts() {
  static std::map<std::pair<std::string, std::string>, double> all;
  return all;
}
/// CROSSTALK_INPUT_START(precond_kda, log_decay_a, 0.14): of every input log_... below 0 besides log_decay, which
/// CROSSTALK_HALF_LIFE may not see: some fade no state that an engine keeps.
#define CROSSTALK_INPUT_START(memory, input, median)                             \
  [[maybe_unused]] const bool start_of_##memory##_##input =                      \
      ::crosstalk::checks::stated_input_starts()                                 \
          .emplace(std::pair<std::string, std::string>{#memory, #input}, median) \
          .second

}  // namespace crosstalk::checks
