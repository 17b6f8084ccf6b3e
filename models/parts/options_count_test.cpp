// Every option of every memory counts, or is refused: away from its default it changes how parameters start, what is read or its
// gradients, in the retrieval model or in a language model, under every choice of the memory's other options.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "kernels/base/error.h"
#include "models/testing/language.h"

namespace crosstalk::checks {
namespace options_count_test {

using Given = std::map<std::string, OptionValue>;

/// What a model starts with, and what a batch makes of other parameters.
struct Seen {
  Options options;  ///< resolved
  std::vector<double> numbers;
};

/// Nothing where the options are refused.
std::optional<Seen> seen(const Memory& kind, const Given& given, bool language) {
  Seen all;
  std::vector<double>& numbers = all.numbers;
  const auto take = [&](const Tensor<double>& x) {
    numbers.insert(numbers.end(), x.at(0), x.at(0) + x.size());
  };
  const auto run_of = [&](ModelRun<double>& run, const auto& give) {
    run.model.initialise(0, 7);
    take(run.model.parameters().values());
    give();
    run.forward(), run.backward();
    take(run.graph->loss.loss->value), take(run.model.parameters().gradients());
  };
  try {
    if (language) {
      Settings settings;
      for (const auto& [name, value] : given) settings.emplace_back("memory." + name, value);
      all.options = language_options_of(kind.name, settings);
      ModelRun<double> run(all.options, language_shape(6, 6), 1, true);
      run_of(run, [&] { give_example(run, 0, 5); });
    } else {
      Options options = memory_options(kind, 4, kKeys, kValues, kEmbedding);
      for (const auto& [name, value] : given) options.set("memory." + name, value);
      all.options = resolved(kind, options);
      ModelRun<double> run(all.options, {kKeys, kValues, false, kB, {kT, 2, 3}}, 1, true);
      RandomStream random(5, RandomDomain::task_train, 7);
      run_of(run, [&] {
        run.set_parameters(0, run.random_parameters(5));
        run.set_batch(0, random_batch(random, kB, run.shape.sequence, kKeys, kValues));
        if (run.graph->feature_seed) run.set_features(0, 5, 1);
      });
    }
  } catch (const OptionError&) {
    return {};
  }
  return all;
}

std::vector<OptionValue> others(const OptionSpec& spec) {
  std::vector<OptionValue> values = settings_of(spec);
  if (const auto* real = std::get_if<double>(&spec.default_value); real && values.size() < 2)
    values = {*real / 2 + 0.25};
  if (const auto* whole = std::get_if<std::int64_t>(&spec.default_value);
      whole && *whole > 0 && values.empty())
    values = {*whole + 1};
  std::erase(values, spec.default_value);
  return values;
}

class OptionsCount : public ::testing::TestWithParam<std::string> {};

TEST_P(OptionsCount, OrAreRefused) {
  const Memory& kind = *find_memory(GetParam());
  // Forms are equal, d_dot is derived; features are drawn anew behind a step, ranks count from some sizes on, and a solution is
  // found in few iterations here.
  const auto passed_over = [](const OptionSpec& spec) {
    return spec.name == "form" || spec.name == "d_dot" || spec.name == "favor_redraw" ||
           spec.name == "step_rank" || spec.name == "iterations";
  };
  std::vector<Given> settings = {{}};
  for (const OptionSpec& spec : kind.options)
    for (const OptionValue& value : others(spec))
      if (!passed_over(spec) && (!spec.choices.empty() || std::holds_alternative<bool>(value)))
        settings.push_back({{spec.name, value}});
  for (const Given& setting : settings) {
    const auto beside = seen(kind, setting, false), within = seen(kind, setting, true);
    for (const OptionSpec& spec : kind.options) {
      if (passed_over(spec) || setting.count(spec.name) != 0) continue;
      for (const OptionValue& value : others(spec)) {
        Given given = setting;
        given[spec.name] = value;
        bool accepted = false, counts = false;
        for (const bool language : {false, true}) {
          const std::optional<Seen>& before = language ? within : beside;
          const std::optional<Seen> after = before ? seen(kind, given, language) : std::nullopt;
          if (!after) continue;
          accepted = true;  // a word for what is derived is the same run
          counts = counts || after->numbers != before->numbers || after->options == before->options;
        }
        EXPECT_TRUE(counts || !accepted)
            << kind.name << " " << spec.name << " = " << to_text(value)
            << (setting.empty()
                    ? ""
                    : fmt::format(" with {} = {}", setting.begin()->first, to_text(setting.begin()->second)));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, OptionsCount, every_memory(), memory_name);

}  // namespace options_count_test
}  // namespace crosstalk::checks
