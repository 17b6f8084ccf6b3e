// An error in a memory's file is said of that memory: parameters asked for twice, inputs that nobody declared, shapes.
// SPDX-License-Identifier: Apache-2.0
#include "models/build.h"

#include <gtest/gtest-spi.h>

#include "kernels/base/error.h"
#include "models/apply_model.h"
#include "models/testing/random_sequence.h"
#include "models/testing/variants.h"

namespace crosstalk::checks::build_test {

// Variables in place of projections; laws are followed as in a model.
class ToyMixer final : public Mixer<double> {
 public:
  ToyMixer(Graph<double>& target, const Options& toy_options)
      : Mixer(target, toy_options, {1, 3, 2, 1, 4, 4, 5, 1}) {}
  Var<double> keys() override { return leaf({1, T, H, d}); }
  Var<double> queries() override { return leaf({1, Q, H, d}); }
  Var<double> values() override { return leaf({1, T, H, V}); }
  const Tensor<std::int32_t>* position() const override { return nullptr; }
  Var<double> token(const std::string& name, int width, std::optional<Init>, Through, bool) override {
    first_asked(name);
    return leaf({1, T, H, width});
  }
  Var<double> parameter(const std::string& name, std::vector<int>, Init) override {
    first_asked("memory." + name);
    return leaf({1, 1, H, 1});
  }
  Variable<double>* omega(int) override { return nullptr; }

 private:
  Var<double> leaf(std::initializer_list<Dimension> dims) { return {&graph, graph.variable(dims, false)}; }
};

// Words on a memory with this build and these inputs; "" if nothing.
std::string said_of(Build build, std::vector<MemoryInput> inputs = {{"beta"}}) {
  const Memory memory{.name = "toy",
                      .summary = "",
                      .does = "",
                      .family = Family::adds,
                      .equation = "",
                      .source = "",
                      .inputs = std::move(inputs),
                      .build = std::move(build)};
  Graph<double> graph(Device::cpu, 1, false);
  const Options options;
  ToyMixer mixer(graph, options);
  try {
    build_memory(memory, mixer);
  } catch (const MemoryError& error) {
    return error.what();
  }
  return "";
}
// One generic lambda whose float half is never called.
template <class F>
Build in_double(F f) {
  return [f](auto& m) {
    if constexpr (std::is_same_v<std::decay_t<decltype(m)>, Mixer<double>>)
      return f(m);
    else
      return Var<float>{};
  };
}
using Model = Mixer<double>;

Var<double> two_rows(Model& m) {
  return expand(m.parameter("o", {1}, Init::constant(0)), {1, m.Q, m.H, m.V});
}

void expect_said(const std::string& said, std::initializer_list<const char*> parts) {
  EXPECT_EQ(said.rfind("memory toy (models/memories/toy.cpp): ", 0), 0u) << said;
  for (const char* part : parts) EXPECT_NE(said.find(part), std::string::npos) << said;
}

TEST(BuildMemory, SaysNothingOfWhatIsRight) {
  EXPECT_EQ(said_of(in_double([](Model& m) {
              m.input("beta", [&] { return sigmoid(m.token("beta")); });
              return two_rows(m);
            })),
            "");
}

TEST(BuildMemory, NamesTheMemoryThatThrows) {
  expect_said(said_of(in_double([](Model&) -> Var<double> { throw std::out_of_range("no such gate"); })),
              {"build() failed: no such gate"});
  expect_said(said_of(in_double([](Model& m) {
                m.input("beta", [&]() -> Var<double> { throw std::out_of_range("no such gate"); });
                return two_rows(m);
              })),
              {"the law of the input beta failed: no such gate"});
}

TEST(BuildMemory, RefusesAParameterThatIsAskedForTwice) {
  expect_said(said_of(in_double([](Model& m) {
                m.input("beta", [&] { return m.token("beta") + m.token("beta"); });
                return two_rows(m);
              })),
              {"the law of the input beta", "asks for the parameter beta twice", "a name of its own"});
}

TEST(BuildMemory, RefusesInputsThatAreNotDeclaredOrOfAnotherWidth) {
  const auto asks = in_double([](Model& m) {
    m.input("gate", [&] { return m.token("gate", 3); });
    return two_rows(m);
  });
  expect_said(said_of(asks), {"asks for the input gate", ".inputs lists beta", "add {\"gate\"}"});
  expect_said(said_of(asks, {}), {"lists none"});
  expect_said(said_of(asks, {{"gate"}}),
              {"the law of the input gate gives [1,3,1,3]", "Per::token", "[B,T,H,1]"});
  expect_said(said_of(asks, {{"gate", Per::key}}), {"Per::key", "K = 4"});
  EXPECT_EQ(said_of(asks, {{"gate", Per::other, false, "[B,T,H,L]"}}), "");
  // The engine that is given the gate fails first, and knows no name.
  expect_said(said_of(in_double([](Model& m) {
                const auto gate = m.input("beta", [&] { return m.token("gate", 3); });
                return gate * m.values();
              })),
              {"the law of the input beta gives [1,3,1,3]"});
}

TEST(BuildMemory, RefusesReadsOfAnotherShape) {
  expect_said(said_of(in_double([](Model& m) { return m.values(); })),
              {"build() gives [1,3,1,5]", "[B,Q,H,V] = [1,2,1,5]"});
  expect_said(said_of(in_double([](Model&) { return Var<double>{}; })), {"build() gives nothing"});
}

TEST(BuildMemory, LeavesAloneWhatAnOptionRefuses) {
  EXPECT_THROW(said_of(in_double([](Model&) -> Var<double> { throw OptionError("memory.x", "is wrong"); })),
               OptionError);
}

// Laws in a memory's own test are laws of the memory, not of its oracle alone.
TEST(BuildMemory, WhatATestReadsIsHeldAgainstTheMemory) {
  Sequence s = random_sequence(no_options(), 3, 4, 2, 1);
  s.in["beta"] = {{0.3}, {0.9}, {0.5}};
  Matrix want = find_oracle("delta")(s);
  expect_memory_reads("delta", s, want);
  want[2][1] += 1e-6;
  EXPECT_NONFATAL_FAILURE(expect_memory_reads("delta", s, want), "memory delta");
}

}  // namespace crosstalk::checks::build_test
