// What of laws engines run, and that any law is known, said and built soon.
// SPDX-License-Identifier: Apache-2.0
#include "models/rules/lower.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>

#include "models/apply_model.h"
#include "models/rules/latex.h"
#include "models/rules/law_examples.h"
#include "models/rules/report.h"
#include "models/rules/rule_memory.h"

namespace crosstalk::rules::lower_test {

TEST(LoweredRules, WhatIsLoweredAndWhyTheOthersAreNot) {
  std::map<std::string, std::string> reasons;
  for (const Example& one : examples())
    if (const std::string reason = rule_of(one.law, {}).plan.reason; !reason.empty())
      reasons[one.name] = reason;
  const std::map<std::string, std::string> wanted = {
      {"fwm", "S: it is not linear in S: S is divided by what depends on S"},
      {"m2rnn", "S: it is not linear in S: tanh() of the state"},
      {"newton", "S: the state H takes part"},
      {"nonsense", "z: it is a vector, and its step is no a * z + b entry by entry"},
      {"oja", "S: it is not linear in S: rows are scaled by what depends on S"},
      {"ridge", "read: the reading looks at the state otherwise than by S x"},
      {"rotation", "J: the state S takes part"},
      {"second_order", "H: it starts elsewhere than at 0"},
      {"titans_linear", "S: it starts elsewhere than at 0"},
      {"ttt_linear", "b: it is a vector, and its step is no a * z + b entry by entry"},
      {"velocity", "m: it is a vector, and its step is no a * z + b entry by entry"}};
  EXPECT_EQ(reasons, wanted);
}

// Whatever a law is, what runs it is known soon.
TEST(LoweredRules, LargeLawsAreRecognisedOrNotInNoTime) {
  const auto repeated = [](const std::string& step, int times) {
    std::string law;
    for (int i = 0; i < times; ++i) law += step;
    return law;
  };
  const auto doubled = [](const std::string& start) {
    std::string law = "g0 = " + start;
    for (int i = 1; i <= 40; ++i) law += fmt::format("; g{0} = g{1} + g{1}", i, i - 1);
    return law + "; S += 0.0000000000001 g40 v k^T; read S q";
  };
  const std::vector<std::string> laws = {
      repeated("S = S + S; ", 40) + "S += v k^T; read S q",
      repeated("S = 0.5 S + 0.25 S diag(k); ", 40) + "S += v k^T; read S q",
      repeated("S += 0.5 (v - S k) k^T; ", 60) + "read S q",
      "state b[K]; " + repeated("b = b + b; ", 60) + "b += k; read v sum(b)",
      "S = tanh(S); " + repeated("S += (v - S k) k^T; ", 60) + "read S q",
      repeated("S = S (I - k k^T); ", 60) + "S += v k^T; read S q",
      doubled("sigmoid(token)"),
      doubled("2")};
  for (const std::string& law : laws) {
    const auto start = std::chrono::steady_clock::now();
    EXPECT_NO_THROW(rule_of(law, {})) << law.substr(0, 60);
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    EXPECT_LT(took.count(), 2000) << law.substr(0, 60);
    const Rule& rule = rule_of(law, {});
    EXPECT_GE(report(*rule.law, *rule.law, rule.plan).engines.size(), 1u);
    if (!rule.refused.empty()) continue;
    const ApplySizes sizes{.B = 1, .T = 2, .H = 1, .K = 2, .V = 2};
    const Options options = apply_options(rule.memory, sizes, {{"law", rule.text}});
    EXPECT_NO_THROW(ApplyModel<double>(rule.memory, options, sizes, {}, Device::cpu, false))
        << law.substr(0, 60);
  }
}

/// Values that stand twice in what follows, 60 times over: each is walked once.
TEST(LoweredRules, SharedValuesTakeNoTime) {
  const auto doubled = [](const std::string& start, const std::string& step, const std::string& end) {
    std::string law = "A0 = " + start;
    for (int i = 1; i <= 60; ++i)
      law += fmt::format("; A{} = {}", i,
                         fmt::format(fmt::runtime(step), fmt::arg("A", fmt::format("A{}", i - 1))));
    return law + "; " + fmt::format(fmt::runtime(end), fmt::arg("A", "A60"));
  };
  const std::string write = "S += v k^T; read S q", half = "0.5 ({A} + {A})";
  for (const std::string& law :
       {doubled("v k^T", half, "S += {A}; read S q"), doubled("v k^T", "{A} - 0.5 * {A}", write + " + {A} q"),
        doubled("v k^T", "0.5 {A} + {A}", "S += v k^T; read {A} S^T v"),
        doubled("v k^T", half, "S = tanh(S) + ({A}^T)^T; read S q"),
        doubled("S^T", half, "S = tanh({A}^T) + v k^T; read S q"),
        doubled("v", "tanh({A}) + tanh({A})", "S += {A} k^T; read S q"),
        doubled("sigmoid(token)", "{A} * {A}", "S = {A} S - {A} (S k) k^T + v k^T; read S q"),
        doubled("sigmoid(token)", "{A} * {A}", "S += {A} (v - S k) k^T; read S q"),
        doubled("S", half, "S -= 0.1 grad(sum({A} k), S); read S q"),
        doubled("I - 0.1 k k^T", half, "S = S {A} + v k^T; read S q"),
        doubled("k k^T", "{A} {A}", "S = S {A} + v k^T; read S q"),
        doubled("diag(k)", half, "S = S {A} + v k^T; read S q"),
        "state b[K]; " + doubled("b", half, "b = {A} + k; " + write + " * sum(b)"),
        doubled("S", "tanh({A}) * {A}", "S = {A} + v k^T; read S q")}) {
    const auto start = std::chrono::steady_clock::now();
    const Rule& rule = rule_of(law, {});
    EXPECT_GE(report(*rule.law, *rule.law, rule.plan).engines.size(), 1u);
    EXPECT_FALSE(latex(*rule.law).empty());
    ASSERT_EQ(rule.refused, "");
    const ApplySizes sizes{.B = 1, .T = 2, .H = 1, .K = 3, .V = 2};
    ApplyModel<double>(rule.memory, apply_options(rule.memory, sizes, {{"law", rule.text}}), sizes, {},
                       Device::cpu, true);
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    EXPECT_LT(took.count(), 500) << law.substr(0, 60);
  }
}

struct Divided {
  std::string law, sum;  ///< sum: "" where quotients are no read of the engines
  bool stabilised = false;
};

TEST(LoweredRules, QuotientsThatEnginesRead) {
  const std::string gates = "i = exp(token); f = sigmoid(token); state n[K]; S = f S + i v k^T; ";
  const std::string sums = "state z[K]; S += v k^T; z += k; ";
  const std::vector<Divided> all = {
      {sums + "read S q / (z^T q + 0.000001)", "z"},
      {sums + "read S q / (c + q^T z)", "z"},
      {sums + "read S q / (z^T q)", "z"},
      {sums + "read layernorm(S q / (z^T q)) + v", "z"},
      {gates + "n = f n + i k; read S q / max(abs(n^T q), 1)", "n", true},
      {gates + "n = f n + k i; read S q / max(1, abs(q^T n))", "n", true},
      {gates + "n = f n + i k; read S q / (n^T q + 1)", "n"},
      // Of another query, with another gate or key, at least something else, behind an erase, or without gates that have
      // logarithms.
      {sums + "read S q / (z^T k)", ""},
      {"state z[K]; S += 2 v k^T; z += k; read S q / (z^T q)", ""},
      {"state z[K]; S = 0.5 S + v k^T; z += k; read S q / (z^T q)", ""},
      {gates + "n = f n + k; read S q / max(abs(n^T q), 1)", ""},
      {gates + "n = i n + i k; read S q / max(abs(n^T q), 1)", ""},
      {gates + "n = f n + i k; read S q / max(abs(n^T q), 2)", ""},
      {gates + "n = f n + i k; read S q / max(n^T q, 1)", ""},
      {"state z[K]; S += (v - S k) k^T; z += k; read S q / (z^T q)", ""},
      {sums + "read S q / max(abs(z^T q), 1)", ""}};
  for (const Divided& one : all) {
    SCOPED_TRACE(one.law);
    const Rule& rule = rule_of(one.law, {{"c", 0.5}});
    ASSERT_EQ(rule.plan.reason, "");
    ASSERT_EQ(rule.plan.divided.has_value(), !one.sum.empty());
    if (one.sum.empty()) continue;
    ASSERT_EQ(rule.plan.divided->asked.size(), 1u);
    EXPECT_EQ(rule.plan.divided->asked[0].sum, one.sum);
    EXPECT_EQ(!rule.plan.divided->asked[0].eps.has_value(), one.stabilised);
    EXPECT_EQ(rule.plan.asked.size(), 1u);  // as it stands, where states come in or go out
  }
}

}  // namespace crosstalk::rules::lower_test
