// Laws drawn at random, in every form that runs them, against their text worked out number by number (law_plain.h): reads, states at the
// end, gradients of all inputs; each is trained for a step. CROSSTALK_LAWS says how many, CROSSTALK_FIRST_LAW from which on.
// SPDX-License-Identifier: Apache-2.0
#include "models/rules/random_law.h"

#include "kernels/base/device/nvrtc.h"
#include "kernels/base/error.h"
#include "kernels/rule/rule_source.h"
#include "kernels/testing/cuda_test.h"
#include "models/apply_model.h"
#include "models/rules/law_examples.h"
#include "models/rules/law_plain.h"
#include "models/rules/program.h"
#include "models/rules/rule_memory.h"
#include "models/rules/rule_run.h"
#include "models/rules/sequential.h"
#include "models/testing/trained_rule.h"

namespace crosstalk::rules::random_law_test {

int number_from(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text ? std::atoi(text) : otherwise;
}

const std::vector<std::pair<int, int>> kSizes = {{1, 1}, {3, 2}, {5, 5}, {8, 4}, {17, 9}};  // K, V
constexpr int kTokens = 4;

/// The memory of a law that runs token after token, whatever engines would take it.
Memory sequential(const Rule& rule) {
  Memory memory = rule.memory;
  memory.build = [text = rule.text](auto& m) {
    const std::unique_ptr<Law> law = parse_law(steps_of(text), {});
    return read_sequentially(m, *law);
  };
  return memory;
}

/// Reproducible numbers in (-1, 1), by name.
std::vector<double> drawn(const std::string& name, std::int64_t n) {
  std::uint64_t state = 7;
  for (const char c : name) state = state * 1000003 + static_cast<unsigned char>(c);
  std::vector<double> out;
  for (std::int64_t i = 0; i < n; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    out.push_back(static_cast<double>(state >> 40) / static_cast<double>(1u << 23) - 1);
  }
  return out;
}

/// The same on a raster, which many of them share: functions are looked at where they have kinks.
std::vector<double> on_raster(const std::string& name, std::int64_t n) {
  std::vector<double> numbers = drawn(name, n);
  for (double& x : numbers) x = std::round(2 * x) / 2;
  return numbers;
}

/// What is to be compared, and why it is not; the error that rounding may make.
struct Truth {
  std::map<std::string, std::vector<double>> numbers;
  std::string skipped;
  double tolerance = 0;
};

/// Weights of reads and of states at the end in what gradients are of.
Truth truth(const std::string& text, const plain::Sizes& sizes, const plain::Given& given,
            const std::vector<std::string>& ends) {
  plain::Evaluator law(steps_of(text), sizes, given);
  plain::Tape& tape = law.tape;
  Truth out;
  int loss = tape.leaf(0);
  const auto add = [&](const std::string& name, const std::vector<int>& x) {
    const std::vector<double> weights = drawn("d_" + name, static_cast<std::int64_t>(x.size()));
    for (std::size_t i = 0; i < x.size(); ++i) {
      out.numbers[name].push_back(tape.at(x[i]));
      loss = tape.add(loss, tape.mul(tape.leaf(weights[i]), x[i]));
    }
  };
  add("o", law.read);
  for (const std::string& state : ends) add("state " + state, law.states.at(state).x);
  std::vector<int> all;
  for (const auto& [name, numbers] : given)
    all.insert(all.end(), law.input(name).begin(), law.input(name).end());
  const std::vector<int> slopes = tape.gradients(loss, all);
  std::size_t next = 0;
  for (const auto& [name, numbers] : given)
    for (std::size_t i = 0; i < numbers.size(); ++i)
      out.numbers["d_" + name].push_back(tape.at(slopes[next++]));
  if (!(tape.largest < 1e7)) out.skipped = "overflow";
  if (tape.kink < 1e-7) out.skipped = "kink";
  out.tolerance = 1e-11 * std::max(1.0, tape.largest);
  return out;
}

/// One form of a law at one size: with states that come in and go out, or without.
class RunLaw {
 public:
  using Numbers = std::vector<double> (*)(const std::string&, std::int64_t);
  RunLaw(const Rule& rule, std::pair<int, int> size, bool carried, Numbers numbers = drawn)
      : rule_(rule),
        carried_(carried),
        numbers_(numbers),
        sizes_{.B = 1, .T = kTokens, .H = 1, .K = size.first, .V = size.second} {
    for (const ApplyInput& input : apply_inputs(rule.memory, sizes_)) {
      if (input.optional && !carried) continue;
      std::int64_t n = 1;
      for (int d : input.dims) n *= d;
      if (input.optional) present_.push_back(input.name);
      given_[input.name] = numbers_(input.name, n);
    }
  }
  /// `shift`: inputs differ by so much of themselves.
  Truth truth(const std::string& text, double shift = 0) const {
    plain::Given given = given_;
    for (auto& [name, numbers] : given) {
      const std::vector<double> turns = drawn("turn " + name, static_cast<std::int64_t>(numbers.size()));
      for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] *= 1 + shift * turns[i];
    }
    std::vector<std::string> ends;
    for (const LawState& one : rule_.law->states) {
      if (!carried_) continue;
      ends.push_back(one.name);
      auto node = given.extract(start_name(one.name));
      node.key() = one.name + "0", given.insert(std::move(node));
    }
    Truth out = random_law_test::truth(text, {kTokens, sizes_.K, sizes_.V}, given, ends);
    for (const std::string& state : ends) {
      auto node = out.numbers.extract("d_" + state + "0");
      node.key() = "d_" + start_name(state), out.numbers.insert(std::move(node));
    }
    return out;
  }
  /// The truth with room for rounding in ill-conditioned laws (unit() of small vectors, layernorm of equal numbers): 1024 times the change that
  /// inputs 64 roundings off make, since a law's own constants are not moved.
  Truth loosened(const std::string& text, Truth truth) const {
    const Truth other = this->truth(text, 64 * std::numeric_limits<double>::epsilon());
    double apart = 0;
    for (const auto& [name, numbers] : truth.numbers)
      for (std::size_t i = 0; i < numbers.size(); ++i)
        apart = std::max(apart, std::abs(numbers[i] - other.numbers.at(name)[i]));
    truth.tolerance = std::max(truth.tolerance, 1024 * apart);
    return truth;
  }
  /// What differs, or nothing.
  std::string differs(const Memory& memory, const std::string& form, const Truth& truth) const {
    const Options options = apply_options(memory, sizes_, {{"law", rule_.text}, {"form", form}});
    ApplyModel<double> model(memory, options, sizes_, present_, Device::cpu, true, Precision::full, carried_,
                             carried_);
    const auto put = [](const std::vector<double>& numbers, const Tensor<double>& x) {
      std::copy(numbers.begin(), numbers.end(), x.at(0));
    };
    for (const auto& [name, numbers] : given_) put(numbers, model.input(name));
    put(drawn("d_o", model.cotangent().size()), model.cotangent());
    for (const auto& [name, variable] : model.states()) {
      if (!model.has_end_cotangent(name)) continue;
      const Tensor<double> end = model.end_cotangent(name);
      put(drawn("d_state " + name, end.size()), end);
    }
    model.graph().forward({});
    model.graph().backward({});
    model.graph().check_guards();
    std::string out;
    const auto compare = [&](const std::string& name, const Tensor<double>* x) {
      const std::vector<double>& want = truth.numbers.at(name);
      if (x && x->size() != static_cast<std::int64_t>(want.size())) out = name + " has another size";
      for (std::size_t i = 0; i < want.size() && out.empty(); ++i) {
        const double got = x ? x->at(0)[i] : 0;
        if (!(std::abs(got - want[i]) <= truth.tolerance))
          out =
              fmt::format("{} {}: {} for {} (may differ by {:.1e})", name, i, got, want[i], truth.tolerance);
      }
    };
    const Tensor<double> o = model.output();
    compare("o", &o);
    for (const auto& [name, variable] : model.states())
      if (carried_) compare("state " + name, &variable->value);
    for (const auto& [name, numbers] : given_)
      if (!model.differentiated(name)) {
        compare("d_" + name, nullptr);
      } else {
        const Tensor<double> x = model.gradient(name);
        compare("d_" + name, &x);
      }
    return out;
  }

 private:
  const Rule& rule_;
  const bool carried_;
  const Numbers numbers_;
  const ApplySizes sizes_;
  std::vector<std::string> present_;
  plain::Given given_;
};

/// The law of a seed, or of a later one where that is refused.
std::string accepted_text(int seed) {
  for (;; seed += 1000000) {
    std::string text = RandomLaw(seed).text();
    try {
      accept_law(steps_of(text));
      return text;
    } catch (const LawError&) {
    }
  }
}

struct Tally {
  int compared = 0;
  std::map<std::string, int> skipped;
};

/// A law at all sizes and in all forms. `turn`: at which sizes states come in and go out.
void expect_text(const std::string& text, Tally& tally, int turn, RunLaw::Numbers numbers = drawn) {
  SCOPED_TRACE(text);
  const Rule& rule = rule_of(text, {});
  ASSERT_EQ(rule.refused, "");
  const Memory token_by_token = sequential(rule);
  for (std::size_t i = 0; i < kSizes.size(); ++i) {
    const bool carried = (static_cast<int>(i) + turn) % 2 == 0;
    const RunLaw run(rule, kSizes[i], carried, numbers);
    const Truth truth = run.truth(text);
    if (!truth.skipped.empty()) {
      ++tally.skipped[truth.skipped];
      continue;
    }
    ++tally.compared;
    const auto expect = [&](const Memory& memory, const std::string& form, const char* called) {
      std::string found = run.differs(memory, form, truth);
      if (!found.empty()) {
        const Truth loosened = run.loosened(text, truth);
        if (loosened.tolerance > 1e5 * truth.tolerance) {  // it would hide what is wrong
          ++tally.skipped["ill-conditioned"];
          return;
        }
        found = run.differs(memory, form, loosened);
      }
      EXPECT_EQ(found, "") << called << ", K = " << kSizes[i].first << ", V = " << kSizes[i].second
                           << (carried ? ", states given" : "");
    };
    expect(token_by_token, "automatic", "token after token");
    if (!rule.plan.reason.empty()) continue;
    for (const std::string& form : form_names()) {
      try {
        expect(rule.memory, form, form.c_str());
      } catch (const OptionError&) {  // does not cover it
        EXPECT_TRUE(form != "automatic" && form != "recurrent") << form;
      }
    }
  }
}

TEST(RandomLaws, AreWhatTheirTextSays) {
  const int first = number_from("CROSSTALK_FIRST_LAW", 1), count = number_from("CROSSTALK_LAWS", 400);
  Tally tally;
  int recognised = 0;
  for (int seed = first; seed < first + count; ++seed) {
    SCOPED_TRACE(seed);
    const std::string text = RandomLaw(seed).text();
    try {
      recognised += rule_of(text, {}).plan.reason.empty() ? 1 : 0;
      expect_text(text, tally, seed);
      checks::expect_rule_trains(text);
    } catch (const std::exception& error) {
      const std::string what = error.what();
      const std::vector<std::string> refusals = {
          "the law is too large when it is written out", "this grad is of a gradient that went through",
          "what grad is of does not depend on", "so grad would miss the way from",
          "nothing that is read depends on the state"};
      const auto one = std::find_if(refusals.begin(), refusals.end(), [&](const std::string& words) {
        return what.find(words) != std::string::npos;
      });
      if (one != refusals.end()) ++tally.skipped[*one];
      EXPECT_TRUE(one != refusals.end()) << error.what() << "\n" << text;
    }
    if (HasFailure()) break;
  }
  int skipped = 0;
  for (const auto& [why, n] : tally.skipped) skipped += n, RecordProperty(why, n);
  fmt::print("{} laws, {} of engines: {} compared", count, recognised, tally.compared);
  for (const auto& [why, n] : tally.skipped) fmt::print(", {} skipped ({})", n, why);
  fmt::print("\n");
  EXPECT_LE(skipped, 0.04 * (tally.compared + skipped));
  EXPECT_GE(recognised, count / 5);
}

/// The smallest laws that were once something else than their text.
TEST(RandomLaws, FoundBefore) {
  const std::string fast = "S += tanh(v k^T); ", read = fast + "read S q + ",
                    z = "state z[K]; z = tanh(z) + ";
  Tally tally;
  const std::vector<std::string> all = {
      // A fill that is read as so many numbers.
      read + "sum(fill(0.3, V) * (S q))", read + "mean(fill(0.3, V) * (S q))",
      read + "dot(fill(0.3, V), S q)", read + "sum(fill(0.3, V, K) * S)", read + "sum(S) fill(0.3, V) / 2",
      read + "fill(sum(S), V)", read + "(q^T q) fill(0.3, V) * sum(S)",
      "p = parameter(V, K); S += v k^T; read S q + sum(p) fill(0.3, V)",
      z + "sum(z) fill(0.3, K) + k; " + fast + "read S q + S z",
      z + "fill(sum(z), K) + k; " + fast + "read S q + S z",
      "state a[1]; " + fast + "a -= 0.1 grad(sum(a * (S k)), a); read S q + a (S q)",
      // Decays that are negative numbers.
      "S = -S + v k^T; read S q", "S = -0.5 S + v k^T; read S q",
      // Decays with signs beside rows that decay.
      "S = diag(sigmoid(v)) S diag(tanh(k)) + v k^T; read S q",
      // Steps and reading look at one tensor, before and behind.
      read + "v", "w = token(K); S = tanh(S) + v w^T; read S (q * w)",
      "read S q + v; " + fast.substr(0, fast.size() - 2),
      // More memory forward than back.
      read + "row_sums((fill(-0.4, V, V) - fill(0.3, V, V)) / (1.2 + abs(sum(fill(1.5, K, K)))))",
      // Gradients by values that rewrites take apart.
      "S = 0.9 S; S -= 0.1 grad(sum((S k - v)^2), S); read S q",
      "state z[K]; w = -k; z -= 0.1 grad(sum(S w), w); S += v k^T; read S z",
      "w = v k^T; S -= 0.1 grad(sum(tanh(w k)), w); read S q",
      "w = S diag(k); S -= 0.1 grad(sum(tanh(w^T v)), w); S += v k^T; read S q",
      "state g[K]; S += v k^T; loss = 0.5 sum((S k - v)^2); g = grad(loss, k); read S (q + g)",
      "loss = tanh(sum((S k)^2)); S += v k^T; S -= 0.1 grad(loss * sum(S * S), S); read S q",
      "w = 2 v; y = 3 w; S -= 0.1 grad(sum(y * y) + sum(S k * w), w) k^T; read S q"};
  for (const std::string& text : all) {
    expect_text(text, tally, 0), expect_text(text, tally, 1);
    checks::expect_rule_trains(text);
  }
  EXPECT_TRUE(tally.skipped.empty());
}

/// Where numbers are equal, or 0, all forms have the slopes that docs/rules.md says.
TEST(RandomLaws, SlopesAtKinks) {
  const std::string gated = "; S += a v k^T; read S q",
                    gates = "i = exp(token); f = sigmoid(token); state n[K]; ",
                    held = gates + "S = f S + i v k^T; n = f n + i k; read S q / ";
  Tally tally;
  const std::vector<std::string> all = {
      "b = token; c = token; a = max(b, c)" + gated,
      "b = token; c = token; a = min(b, c)" + gated,
      "b = token; a = max(0.5, b)" + gated,
      "b = token; a = max(b, 0.5)" + gated,
      "b = token; a = min(-0.5, b)" + gated,
      "b = token; a = min(b, -0.5)" + gated,
      "b = token; a = abs(b) + relu(b)" + gated,
      "b = token(K); S += v max(k, b)^T; read S q",
      held + "max(abs(n^T q), 1)",
      held + "max(1, abs(n^T q))",
      "S = max(S, v k^T); read S q",
      "S = min(0.25, S) + max(v k^T, -0.25); read S q",
      "S -= 0.5 grad(sum(max(S k, v)), S); read S q",
      "b = token; S += v k^T; b2 = 2 b; S -= grad(sum(max(1, b2) (S k)), b2) v k^T; read abs(S) q"};
  for (const std::string& text : all)
    expect_text(text, tally, 0, on_raster), expect_text(text, tally, 1, on_raster);
  EXPECT_TRUE(tally.skipped.empty());
}

TEST(RandomLaws, ExamplesAreWhatTheirTextSays) {
  Tally tally;
  for (const Example& one : examples()) expect_text(one.law, tally, 0);
  EXPECT_GE(tally.compared, 4 * static_cast<int>(examples().size()));
}

template <class Real>
std::vector<std::vector<Real>> ran(const std::shared_ptr<const RuleProgram>& program, const RuleRunSize& size,
                                   Device device, bool compiled) {
  const RuleRun<Real> run(program, size, device, compiled);
  Exec exec{.device = device};
  std::optional<CudaStream> stream;
  if (device == Device::cuda) stream.emplace(), exec.stream = stream->get();
  forward(exec, run.op()), backward(exec, run.op());
  if (stream) stream->synchronise();
  return run.results();
}
/// The largest difference, and the largest number; infinite where something is not finite.
template <class A>
std::pair<double, double> apart(const std::vector<std::vector<A>>& x,
                                const std::vector<std::vector<double>>& y) {
  double most = 0, largest = 0;
  for (std::size_t i = 0; i < x.size(); ++i)
    for (std::size_t j = 0; j < x[i].size(); ++j) {
      const double d = std::abs(static_cast<double>(x[i][j]) - y[i][j]);
      most = std::isfinite(d) ? std::max(most, d) : INFINITY, largest = std::max(largest, std::abs(y[i][j]));
    }
  return {most, largest};
}

/// A compiled law has keys and values of more than one number each, or nothing that has more.
bool compiles(const RuleProgram& program) {
  return (program.keys > 1 && program.values > 1) ||
         (program.keys == program.values &&
          std::ranges::all_of(program.states, [](const auto& one) { return one.numbers() == 1; }));
}

/// Sources compile, without a GPU, or are refused. CROSSTALK_COMPILED_LAWS says how many laws. Law 300: keys and values of one
/// number beside a state of 3 x K.
TEST(RandomLaws, SourcesCompile) {
  if (!nvrtc().found) {
    GTEST_SKIP() << nvrtc().missing;
  }
  const int first = number_from("CROSSTALK_FIRST_LAW", 1), count = number_from("CROSSTALK_COMPILED_LAWS", 5);
  const std::vector<std::pair<int, int>> sizes = {{1, 1}, {3, 2}, {1, 6}, {5, 1}, {17, 9}};
  std::vector<int> seeds = {300};
  for (int seed = first; seed < first + count; ++seed) seeds.push_back(seed);
  for (const int seed : seeds) {
    const std::string text = accepted_text(seed);
    const auto [K, V] = sizes[static_cast<std::size_t>(seed) % sizes.size()];
    SCOPED_TRACE(fmt::format("{}, K = {}, V = {}: {}", seed, K, V, text));
    const std::unique_ptr<Law> law = parse_law(steps_of(text), {});
    const bool beside = seed % 3 == 0, wide = seed % 2 == 0;
    const auto program = program_of(*law, cut(*law, beside), K, V);
    const RuleSource source = rule_source(*program, wide, beside);
    ASSERT_EQ(source.refused.empty(), compiles(*program)) << source.refused;
    if (!source.refused.empty()) continue;
    for (const std::string* part : {&source.forward, &source.backward}) {
      try {
        compile_cuda(*part, 90, "the law");
      } catch (const DeviceError& error) {
        ADD_FAILURE() << error.what();
      }
    }
  }
}

/// CROSSTALK_COMPILED_LAWS says how many. What rounding does to a law is what it does to it in single precision.
TEST(RandomLaws, CompiledAndInterpretedAreTheCpusOnCuda) {
  checks::want_cuda();
  if (IsSkipped() || HasFailure()) return;
  const int first = number_from("CROSSTALK_FIRST_LAW", 1), count = number_from("CROSSTALK_COMPILED_LAWS", 6);
  int skipped = 0;
  for (int seed = first; seed < first + count; ++seed) {
    const std::string text = accepted_text(seed);
    SCOPED_TRACE(fmt::format("{}: {}", seed, text));
    const auto [K, V] = kSizes[static_cast<std::size_t>(seed) % kSizes.size()];
    const std::unique_ptr<Law> law = parse_law(steps_of(text), {});
    const bool beside = seed % 3 == 0;
    const auto program = program_of(*law, cut(*law, beside), K, V);
    const RuleRunSize size{.R = 1, .B = 2, .T = 9, .Q = beside ? 5 : 0, .ends = true};
    const auto want = ran<double>(program, size, Device::cpu, false);
    const auto [noise, largest] = apart(ran<float>(program, size, Device::cpu, false), want);
    if (!(noise < 1e-2 * (1 + largest))) {
      ++skipped;
      continue;
    }
    const double limit = 1e-12 * (1 + largest) + 1e-6 * noise;
    EXPECT_LE(apart(ran<double>(program, size, Device::cuda, false), want).first, limit) << "interpreted";
    if (!nvrtc().found || !compiles(*program)) continue;
    EXPECT_LE(apart(ran<double>(program, size, Device::cuda, true), want).first, limit) << "compiled";
  }
  EXPECT_LE(skipped, std::max(1, count / 10));
  if (!nvrtc().found) {
    GTEST_SKIP() << nvrtc().missing;
  }
}

}  // namespace crosstalk::rules::random_law_test
