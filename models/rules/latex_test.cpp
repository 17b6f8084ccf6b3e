// A law as equations: what they say to the letter, and that they are whole for every law.
// SPDX-License-Identifier: Apache-2.0
#include "models/rules/latex.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "models/rules/law_examples.h"

namespace crosstalk::rules::latex_test {

using Lines = std::vector<std::string>;

Lines equations(const std::string& law) { return latex_equations(*parse_law(steps_of(law), {{"c", 1.5}})); }

TEST(RuleLatex, SaysTheLawAsAPaperDoes) {
  EXPECT_EQ(latex(*parse_law(steps_of("beta = 2 sigmoid(token); S += beta (v - S k) k^T; read S q"))),
            R"(\begin{aligned}
\beta_t &= 2 \sigma(\mathbf{w}_{\beta}^{\top} \mathbf{x}_t) \\
\mathbf{S}_t &= \mathbf{S}_{t-1} + \beta_t (\mathbf{v}_t - \mathbf{S}_{t-1} \mathbf{k}_t) \mathbf{k}_t^{\top} \\
\mathbf{o}_t &= \mathbf{S}_t \mathbf{q}_t
\end{aligned})");
}

TEST(RuleLatex, ValuesKeepTheirNamesAndLearnedOnesAreTheirs) {
  EXPECT_EQ(
      equations(
          "alpha_v = sigmoid(token(V, bias = constant(4))); g = c parameter(K, normal(1)); y = S k + v; "
          "S = diag(alpha_v) S diag(exp(g)); S -= y (k * g)^T; read S q"),
      (Lines{
          R"(\boldsymbol{\alpha}_{v,t} &= \sigma(\mathbf{W}_{\alpha_v} \mathbf{x}_t + \mathbf{b}_{\alpha_v}))",
          R"(\mathbf{g} &= c \boldsymbol{\theta}_{g})",
          R"(\mathbf{y}_t &= \mathbf{S}_{t-1} \mathbf{k}_t + \mathbf{v}_t)",
          R"(\mathbf{S}_t &= \operatorname{Diag}(\boldsymbol{\alpha}_{v,t}) \mathbf{S}_{t-1} )"
          R"(\operatorname{Diag}(\exp(\mathbf{g})) - \mathbf{y}_t (\mathbf{k}_t \odot \mathbf{g})^{\top})",
          R"(\mathbf{o}_t &= \mathbf{S}_t \mathbf{q}_t)"}));
}

TEST(RuleLatex, StatesOfTheReadingAreThoseBehindTheStep) {
  EXPECT_EQ(
      equations(
          "state P[V, K]; state n[1] = 1; P = 0.9 P + v k^T; S += P; n += 1; held = S q; read held / (n + 0.000001)"),
      (Lines{R"(n_0 &= 1)", R"(\mathbf{P}_t &= 0.9 \mathbf{P}_{t-1} + \mathbf{v}_t \mathbf{k}_t^{\top})",
             R"(n_t &= n_{t-1} + 1)", R"(\mathbf{S}_t &= \mathbf{S}_{t-1} + \mathbf{P}_t)",
             R"(\mathbf{held}_t &= \mathbf{S}_t \mathbf{q}_t)",
             R"(\mathbf{o}_t &= \frac{\mathbf{held}_t}{n_t + 10^{-6}})"}));
  EXPECT_EQ(
      equations("read S q + v (k^T q); S = 0.5 S + v k^T"),
      (Lines{
          R"(\mathbf{o}_t &= \mathbf{S}_{t-1} \mathbf{q}_t + \mathbf{k}_t^{\top} \mathbf{q}_t \mathbf{v}_t)",
          R"(\mathbf{S}_t &= 0.5 \mathbf{S}_{t-1} + \mathbf{v}_t \mathbf{k}_t^{\top})"}));
}

TEST(RuleLatex, GradientsStayGradients) {
  EXPECT_EQ(
      equations(
          "e = S k - v; loss = 0.5 sum(e * e); state b[V]; b -= c grad(loss, e); S = S + b k^T; read layernorm(S q)"),
      (Lines{R"(\mathbf{e}_t &= \mathbf{S}_{t-1} \mathbf{k}_t - \mathbf{v}_t)",
             R"(\mathrm{loss}_t &= 0.5 \|\mathbf{e}_t\|^{2})",
             R"(\mathbf{b}_t &= \mathbf{b}_{t-1} - c \nabla_{\mathbf{e}_t} \mathrm{loss}_t)",
             R"(\mathbf{S}_t &= \mathbf{S}_{t-1} + \mathbf{b}_t \mathbf{k}_t^{\top})",
             R"(\mathbf{o}_t &= \operatorname{LN}(\mathbf{S}_t \mathbf{q}_t))"}));
}

TEST(RuleLatex, WhatIsLongAndRepeatsHasAnEquationOfItsOwn) {
  EXPECT_EQ(
      equations("beta = token; S += beta (v - S k) k^T; S = S / (norm(S) + 1); read S q"),
      (Lines{
          R"(\beta_t &= \mathbf{w}_{\beta}^{\top} \mathbf{x}_t)",
          R"(\mathbf{z}_{1,t} &= \mathbf{S}_{t-1} + \beta_t (\mathbf{v}_t - \mathbf{S}_{t-1} \mathbf{k}_t) )"
          R"(\mathbf{k}_t^{\top})",
          R"(\mathbf{S}_t &= \frac{\mathbf{z}_{1,t}}{\|\mathbf{z}_{1,t}\|_{\mathrm{F}} + 1})",
          R"(\mathbf{o}_t &= \mathbf{S}_t \mathbf{q}_t)"}));
  // Written out, this has 3^60 parts.
  std::string law;
  for (int i = 0; i < 60; ++i) law += "S += v (tanh(S k)^T S); ";
  std::size_t all = 0;
  for (const std::string& line : equations(law + "read S q")) all += line.size();
  EXPECT_LT(all, 30000u);
}

// As it is kept, a law has names only where something is needed twice.
TEST(RuleLatex, OfACanonicalTextIsShortToo) {
  EXPECT_EQ(
      equations(
          accept_law(
              steps_of(
                  "eta = sigmoid(token); state M[V, K]; loss = sum((S k - v)^2); M = eta M - grad(loss, S); S += M; read S q"))
              .text),
      (Lines{R"(\eta_t &= \mathbf{w}_{\eta}^{\top} \mathbf{x}_t)",
             R"(\mathbf{x}_{1,t} &= \mathbf{S}_{t-1} \mathbf{k}_t - \mathbf{v}_t)",
             R"(\mathbf{M}_t &= \sigma(\eta_t) \mathbf{M}_{t-1} - 2 \mathbf{x}_{1,t} \mathbf{k}_t^{\top})",
             R"(\mathbf{S}_t &= \mathbf{S}_{t-1} + \mathbf{M}_t)",
             R"(\mathbf{o}_t &= \mathbf{S}_t \mathbf{q}_t)"}));
}

TEST(RuleLatex, FunctionsAndOrderOfOperations) {
  const auto read = [](const std::string& value) { return equations("S += v k^T; read " + value).back(); };
  EXPECT_EQ(
      read("(v * (S q)) / norm(S)"),
      R"(\mathbf{o}_t &= \frac{\mathbf{v}_t \odot \mathbf{S}_t \mathbf{q}_t}{\|\mathbf{S}_t\|_{\mathrm{F}}})");
  EXPECT_EQ(read("S (q * k) - 2 (v - silu(v))"),
            R"(\mathbf{o}_t &= \mathbf{S}_t (\mathbf{q}_t \odot \mathbf{k}_t) - 2 (\mathbf{v}_t - )"
            R"(\operatorname{SiLU}(\mathbf{v}_t)))");
  EXPECT_EQ(
      read("S q + v / abs(v) + max(v, 0) * sqrt(k^T q)^2"),
      R"(\mathbf{o}_t &= \mathbf{S}_t \mathbf{q}_t + \mathbf{v}_t \oslash |\mathbf{v}_t| + \sqrt{\mathbf{k}_t^{\top} \mathbf{q}_t}^{2} )"
      R"(\max(\mathbf{v}_t, 0))");
  EXPECT_EQ(
      read("cos(v) * sin(S q) + share(largest(v, 2))"),
      R"(\mathbf{o}_t &= \cos(\mathbf{v}_t) \odot \sin(\mathbf{S}_t \mathbf{q}_t) + )"
      R"(\frac{\operatorname{largest}_{2}(\mathbf{v}_t)}{\operatorname{sum}(\operatorname{largest}_{2}(\mathbf{v}_t))})");
  EXPECT_EQ(equations("state H[K, K]; H += k k^T; S += fit(k, V) k^T; read S solve(H + I, q)").back(),
            R"(\mathbf{o}_t &= \mathbf{S}_t (\mathbf{H}_t + \mathbf{I})^{-1} \mathbf{q}_t)");
}

TEST(RuleLatex, IsWholeForEveryLaw) {
  for (const Example& one : examples()) {
    SCOPED_TRACE(one.name);
    const auto law = parse_law(steps_of(one.law));
    const Lines lines = latex_equations(*law);
    EXPECT_GE(lines.size(), law->states.size() + 1);
    for (const std::string& line : lines) {
      EXPECT_EQ(line.find(" &= "), line.rfind(" &= ")) << line;
      EXPECT_EQ(std::count(line.begin(), line.end(), '{'), std::count(line.begin(), line.end(), '}')) << line;
      EXPECT_EQ(std::count(line.begin(), line.end(), '('), std::count(line.begin(), line.end(), ')')) << line;
      EXPECT_EQ(line.find("  "), std::string::npos) << line;
    }
  }
}

}  // namespace crosstalk::rules::latex_test
