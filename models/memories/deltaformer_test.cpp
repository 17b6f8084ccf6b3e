// DeltaFormer (Zhong et al. 2025, arXiv 2505.19488): its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/apply_check.h"
#include "models/testing/language_checks.h"
#include "models/testing/memory_test.h"

namespace crosstalk::checks::deltaformer_test {

/// kappa(scale x.k); `order`, `digits` and `tau` are options.
double kernel_value(const Sequence& s, const std::string& name, const Vector& x, const Vector& k) {
  const double y = s.real("scale", 1) * dot(x, k);
  const int order = s.integer("order", 2);
  if (name == "linear") return y;
  if (name == "relu") return std::max(0.0, y);
  if (name == "relu2") return std::max(0.0, y) * std::max(0.0, y);
  if (name == "exp") return std::exp(y);
  if (name == "power") return std::pow(1 + y / order, order);
  if (name == "round") {
    const double unit = std::pow(10.0, s.integer("digits"));
    return std::nearbyint(y * unit) / unit;
  }
  if (name == "cosine_exp") {
    const double lengths = std::sqrt(dot(x, x) * dot(k, k));
    return std::exp(s.real("tau", 1) * ((lengths > 0 ? dot(x, k) / lengths : 0) - 1));
  }
  if (name != "taylor") throw std::logic_error("no kernel is called `" + name + "`");
  double sum = 1, term = 1;
  for (int m = 1; m <= order; ++m) sum += term *= y / m;
  return sum;
}

/// Weights that x gives to the first `count` keys; norm "sum" divides them by their sum (0 stays 0).
Vector row_weights(const Sequence& s, const std::string& name, const std::string& norm, const Vector& x,
                   int count) {
  double top = 0;  // a row of e^y that will be divided is taken relative to its largest element
  if (name == "exp" && norm == "sum") {
    top = -std::numeric_limits<double>::infinity();
    for (int j = 0; j < count; ++j) top = std::max(top, s.real("scale", 1) * dot(x, s.key(j)));
  }
  Vector weights;
  double sum = 0;
  for (int j = 0; j < count; ++j) {
    weights.push_back(name == "exp" ? std::exp(s.real("scale", 1) * dot(x, s.key(j)) - top)
                                    : kernel_value(s, name, x, s.key(j)));
    sum += weights.back();
  }
  return norm == "sum" && sum != 0 ? scaled(1 / sum, weights) : weights;
}

// u_t = w_t v_t - beta_t sum_{j<t} N1(kappa1(x_t.k_j)) u_j, o_t = sum_{j<=t} N2(kappa2(q_t.k_j)) u_j
Matrix deltaformer(const Sequence& s) {
  Matrix u, o;
  for (int t = 0; t < s.T; ++t) {
    const Vector& q = s.q.at(static_cast<std::size_t>(t));
    const Vector& x = s.text("solve_with", "key") == "query" ? q : s.key(t);
    const double beta = s.has("beta") ? s.number("beta", t) : 1;
    const Vector seen = row_weights(s, s.text("kappa1", "exp"), s.text("row_norm1", "sum"), x, t);
    Vector written = scaled(s.flag("beta_on_write") ? beta : 1, s.value(t));
    for (std::size_t j = 0; j < u.size(); ++j) written = plus(written, -beta * seen[j], u[j]);
    u.push_back(written);
    const Vector weights = row_weights(s, s.text("kappa2", "exp"), s.text("row_norm2", "sum"), q, t + 1);
    o.push_back(Vector(static_cast<std::size_t>(s.V), 0));
    for (std::size_t j = 0; j < u.size(); ++j) o.back() = plus(o.back(), weights[j], u[j]);
  }
  return o;
}
CROSSTALK_MEMORY_ORACLE(deltaformer, deltaformer);

TEST(DeltaformerBeta, OneHasNoParameters) {
  for (const char* beta : {"learned", "one"}) {
    const Options options = language_options_of("deltaformer", {{"memory.beta", std::string(beta)}});
    ModelRun<double> run(options, language_shape(), 1, false);
    auto& block = run.model.parameters();
    bool found = false;
    for (int i = 0; i < block.count(); ++i) found = found || block.name(i).find("beta") != std::string::npos;
    EXPECT_EQ(found, std::string(beta) == "learned");
  }
}

TEST(DeltaformerQueries, ThatWriteStandAtEveryToken) {
  expect_rows_of_all(language_options_of("deltaformer", {{"memory.solve_with", "query"}}));
}

Options kernels(const char* kappa, const char* norm) {
  Options options = option("kappa1", std::string(kappa), option("kappa2", std::string(kappa)));
  return option("row_norm1", std::string(norm), option("row_norm2", std::string(norm), options));
}

TEST(DeltaformerOracle, LinearKernelsWithBetaOnTheWriteAreDelta) {
  const Options linear = option("beta_on_write", true, kernels("linear", "none"));
  Sequence s = random_sequence(linear, 6, 4, 3, 1);
  s.k = unit_rows(s.k), s.in["beta"] = uniform_rows(6, 1, 0, 2, 2);
  expect_close(read("deltaformer", s), read("delta", s));
}

// Two tokens that write e_a - e_b exchange what a and b hold (Zhong et al. 2025): beta = 1 makes 1,000 of them exact.
TEST(DeltaformerOracle, AThousandSwapsAreExact) {
  constexpr int n = 5, steps = n + 1000;
  const Options linear = kernels("linear", "none");
  Sequence s = random_sequence(linear, steps, n, n, 7);
  RandomStream random(1, RandomDomain::task_train, 7);
  std::vector<int> holds(n);
  for (int t = 0; t < n; ++t) {
    holds[static_cast<std::size_t>(t)] = t;
    s.k[static_cast<std::size_t>(t)] = s.v[static_cast<std::size_t>(t)] = s.q[static_cast<std::size_t>(t)] =
        unit(n, t);
  }
  // S (I - k k^T) with k = e_a - e_b, |k|^2 = 2, exchanges columns a and b.
  Matrix want;
  for (int t = 0; t < n; ++t) want.push_back(unit(n, t));
  for (int t = n; t < steps; ++t) {
    const int a = static_cast<int>(random.below(n)), b = (a + 1 + static_cast<int>(random.below(n - 1))) % n;
    const auto at = static_cast<std::size_t>(t);
    s.k[at] = minus(unit(n, a), unit(n, b)), s.v[at] = Vector(n, 0);
    std::swap(holds[static_cast<std::size_t>(a)], holds[static_cast<std::size_t>(b)]);
    s.q[at] = unit(n, a);
    want.push_back(unit(n, holds[static_cast<std::size_t>(a)]));
  }
  const Matrix o = read("deltaformer", s);
  for (std::size_t t = 0; t < o.size(); ++t)
    for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(o[t][i], want[t][i]) << "token " << t;
}

TEST(DeltaformerOracle, BetaZeroIsAttention) {
  Sequence s = random_sequence(no_options(), 6, 4, 3, 3);
  s.in["beta"] = constant_rows(6, 1, 0);
  expect_close(read("deltaformer", s), read("softmax", s));
}

// Keys 0 1 0 2 3 0: an indicator reads the last value that key 0 was given.
Sequence repeated(const Options& options) {
  Sequence s = random_sequence(options, 6, 4, 3, 4);
  const int keys[] = {0, 1, 0, 2, 3, 0};
  for (std::size_t t = 0; t < 6; ++t) s.k[t] = unit(4, keys[t]);
  s.q = s.k;
  return s;
}
TEST(DeltaformerOracle, AnIndicatorKernelReadsTheLastValue) {
  const Options round = kernels("round", "none");
  const Sequence s = repeated(round);
  expect_close(read("deltaformer", s), s.v);
}

// A token exchanges what places a and b of five hold; the element at place 0 is read. Reflections e_a - e_b with a linear
// kernel do it however long: o is the element less what place 0 began with. A kernel that is never negative cannot: over
// (0 1), (1 2), (0 2) the products of the reflections have a negative sign, whichever the signs of keys.
double wrong_answers(const char* kappa1) {
  constexpr int places = 5, swaps = 256;
  const Options options = option("kappa1", std::string(kappa1), kernels("linear", "none"));
  Sequence s = random_sequence(options, swaps, places, places, 8);
  std::vector<int> element = {0, 1, 2, 3, 4}, asked;
  std::mt19937_64 random(9);
  for (std::size_t t = 0; t < swaps; ++t) {
    const int a = static_cast<int>(random() % places);
    const int b = (a + 1 + static_cast<int>(random() % (places - 1))) % places;
    std::swap(element.at(static_cast<std::size_t>(a)), element.at(static_cast<std::size_t>(b)));
    asked.push_back(element[0]);
    s.k[t] = minus(unit(places, std::min(a, b)), unit(places, std::max(a, b)));
    s.v[t] = scaled(-1, s.k[t]);
    s.q[t] = unit(places, 0);
  }
  const Matrix o = read("deltaformer", s);
  double wrong = 0;
  for (std::size_t t = 0; t < swaps; ++t) {
    const Vector off = minus(plus(o[t], 1, unit(places, 0)), unit(places, asked[t]));
    wrong += dot(off, off) < 1e-20 ? 0 : 1;
  }
  return wrong / swaps;
}
TEST(DeltaformerOracle, AWriteKernelWithASignFollowsSwaps) {
  EXPECT_EQ(wrong_answers("linear"), 0);
  EXPECT_EQ(wrong_answers("round"), 0);
  EXPECT_GT(wrong_answers("relu"), 0.5);
}

// With the row divided by its sum the reads of one key written at 0, 2 and 5 weigh its values 0, 1/6 and 1/3.
TEST(DeltaformerOracle, DividedRowsDoNotOverwrite) {
  const Options sharp = option("scale", 1e3, kernels("exp", "sum"));
  const Sequence s = repeated(sharp);
  EXPECT_GT(dot(minus(read("deltaformer", s)[5], s.v[5]), minus(read("deltaformer", s)[5], s.v[5])), 1e-3);
  expect_close(read("deltaformer", s)[5], plus(scaled(1.0 / 3, s.v[5]), 1.0 / 6, s.v[2]));
}

TEST(DeltaformerOracle, SoftmaxSolveNeverAmplifies) {
  Sequence s = random_sequence(no_options(), 40, 4, 1, 5);
  for (Vector& k : s.k) k = scaled(5, k);
  for (int j = 0; j < 40; ++j) {
    s.v = zeros(40, 1), s.v[static_cast<std::size_t>(j)] = {1};
    for (const Vector& o : read("deltaformer", s)) EXPECT_LE(std::abs(o[0]), 1 + 1e-12);
  }
}

TEST(DeltaformerOracle, SolvesWithTheQueryIfTold) {
  const Options with_query = option("solve_with", "query");
  Sequence s = random_sequence(with_query, 5, 4, 3, 6);
  const Matrix o = read("deltaformer", s);
  s.q = s.k;
  expect_close(read("deltaformer", s), read("deltaformer", with_options(s, no_options())));
  EXPECT_NE(read("deltaformer", s), o);
}

// Kernels and row norms of erase and read are chosen one by one; so is whose product is taken out and what beta scales.
TEST(Deltaformer, EveryPairOfKernelsIsTheOracle) {
  const char* kernels[] = {"linear", "relu", "relu2", "round", "exp", "cosine_exp", "taylor", "power"};
  int checked = 0;
  for (const char* kappa1 : kernels) {
    for (const char* kappa2 : kernels)
      for (int choice = 0; choice < 16; ++choice) {
        const auto norm = [&](int bit) { return std::string(choice >> bit & 1 ? "sum" : "none"); };
        ApplyCase one{"deltaformer", "", {.B = 1, .T = 6, .H = 2, .K = 3, .V = 2}, {}, {"beta"}};
        one.given = {{"kappa1", std::string(kappa1)},
                     {"kappa2", std::string(kappa2)},
                     {"row_norm1", norm(0)},
                     {"row_norm2", norm(1)},
                     {"solve_with", std::string(choice & 4 ? "query" : "key")},
                     {"beta_on_write", choice >= 8}};
        if (std::string(kappa1) == "round" || std::string(kappa2) == "round") one.given["digits"] = 4;
        const ApplyData data = apply_data(one, 3);
        const Vector want = oracle_read(one, data), got = apply<double>(one, "", data).at("o");
        double largest = 1;
        for (const double x : want) largest = std::max(largest, std::abs(x));
        ASSERT_TRUE(close(fmt::format("{} {} {}", kappa1, kappa2, choice), got.data(), want.data(),
                          std::ssize(want), 1e-12 * largest));
        ++checked;
      }
  }
  EXPECT_EQ(checked, 8 * 8 * 16);
}

}  // namespace crosstalk::checks::deltaformer_test
