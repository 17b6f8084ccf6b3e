// Every memory against numbers that stand in golden.txt: reads, states and gradients on given tensors, and loss, gradients and
// starts of weights of whole models, in fp64. Another opinion than the law's own text. CROSSTALK_WRITE_GOLDEN=1 writes the file anew.
// SPDX-License-Identifier: Apache-2.0
#include <fstream>
#include <sstream>

#include "models/testing/apply_check.h"
#include "models/testing/language.h"

namespace crosstalk::checks::golden_test {

const char* const kFile = CROSSTALK_SOURCE_DIR "/models/testing/golden.txt";

/// Sum of numbers times random ones that depend on `name` alone.
double projected(const std::string& name, const double* x, std::int64_t n) {
  std::uint32_t stream = 17;
  for (const char c : name) stream = 31 * stream + static_cast<unsigned char>(c);
  RandomStream random(2, RandomDomain::initialisation, stream);
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += x[i] * (0.5 + random.uniform());
  return sum;
}

/// Quantities by name, of all cases of a memory.
using Numbers = std::vector<std::pair<std::string, double>>;

void add_applied(const std::string& memory, Numbers& all) {
  const int N = has_option(*find_memory(memory), "writes") ? 2 : 1;
  const ApplySizes shapes[] = {{.B = 2, .T = 7, .H = 2, .K = 3, .V = 3, .N = N},
                               {.B = 1, .T = 9, .H = 1, .K = 4, .V = 2, .N = N},
                               {.B = 1, .T = 1, .H = 2, .K = 2, .V = 4, .N = N}};
  for (std::size_t shape = 0; shape < 3; ++shape)
    for (const ApplyCase& one : apply_cases(memory, shapes[shape])) {
      if (shape > 0 && one.name != "defaults" && one.name != "optional inputs") continue;
      for (const auto& [name, x] : apply<double>(one, "", apply_data(one, 11)))
        all.emplace_back(fmt::format("{} {} {}", shape, one.name, name),
                         projected(name, x.data(), static_cast<std::int64_t>(x.size())));
    }
}

double of_parameters(Model<double>& model, bool gradients) {
  auto& block = model.parameters();
  double sum = 0;
  for (int i = 0; i < block.count(); ++i)
    sum += projected(block.name(i), (gradients ? block.gradient(i) : block.value(i)).at(0),
                     block.value(i).size());
  return sum;
}

void add_model(const std::string& name, const Options& options, const ModelShape& shape, Numbers& all) {
  ModelRun<double> run(options, shape, 1, true);
  run.model.initialise(0, 5);
  all.emplace_back(name + " start", of_parameters(run.model, false));
  RandomStream random(9, RandomDomain::task_train, 7);
  run.set_parameters(0, run.random_parameters(9));
  run.set_batch(0, shape.tokens > 0
                       ? token_batch(random, shape)
                       : random_batch(random, shape.B, shape.sequence, shape.keys, shape.values));
  run.set_features(0, 3, 1);
  run.forward(), run.backward();
  all.emplace_back(name + " loss", run.loss(0));
  all.emplace_back(name + " gradients", of_parameters(run.model, true));
}

/// Retrieval models of the memories of 2021 with every combination of their parts: losses in training and in evaluation, and gradients,
/// as one number; shapes take turns.
void add_combinations(const Memory& kind, Numbers& all) {
  const ModelShape shapes[] = {{kKeys, kValues, false, kB, {kT, 2, 1}},  // fewer queries than keys
                               {kKeys, kValues, false, kB, {kT, 2, 3}},
                               {kKeys, kValues, true, kB, {kT, 3, 1}},
                               {kKeys, kValues, true, kB, {kT, 3, 3}}};
  std::size_t turn = 0;
  for (const Setting& setting : valid_settings(kind, kDKey, kKeys, kValues, kEmbedding)) {
    const ModelShape& shape = shapes[turn % 4];
    const Example example = find_example(setting.options, shape, ++turn);
    ModelRun<double> train(setting.options, shape, 1, true), eval(setting.options, shape, 1, false);
    for (auto* run : {&train, &eval}) give(*run, 0, example), run->forward();
    train.backward();
    const double numbers[] = {train.loss(0), eval.loss(0), of_parameters(train.model, true)};
    all.emplace_back(setting.name, projected(setting.name, numbers, 3));
  }
}

void add_models(const std::string& memory, Numbers& all) {
  const Memory& kind = *find_memory(memory);
  std::vector<std::pair<std::string, Settings>> settings = {{"defaults", {}}};
  const std::vector<OptionSpec> own = kind.own_options();
  for (const OptionSpec& spec : kind.options) {
    const bool of_gates = spec.name == "beta_max" || spec.name == "rate_from" || spec.name == "read_norm";
    if (!of_gates &&
        std::none_of(own.begin(), own.end(), [&](const OptionSpec& o) { return o.name == spec.name; }))
      continue;
    for (const OptionValue& value : settings_of(spec))
      if (value != spec.default_value)
        settings.push_back({spec.name + "=" + to_text(value), {{"memory." + spec.name, value}}});
  }
  for (const auto& [name, set] : settings) {
    try {
      Options options = memory_options(kind, kDKey, kKeys, kValues, kEmbedding);
      for (const auto& [key, value] : set) options.set(key, value);
      add_model(name + " retrieval", resolved(kind, options), {kKeys, kValues, false, kB, {kT, 2, 3}}, all);
    } catch (const OptionError&) {  // what is refused has no numbers
    }
    try {
      Settings wide = {{"model.heads", 2}};
      wide.insert(wide.end(), set.begin(), set.end());
      add_model(name + " language", language_options_of(memory, wide), language_shape(), all);
    } catch (const OptionError&) {  // another exception is a fault
    }
  }
}

Numbers numbers_of(const std::string& memory) {
  Numbers all;
  add_applied(memory, all), add_models(memory, all);
  if (of_2021(memory)) add_combinations(*find_memory(memory), all);
  return all;
}

/// Those of golden.txt: lines `memory|name|number`.
const std::map<std::string, Numbers>& golden() {
  static const std::map<std::string, Numbers> all = [] {
    std::map<std::string, Numbers> read;
    std::ifstream file(kFile);
    for (std::string line, memory, name, number; std::getline(file, line);) {
      std::istringstream parts(line);
      std::getline(parts, memory, '|'), std::getline(parts, name, '|'), std::getline(parts, number);
      read[memory].emplace_back(name, std::stod(number));
    }
    return read;
  }();
  return all;
}

class GoldenMemory : public ::testing::TestWithParam<std::string> {};

TEST_P(GoldenMemory, HasTheCommittedNumbers) {
  const Numbers got = numbers_of(GetParam());
  const auto known = golden().find(GetParam());
  ASSERT_NE(known, golden().end()) << "models/testing/golden.txt has no " << GetParam();
  ASSERT_EQ(got.size(), known->second.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    const auto& [name, want] = known->second[i];
    ASSERT_EQ(got[i].first, name);
    EXPECT_TRUE(std::abs(got[i].second - want) <= 1e-10 * std::max(1.0, std::abs(want)))
        << name << ": " << got[i].second << ", not " << want;
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, GoldenMemory, every_memory(), memory_name);

TEST(Golden, IsWrittenWhereThatIsAsked) {
  if (std::getenv("CROSSTALK_WRITE_GOLDEN") == nullptr) {
    for (const auto& [memory, numbers] : golden())
      EXPECT_NE(find_memory(memory), nullptr) << "models/testing/golden.txt has " << memory;
    return;
  }
  std::ofstream file(kFile);
  for (const Memory& kind : all_memories())
    for (const auto& [name, number] : numbers_of(kind.name))
      file << fmt::format("{}|{}|{:.13g}\n", kind.name, name, number);
}

}  // namespace crosstalk::checks::golden_test
