// What the inputs of a memory are made of, by its text (gate_laws_test.cpp), and how its gates start:
//
//   CROSSTALK_HALF_LIFE(gla, 9.7);
//
// in NAME_test.cpp is the median of what describe prints.
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
  const std::string& text(const std::string& name) const { return options.get_string("memory." + name); }
};

inline std::map<std::string, double>& stated_half_lives() {
  static std::map<std::string, double> all;
  return all;
}
#define CROSSTALK_HALF_LIFE(memory, median)           \
  [[maybe_unused]] const bool half_life_of_##memory = \
      ::crosstalk::checks::stated_half_lives().emplace(#memory, median).second

}  // namespace crosstalk::checks
