// Every memory of the registry on given tensors: its oracle, its forms against each other, gradients against differences,
// single precision against double, states carried over.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/apply_check.h"

#include "models/testing/hard_cases.h"

namespace crosstalk::checks::apply_check_test {

const ApplySizes kSizes{.B = 2, .T = 7, .H = 2, .K = 3, .V = 3, .N = 1};

class MemoryApply : public ::testing::TestWithParam<std::string> {
 protected:
  ApplySizes sizes() const {
    ApplySizes s = kSizes;
    for (const OptionSpec& o : find_memory(GetParam())->options)
      if (o.name == "writes") s.N = 2;
    return s;
  }
};

double largest(const Vector& x) {
  double m = 1e-3;
  for (const double e : x) m = std::max(m, std::abs(e));
  return m;
}

void expect_close(const std::string& what, const Vector& got, const Vector& want, double limit) {
  ASSERT_EQ(got.size(), want.size()) << what;
  ASSERT_TRUE(
      close(what, got.data(), want.data(), static_cast<std::int64_t>(want.size()), limit * largest(want)));
}

TEST_P(MemoryApply, EveryFormIsTheOracle) {
  if (find_oracle(GetParam()) == nullptr) return;  // golden_test.cpp holds it
  int checked = 0;
  for (const ApplyCase& one : apply_cases(GetParam(), sizes())) {
    const ApplyData data = apply_data(one, 3);
    const Vector want = oracle_read(one, data);
    for (const std::string& form : forms_of(one)) {
      SCOPED_TRACE(fmt::format("{} {} {}", one.memory, one.name, form));
      ASSERT_NO_FATAL_FAILURE(expect_close("o", apply<double>(one, form, data).at("o"), want, 1e-12));
      ++checked;
    }
  }
  EXPECT_GT(checked, 0);
}

TEST_P(MemoryApply, FormsAgreeInGradientsAndStates) {
  for (const ApplyCase& one : apply_cases(GetParam(), sizes())) {
    const ApplyData data = apply_data(one, 5);
    const auto forms = forms_of(one);
    const ApplyResult want = apply<double>(one, forms.back(), data);
    for (const std::string& form : forms) {
      SCOPED_TRACE(fmt::format("{} {} {}", one.memory, one.name, form));
      const ApplyResult got = apply<double>(one, form, data);
      ASSERT_EQ(got.size(), want.size());
      for (const auto& [name, x] : want) ASSERT_NO_FATAL_FAILURE(expect_close(name, got.at(name), x, 1e-10));
    }
  }
}

// More keys than chunks hold where a state erases: what is written is solved for, and read by all pairs of tokens.
TEST(WideKeys, ByAllPairsAreThoseOfTheWalk) {
  int compared = 0;
  for (const char* memory : {"deltanet", "gated_delta", "longhorn", "linear_attention"}) {
    ApplySizes sizes = kSizes;
    sizes.K = 136;
    for (const ApplyCase& one : apply_cases(memory, sizes)) {
      const ApplyData data = apply_data(one, 5);
      const auto forms = forms_of(one);
      if (std::count(forms.begin(), forms.end(), "parallel") == 0) continue;
      SCOPED_TRACE(fmt::format("{} {}", memory, one.name));
      const ApplyResult want = apply<double>(one, "recurrent", data);
      for (const auto& [name, x] : apply<double>(one, "parallel", data))
        ASSERT_NO_FATAL_FAILURE(expect_close(name, x, want.at(name), 1e-10));
      ++compared;
    }
  }
  EXPECT_GT(compared, 4);
}

/// Gradients of every input with central differences of sum(o * d_o), and, where data has "d_ends", of the states at the end.
void expect_differences(const ApplyCase& one, const std::string& form, const ApplyData& data) {
  ApplyCase asked = one;
  if (!form.empty()) asked.given["form"] = form;
  ApplyModel<double> model(one.of(), asked.options(), one.sizes, one.present, Device::cpu, true);
  const ApplyResult analytic = apply<double>(one, form, data);
  const bool ends = data.count("d_ends") != 0;
  const auto along = [](const Tensor<double>& x, const Vector& d) {
    double sum = 0;
    for (std::int64_t i = 0; i < x.size(); ++i) sum += x.at(0)[i] * d[static_cast<std::size_t>(i)];
    return sum;
  };
  const auto loss = [&] {
    model.graph().forward({});
    double sum = along(model.output(), data.at("d_o"));
    for (const auto& [name, state] : model.states())
      if (ends) sum += along(state->value, end_cotangent(data, state->value.size()));
    return sum;
  };
  double noise = 1e-2 * std::max(1.0, largest(data.at("d_o")));
  if (ends) {  // what differences round is as large as the sums: of states that may be long
    for (const auto& [name, x] : analytic)
      if (name.starts_with("state_"))
        noise = std::max(noise, 1e-2 * largest(x) * static_cast<double>(x.size()));
  }
  for (const auto& [name, gradient] : analytic) {
    if (name.rfind("d_", 0) != 0) continue;
    const std::string input = name.substr(2);
    for (const auto& [other, x] : data)
      if (other != "d_o" && analytic.count("d_" + other) != 0) put(model.input(other), x);
    const Tensor<double> x = model.input(input);
    Vector numeric;
    constexpr double h = 6e-5;
    for (std::int64_t i = 0; i < x.size(); ++i) {
      const double at = x.at(0)[i];
      double slope = 0;
      for (const auto& [steps, weight] :
           std::vector<std::pair<double, double>>{{1, 8}, {-1, -8}, {2, -1}, {-2, 1}}) {
        x.at(0)[i] = at + steps * h;
        slope += weight * loss() / (12 * h);
      }
      x.at(0)[i] = at;
      numeric.push_back(slope);
    }
    ASSERT_TRUE(close(name, gradient.data(), numeric.data(), static_cast<std::int64_t>(numeric.size()),
                      1e-8 * std::max(noise, largest(numeric))));
  }
}

TEST_P(MemoryApply, GradientsAreThoseOfDifferences) {
  ApplySizes small = sizes();
  small.B = 1, small.T = 4;
  for (const ApplyCase& one : apply_cases(GetParam(), small)) {
    if (!smooth(one.options())) continue;
    SCOPED_TRACE(fmt::format("{} {}", one.memory, one.name));
    ApplyData data = apply_data(one, 7);
    for (double& x : data["log_decay"]) x = std::max(x, -2.0);  // differences see nothing of e^-20
    ASSERT_NO_FATAL_FAILURE(expect_differences(one, "", data));
  }
}

// Backward starts from the states at the end as well, in every form and from a state before the first token.
TEST_P(MemoryApply, GradientsOfStatesAreThoseOfDifferences) {
  const Memory& kind = *find_memory(GetParam());
  if (kind.states.empty()) {
    GTEST_SKIP() << "keeps its keys, not a state";
  }
  ApplySizes small = sizes();
  small.B = 1, small.T = 4, small.V = 5;  // LayerNorm of three values divides by what may be small
  ApplyCase one{GetParam(), "states", with_letters(kind, small, {}), {}, {}};
  ApplyData data = apply_data(one, 7);
  for (double& x : data["log_decay"]) x = std::max(x, -2.0);
  for (const auto& [name, x] :
       apply<double>(one, "", data)) {  // states that there are: of some not every number is one
    const std::string start = name.starts_with("state_") ? start_name(name.substr(6)) : "";
    for (const ApplyInput& input : apply_inputs(kind, one.sizes)) {
      if (input.name != start) continue;
      data[start] = x;
      if (input.optional) one.present.push_back(start);
    }
  }
  RandomStream random(17, RandomDomain::initialisation, 1000);
  for (int i = 0; i < 31; ++i) data["d_ends"].push_back(normal_from_uniform(random.uniform()));
  for (const std::string& form : forms_of(one)) {
    SCOPED_TRACE(fmt::format("{} {}", one.memory, form));
    ASSERT_NO_FATAL_FAILURE(expect_differences(one, form, data));
    ApplyData without = data;
    without.erase("d_ends");
    EXPECT_NE(apply<double>(one, form, data), apply<double>(one, form, without));
  }
}

TEST_P(MemoryApply, SinglePrecisionAgreesWithDouble) {
  for (const ApplyCase& one : apply_cases(GetParam(), sizes())) {
    if (!smooth(one.options())) continue;  // a rounding may go the other way
    // LayerNorm of three values divides by what may be small.
    const auto inputs = apply_inputs(one.of(), one.sizes);
    // gka solves a system whose condition is 51.
    const bool layer_norm = one.memory == "gka" || one.name.find("layernorm") != std::string::npos ||
                            one.options().has("memory.inner_steps") ||
                            std::any_of(inputs.begin(), inputs.end(),
                                        [](const ApplyInput& input) { return input.name == "gain"; });
    const double limit = layer_norm ? 1e-3 : 2e-5;
    ApplyData data = apply_data(one, 9);
    for (auto& [name, x] : data)
      for (double& e : x) e = static_cast<float>(e);
    for (const std::string& form : forms_of(one)) {
      SCOPED_TRACE(fmt::format("{} {} {}", one.memory, one.name, form));
      const ApplyResult want = apply<double>(one, form, data), got = apply<float>(one, form, data);
      for (const auto& [name, x] : want) ASSERT_NO_FATAL_FAILURE(expect_close(name, got.at(name), x, limit));
    }
  }
}

// The data of models/testing/hard_cases.h: every form is the oracle, finite in both precisions, gradients too.
TEST_P(MemoryApply, HardDataStaysFiniteAndExact) {
  ApplySizes s = sizes();
  s.B = s.H = 1, s.T = 70, s.K = 5, s.V = 3;
  ApplyCase one{GetParam(), "hard", s, {}, {}};
  const auto starts = [&](const ApplyInput& input) { return is_start(*find_memory(one.memory), input.name); };
  for (const ApplyInput& input : apply_inputs(one.of(), s))
    if (input.optional && !starts(input)) one.present.push_back(input.name);
  const Options options = one.options();
  for (const HardCase& hard : hard_cases()) {
    ApplyData data = apply_data(one, 13);
    Sequence sequence = sequence_of(one, options, data, 0, 0);
    hard.change(sequence);
    // Only memories with beta_max have rates above 1.
    if (!options.has("memory.beta_max") && sequence.has("beta")) {
      for (Vector& row : sequence.in["beta"])
        for (double& x : row) x = std::min(x, 1.0);
    }
    for (const ApplyInput& input : apply_inputs(one.of(), s)) {
      if (starts(input)) continue;
      Vector& x = data[input.name];
      x.clear();
      for (const Vector& row : rows_of(sequence, input.name)) x.insert(x.end(), row.begin(), row.end());
    }
    const Vector want = oracle_read(one, data);  // or what the last form reads
    const bool explodes =
        largest(want) > 1e12;  // a state that grows without bound: only its numbers' ratio counts
    for (const std::string& form : forms_of(one)) {
      SCOPED_TRACE(fmt::format("{} {} {}", one.memory, hard.name, form));
      const ApplyResult precise = apply<double>(one, form, data), single = apply<float>(one, form, data);
      ASSERT_NO_FATAL_FAILURE(expect_close("o", precise.at("o"), want, 1e-9));
      for (const auto& [name, x] : precise) {
        for (const double e : x) ASSERT_TRUE(std::isfinite(e)) << name;
        if (explodes) continue;
        for (const double e : single.at(name))
          ASSERT_TRUE(std::isfinite(e)) << name << " in single precision";
      }
    }
  }
}

// `.state` against what one head of one sequence has at the end: the states that build() hands over, and what the oracle says
// that it keeps. What keeps its tokens hands nothing over, and has more after more of them.
TEST_P(MemoryApply, StateSizeIsWhatItKeeps) {
  const Memory& kind = *find_memory(GetParam());
  ApplySizes wide = sizes();
  wide.K = 8;
  for (const ApplyCase& one : apply_cases(GetParam(), wide)) {
    SCOPED_TRACE(fmt::format(
        "{} {}: say .state = [](const Options& o, std::int64_t K, std::int64_t V, std::int64_t T) {{ ... }}; "
        "without it state::matrix is taken, which is K * V, and what keeps all tokens has state::cache",
        one.memory, one.name));
    const Options options = one.options();
    const auto size = [&](int T) { return kind.state(options, one.sizes.K, one.sizes.V, T); };
    const ApplyData data = apply_data(one, 3);
    std::int64_t kept = 0;
    for (const auto& [name, x] : apply<double>(one, "", data))
      if (name.starts_with("state_")) kept += std::ssize(x) / (one.sizes.B * one.sizes.H);
    if (options.has("memory.mini_batch") && options.get_int("memory.mini_batch") > 1) {
      EXPECT_GT(size(one.sizes.T), kept) << "and what a batch under way adds up";
    } else if (kept > 0) {
      EXPECT_EQ(size(one.sizes.T), kept) << "numbers of the states that m.end() and read() hand over";
    } else if (one.name == "defaults" && kind.name != "h3") {  // whose convolutions are those of a state
      EXPECT_GT(size(3), size(2)) << "no state is handed over: it keeps its tokens";
    }
    Witness witness;
    oracle_read(one, data, &witness);
    if (witness.floats > 0) {
      EXPECT_EQ(size(one.sizes.T), witness.floats) << "numbers that the oracle has given s.keeps()";
    }
  }
}

/// h tokens, their state, and the rest from there are as the whole.
void goes_on(const ApplyCase& all) {
  const ApplyData data = apply_data(all, 11);
  for (const std::string& form : forms_of(all)) {
    const ApplyResult want = apply<double>(all, form, data);
    for (int h = 1; h < all.sizes.T; h += 2) {
      SCOPED_TRACE(
          fmt::format("{} {} split at {}; all that one token leaves to the next, a count of tokens too, is a "
                      "state: in .states, from m.start(NAME), handed over by m.end(NAME, last_token(x))",
                      all.memory, form, h));
      const ApplyResult part = apply_in_pieces<double>(all, form, data, {h, all.sizes.T});
      for (const auto& [name, x] : want) {
        if (name != "o" && name.rfind("state_", 0) != 0) continue;
        ASSERT_NO_FATAL_FAILURE(expect_close(name, part.at(name), x, 1e-12));
      }
    }
  }
}

TEST_P(MemoryApply, GoesOnFromACarriedState) {
  const Memory& kind = *find_memory(GetParam());
  if (kind.states.empty()) {
    GTEST_SKIP() << "keeps its keys, not a state";
  }
  std::vector<ApplyCase> cases;  // by default; with wider keys; divided by a state that is another sum
  for (const auto& given : std::vector<std::map<std::string, OptionValue>>{
           {}, {{"feature_map", "dpfp"}}, {{"read_norm", "attention"}}}) {
    ApplyCase one{GetParam(), given.empty() ? "whole" : given.begin()->first, sizes(), given, {}};
    one.sizes.B = 1;
    try {
      if (given.count("feature_map") != 0 && !kind.own_queries) continue;
      if (given.count("read_norm") != 0 && !apply_options(kind, one.sizes, {}).has("memory.read_norm"))
        continue;
      one.sizes = with_letters(kind, one.sizes, given);
      ApplyModel<double>(kind, one.options(), one.sizes, {}, Device::cpu, true);
      cases.push_back(one);
    } catch (const OptionError&) {
    }
  }
  for (const ApplyCase& all : cases) goes_on(all);
}

/// A given input that changes nothing has been ignored: it is used, or refused.
TEST_P(MemoryApply, EveryInputThatIsTakenCounts) {
  ApplySizes small = sizes();
  small.B = 1, small.T = 3;
  for (const ApplyCase& bare : apply_cases(GetParam(), small)) {
    const bool number = std::any_of(bare.given.begin(), bare.given.end(), [](const auto& one) {
      return !std::holds_alternative<bool>(one.second) && !std::holds_alternative<std::string>(one.second);
    });  // which may leave nothing to choose: a window of one token
    for (const ApplyInput& input : apply_inputs(bare.of(), bare.sizes)) {
      if (number) continue;
      ApplyCase one = bare;
      const bool given = std::count(one.present.begin(), one.present.end(), input.name) != 0;
      if (input.optional && !given) one.present.push_back(input.name);
      SCOPED_TRACE(fmt::format("{} {}: {}", one.memory, one.name, input.name));
      ApplyData data = apply_data(one, 21);
      ApplyResult before;
      try {
        before = apply<double>(one, "", data);
      } catch (const OptionError& refused) {
        EXPECT_NE(std::string(refused.what()).find(input.name), std::string::npos) << refused.what();
        continue;
      }
      for (std::size_t i = 0; double& x : data[input.name]) x *= i++ % 2 == 0 ? 1.25 : 0.8;
      ApplyResult after = apply<double>(one, "", data);
      for (ApplyResult* both : {&before, &after})
        std::erase_if(*both, [](const auto& x) { return x.first.starts_with("d_"); });
      EXPECT_NE(before, after) << "it is accepted and has no effect";
    }
  }
}

/// So is an option that apply adds to those of the memory.
TEST_P(MemoryApply, EveryOptionOfApplyCounts) {
  const Memory& kind = *find_memory(GetParam());
  const std::map<std::string, OptionValue> others = {{"scale", 0.7}, {"eps", 0.3}, {"strict", true}};
  for (const bool divided : {false, true}) {
    ApplyCase bare{GetParam(), divided ? "divided" : "bare", sizes(), {}, {}};
    bare.sizes = with_letters(kind, bare.sizes, {});
    if (divided && !apply_options(kind, bare.sizes, {}).has("memory.read_norm")) continue;
    if (divided) bare.given["read_norm"] = "attention";
    for (const OptionSpec& extra : apply_extra_options(kind)) {
      const auto other = others.find(extra.name);
      if (other == others.end()) continue;
      SCOPED_TRACE(fmt::format("{}: {}", bare.name, extra.name));
      ApplyCase one = bare;
      one.given.insert(*other);
      try {
        bare.sizes.H = one.sizes.H = divided ? 1 : bare.sizes.H;
        const ApplyData data = apply_data(bare, 21);
        const auto before = apply<double>(bare, "", data);
        EXPECT_NE(before.at("o"), apply<double>(one, "", data).at("o")) << "it is accepted and has no effect";
      } catch (const OptionError& refused) {
        EXPECT_TRUE(refused.key == "memory." + extra.name || (divided && refused.key == "memory.read_norm"))
            << refused.what();
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, MemoryApply, every_memory(), memory_name);

}  // namespace crosstalk::checks::apply_check_test
