// SPDX-License-Identifier: Apache-2.0
#include "models/rules/report.h"

#include <gtest/gtest.h>

#include <fstream>

#include "models/rules/law_examples.h"
#include "models/rules/rule_memory.h"

namespace crosstalk::rules::report_test {

LawReport report_of(const std::string& text) {
  const Rule& rule = rule_of(text, {});
  return report(*parse_law(steps_of(text)), *rule.law, rule.plan);
}

TEST(LawReport, NamesEveryTypeAndWhatRuns) {
  const LawReport got = report_of(
      "beta = 2 sigmoid(token); state z[K]; z += k; error = v - S k; S += beta error k^T; read S q / (z^T q)");
  EXPECT_EQ(got.names, (Rows{{"k", "a vector over K", "given, of the token"},
                             {"v", "a vector over V", "given, of the token"},
                             {"q", "a vector over K", "given, of what asks"},
                             {"beta", "a number", "learned, token"},
                             {"beta", "a number", "value, of what is learned"},
                             {"error", "a vector over V", "value"},
                             {"z", "a vector over K", "state, starts at 0"},
                             {"S", "a V x K matrix", "state, starts at 0"}}));
  EXPECT_EQ(
      got.engines,
      (Rows{
          {"z", "scan: times 1, plus k"},
          {"S",
           "recurrence: key k, value v, gain 2 * sigmoid(beta), erases along the key, by the gain; forms query, parallel, chunk, recurrent"},
          {"read", "asks S with q"}}));
  // S k, v - S k, its multiple, the outer product, the sum; z + k; S q, z^T q, the quotient.
  EXPECT_EQ(got.with_state, "6 V K + 3 V + 3 K");
  EXPECT_EQ(got.without_state, "2");
}

TEST(LawReport, SaysWhyItRunsTokenAfterToken) {
  EXPECT_EQ(report_of("S = tanh(S) + v k^T; read S q").engines,
            (Rows{{"S", "token after token: it is not linear in S: tanh() of the state"},
                  {"read", "token after token"}}));
}

TEST(LawReport, SaysWhichVectorIsWalkedAlone) {
  const Rows engines =
      report_of("state d[1]; beta = 1 / (2 + d); d = tanh(d) + k^T k; S += beta (v - S k) k^T; read S q")
          .engines;
  ASSERT_EQ(engines.size(), 3u);
  EXPECT_EQ(engines[0],
            (std::vector<std::string>{
                "d", "walked alone from token to token: its step is no a * z + b entry by entry"}));
  EXPECT_EQ(engines[1][1].substr(0, 35), "recurrence: key k, value v, gain 1 ");
}

TEST(LawReport, SaysWhatMayBeReadOtherwise) {
  const std::string loss = "loss = 0.5 sum((S k - v)^2); z = 0.5 z + grad(loss, k); ", write = "S += v k^T; ",
                    read = "read S (q + z)";
  EXPECT_EQ(
      report_of("state z[K]; " + write + loss + read).notes,
      (std::vector<std::string>{
          "grad in the step of z goes through the step of S before it, so S is no constant in it; write the "
          "gradient out where S is to stay as it is"}));
  EXPECT_TRUE(report_of("state z[K]; " + loss + write + read).notes.empty());
  EXPECT_EQ(
      report_of("loss = sum((S k)^2); " + write + "S -= 0.1 grad(loss + sum(S * S), S); read S q").notes,
      (std::vector<std::string>{
          "grad by S in the step of S holds what saw S as it was before its last step for a constant"}));
  EXPECT_EQ(
      report_of("S += v unit(k)^T; read S q").notes,
      (std::vector<std::string>{"unit(x) is x / sqrt(sum(x * x) + 1e-6), so a short x is not made 1 long"}));
  EXPECT_EQ(report_of("state A[K, K]; A = 0.5 A + k k^T; S += v k^T; read S exp(A) q").notes,
            (std::vector<std::string>{
                "exp of a square matrix goes entry by entry; it is not the exp of a matrix"}));
}

TEST(LawReport, SaysWhereFunctionsAreCutOff) {
  const auto notes = [](const std::string& x) {
    std::vector<std::string> out;
    for (const std::string& note : report_of("a = token; S += v k^T; read a " + x + " (S q)").notes)
      out.push_back(note.substr(0, note.find(' ')));
    return out;
  };
  using Notes = std::vector<std::string>;
  EXPECT_EQ(
      report_of("a = token; S += v k^T; read a^(0.5) S q").notes,
      (Notes{
          "log(x), also that of x^(y), which is e^(y log x), is log(1e-30) = -69.08 where x is less than 1e-30"}));
  EXPECT_EQ(report_of("a = token; S += v k^T; read sqrt(a) S q").notes,
            (Notes{"sqrt(x) is 0 where x is less than 0"}));
  for (const char* x : {"log(a)", "a^a", "log(sigmoid(a))"}) EXPECT_EQ(notes(x), Notes{"log(x),"}) << x;
  for (const char* x : {"a^2", "a^(2)", "a^(-1)", "log(abs(a) + 0.5)", "log(1 + exp(a))", "norm(v)",
                        "sqrt(k^T k)", "sqrt(mean(v * v))", "2^a", "rms(v)^T v"})
    EXPECT_EQ(notes(x), Notes{}) << x;
}

TEST(LawReport, SaysThatANumberBesideASquareMatrixIsNoIdentity) {
  const auto notes = [](const std::string& factor) {
    return report_of("b = sigmoid(token); S = S " + factor + " + b v k^T; read S q").notes;
  };
  EXPECT_EQ(
      notes("(1 - b k k^T)"),
      (std::vector<std::string>{
          "a number beside a square matrix is added to, or subtracted at, every entry; the identity is I: I - k k^T"}));
  EXPECT_TRUE(notes("(I - b k k^T)").empty());
  EXPECT_TRUE(report_of("S = (1 - v k^T) * S + v k^T; read S q").notes.empty());
}

TEST(LawReport, WarnsOfStatesThatGrow) {
  const auto first = [](const std::string& law) {
    const std::vector<std::string> all = report_of(law + "; read S q").warnings;
    return all.empty() ? "" : all[0].substr(0, all[0].find(" at every token"));
  };
  EXPECT_EQ(first("S = 4 S + v k^T"), "what S holds is multiplied by 4");
  EXPECT_EQ(first("S = 2 S; S = S + S + v k^T"), "what S holds is multiplied by 4");
  EXPECT_EQ(first("S = -2 S + v k^T"), "what S holds is multiplied by -2");
  EXPECT_EQ(first("S = S / 0.5 + v k^T"), "what S holds is multiplied by 2");
  EXPECT_EQ(first("S = 3 S + (v - S k) k^T"), "what S holds is multiplied by 3");  // but along k
  EXPECT_EQ(first("S = (2 + sigmoid(token)) S + v k^T"), "what S holds is multiplied by more than 2");
  for (const char* law :
       {"S = S + v k^T", "S = 0.5 S + v k^T", "S = 2 sigmoid(token) S + v k^T", "S = tanh(4 S) + v k^T",
        "S = 4 S / (1 + norm(S)) + v k^T", "S = exp(token) S + v k^T"})
    EXPECT_EQ(first(law), "") << law;
}

TEST(LawReport, OfEveryExample) {
  for (const Example& one : examples()) {
    SCOPED_TRACE(one.name);
    const LawReport got = report_of(one.law);
    EXPECT_GE(got.engines.size(), rule_of(one.law, {}).law->states.size());
    const bool lowered = rule_of(one.law, {}).plan.reason.empty();
    bool said = false;
    for (const auto& row : got.engines) said = said || row[1].rfind("token after token", 0) == 0;
    EXPECT_NE(said, lowered);
    EXPECT_TRUE(got.warnings.empty()) << got.warnings[0];
  }
}

// Laws of docs/rules.md: the rows "| name | `law` |".
TEST(LawReport, OfEveryLawOfTheDocumentation) {
  std::ifstream file(CROSSTALK_SOURCE_DIR "/docs/rules.md");
  int laws = 0, lowered = 0;
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("## ")) inside = line == "## Laws";
    const std::size_t first = line.find('`'), last = line.rfind('`');
    if (!inside || !line.starts_with("| ") || first == last) continue;
    const Rule& rule = rule_of(line.substr(first + 1, last - first - 1), {});
    EXPECT_EQ(rule.refused, "") << line;
    ++laws, lowered += rule.plan.reason.empty();
  }
  EXPECT_GE(laws, 20);
  EXPECT_GE(lowered, 12);
}

// A function of what is read, or a part that the query makes, has a rank of its own.
TEST(LawReport, ReadsThatAreLinearInTheQueryAreBoundedByRank) {
  const auto is_bounded = [](const std::string& law) {
    Options options;
    options.set("memory.name", std::string("rule"));
    options.set("memory.law", law);
    return memory_of(options).bounded_by_rank;
  };
  for (const char* law :
       {"S += v k^T; read S q", "S += tanh(v - S k) k^T; read S q", "S += v k^T; read (I - v v^T) (S q)",
        "state z[K]; z += k; S += v k^T; read S q / (z^T q + 1)"})
    EXPECT_TRUE(is_bounded(law)) << law;
  for (const char* law :
       {"S += v k^T; read softmax(S q)", "S += v k^T; read relu(S q)",
        "b = asking(V); S += v k^T; read S q + b", "b = asking(V); S += v k^T; read sigmoid(b) * (S q)",
        "S += v k^T; read (S q) * (S q)"})
    EXPECT_FALSE(is_bounded(law)) << law;
}

}  // namespace crosstalk::rules::report_test
