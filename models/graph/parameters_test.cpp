// Initialisation: a pure function of seed and name, with the distributions that it promises.
// SPDX-License-Identifier: Apache-2.0
#include "models/graph/parameters.h"

#include "kernels/testing/compare.h"
#include "models/graph/init_fuzz.h"
#include "models/testing/model_run.h"
#include "models/testing/variants.h"

namespace crosstalk::checks::parameters_test {

const Init kNormal = Init::normal(1), kUniform = Init::uniform(0.25);

template <class Real>
std::vector<Real> copy(const Tensor<Real>& t, int r) {
  return std::vector<Real>(t.at(r), t.at(r) + t.size());
}

TEST(ParameterInit, IsAFunctionOfSeedAndNameAlone) {
  ParameterBlock<double> small(Device::cpu, 1), large(Device::cpu, 3);
  const int a = small.add("weight", {3, 5}, kNormal);
  large.add("first", {7}, kUniform);
  const int b = large.add("weight", {3, 5}, kNormal);
  large.add("last", {2, 2, 2}, kNormal);
  small.allocate();
  large.allocate();
  small.initialise(0, 9);
  large.initialise(0, 1);
  large.initialise(2, 9);
  large.initialise(1, 9);
  for (const int r : {1, 2}) EXPECT_EQ(copy(small.value(a), 0), copy(large.value(b), r));
  EXPECT_NE(copy(small.value(a), 0), copy(large.value(b), 0));
  large.initialise(0, 9);
  EXPECT_EQ(copy(small.value(a), 0), copy(large.value(b), 0));
}

// Rows or columns, whichever are fewer, of length `gain` and at right angles; another seed, another matrix.
TEST(ParameterInit, OrthogonalMatricesAreOrthogonal) {
  for (const auto& [rows, columns] : {std::pair{6, 6}, {4, 9}, {9, 4}, {5, 1}}) {
    ParameterBlock<double> block(Device::cpu, 2);
    const int i = block.add("weight", {rows, columns}, Init::orthogonal(0.5));
    block.allocate();
    block.initialise(0, 3);
    block.initialise(1, 4);
    EXPECT_NE(copy(block.value(i), 0), copy(block.value(i), 1));
    for (const int r : {0, 1}) {
      const std::vector<double> w = copy(block.value(i), r);
      const bool wide = rows <= columns;
      const int few = wide ? rows : columns, many = wide ? columns : rows;
      for (int a = 0; a < few; ++a)
        for (int b = 0; b < few; ++b) {
          double product = 0;
          for (int k = 0; k < many; ++k)
            product += w[static_cast<std::size_t>(wide ? a * columns + k : k * columns + a)] *
                       w[static_cast<std::size_t>(wide ? b * columns + k : k * columns + b)];
          EXPECT_NEAR(product, a == b ? 0.25 : 0, 1e-15) << rows << "x" << columns;
        }
    }
  }
}

TEST(ParameterInit, LawsAreReadAsTheyArePrinted) {
  for (const Init& init :
       {Init::uniform(0.125), Init::normal(0.5), Init::constant(-2), Init::log_uniform(1, 16),
        Init::inverse_softplus(0.001, 0.1), Init{Init::Law::normal, 3, 0.25}}) {
    EXPECT_EQ(Init::parse(init.text()), init) << init.text();
  }
  EXPECT_EQ(Init::parse(" 1e-3 "), Init::constant(1e-3));
  for (const char* wrong : {"",
                            "x",
                            "U(1, 0)",
                            "U(0, 1",
                            "U(0, 1) 2",
                            "N(0, -1^2)",
                            "N(0, 1)",
                            "log U(-1, 1)",
                            "softplus^-1(exp U(log 0, log 1))",
                            "nan",
                            "inf",
                            "U(0, inf)",
                            "0x10",
                            "U(0, 0x1)",
                            "1e-400",
                            "1e400",
                            "N(0, 1e-400^2)",
                            "1 0",
                            "U(0, 1 0)",
                            "1e",
                            "--1"})
    EXPECT_THROW(Init::parse(wrong), std::invalid_argument) << wrong;
}

TEST(ParameterInit, AnyBytesAreLawsOrAreRefused) {
  for (const std::string& good : {std::string("gate.bias = 0.5; key_embedding = N(0, 0.1^2);"),
                                  std::string("a=U(-1, 1e-3); b = log U(1, 16)"),
                                  std::string("c = softplus^-1(exp U(log 0.001, log 0.1))")}) {
    for (std::size_t at = 0; at < good.size(); ++at) {
      check_init_reader(good.substr(0, at));
      check_init_reader(good.substr(at));
      for (const char c : {'(', ')', ',', ';', '=', '^', '-', '9', 'e', 'x', ' ', '\0', '\xff'}) {
        std::string changed = good;
        changed[at] = c;
        check_init_reader(changed);
      }
    }
  }
}

TEST(ParameterInit, AStudyMayReplaceLaws) {
  ParameterBlock<double> block(Device::cpu, 1);
  block.set_inits("b = 0.5;  c=U(2, 3);");
  const int a = block.add("a", {4}, kNormal), b = block.add("b", {4}, kNormal);
  EXPECT_EQ(block.unused_inits(), std::vector<std::string>{"c"});
  block.allocate();
  block.initialise(0, 1);
  EXPECT_EQ(copy(block.value(b), 0), std::vector<double>(4, 0.5));
  EXPECT_NE(block.value(a).at(0)[0], 0.5);
  EXPECT_THROW(block.set_inits("b"), std::invalid_argument);
  EXPECT_THROW(block.set_inits("b = 1; b = 2"), std::invalid_argument);
}

TEST(ParameterInit, NamesThatAMemoryLacksAreRefused) {
  Options options =
      resolved(*find_memory("delta"), memory_options(*find_memory("delta"), 4, kKeys, kValues, kEmbedding));
  options.set("model.init", std::string("gate.bias = 3"));
  ModelRun<double> run(options, {}, 1, true);
  run.model.initialise(0, 1);
  EXPECT_EQ(run.parameter("gate.bias").at(0)[0], 3);
  options.set("model.init", std::string("gate.bios = 3"));
  const Refused found = refused([&] { ModelRun<double>(options, {}, 1, true); });
  EXPECT_EQ(found.key, "model.init");
  EXPECT_TRUE(found.says("gate.bias")) << found.why;
}

TEST(ParameterInit, DiffersByNameAndBySeed) {
  ParameterBlock<double> block(Device::cpu, 2);
  const int a = block.add("a", {50}, kNormal), b = block.add("b", {50}, kNormal);
  block.allocate();
  block.initialise(0, 1);
  block.initialise(1, 1ull << 40);  // seeds are 64 bits wide
  for (int i = 0; i < 50; ++i) {
    EXPECT_NE(block.value(a).at(0)[i], block.value(b).at(0)[i]);
    EXPECT_NE(block.value(a).at(0)[i], block.value(a).at(1)[i]);
  }
}

TEST(ParameterInit, FloatIsRoundedDouble) {
  ParameterBlock<double> wide(Device::cpu, 1);
  ParameterBlock<float> narrow(Device::cpu, 1);
  for (const Init& init : {kNormal, kUniform}) {
    const std::string name = init.law == Init::Law::normal ? "n" : "u";
    wide.add(name, {33}, init);
    narrow.add(name, {33}, init);
  }
  wide.allocate();
  narrow.allocate();
  wide.initialise(0, 5);
  narrow.initialise(0, 5);
  for (int p = 0; p < 2; ++p)
    for (int i = 0; i < 33; ++i)
      EXPECT_EQ(static_cast<float>(wide.value(p).at(0)[i]), narrow.value(p).at(0)[i]);
}

TEST(ParameterInit, ClearsGradientsAndMomentsOfItsReplicaOnly) {
  ParameterBlock<float> block(Device::cpu, 2);
  block.add("w", {4, 4}, kNormal);
  block.allocate();
  for (int r = 0; r < 2; ++r) block.initialise(r, 3);
  for (const Tensor<float>& t : {block.gradients(), block.first_moments(), block.second_moments()})
    for (int r = 0; r < 2; ++r) std::fill(t.at(r), t.at(r) + t.size(), 2.f);
  block.initialise(1, 3);
  for (const Tensor<float>& t : {block.gradients(), block.first_moments(), block.second_moments()}) {
    EXPECT_EQ(t.at(0)[5], 2.f);
    for (std::int64_t i = 0; i < t.size(); ++i) ASSERT_EQ(t.at(1)[i], 0.f);
  }
}

TEST(ParameterInit, HasTheMomentsOfItsDistribution) {
  constexpr int n = 40000;
  for (const Init& init : {Init::normal(2), Init::uniform(0.3)}) {
    ParameterBlock<double> block(Device::cpu, 1);
    block.add("w", {n}, init);
    block.allocate();
    block.initialise(0, 12);
    const double* x = block.value(0).at(0);
    double sum = 0, square = 0, fourth = 0, largest = 0, neighbours = 0;
    for (int i = 0; i < n; ++i) {
      sum += x[i];
      square += x[i] * x[i];
      fourth += std::pow(x[i], 4);
      largest = std::max(largest, std::abs(x[i]));
      if (i > 0) neighbours += x[i] * x[i - 1];
    }
    const bool normal = init.law == Init::Law::normal;
    const double variance = normal ? init.high * init.high : init.high * init.high / 3;
    const double kurtosis = normal ? 3 : 9. / 5;
    const double sigma = 5 / std::sqrt(n);  // five standard errors; the draw is fixed
    EXPECT_NEAR(sum / n, 0, sigma * std::sqrt(variance));
    EXPECT_NEAR(neighbours / n, 0, sigma * variance);
    EXPECT_NEAR(square / n / variance, 1, sigma * std::sqrt(kurtosis - 1));
    EXPECT_NEAR(fourth / n / variance / variance, kurtosis, normal ? sigma * 10 : sigma * 2);
    if (normal) {
      EXPECT_GT(largest, 3.5 * init.high);
      EXPECT_LT(largest, 6 * init.high);
    } else {
      EXPECT_LT(largest, init.high);
      EXPECT_GT(largest, init.high * 0.999);
    }
  }
}

// Determinism level L2: these bits are the same on every machine for semantics 1.
TEST(ParameterInit, GoldenKeyEmbedding) {
  const Memory& kind = *find_memory("linear_attention");
  const Options options = resolved(kind, memory_options(kind, kDKey, kKeys, kValues));
  ModelRun<double> run(options, ModelShape{}, 1, false);
  run.model.initialise(0, 1);
  const double* x = run.parameter("key_embedding").at(0);
  const double golden[] = {-0x1.3d1fdd4d1bd37p+0, 0x1.a708ca37468e7p-1, -0x1.c2027bf557306p-3};
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(std::memcmp(x + i, golden + i, sizeof(double)), 0) << fmt::format("{:a}", x[i]);
  const double* bias = run.parameter("key_projection.bias").at(0);
  const double golden_bias[] = {-0x1.8f9cf439dfea1p-4, -0x1.932b77f731866p-3, -0x1.94356cf14228bp-3};
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(std::memcmp(bias + i, golden_bias + i, sizeof(double)), 0) << fmt::format("{:a}", bias[i]);
}

// The bounds of the issue: embeddings N(0,1); projections U(+-1/sqrt(d_key)) or Xavier; biases and gates
// U(+-1/sqrt(fan in)).
TEST(ParameterInit, OfTheRetrievalModelKeepsItsBounds) {
  constexpr int keys = 40, values = 30, d_key = 9, e = 50;
  for (const Memory& kind : all_memories()) {
    for (const bool second : {false, true}) {
      SCOPED_TRACE(kind.name);
      const Options options = resolved(kind, memory_options(kind, d_key, keys, values, e));
      ModelRun<float> run(options, {keys, values, second, 1, {2, second ? 3 : 2, 1}}, 1, false);
      run.model.initialise(0, 6);
      const double token = values + e * (second ? 2 : 1);
      std::vector<std::string> names;
      for (int i = 0; i < run.model.parameters().count(); ++i)
        names.push_back(run.model.parameters().name(i));
      const auto bound = [&](const std::string& name) {
        const bool xavier = kind.projection_init == ProjectionInit::xavier;
        // A gate of what asks (Mixer::asking) has a part "query", and sees an embedding, not a token.
        const std::string part = name.substr(0, name.find('.')) + ".query";
        const bool asks = std::any_of(names.begin(), names.end(), [&](const auto& n) { return n == part; });
        const bool query = asks || name.rfind("query_projection", 0) == 0;
        const double inputs = query ? e : token;
        if (name.find("bias") != std::string::npos || name.find("projection") == std::string::npos)
          return 1 / std::sqrt(inputs);
        return xavier ? std::sqrt(6 / (inputs + d_key)) : 1 / std::sqrt(static_cast<double>(d_key));
      };
      const auto& block = run.model.parameters();
      for (int i = 0; i < block.count(); ++i) {
        const std::string& name = block.name(i);
        if (name.rfind("memory.", 0) == 0 || name.find(".up") != std::string::npos)
          continue;  // laws of their own
        if (name.find(".bias") != std::string::npos && block.init(i).law != Init::Law::uniform) continue;
        if (name.find(".bias") != std::string::npos && block.init(i).low != -block.init(i).high) continue;
        const Tensor<float> t = block.value(i);
        const double largest = magnitude(t.at(0), t.size());
        if (name == "key_embedding") {
          EXPECT_GT(largest, 2.5) << name;
          continue;
        }
        EXPECT_LE(largest, bound(name) * (1 + 1e-7)) << name;
        if (block.init(i).high == 0) {  // gates that begin the same for every token
          EXPECT_EQ(largest, 0) << name;
        } else if (t.size() > 25) {
          EXPECT_GT(largest, 0.8 * bound(name)) << name;
        }
      }
    }
  }
}

// Laws that gates start by: where they lie, and what a softplus or an exponential makes of them.
TEST(ParameterInit, LawsOfGatesKeepTheirRanges) {
  for (int i = 0; i < 1000; ++i) {
    const double u = (i + 0.5) / 1000;
    const double a = std::exp(Init::log_uniform(1, 16).value(u));
    EXPECT_NEAR(a, 1 + 15 * u, 1e-13 * a);
    const double step = std::log1p(std::exp(Init::inverse_softplus(1e-3, 0.1).value(u)));
    EXPECT_NEAR(step, 1e-3 * std::pow(100, u), 1e-12);
    EXPECT_EQ(Init::constant(0.85).value(u), 0.85);
    const double low = Init{Init::Law::uniform, -6, -1}.value(u);
    EXPECT_NEAR(low, -6 + 5 * u, 1e-14);
  }
}

TEST(ParameterInit, PortableFunctionsAreThoseOfTheLibrary) {
  for (double x = -40; x < 40; x += 0.37) {
    EXPECT_NEAR(portable_exp(x) / std::exp(x), 1, 1e-14) << x;
    EXPECT_NEAR(portable_log(std::exp(x)), x, 1e-13) << x;
  }
}

TEST(ParameterBlockErrors, NamesAreUnique) {
  ParameterBlock<float> block(Device::cpu, 1);
  block.add("w", {3}, kNormal);
  const Refused found = refused<std::logic_error>([&] { block.add("w", {4}, kNormal); });
  EXPECT_TRUE(found.key != "accepted" && found.says("w")) << found.why;
}

TEST(ParameterBlockErrors, TrainableCountsNoPadding) {
  ParameterBlock<float> block(Device::cpu, 2);
  block.add("a", {3, 5}, kNormal);
  block.add("b", {1}, kNormal);
  block.allocate();
  EXPECT_EQ(block.trainable(), 16);
}

}  // namespace crosstalk::checks::parameters_test
