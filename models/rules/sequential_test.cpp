// Laws that run token after token: against built-in memories in double precision, in packs, and, on a GPU, against the CPU.
// SPDX-License-Identifier: Apache-2.0
#include "models/rules/sequential.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/testing/cuda_test.h"
#include "models/apply_model.h"
#include "models/rules/law_examples.h"
#include "models/rules/rule_memory.h"
#include "models/testing/model_run.h"
#include "models/testing/variants.h"

namespace crosstalk::rules {
namespace {

using Numbers = std::map<std::string, std::vector<double>>;

struct Same {
  std::string memory, law;
  std::map<std::string, OptionValue> options;  ///< of the built-in memory
  std::vector<std::string> starts;             ///< optional inputs that are given
};

const std::vector<Same>& pairs() {
  static const std::vector<Same> all = {
      {"fwm",
       "beta = token; state n[1]; n += 1; S += beta (v - S k) k^T; S = S / (relu(norm(S) - 1) min(n - 1, 1) "
       "+ 1); "
       "read S q",
       {},
       {}},
      {"fwm", "beta = token; S += beta (v - S k) k^T; S = S / (relu(norm(S) - 1) + 1); read S q", {}, {"s0"}},
      {"titans_linear",
       "rate = token; momentum_gate = token; forget_gate = token; state P[V, K]; "
       "P = momentum_gate P - rate (S k - v) k^T; S = (1 - forget_gate) S + P; read S q",
       {},
       {}},
      {"titans_linear",
       "rate = token; momentum_gate = token; forget_gate = token; state P[V, K]; "
       "P = momentum_gate P - rate (S k - v) k^T; S = (1 - forget_gate) S + P; read S q",
       {},
       {"s0", "p0"}},
      {"ttt_linear",
       "rate = token; gain = parameter(V, constant(1)); bias = parameter(V, constant(0)); state b[V]; "
       "e = gain * layernorm(S k + b, 0.000001) + bias - v; loss = 0.5 * sum(e * e); G = grad(loss, S); "
       "b -= rate grad(loss, b); S -= rate G; read gain * layernorm(S q + b, 0.000001) + bias",
       {{"residual", false}},
       {"s0", "b0"}},
  };
  return all;
}

/// Reads, states and gradients of one call with inputs that depend on their names alone.
template <class Real>
Numbers applied(const std::string& memory, const std::map<std::string, OptionValue>& given,
                const ApplySizes& sizes, const std::vector<std::string>& present,
                Device device = Device::cpu) {
  const Memory* kind = &memory_named(memory);
  if (const auto law = given.find("law"); law != given.end())
    kind = &rule_of(std::get<std::string>(law->second), {}).memory;
  const Options options = apply_options(*kind, sizes, given);
  ApplyModel<Real> model(*kind, options, sizes, present, device, true);
  const auto put = [&](const std::string& name, const Tensor<Real>& x) {
    double shift = 0;
    for (const char c : name) shift = shift * 1.3 + c;
    std::vector<Real> numbers;
    const bool gate = name != "k" && name != "v" && name != "q" && name != "d_o";
    for (std::int64_t i = 0; i < x.size(); ++i) {
      const double y = std::sin(shift + 1.7 * static_cast<double>(i) + 0.01 * static_cast<double>(i * i));
      numbers.push_back(static_cast<Real>(gate                           ? 0.45 + 0.35 * y
                                          : name == "v" || name == "d_o" ? y
                                                                         : 0.8 * y));
    }
    if (device == Device::cpu) {
      std::copy(numbers.begin(), numbers.end(), x.at(0));
    } else {
      cuda_copy_to_device(x.at(0), numbers.data(), numbers.size() * sizeof(Real));
    }
  };
  const auto get = [&](const Tensor<Real>& x) {
    std::vector<Real> numbers(static_cast<std::size_t>(x.size()));
    copy_to_host(device, numbers.data(), x.at(0), numbers.size() * sizeof(Real));
    return std::vector<double>(numbers.begin(), numbers.end());
  };
  for (const ApplyInput& input : apply_inputs(*kind, sizes)) {
    const bool there = !input.optional || std::count(present.begin(), present.end(), input.name) > 0;
    if (there) put(input.name, model.input(input.name));
  }
  put("d_o", model.cotangent());
  std::optional<CudaStream> stream;
  Exec exec{.device = device};
  if (device == Device::cuda) stream.emplace(), exec.stream = stream->get();
  model.graph().forward(exec);
  model.graph().backward(exec);
  if (stream) stream->synchronise();
  Numbers out;
  out["o"] = get(model.output());
  for (const auto& [name, variable] : model.states()) out["state " + name] = get(variable->value);
  for (const ApplyInput& input : apply_inputs(*kind, sizes)) {
    const bool there = !input.optional || std::count(present.begin(), present.end(), input.name) > 0;
    if (there && model.differentiated(input.name))
      out["gradient of " + input.name] = get(model.gradient(input.name));
  }
  model.graph().check_guards();
  return out;
}

void expect_close(const Numbers& got, const Numbers& want, double limit) {
  for (const auto& [name, x] : want) {
    ASSERT_EQ(got.count(name), 1u) << name;
    const auto& y = got.at(name);
    ASSERT_EQ(y.size(), x.size()) << name;
    double most = 1;
    for (const double e : x) most = std::max(most, std::abs(e));
    for (std::size_t i = 0; i < x.size(); ++i)
      ASSERT_TRUE(std::abs(y[i] - x[i]) <= limit * most)
          << name << " " << i << ": " << y[i] << ", not " << x[i];
  }
}

class SequentialRule : public ::testing::TestWithParam<std::size_t> {};

TEST_P(SequentialRule, IsTheBuiltInMemory) {
  const Same& one = pairs()[GetParam()];
  for (const ApplySizes& sizes : {ApplySizes{.B = 2, .T = 11, .H = 2, .K = 4, .V = 3},
                                  ApplySizes{.B = 1, .T = 30, .H = 1, .K = 17, .V = 20}}) {
    const Numbers want = applied<double>(one.memory, one.options, sizes, one.starts);
    Numbers got = applied<double>("rule", {{"law", one.law}}, sizes, one.starts);
    if (one.memory == "fwm") got.erase("state n");
    expect_close(got, want, 1e-12);
    EXPECT_GE(got.size(), want.size());
  }
}
INSTANTIATE_TEST_SUITE_P(BuiltIn, SequentialRule, ::testing::Range(std::size_t{0}, pairs().size()),
                         [](const auto& one) {
                           return fmt::format("{}_{}", pairs()[one.param].memory, one.param);
                         });

/// A sequence cut in two, the states of the first part handed to the second.
TEST(SequentialRules, AreSplitAtAnyToken) {
  const std::string law =
      "g = token(V); state z[3]; z = softmax(z + ones(3) tanh(sum(S))); S = 0.9 S + tanh(S k + v) k^T; "
      "read S q + g * sum(z * z)";
  const Rule& rule = rule_of(law, {});
  constexpr int T = 10, K = 4, V = 3;
  const auto row = [](const std::string& name, int t, int i) {
    return std::sin(static_cast<double>(name[0]) + 2.3 * t + 0.7 * i);
  };
  struct Part {
    std::vector<double> o, S, z;
  };
  const auto run = [&](int from, int to, const Part* before) {
    const ApplySizes sizes{.B = 1, .T = to - from, .H = 1, .K = K, .V = V};
    const Options options = apply_options(rule.memory, sizes, {{"law", rule.text}});
    ApplyModel<double> model(rule.memory, options, sizes,
                             before ? std::vector<std::string>{"s0", "z0"} : std::vector<std::string>{},
                             Device::cpu, false);
    for (const std::string name : {"q", "k", "v", "g"}) {
      const Tensor<double> x = model.input(name);
      const int width = x.columns();
      for (int t = from; t < to; ++t) {
        for (int i = 0; i < width; ++i) x.at(0)[(t - from) * width + i] = row(name, t, i);
      }
    }
    if (before) {
      std::copy(before->S.begin(), before->S.end(), model.input("s0").at(0));
      std::copy(before->z.begin(), before->z.end(), model.input("z0").at(0));
    }
    model.graph().forward({});
    const auto copied = [](const Tensor<double>& x) {
      return std::vector<double>(x.at(0), x.at(0) + x.size());
    };
    return Part{copied(model.output()), copied(model.states().at("S")->value),
                copied(model.states().at("z")->value)};
  };
  const Part whole = run(0, T, nullptr);
  for (int at = 1; at < T; ++at) {
    const Part first = run(0, at, nullptr), second = run(at, T, &first);
    std::vector<double> o = first.o;
    o.insert(o.end(), second.o.begin(), second.o.end());
    EXPECT_EQ(o, whole.o) << "split at " << at;
    EXPECT_EQ(second.S, whole.S);
    EXPECT_EQ(second.z, whole.z);
  }
}

Options options_of(const std::string& law) {
  const Memory& kind = *find_memory("rule");
  Options options = checks::memory_options(kind, 4, checks::kKeys, checks::kValues);
  options.set("memory.law", law);
  return checks::resolved(kind, options);
}

/// Numbers of a run after some steps.
template <class Real>
std::vector<Real> trained(const std::string& law, int R, int place, int threads) {
  const checks::ModelShape shape{checks::kKeys, checks::kValues, true, checks::kB, {checks::kT, 3, 3}};
  checks::ModelRun<Real> run(options_of(law), shape, R, true);
  Exec exec;
  exec.threads = threads;
  for (int r = 0; r < R; ++r) {
    const int identity = r == place ? 7 : r;
    RandomStream random(static_cast<std::uint64_t>(identity), RandomDomain::task_train, 3);
    run.model.initialise(r, static_cast<std::uint64_t>(identity));
    run.set_batch(r, checks::random_batch(random, shape.B, shape.sequence, shape.keys, shape.values));
    run.set_rate(r, 1e-2);
  }
  for (int step = 0; step < 3; ++step) run.train_step(exec);
  const Tensor<Real> x = run.model.parameters().values();
  return std::vector<Real>(x.at(place), x.at(place) + x.size());
}

TEST(SequentialRules, TrainInPacksToTheSameBits) {
  for (const Example& one : examples()) {
    if (rule_of(one.law, {}).plan.reason.empty()) continue;
    SCOPED_TRACE(one.name);
    const std::vector<float> alone = trained<float>(one.law, 1, 0, 1);
    for (const float x : alone) ASSERT_TRUE(std::isfinite(x));
    for (const auto& [place, threads] : {std::pair{0, 1}, std::pair{2, 2}, std::pair{3, 3}})
      EXPECT_EQ(trained<float>(one.law, 4, place, threads), alone) << place;
  }
}

TEST(SequentialRules, AreRefusedWhereTheyLookAtTooMuch) {
  std::string law = "S = tanh(S) + v k^T";
  for (int i = 0; i < 30; ++i) law += fmt::format("; x{0} = token(V); S += x{0} tanh(S k)^T S", i);
  law += "; read S q";
  const Rule& rule = rule_of(law, {});
  EXPECT_NE(rule.refused.find("values that tokens, queries and parameters make"), std::string::npos)
      << rule.refused;
  EXPECT_THROW(options_of(law), OptionError);
}

TEST(SequentialRules, HaveOneForm) {
  const Memory& kind = *find_memory("rule");
  for (const std::string form : {"automatic", "recurrent", "chunk", "parallel", "query"}) {
    Options options = checks::memory_options(kind, 4, checks::kKeys, checks::kValues);
    options.set("memory.law", std::string("S = tanh(S) + v k^T; read S q"));
    options.set("memory.form", form);
    if (form == "automatic" || form == "recurrent") {
      EXPECT_NO_THROW(checks::resolved(kind, options)) << form;
    } else {
      EXPECT_THROW(checks::resolved(kind, options), OptionError) << form;
    }
  }
}

class SequentialRuleOnCuda : public checks::CudaTest, public ::testing::WithParamInterface<Example> {};

TEST_P(SequentialRuleOnCuda, IsTheCpus) {
  if (rule_of(GetParam().law, {}).plan.reason.empty()) GTEST_SKIP() << "it is lowered";
  for (const ApplySizes& sizes : {ApplySizes{.B = 2, .T = 7, .H = 2, .K = 4, .V = 3},
                                  ApplySizes{.B = 1, .T = 30, .H = 2, .K = 33, .V = 20},
                                  ApplySizes{.B = 1, .T = 9, .H = 1, .K = 64, .V = 70}}) {
    const std::map<std::string, OptionValue> law = {{"law", GetParam().law}};
    const Numbers want = applied<double>("rule", law, sizes, {});
    const bool steep = std::any_of(want.begin(), want.end(), [](const auto& one) {
      return std::any_of(one.second.begin(), one.second.end(), [](double x) { return !(std::abs(x) < 1e6); });
    });
    if (steep) continue;  // a law that runs away at this size says nothing
    expect_close(applied<double>("rule", law, sizes, {}, Device::cuda), want, 1e-10);
    EXPECT_EQ(applied<float>("rule", law, sizes, {}, Device::cuda),
              applied<float>("rule", law, sizes, {}, Device::cuda));
  }
}
INSTANTIATE_TEST_SUITE_P(Laws, SequentialRuleOnCuda, ::testing::ValuesIn(examples()),
                         [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace crosstalk::rules
