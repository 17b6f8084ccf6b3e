// Parity and arithmetic modulo a number: laws of sizes and tokens, brackets, the order of operations, what is refused.
// SPDX-License-Identifier: Apache-2.0
#include "tasks/kinds/arithmetic_sequence.h"

#include "tasks/golden.h"

namespace crosstalk::testing::arithmetic_test {

const Settings flat = {{"form", "flat"}}, brackets = {{"form", "brackets"}},
               mano = {{"form", "prefix"}, {"modulus", 23},      {"shortest", 1},
                       {"longest", 10},    {"eval_shortest", 6}, {"eval_longest", 6}};

[[maybe_unused]] const bool pinned =
    pin("arithmetic", {{"parity", {}, 0xe585b4d5eed88b52u, 0x824cbe3b92886694u},
                       {"flat", flat, 0x92625582d99f6f13u, 0x93c51d3204f6f835u},
                       {"brackets", brackets, 0x2c2c18cdaa5cf6c4u, 0xee357ef8b0ba0b5cu},
                       {"prefix", mano, 0xee80287bb3bd7b39u, 0x50872a2445b52d02u}});

[[maybe_unused]] const bool fitted = [] {
  fit()["arithmetic"] = [](Settings& settings) {
    for (const std::string prefix : {"", "eval_"}) {
      const auto low = whole_of(settings, prefix + "shortest", 3);
      settings[prefix + "shortest"] = static_cast<int>(low);
      settings[prefix + "longest"] = static_cast<int>(low + whole_of(settings, prefix + "longest", 9));
    }
    settings["modulus"] = 2 + static_cast<int>(whole_of(settings, "modulus", 5)) % 20;
  };
  return true;
}();

/// Tokens before blanks as text.
std::string text(const SequenceView& s, int modulus) {
  std::string out;
  for (int t = 0; t < s.shape.T && s.tokens[t] != 0; ++t)
    out += s.tokens[t] <= modulus ? static_cast<char>('0' + s.tokens[t] - 1)
                                  : "+-*=()"[s.tokens[t] - 1 - modulus];
  return out;
}

TEST(Arithmetic, SizesAndBitsAreUniformAndOneAnswerIsDueAtTheEnd) {
  const auto task = make_task("arithmetic", {{"longest", 12}, {"eval_shortest", 20}, {"eval_longest", 24}});
  EXPECT_EQ(task->vocabulary().tokens, 3);
  for (const auto& [split, low, high] : {std::tuple{Split::train, 3, 12}, {Split::eval, 20, 24}}) {
    EXPECT_EQ(task->shape(split), (SequenceShape{high, 1, 1}));
    Counts sizes(static_cast<std::size_t>(high - low + 1)), answers(2), ones(2);
    for (const SequenceView& s : drawn(*task, split, 2, 4000)) {
      const std::string bits = text(s, 2);
      const int size = static_cast<int>(bits.size());
      ASSERT_TRUE(size >= low && size <= high);
      ASSERT_EQ(s.query_position[0], size);
      ASSERT_EQ(s.target[0], std::count(bits.begin(), bits.end(), '1') % 2);
      ++sizes[size - low];
      ++answers[s.target[0]];
      ++ones[bits[0] - '0'];
    }
    for (const auto& counts : {sizes, answers, ones}) expect_uniform({counts});
  }
}

TEST(Arithmetic, TimesBindsTighterAndWhatStandsSoFarCanBeAsked) {
  Settings settings = flat;
  settings["query_at"] = "every";
  const auto task = make_task("arithmetic", settings);
  // 2 + 3 * 4 - 1 =
  std::int32_t tokens[] = {3, 6, 4, 8, 5, 7, 2, 9}, zero[8] = {};
  const SequenceView s{{8, 1, 8}, tokens, nullptr, zero, zero, zero, nullptr};
  const int values[] = {2, 0, 4, 3};  // 2, 5, 14, 13 modulo 5
  for (int i = 0; i < 4; ++i) EXPECT_EQ(task->reference_answer(s, 0, 2 * i + 1), values[i]);
  EXPECT_EQ(task->reference_answer(s, 0, 8), 3);
  for (const SequenceView& every : drawn(*task, Split::train, 2, 200)) {
    const int operands = static_cast<int>(text(every, 5).size()) / 2;
    ASSERT_EQ(std::count_if(every.target, every.target + every.shape.Q, [](int x) { return x >= 0; }),
              operands + 1);
    ASSERT_EQ(every.target[operands], every.target[operands - 1]);  // "=" changes nothing
  }
}

TEST(Arithmetic, BracketsAreWhatTheirGrammarSays) {
  const std::map<int, std::vector<std::string>> shapes = {{1, {"d="}},
                                                          {2, {"-d="}},
                                                          {3, {"(d)="}},
                                                          {4, {"(-d)="}},
                                                          {5, {"(dod)="}},
                                                          {6, {"(-dod)=", "(do-d)="}},
                                                          {7, {"((d)od)=", "(-do-d)=", "(do(d))="}}};
  for (const auto& [size, wanted] : shapes) {
    Settings settings = brackets;
    settings["shortest"] = settings["longest"] = size;
    const auto task = make_task("arithmetic", settings);
    SequenceBuffer buffer(*task, Split::eval);
    std::map<std::string, int> drawn;
    Counts signs(3);
    for (std::uint64_t n = 0; n < 3000; ++n) {
      std::string shape = text(buffer.draw(2, n), 5);
      for (std::size_t i = 0; i < shape.size(); ++i) {
        char& c = shape[i];
        const bool op = i > 0 && (shape[i - 1] == 'd' || shape[i - 1] == ')') &&
                        std::string("+-*").find(c) != std::string::npos;
        if (op) ++signs[std::string("+-*").find(c)];
        c = op ? 'o' : c >= '0' && c <= '9' ? 'd' : c;
      }
      ++drawn[shape];
    }
    std::vector<int> counts;
    for (const std::string& shape : wanted) counts.push_back(drawn[shape]);
    ASSERT_EQ(drawn.size(), wanted.size()) << size;
    if (counts.size() > 1) {
      EXPECT_LT(std::abs(uniformity_score(counts)), 4) << size;
    }
    if (size > 4) {
      EXPECT_LT(std::abs(uniformity_score(signs)), 4) << size;
    }
  }
}

// Mano: read from behind with a stack of values, 10,000 of each split.
TEST(Arithmetic, PrefixNotationHasAsManyOperatorsAsItsSize) {
  const auto task = make_task("arithmetic", mano);
  EXPECT_EQ(task->vocabulary().tokens, 28);
  Counts left(6), signs(3);
  for (const Split split : {Split::train, Split::eval, Split::test}) {
    const bool train = split == Split::train;
    EXPECT_EQ(task->shape(split), (SequenceShape{train ? 22 : 14, 1, 1}));
    Counts sizes(10);
    for (const SequenceView& s : drawn(*task, split, 2, 10000)) {
      const int end = s.query_position[0] - 1;
      ASSERT_EQ(s.tokens[end], 27);
      std::vector<int> values, operators;
      for (int t = end - 1; t >= 0; --t) {
        if (s.tokens[t] <= 23) {
          values.push_back(s.tokens[t] - 1), operators.push_back(0);
          continue;
        }
        const int a = values.back(), b = values[values.size() - 2], op = s.tokens[t] - 24,
                  of_left = operators.back();
        const int both = 1 + of_left + operators[operators.size() - 2];
        values.resize(values.size() - 2), operators.resize(operators.size() - 2);
        values.push_back(((op == 0   ? a + b
                           : op == 1 ? a - b
                                     : a * b) %
                              23 +
                          23) %
                         23),
            operators.push_back(both);
        ++signs[op];
        if (t == 0 && both == 6) ++left[of_left];
      }
      ASSERT_EQ(values, std::vector{s.target[0]});
      ASSERT_EQ(end, 2 * operators[0] + 1);
      ++sizes[operators[0] - 1];
    }
    if (train) {
      expect_uniform({sizes});
    } else {
      EXPECT_EQ(sizes[5], 10000);
    }
  }
  for (const auto& counts : {left, signs}) expect_uniform({counts});
}

TEST(Arithmetic, LengthsAndRefusals) {
  const auto task = make_task("arithmetic", brackets);
  EXPECT_EQ(task->vocabulary().tokens, 12);
  EXPECT_EQ(make_task("arithmetic", flat)->vocabulary().tokens, 10);
  EXPECT_EQ(task->lengthened(2)->shape(Split::eval), (SequenceShape{81, 1, 1}));
  EXPECT_DOUBLE_EQ(task->baselines().at("chance_accuracy"), 0.2);
  EXPECT_THROW(make_task("arithmetic", {{"shortest", 41}}), OptionError);
  Settings every = brackets;
  every["query_at"] = "every";
  EXPECT_THROW(make_task("arithmetic", every), OptionError);
}

}  // namespace crosstalk::testing::arithmetic_test
