// Every built-in memory that has a law, and some that are one, as a rule on the same inputs: reads, states at the end and
// gradients in double and in float. And all laws cut at any token.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "kernels/base/error.h"
#include "models/rules/applied.h"
#include "models/rules/latex.h"
#include "models/rules/law_examples.h"
#include "models/rules/memory_law.h"

namespace crosstalk::rules::equal_test {

struct Same {
  std::string memory, law;
  std::map<std::string, OptionValue> options = {};  ///< of the built-in memory
  std::vector<std::string> starts = {};             ///< optional inputs that are given
  bool states = true;                               ///< both keep the same states
};

std::string text_of(const Law& law) {
  std::string text;
  for (const std::string& step : canonical(law)) text += (text.empty() ? "" : "; ") + step;
  return text;
}

const std::vector<Same>& own_pairs() {
  const std::string read = "; read S q";
  static const std::vector<Same> all = {
      // Its states are kept times e^-m.
      {"mlstm",
       "log_decay = token; log_input = token; state n[K]; S = exp(log_decay) S + exp(log_input) v k^T; "
       "n = exp(log_decay) n + exp(log_input) k; read S q / max(abs(n^T q), 1)",
       {},
       {},
       false},
      {"fwm", "beta = token; S += beta (v - S k) k^T; S = S / (relu(norm(S) - 1) + 1)" + read, {}, {"s0"}},
      {"titans_linear",
       "rate = token; momentum_gate = token; forget_gate = token; state P[V, K]; "
       "P = momentum_gate P - rate grad(0.5 sum((S k - v)^2), S); S = (1 - forget_gate) S + P" +
           read,
       {},
       {"s0", "p0"}},
      {"ttt_linear",
       "rate = token; gain = parameter(V, constant(1)); bias = parameter(V, constant(0)); state b[V]; e = gain * layernorm(S k + b, 0.000001) + bias "
       "- v; loss = 0.5 * sum(e * e); G = grad(loss, S); b -= rate grad(loss, b); S -= rate G; read gain * layernorm(S q + b, 0.000001) + bias",
       {{"residual", false}},
       {"s0", "b0"}},
  };
  return all;
}

/// With every memory that has a law, but slots, whose letter a rule has not, cells, which no query asks, and the six whose words are of
/// kernels alone, whose inputs are called as a rule may call none, or whose states look at queries.
const std::vector<Same>& pairs() {
  static const std::vector<Same> all = [] {
    std::vector<Same> made = own_pairs();
    Options plain;
    plain.set("memory.read_norm", std::string("none"));
    const std::set<std::string> others = {"mesa", "q_delta", "s4d", "titans_mlp", "ttt_linear", "ttt_mlp"};
    for (const Memory& memory : all_memories())
      if (!memory.law.empty() && memory.letters.empty() && memory.own_queries &&
          others.count(memory.name) == 0) {
        const auto law = study_law(memory, plain, true);
        // Where some states are given, a memory begins the others at 0, a rule as it says.
        const bool starts = std::any_of(law->states.begin(), law->states.end(),
                                        [](const LawState& one) { return one.start != nullptr; });
        made.push_back(
            {memory.name, text_of(*law), {}, {starts ? "correction" : "s0", "correction", "log_decay"}});
      }
    return made;
  }();
  return all;
}

const std::vector<ApplySizes>& sizes_of_all() {
  static const std::vector<ApplySizes> all = {{.B = 2, .T = 11, .H = 2, .K = 4, .V = 3},
                                              {.B = 1, .T = 30, .H = 1, .K = 17, .V = 20}};
  return all;
}

class RuleAsBuiltIn : public ::testing::TestWithParam<std::size_t> {
 protected:
  template <class Real>
  void compare(double limit) {
    const Same& one = pairs()[GetParam()];
    for (ApplySizes sizes : sizes_of_all()) {
      if (one.memory == "mamba1") sizes.H = 1;  // its rates are the same in all heads
      Numbers want = applied<Real>(one.memory, one.options, sizes, one.starts);
      std::vector<std::string> starts = one.starts;
      for (const char* optional : {"correction", "log_decay"}) std::erase(starts, optional);
      const Numbers got = applied<Real>("rule", {{"law", one.law}}, sizes, starts);
      std::size_t states = 0, gradients = 0;
      std::erase_if(want, [&](const auto& x) {
        return x.first.starts_with("state ") && (!one.states || got.count(x.first) == 0);
      });
      for (const auto& [name, x] : want) ++(name.starts_with("state ") ? states : gradients);
      expect_close(got, want, limit);
      EXPECT_EQ(states > 0, one.states);
      EXPECT_GE(gradients, one.memory == "hgrn2" ? 3u : 4u);  // o, d_q, d_k, d_v
    }
  }
};

TEST_P(RuleAsBuiltIn, InDouble) { compare<double>(1e-12); }
TEST_P(RuleAsBuiltIn, InFloat) { compare<float>(3e-5); }
INSTANTIATE_TEST_SUITE_P(Memories, RuleAsBuiltIn, ::testing::Range(std::size_t{0}, pairs().size()),
                         [](const auto& one) {
                           return fmt::format("{}_{}", pairs()[one.param].memory, one.param);
                         });

// Its text is one that a study may have, whole.
TEST(RuleOfEveryMemory, IsALaw) {
  for (const Memory& memory : all_memories()) {
    if (memory.law.empty() || (memory.own_token && memory.own_queries))
      continue;  // whose states look at queries
    const auto law = study_law(memory, {});
    EXPECT_EQ(accept_law(canonical(*law)).text, text_of(*law)) << memory.name;
    EXPECT_NE(latex(*law), "") << memory.name;
  }
}

/// A sequence of T tokens; states at `from` are handed over, those at `to` come back.
Numbers part(const Rule& rule, int from, int to, const Numbers& before) {
  const ApplySizes sizes{.B = 1, .T = to - from, .H = 1, .K = 4, .V = 3};
  std::vector<std::string> present;
  for (const auto& [name, x] : before) present.push_back(start_name(name));
  const Options options = apply_options(rule.memory, sizes, {{"law", rule.text}});
  ApplyModel<double> model(rule.memory, options, sizes, present, Device::cpu, false);
  for (const ApplyInput& input : apply_inputs(rule.memory, sizes)) {
    if (input.optional) continue;
    const Tensor<double> x = model.input(input.name);
    const bool token = input.dims.size() > 1 && input.dims[1] == sizes.T && input.shape.starts_with("[B,T");
    const std::int64_t row = token ? x.size() / sizes.T : x.size();
    for (std::int64_t i = 0; i < x.size(); ++i) {
      const double t = token ? from + static_cast<double>(i / row) : 0;
      x.at(0)[i] =
          0.8 * std::sin(static_cast<double>(input.name[0]) + 2.3 * t + 0.7 * static_cast<double>(i % row));
    }
  }
  for (const auto& [name, x] : before) std::copy(x.begin(), x.end(), model.input(start_name(name)).at(0));
  model.graph().forward({});
  Numbers out;
  out["o"] = {model.output().at(0), model.output().at(0) + model.output().size()};
  for (const auto& [name, state] : model.states())
    out[name] = {state->value.at(0), state->value.at(0) + state->value.size()};
  return out;
}

class RuleInParts : public ::testing::TestWithParam<Example> {};

TEST_P(RuleInParts, IsTheSameCutAtAnyToken) {
  constexpr int T = 8;
  const Rule& rule = rule_of(GetParam().law, {});
  const Numbers whole = part(rule, 0, T, {});
  EXPECT_EQ(whole.size(), rule.law->states.size() + 1);
  for (int at = 1; at < T; ++at) {
    SCOPED_TRACE(at);
    Numbers first = part(rule, 0, at, {});
    std::vector<double> o = first.at("o");
    first.erase("o");
    Numbers second = part(rule, at, T, first);
    o.insert(o.end(), second["o"].begin(), second["o"].end());
    second["o"] = o;
    if (rule.plan.reason.empty()) {
      expect_close(second, whole, 1e-12);
    } else {  // token after token
      EXPECT_EQ(second, whole);
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Laws, RuleInParts, ::testing::ValuesIn(examples()),
                         [](const auto& one) { return one.param.name; });

// A law whose inputs are not those of the default one.
TEST(RuleForms, AreThoseOfTheLaw) {
  const auto forms = [](const std::string& law) {
    return apply_forms(rule_of(law, {}).memory, {{"law", law}});
  };
  using All = std::vector<std::string>;
  EXPECT_EQ(forms("a = sigmoid(token); read S q; S = a S + v k^T"),
            (All{"query", "parallel", "chunk", "recurrent"}));
  EXPECT_EQ(forms("a = sigmoid(token(K)); S = S diag(a) + v k^T; read S q"),
            (All{"query", "chunk", "recurrent"}));
  EXPECT_EQ(forms("w = token(6); state A[6, K]; A = tanh(A) + w k^T; S += v k^T; read S A^T A q"),
            (All{"recurrent"}));
}

}  // namespace crosstalk::rules::equal_test
