// Laws of the recurrence engine: forms agree, a sequence may be cut anywhere, hard data keep error budgets.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/recurrence/state_read_case.h"
#include "kernels/testing/cuda_test.h"

namespace crosstalk::checks::state::state_read_laws_test {
namespace {

Numbers numbers(const std::string& name, std::size_t n, const Fill& fill) {
  std::uint64_t hash = 1469598103934665603u;
  for (char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  RandomStream random(hash, RandomDomain::initialisation, 0);
  Numbers x;
  for (std::size_t i = 0; i < n; ++i) x.push_back(fill(random, 0, static_cast<std::int64_t>(i)));
  return x;
}

std::size_t size_of(const std::vector<int>& dims) {
  std::size_t n = 1;
  for (int d : dims) n *= static_cast<std::size_t>(d);
  return n;
}

/// Inputs of a choice and gradients of its outputs.
Values random_values(const Choice& c) {
  Values in;
  for (const auto& [name, dims] : inputs(c)) in.real[name] = numbers(name, size_of(dims), fill_of(name, c));
  in.real["d_o"] = numbers("d_o", size_of({c.B, c.queries(), c.H, c.V}), normal());
  if (c.end) in.real["d_end"] = numbers("d_end", size_of({c.B, c.H, c.V, c.K}), normal());
  for (int i = 0; i < c.B * c.Q; ++i) in.integer["position"].push_back(i * 5 % (c.T + 1));
  return in;
}

/// Every erase and gate, decayed and not.
std::vector<std::pair<std::string, Choice>> modes(const Choice& base) {
  std::vector<std::pair<std::string, Choice>> all;
  for (Erase erase : {Erase::none, Erase::delta, Erase::tied, Erase::free}) {
    for (Gate gate : {Gate::none, Gate::scalar, Gate::channel}) {
      for (bool decayed : {true, false}) {
        Choice c = base;
        c.erase = erase, c.gate = gate, c.decayed = decayed;
        c.write_gain = true, c.erase_gain = c.reads();
        all.emplace_back(
            fmt::format("{} {} {}", name_of(erase), name_of(gate), decayed ? "decayed" : "undecayed"), c);
      }
    }
  }
  return all;
}

void expect_close(const std::string& what, const std::map<std::string, Numbers>& got,
                  const std::map<std::string, Numbers>& want, double limit) {
  for (const auto& [name, w] : want) {
    ASSERT_EQ(got.at(name).size(), w.size()) << what << ": " << name;
    EXPECT_LE(relative_error(got.at(name), w), limit) << what << ": " << name;
  }
}

/// Rows [from, to) of every sequence of a tensor [B,n,...].
Numbers cut(const Numbers& x, int B, int n, int from, int to) {
  const std::size_t row = x.size() / static_cast<std::size_t>(B * n);
  Numbers part;
  for (int b = 0; b < B; ++b)
    part.insert(part.end(),
                x.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(b * n + from) * row),
                x.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(b * n + to) * row));
  return part;
}

TEST(StateReadLaws, ASequenceMayBeCutAnywhere) {
  Choice base;
  base.B = 2, base.H = 2, base.T = 35, base.K = 3, base.V = 2, base.start = base.end = true;
  for (StateForm form : {StateForm::recurrent, StateForm::chunkwise}) {
    for (const auto& [name, c] : modes(base)) {
      const Values in = random_values(c);
      const auto whole = run<double>(c, form, in);
      for (int t : {1, 2, 17, 31, 32, 33, 34}) {
        const auto part = [&, mode = c](int from, int to, const Numbers& start, const Numbers& d_end) {
          Choice p = mode;
          p.T = to - from;
          Values v;
          for (const auto& [field, x] : in.real)
            if (field != "start" && field != "d_end") v.real[field] = cut(x, p.B, mode.T, from, to);
          v.real["start"] = start;
          v.real["d_end"] = d_end;
          return run<double>(p, form, v);
        };
        const Numbers zero(in["d_end"].size(), 0);
        const Numbers middle = part(0, t, in["start"], zero).at("end");
        const auto second = part(t, c.T, middle, in["d_end"]);
        const auto first = part(0, t, in["start"], second.at("d_start"));
        const std::string what = fmt::format("{}, cut at {}", name, t);
        EXPECT_LE(relative_error(second.at("end"), whole.at("end")), 1e-12) << what;
        EXPECT_LE(relative_error(first.at("d_start"), whole.at("d_start")), 1e-12) << what;
        for (const auto& [field, x] : whole) {
          if (field == "end" || field == "d_start") continue;
          EXPECT_LE(relative_error(first.at(field), cut(x, c.B, c.T, 0, t)), 1e-11) << what << ": " << field;
          EXPECT_LE(relative_error(second.at(field), cut(x, c.B, c.T, t, c.T)), 1e-11)
              << what << ": " << field;
        }
      }
    }
  }
}

// A gate of -60 or -1e4 empties the state: what is left is what the tokens since then say.
TEST(StateReadLaws, VanishingGatesAreFiniteAndExact) {
  Choice base;
  base.T = 40, base.K = 6, base.V = 3, base.start = base.end = true;
  for (const auto& [name, c] : modes(base)) {
    if (c.gate == Gate::none) continue;
    Values in = random_values(c);
    Numbers& g = in.real["log_decay"];
    for (std::size_t i = 0; i < g.size(); ++i)
      g[i] = i % 7 == 3 ? -1e4 : i % 5 == 2 ? -60 : i % 5 == 4 ? 0 : g[i];
    const auto want = run<double>(c, StateForm::recurrent, in);
    expect_close(name, run<double>(c, StateForm::chunkwise, in), want, 1e-10);
    const Values o = oracle(c, in);
    EXPECT_LE(relative_error(want.at("o"), o["o"]), 1e-12) << name;
    for (StateForm form : {StateForm::recurrent, StateForm::chunkwise})
      expect_close(name + " in single precision", run<float>(c, form, in), want, 3e-6);
    std::fill(g.begin(), g.end(), -1e4);
    for (const auto& [field, x] : run<float>(c, StateForm::chunkwise, in))
      for (double e : x) ASSERT_TRUE(std::isfinite(e)) << name << ": " << field;
  }
}

/// Hard data and the largest max|error| / max|value| of outputs and gradients that each format may show.
struct Hard {
  const char* name;
  double single, tf32, bf16;  ///< 0: not promised
  bool undecayed = false;
  std::function<void(Values&, const Choice&)> edit = {};
};

void unit_rows(Numbers& x, int columns) {
  for (std::size_t i = 0; i < x.size(); i += static_cast<std::size_t>(columns)) {
    double square = 0;
    for (int j = 0; j < columns; ++j)
      square += x[i + static_cast<std::size_t>(j)] * x[i + static_cast<std::size_t>(j)];
    for (int j = 0; j < columns && square > 0; ++j) x[i + static_cast<std::size_t>(j)] /= std::sqrt(square);
  }
}

Values hard_values(const Choice& c, const Hard& hard) {
  Values in = random_values(c);
  unit_rows(in.real["q"], c.K);
  unit_rows(in.real["k"], c.K);
  for (double& e : in.real["write_gain"]) e = (e - 0.1) / 0.9;
  if (hard.edit) hard.edit(in, c);
  return in;
}

const auto gates = [](double (*law)(double)) {
  return [law](Values& in, const Choice&) {
    const Fill fill = normal();
    Numbers& g = in.real["log_decay"];
    g = numbers("gates", g.size(), fill);
    for (double& e : g) e = law(e);
  };
};
const auto all_gains = [](double gain) {
  return [gain](Values& in, const Choice&) {
    std::fill(in.real["write_gain"].begin(), in.real["write_gain"].end(), gain);
    std::fill(in.real["log_decay"].begin(), in.real["log_decay"].end(), 0);
  };
};
/// Keys of cosine about `along`^2 with each other, gain 2, no decay.
const auto alike = [](double along) {
  return [along](Values& in, const Choice& c) {
    all_gains(2)(in, c);
    Numbers& k = in.real["k"];
    const Numbers first(k.begin(), k.begin() + c.K);
    for (std::size_t i = 0; i < k.size(); ++i)
      k[i] = std::sqrt(1 - along * along) * k[i] + along * first[i % static_cast<std::size_t>(c.K)];
    unit_rows(k, c.K);
  };
};

std::vector<Hard> hard_data() {
  return {
      {"ungated", 1e-6, 1e-3, 1e-2, false, gates([](double) { return 0.0; })},
      {"weak gates", 1e-6, 1e-3, 1e-2, false, gates([](double x) { return -0.1 * std::abs(x); })},
      {"gates of KDA", 1e-6, 1e-3, 1e-2, false,
       gates([](double x) { return -std::log1p(std::exp(-x - 2)); })},
      {"gates down to -5", 1e-6, 1e-3, 1e-2, false,
       gates([](double x) { return -5 / (1 + std::exp(-2 * x)); })},
      {"gates of RWKV-7", 1e-6, 1e-3, 1e-2, true,
       gates([](double x) { return -0.6065 / (1 + std::exp(-x)); })},
      {"-10 everywhere", 1e-6, 1e-3, 1e-2, false, gates([](double) { return -10.0; })},
      {"zero keys", 1e-6, 1e-3, 1e-2, false,
       [](Values& in, const Choice& c) {
         for (std::size_t i = 0; i < in["k"].size(); ++i)
           if (i / static_cast<std::size_t>(c.K) % 3 == 0) in.real["k"][i] = 0;
       }},
      {"resets of -20", 3e-6, 1e-3, 1e-2, false, gates([](double x) { return x > 1.65 ? -20.0 : -0.01; })},
      {"resets of -60", 3e-6, 1e-3, 1e-2, false, gates([](double x) { return x > 1.65 ? -60.0 : -0.01; })},
      {"undecayed resets of -20", 3e-6, 1e-3, 1e-2, true,
       gates([](double x) { return x > 0.5 ? -20.0 : -0.01; })},
      {"undecayed -20 everywhere", 3e-6, 1e-3, 1e-2, true, gates([](double) { return -20.0; })},
      {"gain 2", 3e-6, 7e-3, 5e-2, false, all_gains(2)},
      {"gain 2, cosine 0.9", 3e-5, 2e-2, 1e-1, false, alike(std::sqrt(0.9))},
      {"gain 2, identical keys", 1e-4, 0, 0, false, alike(1)},
  };
}

/// The delta rule as itself or as a free erase, whose gradients add up to those of the delta rule.
void check_budgets(Device device, Erase erase) {
  for (Gate gate : {Gate::scalar, Gate::channel}) {
    for (const Hard& hard : hard_data()) {
      Choice c;
      c.T = 256, c.K = c.V = 32, c.erase = Erase::delta, c.gate = gate, c.write_gain = true;
      c.decayed = !hard.undecayed;
      Values in = hard_values(c, hard);
      const auto want = run<double>(c, StateForm::recurrent, in);
      c.erase = erase;
      if (erase == Erase::free) {
        c.erase_gain = true;
        in.real["erase_read"] = in.real["erase_write"] = in["k"];
        in.real["erase_gain"] = in["write_gain"];
      }
      const auto expect_within = [&](const std::string& form, std::map<std::string, Numbers> got,
                                     double limit) {
        for (const auto& [to, from] :
             {std::pair{"d_k", "d_erase_read"}, {"d_k", "d_erase_write"}, {"d_write_gain", "d_erase_gain"}})
          for (std::size_t i = 0; i < got[to].size() && got.count(from); ++i) got[to][i] += got[from][i];
        for (const auto& [field, x] : want)
          EXPECT_LE(relative_error(got.at(field), x), limit)
              << hard.name << ", " << name_of(erase) << ", gate " << name_of(gate) << ", " << form << ": "
              << field;
      };
      expect_within("recurrent", run<float>(c, StateForm::recurrent, in, device), hard.single);
      expect_within("chunkwise", run<float>(c, StateForm::chunkwise, in, device), hard.single);
      for (auto [products, limit] : {std::pair{Precision::tf32, hard.tf32}, {Precision::bf16, hard.bf16}}) {
        if (limit == 0) continue;
        c.products = products;
        expect_within(products == Precision::tf32 ? "tf32" : "bf16",
                      run<float>(c, StateForm::chunkwise, in, device), limit);
      }
    }
  }
}

TEST(StateReadLaws, HardDataStayWithinTheBudgets) {
  for (Erase erase : {Erase::delta, Erase::free}) check_budgets(Device::cpu, erase);
}

TEST(StateReadLaws, LongSequences) {
  Choice c;
  c.T = 4096, c.K = c.V = 4, c.Q = 60, c.erase = Erase::delta, c.gate = Gate::channel, c.write_gain = true;
  c.start = c.end = true;
  Values in = random_values(c);
  unit_rows(in.real["k"], c.K);
  for (double& e : in.real["log_decay"]) e *= 1e-3;
  for (int j = 0; j < c.Q; ++j) in.integer["position"][j] = (j * 1237 + 4096) % 4097;
  const auto want = run<double>(c, StateForm::recurrent, in);
  EXPECT_LE(relative_error(want.at("o"), oracle(c, in)["o"]), 1e-12);
  expect_close("chunkwise", run<double>(c, StateForm::chunkwise, in), want, 1e-11);
  for (StateForm form : {StateForm::recurrent, StateForm::chunkwise})
    expect_close("single precision", run<float>(c, form, in), want, 2e-6);
}

// One variable as q, k, v and erase_read, another as both gains: their gradients add up in its one gradient.
void check_shared_variables(Device device) {
  Choice c;
  c.T = 37, c.K = c.V = 3, c.erase = Erase::free, c.write_gain = c.erase_gain = true;
  for (Gate gate : {Gate::scalar, Gate::channel}) {
    c.gate = gate;
    Values in = random_values(c);
    in.real["k"] = in.real["v"] = in.real["erase_read"] = in.real["q"];
    in.real["erase_gain"] = in.real["write_gain"];
    for (StateForm form : {StateForm::recurrent, StateForm::chunkwise}) {
      const auto apart = run<double>(c, form, in);
      TensorSet<double> set(device);
      for (const auto& [name, dims] : inputs(c)) {
        set.reals.add(name, 1, dims);
        set.reals.add("d_" + name, 1, dims);
      }
      set.reals.add("o", 1, {c.B, c.T, c.H, c.V});
      set.reals.add("d_o", 1, {c.B, c.T, c.H, c.V});
      set.allocate();
      for (const auto& [name, x] : in.real) upload(device, set.real(name), 0, x);
      auto op = checks::planned<StateRead, double>(set, [&](auto& o) { c.configure(o, form); });
      op.q.write = op.write_gain.write = op.log_decay.write = Write::overwrite;
      for (auto* field : {&op.k, &op.v, &op.erase_read})
        field->gradient = op.q.gradient, field->write = Write::add;
      op.erase_gain.gradient = op.write_gain.gradient, op.erase_gain.write = Write::add;
      Exec exec;
      exec.device = device;
      forward(exec, op);
      backward(exec, op);
      const auto expect_sum = [&](const std::string& shared, const std::vector<std::string>& fields) {
        Numbers want(apart.at(shared).size(), 0);
        for (const std::string& field : fields)
          for (std::size_t i = 0; i < want.size(); ++i) want[i] += apart.at(field)[i];
        const auto got = download(device, set.real(shared), 0);
        EXPECT_LE(relative_error(Numbers(got.begin(), got.end()), want), 1e-12) << shared;
      };
      expect_sum("d_q", {"d_q", "d_k", "d_v", "d_erase_read"});
      expect_sum("d_write_gain", {"d_write_gain", "d_erase_gain"});
      expect_sum("d_log_decay", {"d_log_decay"});
    }
  }
}

TEST(StateReadLaws, VariablesInSeveralFields) { check_shared_variables(Device::cpu); }

class StateReadOnCuda : public CudaTest {};
TEST_F(StateReadOnCuda, HardDataStayWithinTheBudgets) {
  if (few_replicas()) {
    GTEST_SKIP() << "too slow; the kernels are those of other tests";
  }
  for (Erase erase : {Erase::delta, Erase::free}) check_budgets(Device::cuda, erase);
}
TEST_F(StateReadOnCuda, VariablesInSeveralFields) { check_shared_variables(Device::cuda); }

}  // namespace
}  // namespace crosstalk::checks::state::state_read_laws_test
