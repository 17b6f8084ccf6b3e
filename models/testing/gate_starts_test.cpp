// Starts of decays, over the registry: every value of every option that changes them is stated by the memory's test
// (models/testing/gate_starts.h).
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/gate_starts.h"

#include <fmt/format.h>

namespace crosstalk::checks::gate_starts_test {

/// Of the input that says how a memory fades; none: it has none, or not with these settings.
std::optional<DecayStart> start_with(const Memory& kind, const Settings& settings) {
  for (const auto& [input, logarithm] :
       {std::pair{"log_decay", true}, {"signed_decay", false}, {"decay", false}}) {
    if (std::none_of(kind.inputs.begin(), kind.inputs.end(),
                     [&name = input](const MemoryInput& one) { return one.name == name; }))
      continue;
    try {
      return decay_start(input_at_start(kind.name, input, settings, 4, 16, 0, 200), logarithm);
    } catch (const OptionError&) {
      return std::nullopt;  // settings that have no meaning together
    } catch (const std::out_of_range&) {
      continue;  // the input is not asked for
    }
  }
  return std::nullopt;
}

/// "bounded", 0.5: without quotes.
std::string bare(const OptionValue& value) {
  const auto* text = std::get_if<std::string>(&value);
  return text ? *text : to_text(value);
}

class GateStarts : public ::testing::TestWithParam<std::string> {};

TEST_P(GateStarts, OfEveryOptionThatChangesThemAreStated) {
  const Memory& kind = *find_memory(GetParam());
  const std::optional<DecayStart> usual = start_with(kind, {});
  std::size_t stated = 0;
  std::vector<std::string> own;
  for (const OptionSpec& spec : kind.own_options()) own.push_back(spec.name);
  for (const OptionSpec& spec : kind.options) {
    // Of options of parts (rate_from), the values of the layers of authors.
    std::vector<OptionValue> values;
    if (std::find(own.begin(), own.end(), spec.name) != own.end()) values = settings_of(spec);
    for (const auto& [key, value] : kind.published.set)
      if (key == "memory." + spec.name && std::find(values.begin(), values.end(), value) == values.end())
        values.push_back(value);
    for (const OptionValue& value : values) {
      const std::optional<DecayStart> start = start_with(kind, {{"memory." + spec.name, value}});
      if (!start || value == spec.default_value) continue;
      const auto found = stated_starts().find({kind.name, spec.name, bare(value)});
      const bool known = found != stated_starts().end();
      stated += known;
      const double median = start->median();
      if (known) {
        EXPECT_NEAR(median, found->second.median, 0.03 * median) << spec.name << " = " << to_text(value);
        EXPECT_NEAR(start->negative, found->second.negative, 0.02) << spec.name << " = " << to_text(value);
        continue;
      }
      const bool other = !usual || std::abs(median - usual->median()) > 0.03 * usual->median() ||
                         std::abs(start->negative - usual->negative) > 0.01;
      EXPECT_FALSE(other) << fmt::format(
          "models/memories/{0}_test.cpp does not state it: CROSSTALK_START({0}, {1}, \"{2}\", {3:.4g}, {4:.2g});",
          kind.name, spec.name, bare(value), median, start->negative);
    }
  }
  for (const auto& [of, one] : stated_starts())
    if (of[0] == kind.name) --stated;
  EXPECT_EQ(stated, 0u) << "a start is stated of an option or value that there is not";
}

TEST_P(GateStarts, OfFurtherDecaysAreStated) {
  const Memory& kind = *find_memory(GetParam());
  std::size_t stated = 0;
  for (const MemoryInput& input : kind.inputs) {
    const bool decay = input.name.starts_with("log_") && input.range.given() && input.range.high <= 0;
    if (!decay || input.name == "log_decay") continue;
    const double median = decay_start(input_at_start(kind.name, input.name), true).median();
    const auto found = stated_input_starts().find({kind.name, input.name});
    if (found == stated_input_starts().end()) {
      ADD_FAILURE() << fmt::format(
          "models/memories/{0}_test.cpp does not state the half-life that {1} starts with. By its laws and inits it is\n"
          "CROSSTALK_INPUT_START({0}, {1}, {2:.4g});",
          kind.name, input.name, median);
      continue;
    }
    EXPECT_NEAR(median, found->second, 0.03 * median) << input.name;
    ++stated;
  }
  for (const auto& [of, one] : stated_input_starts())
    if (of.first == kind.name) --stated;
  EXPECT_EQ(stated, 0u) << "a start is stated of an input that is no decay, or not there";
}

INSTANTIATE_TEST_SUITE_P(Registry, GateStarts, every_memory(), memory_name);

}  // namespace crosstalk::checks::gate_starts_test
