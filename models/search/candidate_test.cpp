// Candidates of a search: texts and keys of laws that are equal and of others, what is screened out, and that every change of a law
// gives a law that the checker takes, within its limits, that is built and trains.
// SPDX-License-Identifier: Apache-2.0
#include "models/search/candidate.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <regex>
#include <set>

#include "models/rules/law.h"
#include "models/rules/law_examples.h"
#include "models/rules/random_law.h"
#include "models/testing/trained_rule.h"

namespace crosstalk::search {
namespace {

const std::string kSum = "S += v k^T; read S q", kDelta = "S += (v - S k) k^T; read S q",
                  kRated = "beta = sigmoid(token); S += beta (v - S k) k^T; read S q",
                  kGated = "a = sigmoid(token); b = sigmoid(token); S = a S + b (v - a S k) k^T; read S q",
                  kDivided = "state z[K]; z += k; S += v k^T; read S q / max(abs(z^T q), 1)",
                  kTwo = "g = token(K); state z[K]; z = tanh(g) * z + k; S += v k^T; read S (q * z)";

RandomStream stream(int seed, int i) {
  return RandomStream(static_cast<std::uint64_t>(seed), RandomDomain::candidate,
                      static_cast<std::uint32_t>(i));
}

TEST(CanonicalText, IsOneForOrderSignsFactorsAndNames) {
  const std::vector<std::vector<std::string>> alike = {
      {"S = S + v k^T; read S q", kSum, "S = v k^T + S; read S q", "S -= -v k^T; read S q",
       "beta = token; S += v k^T + 0 * beta S; read S q", "w = 2 v; S += 0.5 w k^T; read S q"},
      {"g1 = token; S = S + (sigmoid(g1) * (v - S k)) k^T; read S q", kRated,
       "r = token; S = S - (S k - v) (sigmoid(r) k)^T; read S q",
       "r = 3 token; S -= sigmoid(-r) * (S k - v) k^T; read S q"},
      {"g1 = token; g2 = token; S = sigmoid(g1) * S + (tanh(g2) * v) k^T; read S q",
       "x = token; y = token; S = tanh(x) v k^T + sigmoid(y) S; read S q"},
      {"state z[K]; z = k + z; S = S + v k^T; read S q / (z^T q + 1e-06)",
       "state w[K]; S += v k^T; w += k; read S q / (1e-6 + q^T w)"},
      {"a1 = token(K); S = S diag(1 - sigmoid(a1)) + v k^T; read S q",
       "f = token(K); S = v k^T - S diag(sigmoid(f) - 1); read S q + S (q - q)"}};
  for (const auto& laws : alike)
    for (const std::string& law : laws) EXPECT_EQ(canonical_text(law), canonical_text(laws[0])) << law;
  EXPECT_EQ(canonical_text(alike[0][1]), alike[0][0]);
  EXPECT_EQ(canonical_text(alike[1][1]), alike[1][0]);
  EXPECT_NE(canonical_text(kSum), canonical_text(kDelta));
  EXPECT_THROW(canonical_text("S += v k; read S q"), rules::LawError);
}

/// Laws of all operations: their canonical text is that of itself, does the same, and comes to the same engines.
TEST(CanonicalText, DoesWhatTheLawDoes) {
  std::vector<std::string> laws;
  for (const rules::Example& one : rules::examples()) laws.push_back(one.law);
  // Quantities with starts of their own: no factor of theirs is left to training.
  for (int seed = 1; seed <= 400; ++seed) {
    std::string law = rules::RandomLaw(seed).text();
    law = std::regex_replace(law, std::regex(R"(\b(token|asking)(?!\())"), "$1(bias = 0.1)");
    law = std::regex_replace(law, std::regex(R"(\b(token|asking)\((\w+)\))"), "$1($2, bias = 0.1)");
    law = std::regex_replace(law, std::regex(R"(\bparameter(?!\())"), "parameter(constant(0.2))");
    laws.push_back(
        std::regex_replace(law, std::regex(R"(\bparameter\(([KV, ]+)\))"), "parameter($1, constant(0.2))"));
  }
  int compared = 0, engines = 0;
  for (const std::string& law : laws) {
    SCOPED_TRACE(law);
    std::string text;
    try {
      text = canonical_text(law);
    } catch (const rules::LawError&) {
      continue;  // a law drawn at random may be refused
    }
    ++compared;
    EXPECT_EQ(canonical_text(text), text);
    const Price price = search::price(text, 16, 16), given = search::price(law, 16, 16);
    if (price.gates == given.gates) {
      EXPECT_EQ(value_key(text), value_key(law)) << text;
    }
    if (!given.engines || price.why == "S: nothing of S is kept") continue;
    ++engines;
    EXPECT_EQ(price.why, "") << text;
  }
  EXPECT_GT(compared, 350);
  EXPECT_GT(engines, 100);
}

TEST(ValueKey, IsOneForWhatTrainingTakesUp) {
  const auto with = [](const char* gates, const char* step) {
    return fmt::format("{}; {}; read S q", gates, step);
  };
  const char* two = "a = sigmoid(token); b = sigmoid(token)";
  const std::vector<std::vector<std::string>> alike = {
      {kDelta, "S += (-v - S k) k^T; read S q", "S = S (I - k k^T) + v k^T; read S q",
       "S = S - S k k^T - v k^T; read -S q", "state H[K, V]; H += k (v - H^T k)^T; read H^T q",
       "S += (v - S k) k^T / (k^T k); read S q"},
      {kRated, "beta = sigmoid(-token); S += (1 - beta) (v - S k) k^T; read S q"},
      {with(two, "S = a S + b v k^T"), with(two, "S = b S + a v k^T"), with(two, "S = (1 - a) S - b v k^T")},
      {with("a = sigmoid(token(K)); b = token(K)", "S = S diag(a) + v (b * k)^T"),
       with("b = token(K); a = sigmoid(token(K))", "S = S diag(1 - a) + v (b * k)^T")}};
  std::set<std::string> keys;
  for (const auto& laws : alike) {
    for (const std::string& law : laws) EXPECT_EQ(value_key(canonical_text(law)), value_key(laws[0])) << law;
    keys.insert(value_key(laws[0]));
  }
  for (const std::string& law :
       {kSum, kGated, kTwo, std::string("S += v k^T; read 2 S q"), std::string("S += v k^T; read relu(S q)"),
        std::string("read S q; S += v k^T"), std::string("S = 0.5 S + v k^T; read S q"),
        std::string("S += relu(v) k^T; read S q"), std::string("S += relu(-v) k^T; read S q"),
        with("a = sigmoid(token)", "S = a S + a v k^T"), with(two, "S = a S + (1 - a) b v k^T"),
        with("beta = sigmoid(token(bias = 3))", "S += beta (v - S k) k^T"),
        with("beta = sigmoid(parameter)", "S += beta (v - S k) k^T")})
    EXPECT_TRUE(keys.insert(value_key(law)).second) << law;
}

TEST(Screen, FindsWhatIsNotWorthTraining) {
  EXPECT_NE(unstable("S = 2 S + v k^T; read S q"), std::nullopt);
  EXPECT_NE(unstable("S = -1.5 S + v k^T; read S q"), std::nullopt);
  EXPECT_NE(unstable("S = S + 3 (v - S k) k^T; read S q"), std::nullopt);
  EXPECT_NE(unstable("S = S + S S^T S + v k^T; read S q"), std::nullopt);
  EXPECT_NE(unstable("state n[1]; n = 3 - n * n; S += v k^T; read n S q"), std::nullopt);
  for (const std::string& law : {kSum, kDelta, kRated, kGated, kTwo}) {
    EXPECT_EQ(unstable(law), std::nullopt) << law;
    EXPECT_FALSE(dead(law)) << law;
  }
  for (const char* law :
       {"S += k^T k * fill(1, V, K); read S q", "g = token; S += g fill(1, V) k^T; read S q",
        "S += v fill(1, K)^T; read S q", "S += v k^T; read S fill(1, K)", "S += v k^T; read 0 * S q",
        "g = token(V); S += g fill(1, K)^T; read S q", "S = relu(-abs(v k^T)); read S q"})
    EXPECT_TRUE(dead(law)) << law;
  EXPECT_FALSE(dead("a = token(K); b = token(V); S += b a^T; read S q"));
}

TEST(Screen, ProbeKnowsWhatReplaces) {
  EXPECT_LT(probe(kDelta), 1e-12);
  EXPECT_LT(probe(kRated), 1e-3);
  EXPECT_LT(probe(kDelta), probe(kSum));
  EXPECT_LT(probe(kSum), probe("S = v k^T; read S q"));
  EXPECT_EQ(probe("S += v k^T; read 0 * S q"), 0.5);
  EXPECT_NEAR(probe("S += v k^T; read 3 S q"), probe(kSum), 1e-12);
  EXPECT_LT(probe("a = sigmoid(token(K)); S = S diag(a) + v k^T; read S q"), 0.5);
}

TEST(Prices, AreCountedAndCompared) {
  const Price one = price(kGated, 16, 8);
  EXPECT_EQ(one.floats, 128);
  EXPECT_EQ(one.gates, 2);
  EXPECT_EQ(one.states, 1);
  EXPECT_TRUE(one.engines);
  EXPECT_GT(one.operations, 4 * 128);
  const Price other = price("S += tanh(v - S k) k^T; read S q", 16, 8);
  EXPECT_FALSE(other.engines);
  EXPECT_EQ(other.why, "S: it is not linear in S: tanh() of the state");
  EXPECT_EQ(exceeds(one, {}), std::nullopt);
  EXPECT_EQ(exceeds(one, {.floats = 100}), "it keeps 128 floats of state, and at most 100 are allowed");
  EXPECT_EQ(exceeds(one, {.gates = 1}), "it learns 2 quantities, and at most 1 are allowed");
}

/// A line of descent a start: every child is a law, in its own canonical text, within the limits.
TEST(Changes, GiveLaws) {
  const Limits limits{.operations = 8000, .floats = 512};
  std::set<std::string> said, laws;
  std::string last = kSum;
  int trained = 0, engines = 0, unchanged = 0;
  const std::vector<std::string> starts = {kSum, kDelta, kGated, kTwo, kDivided, "read S q; S += v k^T"};
  for (int i = 0; i < 10000; ++i) {
    const std::string& start = starts[static_cast<std::size_t>(i) % starts.size()];
    RandomStream random = stream(1, i);
    const std::string parent = canonical_text(i % 3 == 0    ? start
                                              : i % 10 == 1 ? random_candidate(random, limits)
                                                            : last);
    const Change one = i % 4 == 3 ? crossed(parent, start, random, limits) : mutated(parent, random, limits);
    SCOPED_TRACE(fmt::format("{}: {} <- {} by {}", i, one.law, parent, one.what));
    ASSERT_EQ(one.what.empty(), one.law == parent);
    last = one.law;
    unchanged += one.what.empty();
    said.insert(one.what.substr(0, one.what.find(' ')));
    ASSERT_EQ(rules::accept_law(rules::steps_of(one.law)).text, one.law);
    ASSERT_EQ(canonical_text(one.law), one.law);
    ASSERT_EQ(exceeds(price(one.law, limits.K, limits.V), limits), std::nullopt);
    if (!laws.insert(one.law).second || i % 40 != 0) continue;
    engines += price(one.law, 16, 16).engines, ++trained;
    checks::expect_rule_trains(one.law, 1 + i % 2);
    if (HasFailure()) break;
  }
  EXPECT_GT(laws.size(), 5000u);
  EXPECT_GT(trained, 100);
  EXPECT_GT(engines, 20);
  EXPECT_LT(unchanged, 200);
  const std::set<std::string> all = {"adds",       "divides", "drops",  "gates", "gives", "lets",
                                     "multiplies", "reads",   "starts", "sums",  "takes", "writes"};
  for (const std::string& word : all) EXPECT_EQ(said.count(word), 1u) << word;
}

/// A law whose state turns its sign at every token, whatever it is asked.
TEST(Changes, TurnSignsThatAreBuilt) {
  for (const char* law : {"S = -S + v k^T; read S q", "S = -0.5 S - v k^T; read S q",
                          "S = -tanh(parameter) S + v k^T; read S q"}) {
    checks::expect_rule_trains(law, 1);
    checks::expect_rule_trains(law, 3);
  }
}

TEST(Changes, AreOfTheirStreamAlone) {
  for (int i = 0; i < 50; ++i) {
    RandomStream a = stream(3, i), b = stream(3, i), c = stream(3, i), d = stream(3, i);
    const Change one = mutated(kRated, a, {}),
                 same = mutated("r = token; S -= sigmoid(r) (S k - v) k^T; read S q", b, {});
    EXPECT_EQ(one.law, same.law);
    EXPECT_EQ(one.what, same.what);
    EXPECT_EQ(random_candidate(c, {}), random_candidate(d, {}));
  }
}

/// The delta rule is one change away from the sum, and the search is to find it.
TEST(Changes, ReachTheDeltaRuleFromTheSum) {
  int found = 0;
  for (int i = 0; i < 4000; ++i) {
    RandomStream random = stream(4, i);
    const std::string law = mutated(kSum, random, {}).law;
    found += law == canonical_text(kDelta);
  }
  EXPECT_GE(found, 20);  // 0.5 %
}

}  // namespace
}  // namespace crosstalk::search
