// Every input that the text of a memory makes against that text, with given projections and parameters in place of learned ones.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/gate_laws.h"

#include "models/model.h"
#include "models/testing/apply_check.h"
#include "models/testing/given_mixer.h"
#include "models/testing/law_oracle.h"
#include "models/testing/random_sequence.h"
#include "models/testing/variants.h"

namespace crosstalk::checks::gate_laws_test {

constexpr int kTokens = 5, kKeys = 3, kValues = 4;

// Row `row` of [1,rows,H,n], or of [1,1,H,n].
Vector row_of(const Tensor<double>& x, int row, int head) {
  const int rows = x.dim(1), H = x.dim(2), n = x.dim(3);
  const double* at = x.at(0) + (static_cast<std::int64_t>(rows == 1 ? 0 : row) * H + (H == 1 ? 0 : head)) * n;
  return {at, at + n};
}

/// Calls `look(input, x, made)` for every input that a memory makes, by token and head: x has what it is made of.
template <class Look>
void each_input(const Memory& memory, const Options& options, const Look& look) {
  Graph<double> graph(Device::cpu, 1, false);
  const int writes = options.has("memory.writes") ? static_cast<int>(options.get_int("memory.writes")) : 1;
  const int heads = static_cast<int>(options.get_int("model.heads")),
            features = static_cast<int>(head_d_dot(options));
  GivenMixer mixer(graph, options, {1, kTokens, kTokens, heads, kKeys, features, kValues, writes});
  const Var<double> o = memory.build(mixer);
  graph.keep(o.variable->root());
  graph.plan();
  mixer.fill([](const Init&, double u, std::int64_t) { return 6 * u - 3; });
  graph.forward({});
  std::vector<MemoryInput> inputs = memory.inputs;
  inputs.push_back({"written_key"});
  for (const MemoryInput& input : inputs) {
    if (is_start(memory, input.name) || mixer.made.count(input.name) == 0)
      continue;  // left out with these options
    const Tensor<double> made = mixer.made.at(input.name).variable->value;
    const int rows = made.dim(1), per_token = rows == kTokens * writes ? writes : 1;
    for (int row = 0; row < rows; ++row)
      for (int h = 0; h < made.dim(2); ++h) {
        GateArguments x{options};
        x.head = h, x.heads = mixer.H;
        for (const auto& [name, one] : mixer.given) {
          const int at = one.writes == per_token ? row : row / per_token;
          x.numbers[name] = row_of(one.x.variable->value, at, h);
        }
        look(input.name, x, row_of(made, row, h));
      }
  }
}

/// What the text of a memory says of an input.
Vector told(const Memory& memory, const std::string& input, const GateArguments& x) {
  std::map<std::string, Vector> numbers = x.numbers;
  numbers["head"] = {static_cast<double>(x.head)};
  const auto k = numbers.find("k");  // as key_norm leaves it
  if (k != numbers.end() && x.options.has("memory.key_norm") && x.text("key_norm") == "l2")
    k->second = scaled(1 / std::sqrt(dot(k->second, k->second) + 1e-6), k->second);
  return evaluated_law(memory, x.options, 0, false, {1, kKeys, kValues}, numbers).named(input);
}
bool tells(const Memory& memory, const std::string& input) {
  return memory.law.find(" " + input + " =") != std::string::npos;
}

void expect_laws(const std::string& memory, const Options& options) {
  const Memory& kind = memory_named(memory);
  each_input(kind, options, [&](const std::string& input, GateArguments x, const Vector& got) {
    if (!tells(kind, input) && (kind.law.find("token") == kind.law.npos || x.numbers.count(input) == 0))
      return;  // held by golden_test.cpp alone
    const Vector by_text = tells(kind, input) ? told(kind, input, x) : Vector();
    for (std::size_t channel = 0; channel < got.size(); ++channel) {
      x.channel = static_cast<int>(channel);
      const double want = by_text.empty() ? x(input) : by_text.at(by_text.size() == 1 ? 0 : channel);
      ASSERT_NEAR(got[channel], want, 1e-12 * (1 + std::abs(want)))
          << memory << "." << input << ", channel " << channel;
    }
  });
}

/// Options at which gates are looked at: the defaults, and every own option in turn; with two heads, or with one.
std::vector<Setting> gate_settings(const Memory& kind) {
  for (const std::int64_t heads : {2, 1}) {  // one where a memory has no more
    std::vector<Setting> settings = {{"defaults",
                                      memory_options(kind, static_cast<int>(heads) * kKeys, 5, kValues)}},
                         valid;
    settings[0].options.set("model.heads", heads);
    for (const OptionSpec& spec : kind.own_options())
      for (const OptionValue& value : settings_of(spec)) {
        settings.push_back({spec.name + " = " + to_text(value), settings[0].options});
        settings.back().options.set("memory." + spec.name, value);
      }
    for (Setting& setting : settings) {
      if (setting.options.has("memory.beta_max")) setting.options.set("memory.beta_max", 2.0);
      try {
        kind.resolve(setting.options);
        valid.push_back(setting);
      } catch (const OptionError&) {
      }
    }
    if (!valid.empty()) return valid;
  }
  return {};
}

class GateLaws : public ::testing::TestWithParam<std::string> {};

TEST_P(GateLaws, EveryInputFollowsItsLaw) {
  const std::vector<Setting> settings = gate_settings(memory_named(GetParam()));
  EXPECT_FALSE(settings.empty());
  for (const Setting& setting : settings) {
    SCOPED_TRACE(setting.name);
    ASSERT_NO_FATAL_FAILURE(expect_laws(GetParam(), setting.options));
  }
}

/// Tells whether the text reads or makes other numbers than the memory, whose numbers are golden (golden_test.cpp).
bool differs(const Memory& memory) {
  const Oracle oracle = [&](const Sequence& s) { return read_by_law(memory, s); };
  for (const ApplyCase& one : apply_cases(memory.name, {.B = 1, .T = 5, .H = 1, .K = 3, .V = 3})) {
    const ApplyData data = apply_data(one, 3);
    const auto want = apply<double>(one, "", data);
    std::map<std::string, Vector> got = {{"o", oracle_read(one, data, nullptr, oracle)}};
    for (const auto& [name, x] : law_states) got["state_" + name] = x;
    for (const auto& [name, x] : got) {
      const auto of = want.find(name);
      if (of == want.end() || of->second.size() != x.size()) continue;  // one of the text alone
      for (std::size_t i = 0; i < x.size(); ++i)
        if (!(std::abs(x[i] - of->second[i]) < 1e-6)) return true;
    }
  }
  // With one head alone, beside the sequence, or by eps.
  bool found = false;
  if (has_option(memory, "read_norm")) {
    const Options divided = option("eps", 0.3, option("read_norm", "attention"));
    Sequence s = random_sequence(divided, 5, 3, 3, 1);
    for (Matrix* rows : {&s.q, &s.k})
      for (Vector& row : *rows)
        for (double& e : row) e = std::abs(e) + 0.1;
    s.in["beta"] = uniform_rows(5, 1, 0.1, 0.9, 2);
    const Matrix want = read_by_law(memory_named(memory.name), s), got = read_by_law(memory, s);
    for (std::size_t t = 0; t < want.size(); ++t) found = found || !(std::abs(got[t][0] - want[t][0]) < 1e-6);
  }
  for (const Setting& setting : gate_settings(memory_named(memory.name)))
    each_input(memory_named(memory.name), setting.options,
               [&](const std::string& input, const GateArguments& x, const Vector& made) {
                 if (!tells(memory, input)) return;
                 const Vector by_text = told(memory, input, x);
                 for (std::size_t i = 0; i < by_text.size(); ++i)
                   found = found || !(std::abs(by_text[i] - made.at(made.size() == 1 ? 0 : i)) < 1e-6);
               });
  return found;
}

TEST_P(GateLaws, EverySignOfItsTextCounts) {
  const Memory& kind = memory_named(GetParam());
  if (kind.law.empty()) return;  // it has no text
  EXPECT_FALSE(differs(kind));
  for (std::size_t at = 0; at < kind.law.size(); ++at) {
    const char sign = kind.law[at];
    const bool exponent =
        at > 0 && kind.law[at - 1] == 'e' && std::isdigit(static_cast<unsigned char>(kind.law[at + 1])) != 0;
    if ((sign != '+' && sign != '-') || exponent) continue;
    Memory other = kind;
    other.law[at] = sign == '+' ? '-' : '+';
    try {
      EXPECT_TRUE(differs(other)) << other.law;
    } catch (const rules::LawError&) {  // a sign that stands first is no plus
    }
  }
}

TEST_P(GateLaws, HalfLivesAtTheStartAreThoseStated) {
  const Memory& kind = *find_memory(GetParam());
  const Options options = resolved(kind, memory_options(kind, 64, 20, 20));
  const std::vector<double> lives = half_lives_at_start(options, {20, 20, false});
  const auto stated = stated_half_lives().find(GetParam());
  if (lives.empty()) {
    EXPECT_EQ(stated, stated_half_lives().end()) << GetParam() << " has no decay";
    return;
  }
  const double median = lives[1];
  ASSERT_NE(stated, stated_half_lives().end())
      << "models/memories/" << GetParam() << "_test.cpp states no half-life; by its laws and inits it is "
      << fmt::format("CROSSTALK_HALF_LIFE({}, {:.4g});", GetParam(), median);
  EXPECT_NEAR(median, stated->second, 1e-3 * median)
      << "by its laws and inits it is "
      << fmt::format("CROSSTALK_HALF_LIFE({}, {:.4g});", GetParam(), median);
}

INSTANTIATE_TEST_SUITE_P(Registry, GateLaws, every_memory(), memory_name);

}  // namespace crosstalk::checks::gate_laws_test
