// The language of laws: canonical texts, refusals with their places, limits.
// SPDX-License-Identifier: Apache-2.0
#include "models/rules/law.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <random>

#include "models/rules/law_examples.h"

namespace crosstalk::rules::law_test {

using Steps = std::vector<std::string>;

std::string text_of(const Steps& steps) { return accept_law(steps).text; }
std::string refusal(const Steps& steps) {
  try {
    accept_law(steps);
  } catch (const LawError& error) {
    return fmt::format("{}:{}: {}", error.step, error.column, error.what());
  }
  return "accepted";
}

TEST(RuleLaw, CanonicalTextIsAFixedPoint) {
  for (const Example& one : examples()) {
    const std::string text = text_of(steps_of(one.law));
    EXPECT_EQ(text_of(steps_of(text)), text) << one.name;
  }
}

TEST(RuleLaw, EntryByEntryTheIdentityKeepsTheDiagonal) {
  EXPECT_EQ(text_of({"S = S (I * (k k^T)) + v k^T", "read S q"}),
            text_of({"S = S diag(diagonal(k k^T)) + v k^T", "read S q"}));
  EXPECT_EQ(text_of({"S = S (0.5 I - k k^T) + v k^T", "read S q"}),
            text_of({"S = 0.5 S - (S k) k^T + v k^T", "read S q"}));
}

TEST(RuleLaw, OneTextForOneLaw) {
  const std::string text = "beta = token; S = S + (2 * sigmoid(beta) * (v - S k)) k^T; read S q";
  EXPECT_EQ(text_of({"beta = 2 * sigmoid(token)", "S = S + beta (v - S k) k^T", "read S q"}), text);
  EXPECT_EQ(text_of({"beta=token", "  b = (2)*sigmoid( beta )", "S += (b*((v-(S k)) k'))", "read (S q)"}),
            text);
  EXPECT_EQ(text_of({"beta = token", "held = S k", "error = v - held", "S += 2.0 * sigmoid(beta) (error k^T)",
                     "read S q"}),
            text);
  EXPECT_NE(text_of({"gate = 2 * sigmoid(token)", "S = S + gate (v - S k) k^T", "read S q"}), text);
  EXPECT_NE(text_of({"beta = 2 * sigmoid(token(bias = 1))", "S = S + beta (v - S k) k^T", "read S q"}), text);
  EXPECT_NE(text_of({"read S q", "beta = 2 * sigmoid(token)", "S = S + beta (v - S k) k^T"}), text);
}

TEST(RuleLaw, OfAMemoryChoosesByItsOptionsAndMakesItsInputs) {
  MemoryText memory{{{"gate", "open"}, {"flag", "true"}, {"slots", "5"}}, {{.name = "beta"}}};
  const auto said = [&](const Steps& steps) -> std::string {
    try {
      const auto law = parse_law(steps, {{"slots", 5}}, &memory);
      return fmt::format("{} of {}", law->learned.at(0).name, law->weights.at(0).name);
    } catch (const LawError& error) {
      return error.what();
    }
  };
  const Steps rest = {"S += beta v k^T", "read S q"};
  const auto with = [&](const std::string& step) { return said({step, rest[0], rest[1]}); };
  EXPECT_EQ(with("beta = gate == \"open\" ? sigmoid(token) : 1"), "beta of beta");
  EXPECT_EQ(with("beta = flag ? sum(token(slots)) : 1"), "beta of beta");
  EXPECT_EQ(with("beta = slots == 5 ? sigmoid(parameter(slots == 5 ? normal(2) : 1)) : 1"), "beta of beta");
  EXPECT_EQ(said({"w = token", "beta = gate == \"open\" ? w : 1", rest[0], rest[1]}), "beta of w");
  EXPECT_EQ(with("beta = door == \"open\" ? token : 1"),
            "a condition names an option of the memory: flag ? a : b, option == \"word\" ? a : b");
  memory.given = true;
  EXPECT_EQ(said({"beta = token", "w = token", "S += beta w v k^T", "read S q"}),
            "w is learned and no input; add it to .inputs");
}

TEST(RuleLaw, AWholePowerIsExactInParenthesesToo) {
  const auto with = [](const std::string& power) {
    return text_of({"a = token", "S = S a^" + power + " + v k^T", "read S q"});
  };
  EXPECT_EQ(with("(2)"), with("2"));
  EXPECT_EQ(with("(-3)"), with("-3"));
  EXPECT_NE(with("(2.5)"), with("2"));
}

TEST(RuleLaw, DividesByAProductInParentheses) {
  EXPECT_EQ(text_of({"state z[K]", "z += k", "S += v k^T", "read S q / (z^T q)"}),
            "state z[K]; z = z + k; S = S + v k^T; read S q / (z^T q)");
}

TEST(RuleLaw, ANamedNumberKeepsItsName) {
  const Steps law = {"beta = c sigmoid(token)", "S += beta (v - S k) k^T", "read S q"};
  EXPECT_EQ(accept_law(law, {{"c", 1.5}}).text, accept_law(law, {{"c", 2}}).text);
  EXPECT_EQ(accept_law(law, {{"c", 1}}).text,
            "beta = token; S = S + (c * sigmoid(beta) * (v - S k)) k^T; read S q");
}

// What a text may not say of a square matrix, gradients still do: 1 / x is the slope of log.
TEST(RuleLaw, EntriesOfASquareMatrixAreInverted) {
  EXPECT_NO_THROW(accept_law({"state H[K, K]", "H += k k^T", "S += v k^T", "read S (1 / (H + 2)) q"}));
  EXPECT_NO_THROW(accept_law(
      {"state H[K, K]", "H += k k^T + 0.1 grad(sum(log(H + k k^T)), H)", "S += v k^T", "read S H q"}));
}

struct Refused {
  Steps law;
  std::string message;
};

TEST(RuleLaw, SaysWhereAndWhatWouldBeRight) {
  const std::string deep = fmt::format("S += {:(>70}v{:)>70} k^T", "", "");
  std::string sums = "S = S";
  for (int i = 0; i < 990; ++i) sums += " + S";
  const std::vector<Refused> all = {
      {{"S += v k", "read S q"},
       "1:8: product of a vector over V and a vector over K; a b^T is their outer product"},
      {{"S = S * k", "read S q"},
       "1:7: * of a V x K matrix and a vector over K; A x without * is the product, and A diag(x) scales the columns of A"},
      {{"S += v q^T", "read S q"},
       "1:8: q asks, so only read may use it; a state's step sees the token: k, v, token"},
      {{"S += sigmoyd(token) v k^T", "read S q"}, "1:6: unknown name sigmoyd; did you mean sigmoid?"},
      {{"S += v k^T", "read S k^T"},
       "2:8: product of a V x K matrix and a row over K; is a transpose ^T missing?"},
      {{"S += v k^T", "read k"}, "2:1: this is a vector over K, and a vector over V is wanted"},
      {{"x = token", "S += v k^T", "read S q"}, "1:1: x is never used; take the step away"},
      {{"S += v k^T"}, "1:11: nothing is read; end with a step such as: read S q"},
      {{"S += (v k^T", "read S q"}, "1:12: the ) of the parenthesis is wanted here, not the end"},
      {{"S += v / 2 k^T", "read S q"},
       "1:12: what does / divide by here? write parentheses: a / (b c) or (a / b) c"},
      {{"S += token(7 v) k^T", "read S q"}, "1:14: a size is K, V, M (4 K) or a whole number from 1 to 4096"},
      {{"S + = v k^T", "read S q"}, "1:3: =, += or -= is wanted behind S, not +"},
      {{"S += v k^T * 2 $", "read S q"},
       "1:16: '$' means nothing here; there are + - * / ^ ( ) [ ] , and names"},
      {{"S += v k^T", "read S q", "S = 0.5 S"},
       "3:1: read stands between steps of states; put it before all of them or behind"},
      {{"state P[V, K]", "S += v k^T", "read S q + P q"},
       "3:15: the state P never changes; add a step P = ... or make it a parameter"},
      {{"k = token(K)", "S += v k^T", "read S q"}, "1:1: k has a meaning of its own; take another name"},
      {{"b = token", "b += 1", "S += b v k^T", "read S q"},
       "2:1: b is set already; only states change, take another name"},
      {{"b += 1", "S += b v k^T", "read S q"},
       "1:1: b is no state; += changes a state (state b[K] declares one)"},
      {{"S += exp v k^T", "read S q"}, "1:10: exp wants parentheses: exp(...)"},
      {{"S += v k^T", "read S q", "read S q"}, "3:1: read stands once; a law has one reading"},
      {{"S = I - k k^T", "read S q"}, "1:1: this is a K x K matrix, and a V x K matrix is wanted"},
      {{"S += v k^3.5^T", "read S q"},
       "1:10: a power is a whole number from -8 to 8 without 0, a value in parentheses, or T for the transpose; sqrt(x) is the root"},
      {{"S += 0^(k^T k) v k^T", "read S q"}, "1:7: x^(y) is e^(y log x), of x above 0"},
      {{"S += v k^T", "read c == 2 ? S q : S q"},
       "2:8: ? : chooses by an option of a memory, and a law of a study has none; write two laws"},
      {{"S += (c == 2) v k^T", "read S q"},
       "1:9: a comparison stands before ? alone: NAME == \"word\" ? a : b"},
      {{"S += c ? v k^T", "read S q"}, "1:15: the : of a ? b : c is wanted here, not the end"},
      {{"S += \"v\" k^T", "read S q"},
       "1:6: a word is a value of an option, and stands in a condition: option == \"word\" ? a : b"},
      {{"S = S (I - 0.1 + k k^T) + v k^T", "read S q"},
       "1:10: I and a number have no sum: write 0.1 I for the diagonal, fill(0.1, K, K) for all entries"},
      {{"S = S * I + v k^T", "read S q"},
       "1:7: * goes entry by entry, and I is square; a product with I is written I a"},
      {{"w = tanh(S k)", "g = grad(sum(w * w), S)", "S -= 0.1 outer(grad(sum(g * g), w), k)", "read S q"},
       "3:16: this grad is of a gradient that went through what it is by, and would miss that part; write the inner gradient out"},
      {{"S += v k^2^3^T", "read S q"},
       "1:11: a power of a power wants parentheses: (a^b)^c, or the product of both"},
      {{"S = S + asking v k^T", "read S q"},
       "1:9: asking asks, so only read may use it; a state's step sees the token: k, v, token"},
      {{"state S[V, K, 2]", "S += v k^T", "read S q"},
       "1:7: a state is a number, a vector or a matrix: at most two sizes"},
      {{"old = S k", "S += v k^T", "read old"},
       "3:6: old saw states as they were before their steps; read sees them as they are: write out what it wants of them"},
      {{"S += parameter(K, log_uniform(1)) v k^T", "read S q"},
       "1:19: a start is a number, constant(x), normal(deviation), uniform(bound), uniform(a, b), log_uniform(a, b), "
       "inverse_softplus(a, b), logit_step(a, b), signed_step(a, b) or ramp(\"name\")"},
      {{"S += max(v) k^T", "read S q"}, "1:6: max takes 2 arguments, and here is 1"},
      {{"S += largest(v, 0.5) k^T", "read S q"},
       "1:17: largest(x, n) keeps n entries of x, a whole number from 1"},
      {{"S += largest(S k, 2) k^T", "read S q"}, "1:6: largest picks among values that no state makes"},
      {{"S += largest(v k^T, 2)", "read S q"}, "1:6: largest wants a vector, not a V x K matrix"},
      {{"S += v fit(v k^T, K)^T", "read S q"}, "1:8: fit wants a vector, not a V x K matrix"},
      {{"S += v k^T", "read S solve(S, q)"}, "2:8: solve wants a square matrix, not a V x K matrix"},
      {{"S += v k^T", "state H[K, K]", "H += k k^T", "read solve(H, S^T) q"},
       "4:6: solve(A, b) of a K x K matrix wants a vector over K, not a K x V matrix"},
      {{"g = token(K, weights = -1)", "S += v (g * k)^T", "read S q"},
       "1:24: weights start as the model's do times a number that is not negative"},
      {{"g = token(K, rank = 2, through = \"exp\")", "S += v (g * k)^T", "read S q"},
       "1:34: what the numbers of a rank go through is \"tanh\""},
      {{"g = parameter(K, ramp(\"steep\"))", "S += v (g * k)^T", "read S q"},
       "1:18: a ramp is one of counted, slstm.input, slstm.layers, rwkv4.decay, rwkv4.bonus, rwkv6.decay, rwkv6.bonus, rwkv7.decay, "
       "rwkv7.rate, rwkv7.erase_scale: ramp(\"counted\")"},
      {{"g = parameter(K, uniform(2, 1))", "S += v (g * k)^T", "read S q"},
       "1:18: uniform(a, b) wants a <= b"},
      {{"read = token", "S += read v k^T", "read S q"},
       "1:1: read has a meaning of its own; take another name"},
      {{"S += v k^T read", "read S q"}, "1:12: read begins a step; it is no value"},
      {{"S += v k^T", "read S q, S"}, "2:9: nothing belongs behind the end of the expression, but here is ,"},
      {{deep, "read S q"}, "1:66: parentheses are more than 60 deep; name a part of it"},
      {{"S = S S", "read S q"},
       "1:7: product of a V x K matrix and a V x K matrix; is a transpose ^T missing?"},
      {{sums, "read S q"}, "1:607: more than 150 operations inside each other; name a part of it"},
      {{"S += softmax(S)", "read S q"}, "1:6: softmax wants a vector, not a V x K matrix"},
      {{"state S[V, K] = k", "S += v k^T", "read S q"},
       "1:7: this is a vector over K, and a V x K matrix is wanted"},
      {{"state S[V, K] = v k^T", "S += v k^T", "read S q"},
       "1:7: a state starts as parameters and numbers say: no token is there yet"},
      {{"state S[V, K]", "state S[V, K]", "S += v k^T", "read S q"}, "2:7: the state S is there already"},
      {{"state exp[V, K]", "S += v k^T", "read S q"},
       "1:7: exp has a meaning of its own; give the state another name"},
      {{"S += token(bias = sin(1)) v k^T", "read S q"},
       "1:19: a start is a number, constant(x), normal(deviation), uniform(bound), uniform(a, b), log_uniform(a, b), "
       "inverse_softplus(a, b), logit_step(a, b), signed_step(a, b) or ramp(\"name\")"},
      {{"S += token(width = 2) v k^T", "read S q"},
       "1:6: token has no argument width; it has a width, rank, through, weights and bias"},
      {{"S += I", "read S q"}, "1:1: I is square, and here stands a V x K matrix"},
      {{"e = I", "S += v k^T", "read S q"}, "1:1: I alone has no size; write it where it is used"},
      {{"S += grad(v, S)", "read S q"}, "1:6: grad wants a number to descend on, not a vector over V"},
      {{"P += v k^T", "read S q"}, "1:1: P is no state; += changes a state (state P[K] declares one)"},
      {{"state H[K, K]", "H += k k^T", "S += v k^T", "read S inverse(H) q"},
       "4:8: inverse goes entry by entry, which is not the inverse of a K x K matrix; write 1 / M for 1 over every entry of M"},
      {{"S += v (k / rms(k))^T", "read S q"},
       "1:13: rms(x) is x divided by its root mean square and no number; that is sqrt(mean(x * x))"},
      {{"state z[K]", "z0 = token", "z += z0 k", "S += v k^T", "read S (z * q)"},
       "2:1: z0 is what crosstalk apply calls the state z before the first token; give the quantity another name"},
      {{"d_k = token", "S += d_k v k^T", "read S q"},
       "1:1: d_k is what crosstalk apply calls the gradient by k; give the quantity another name"},
      {{"d_s0 = token", "S += d_s0 v k^T", "read S q"},
       "1:1: d_s0 is what crosstalk apply calls the gradient by s0; give the quantity another name"},
      {{"b = token", "d_b = token", "S += b d_b v k^T", "read S q"},
       "2:1: d_b is what crosstalk apply calls the gradient by b; give the quantity another name"},
      {{"d_o = token", "S += d_o v k^T", "read S q"},
       "1:1: d_o is what crosstalk apply calls the gradient of what is read; give the quantity another name"},
      {{"state s[K]", "s += k", "S += v k^T", "read S (q * s)"},
       "4:15: the states s and S differ in case alone; rename one"},
      {{std::string(4001, ' '), "read S q"}, "1:4000: a step of more than 4000 characters; take it apart"},
      {{"S += 1e301 v k^T", "read S q"},
       "1:6: a number is at most 1e300, and not smaller than 1e-300 unless it is 0"},
      {{"state S[K, V]", "S += k v^T", "read S q"},
       "1:7: the state S is V x K; give a K x V matrix another name"},
      {{"w = parameter(V, K, 0.5)", "state P[V, K] = w", "P += v k^T", "read P q"},
       "2:7: a start has parameters of its own: state P[...] = parameter(...)"},
      {{"S += v k^T", "loss = sum((S q)^2)", "g = grad(loss, k)", "read S g"},
       "3:5: read sees S as it is, so grad would miss the way from k through the step of S; write the gradient out, or, "
       "where no q is in it, take it in a step of a state behind: state G[K]; G = grad(...)"},
      {{"w = token(K)", "u = 2 w", "state z[K]", "S = 0.5 S + v u^T", "z += S^T v",
        "read S (q + grad(sum(z * z), u))"},
       "6:13: read sees z as it is, so grad would miss the way from u through the step of z; write the gradient out, or, "
       "where no q is in it, take it in a step of a state behind: state G[K]; G = grad(...)"},
      {{"state z[K]", "S += v k^T", "z += S^T v", "read S (q + z) + grad(sum(z * z), S) q"},
       "4:18: read sees z as it is, so grad would miss the way from S through the step of z; write the gradient out, or, "
       "where no q is in it, take it in a step of a state behind: state G[V, K]; G = grad(...)"},
      {{"loss = sum((S k)^2)", "S += v k^T", "S -= 0.1 grad(loss, S)", "read S q"},
       "3:10: what grad is of does not depend on S as it is now: it saw S as it was before; put the step that makes it behind that of S"},
      {{"S -= 0.1 grad(sum(v * v), S)", "read S q"}, "1:10: what grad is of does not depend on S"},
      {{"S += 1.5.2 v k^T", "read S q"}, "1:6: 1.5.2 is no number; numbers are 12, 1.5, .5 and 1e-3"},
      {{"S += v k^T", "read 1..2 S q"}, "2:6: 1..2 is no number; numbers are 12, 1.5, .5 and 1e-3"},
      {{"state H[K, K]", "H += k k^T", "S += v k^T", "read S q"},
       "2:1: nothing that is read depends on the state H; take its steps away"},
      {{"S += v k^T", "read v"}, "1:1: nothing that is read depends on the state S; take its steps away"},
      {{"state a[K]", "state b[K]", "a += b", "b += a", "S += v k^T", "read S q"},
       "3:1: nothing that is read depends on the state a; take its steps away"},
      {{"S = S^(2) + v k^T", "read S q"},
       "1:6: a power goes entry by entry, and here stands a V x K matrix; write A * A, or A A"},
      {{"read v"}, "1:7: nothing changes; add a step such as: S += v k^T"},
      {{"S += v k^T", "read (S q) / I"},
       "2:12: I may be added, subtracted and multiplied; diag(x) has other entries"},
      {{"S += v k^T", "read exp(I) v"},
       "2:6: I may be added, subtracted and multiplied; diag(x) has other entries"},
      {{"S += zebra v k^T", "read S q"},
       "1:6: unknown name zebra; so far there are S, head, k, q, v, and what is learned is token(...) or parameter(...)"},
      {{"M = 0.5 M + v k^T", "S += M", "read S q"},
       "1:9: M has no value before its own step; what is kept from token to token is declared first, a matrix as state M[V, K]"},
      {{"S += exp(x = 1) v k^T", "read S q"}, "1:6: exp takes no named arguments"},
      {{"S += rms() k^T", "read S q"}, "1:6: rms takes 1 to 2 arguments, and here are 0"},
      {{"S += exp(v, k) k^T", "read S q"}, "1:6: exp takes 1 argument, and here are 2"},
      {{"S += constant(1) v k^T", "read S q"},
       "1:6: constant is how a parameter or a bias starts: parameter(constant(...)), token(bias = constant(...))"},
      {{"S = S + fill(v, V, K)", "read S q"},
       "1:9: fill wants a number, then a size or two: fill(0.1, V, K)"},
      {{"S += dot(k, v) v k^T", "read S q"},
       "1:6: dot of a vector over K and a vector over V; both have one shape"},
      {{"b = token(rank = 0.5)", "S += b v k^T", "read S q"},
       "1:18: rank is a whole number from 1 to 4096 or d, the size of a key before its feature map"},
      {{"S += v k^T", "read asking(rank = 2) S q"},
       "2:6: asking has no argument rank; it has a width and bias"},
      {{"S += parameter(width = 2) v k^T", "read S q"},
       "1:6: parameter has no argument width; it has its sizes and how it starts"},
      {{"S += token(K, V) k^T", "read S q"}, "1:6: token has too many sizes"},
      {{"S_token = token", "S += S_token token v k^T", "read S q"},
       "2:14: the parameter S_token is there already; give this one a name of its own first: name = token(...)"},
      {{"b = parameter(normal(k))", "S += b v k^T", "read S q"},
       "1:22: how something starts is said in numbers"},
      {{"b = parameter(log_uniform(2, 1))", "S += b v k^T", "read S q"},
       "1:15: log_uniform(a, b) wants 0 <= a <= b"},
      {{"b = token(bias = normal(-1))", "S += b v k^T", "read S q"},
       "1:18: normal wants a number that is not negative"},
      {{"S += v k^T \x01", "read S q"},
       "1:12: 'byte 1' means nothing here; there are + - * / ^ ( ) [ ] , and names"},
      {{"state", "S += v k^T", "read S q"}, "1:6: the state's name is wanted here, not the end"},
      {{"state z", "S += v k^T", "read S q"},
       "1:8: the state's size, such as [V, K], is wanted here, not the end"},
      {{"state z[K", "S += v k^T", "read S q"}, "1:10: ] is wanted here, not the end"},
      {{"S += state k^T", "read S q"}, "1:6: state begins a step; it is no value"},
      {{"S += * k^T", "read S q"}, "1:6: a value is wanted here, not *"},
      {{"S += max(v v) k^T", "read S q"}, "1:6: max takes 2 arguments, and here is 1"},
      {{"S += v + k^T", "read S q"},
       "1:8: + of a vector over V and a row over K; both sides of a sum have one shape"},
      {{"S = v * S", "read S q"},
       "1:7: * of a vector over V and a V x K matrix; diag(x) A scales the rows of A"},
      {{"S += v * k^T", "read S q"},
       "1:8: * of a vector over V and a row over K; without * it is their product"},
      {{"S = diag(S)", "read S q"}, "1:5: diag wants a vector, not a V x K matrix"},
      {{"S += diagonal(S) k^T", "read S q"}, "1:6: diagonal wants a square matrix, not a V x K matrix"},
      {{"S += v softmax(k^T)", "read S q"},
       "1:8: softmax wants a vector, not a row over K; write softmax(x^T)^T for a row"},
      {{"S += rms(v, token) k^T", "read S q"}, "1:6: eps is a number written out"},
      {{"S = S^2", "read S q"},
       "1:6: a power goes entry by entry, and here stands a V x K matrix; write A * A, or A A"},
      {{"S += (k k) v k^T", "read S q"},
       "1:9: product of a vector over K and a vector over K; a^T b is a number, a b^T their outer product, a * b goes entry by entry"},
      {{"S += v k^T", "read S q", "read"}, "3:5: a value is wanted here, not the end"},
      {{"1 = v", "S += v k^T", "read S q"}, "1:1: a name, state or read is wanted here, not 1"},
      {{"S += v k^T", "read (S q"}, "2:10: the ) of the parenthesis is wanted here, not the end"},
      {{"S += v k^T", "y = S q"}, "2:8: nothing is read; end with a step such as: read S q"},
      {{"S += \xCE\xB2 v k^T", "read S q"},
       "1:6: '\xCE\xB2' means nothing here; names have the letters a to z, A to Z and _"},
      {{"S += v \xCE k^T", "read S q"},
       "1:8: 'byte 206' means nothing here; there are + - * / ^ ( ) [ ] , and names"},
      // Notations of papers and programs that differ.
      {{"beta = sigmoid(W x)", "S += v k^T", "read S q"},
       "1:16: unknown name W; so far there are S, head, k, q, v, and what is learned is token(...) or parameter(...)"},
      {{"S = S_{t-1} + v k^T", "read S q"},
       "1:7: '{' means nothing here; names have no indices: on the right of its step, S is what it was before"},
      {{"S = S @ S", "read S q"},
       "1:7: '@' means nothing here; A B is the product of matrices, a b^T an outer product"},
      {{"S <- S + v k^T", "read S q"},
       "1:3: '<' means nothing here; a step says NAME = ..., and positive(x) is 1 where x > 0"},
      {{"S += v k.T", "read S q"},
       "1:9: '.' means nothing here; the transpose is x^T; numbers begin with a digit or a point and a digit"},
      {{"S += v \xE2\x8A\x97 k", "read S q"},
       "1:8: '\xE2\x8A\x97' means nothing here; an outer product is a b^T"},
      {{"S = S \xE2\x88\x92 v k^T", "read S q"}, "1:7: '\xE2\x88\x92' means nothing here; the minus is -"},
      {{"S += v k^T", "return S q"}, "2:8: what is read stands behind read: read S q"},
      {{"S += v k^T", "read S q norm(v)**2"}, "2:18: a power is x^2; the root is sqrt(x)"},
      {{"S = clip(S, -1, 1) + v k^T", "read S q"}, "1:5: clip is no function; docs/rules.md lists them"},
      {{"S = token(K) S + v k^T", "read S q"},
       "1:14: product of a vector over K and a V x K matrix; B diag(a) scales the columns of B"},
      {{"S = token(V) S + v k^T", "read S q"},
       "1:14: product of a vector over V and a V x K matrix; diag(a) B scales the rows of B"},
      {{"S += k v^T", "read S q"},
       "1:1: this is a K x V matrix, and a V x K matrix is wanted; is a transpose ^T missing?"},
      {{"S += v k^T", "read q^T S^T"},
       "2:1: this is a row over V, and a vector over V is wanted; is a transpose ^T missing?"},
      {{""}, "1:1: a name, state or read is wanted here, not the end"}};
  for (const Refused& one : all) EXPECT_EQ(refusal(one.law), one.message) << one.law[0].substr(0, 60);
}

/// A refusal, or "accepted", in less than 50 milliseconds.
std::string soon(const Steps& steps) {
  const auto start = std::chrono::steady_clock::now();
  const std::string said = refusal(steps);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  EXPECT_LT(took.count(), 50) << said.substr(0, 200);
  return said;
}

TEST(RuleLaw, RefusesWhatIsTooLargeInMilliseconds) {
  EXPECT_EQ(soon({"S += v k^T", "read " + std::string(1000000, '(')}),
            "2:4000: a step of more than 4000 characters; take it apart");
  EXPECT_EQ(soon({"S += v k^T", "read " + std::string(3990, '(')}),
            "2:66: parentheses are more than 60 deep; name a part of it");
  EXPECT_EQ(soon({"S += v k^T", "read " + std::string(1000000, ')')}),
            "2:4000: a step of more than 4000 characters; take it apart");
  EXPECT_EQ(soon(Steps(1000000, "S += v k^T")), "2000:1: a law has at most 2000 steps");
  Steps states;
  for (int i = 0; i < 400; ++i) states.push_back(fmt::format("state P{}[V, K]", i));
  EXPECT_EQ(soon(states), "65:7: a law has at most 64 states");
  Steps chain = {"x0 = S"};
  for (int i = 1; i < 500; ++i) chain.push_back(fmt::format("x{} = tanh(x{})", i, i - 1));
  chain.push_back("S = x499"), chain.push_back("read S q");
  EXPECT_EQ(soon(chain), "401:8: the law has more than 400 operations that wait for each other");
  Steps wide = {"S += v k^T"};
  for (int i = 0; i < 1500; ++i) wide.push_back(fmt::format("S += tanh({} v) k^T", i));
  wide.push_back("read S q");
  EXPECT_EQ(soon(wide), "398:1: the law has more than 400 operations that wait for each other");
  Steps many = {"S += v k^T"};
  for (int j = 0; j < 20; ++j) {
    std::string step = fmt::format("y{} = v", j);
    for (int i = 0; i < 70; ++i) step += fmt::format(" + tanh({} v)", 100 * j + i);
    many.push_back(step), many.push_back(fmt::format("S += y{} k^T", j));
  }
  many.push_back("read S q");
  EXPECT_EQ(soon(many), "42:9: the law has more than 2000 operations");
}

TEST(RuleLaw, TakesALawOfFourThousandCharactersInMilliseconds) {
  std::string sum = "S += (v";
  for (int i = 0; sum.size() < 1200; ++i) sum += fmt::format(" + {}.5 tanh(v)", i);
  std::string read = "read S q";
  for (int i = 0; read.size() < 1200; ++i) read += fmt::format(" + {}.25 v", i);
  const Steps law = {sum + ") k^T", std::string(3980, ' ') + "state z[K]", "z += k", read + " * sum(z)"};
  EXPECT_EQ(soon(law), "accepted");
}

/// 20,000 texts with something taken out, put in, said twice or from another law: each is refused at a place that exists, or
/// reads back.
TEST(RuleLaw, MutatedLawsAreRefusedAtAPlaceOrReadBack) {
  std::mt19937 random(7);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random()) % n; };
  const std::string signs = "()+-*/^=;, []kvqSTIKV0123.e'_";
  int refused = 0, accepted = 0;
  for (int n = 0; n < 20000; ++n) {
    std::string text = examples()[below(examples().size())].law;
    for (std::size_t times = 1 + below(3); times > 0; --times) {
      const std::size_t at = below(text.size() + 1), length = 1 + below(6);
      const std::string other = examples()[below(examples().size())].law;
      const std::size_t from = below(other.size());
      switch (below(4)) {
        case 0:
          text = text.substr(0, at) + text.substr(std::min(text.size(), at + length));
          break;
        case 1:
          text.insert(at, 1, signs[below(signs.size())]);
          break;
        case 2:
          text.insert(at, text.substr(std::min(text.size(), at + 1), length));
          break;
        default:
          text.insert(at, other.substr(from, 4 * length));
      }
    }
    const Steps steps = steps_of(text);
    try {
      const std::string canonical = accept_law(steps).text;
      ASSERT_EQ(text_of(steps_of(canonical)), canonical) << text;
      ++accepted;
    } catch (const LawError& error) {
      ASSERT_TRUE(error.step >= 1 && error.step <= static_cast<int>(steps.size())) << text;
      const std::string& step = steps[static_cast<std::size_t>(error.step) - 1];
      ASSERT_TRUE(error.column >= 1 && error.column <= static_cast<int>(step.size()) + 1)
          << error.what() << " " << error.step << ":" << error.column << " " << text;
      ASSERT_STRNE(error.what(), "");
      ++refused;
    }
  }
  EXPECT_GT(accepted, 300);
  EXPECT_GT(refused, 5000);
}

}  // namespace crosstalk::rules::law_test
