// arithmetic: parity and modular arithmetic, read at lengths beyond those of training.
// SPDX-License-Identifier: Apache-2.0
#include "tasks/drawn_task.h"
#include "tasks/kinds/arithmetic_sequence.h"

namespace crosstalk::arithmetic_task {

ArithmeticSpec spec_of(const Options& options, bool eval) {
  const std::string &form = options.get_string("task.form"), prefix = eval ? "eval_" : "";
  return {form == "parity"   ? ArithmeticForm::parity
          : form == "flat"   ? ArithmeticForm::flat
          : form == "prefix" ? ArithmeticForm::prefix
                             : ArithmeticForm::brackets,
          form == "parity" ? 2 : int_option(options, "modulus"),
          int_option(options, prefix + "shortest"),
          int_option(options, prefix + "longest"),
          options.get_bool("task.times"),
          options.get_string("task.query_at") == "every"};
}

class Arithmetic final
    : public DrawnTask<Arithmetic, TokenTask, arithmetic_sequence, arithmetic_scratch_size> {
 public:
  explicit Arithmetic(const Options& options) : DrawnTask(spec_of(options, false)) {
    eval_ = spec_of(options, true);
  }

  Vocabulary vocabulary() const override { return token_vocabulary(spec_.vocabulary(), spec_.modulus); }
  SequenceShape full_shape(Split split) const override {
    const ArithmeticSpec& spec = of(split);
    return {spec.tokens(), 1,
            !spec.dense                           ? 1
            : spec.form == ArithmeticForm::parity ? spec.longest
                                                  : spec.longest + 1};
  }

  std::int32_t reference_answer(const SequenceView& sequence, std::int32_t, int position) const override {
    Reader reader{*this, sequence.tokens, 0, position};
    if (spec_.form == ArithmeticForm::parity)
      return static_cast<std::int32_t>(std::count(sequence.tokens, sequence.tokens + position, 2) % 2);
    const std::int64_t value = spec_.form == ArithmeticForm::flat     ? reader.sum()
                               : spec_.form == ArithmeticForm::prefix ? reader.prefix()
                                                                      : reader.expression();
    return static_cast<std::int32_t>((value % spec_.modulus + spec_.modulus) % spec_.modulus);
  }

  void lengthen(int factor) override { eval_.longest = lengthened_size(eval_.longest, factor); }
  int eval_load() const override { return eval_.longest; }

 protected:
  std::string word(const SequenceView& sequence, int t) const override {
    const std::int32_t token = sequence.tokens[t];
    return token == 0               ? "."
           : token <= spec_.modulus ? fmt::format("{}", token - 1)
                                    : std::string(1, sign_of(token));
  }
  int answers() const override { return spec_.modulus; }

  /// most_recent: the last digit. most_common: 0.
  Shortcuts shortcuts(const SequenceView& sequence, int q) const override {
    int t = sequence.query_position[q] - 1;
    while (sequence.tokens[t] > spec_.modulus) --t;
    return {{"most_recent", sequence.tokens[t] - 1 == sequence.target[q] ? 1.0 : 0.0},
            {"most_common", sequence.target[q] == 0 ? 1.0 : 0.0}};
  }

 private:
  char sign_of(std::int32_t token) const { return "+-*=()"[token - 1 - spec_.modulus]; }

  /// Reads an expression as a calculator does: sums of products, and of what stands in brackets.
  struct Reader {
    const Arithmetic& task;
    const std::int32_t* tokens;
    int at, end;
    char look() const {
      return at >= end ? '=' : tokens[at] <= task.spec_.modulus ? '0' : task.sign_of(tokens[at]);
    }
    std::int64_t digit() { return tokens[at++] - 1; }
    std::int64_t product() {
      std::int64_t value = digit();
      for (; look() == '*'; value = value * digit() % task.spec_.modulus) ++at;
      return value;
    }
    std::int64_t sum() {
      std::int64_t value = product();
      while (look() == '+' || look() == '-') {
        const bool plus = look() == '+';
        ++at;
        value += plus ? product() : -product();
      }
      return value;
    }
    static std::int64_t applied(char op, std::int64_t a, std::int64_t b, int modulus) {
      return (op == '+' ? a + b : op == '-' ? a - b : a * b) % modulus;
    }
    std::int64_t prefix() {
      if (look() == '0') return digit();
      const char op = look();
      ++at;
      const std::int64_t left = prefix();
      return applied(op, left, prefix(), task.spec_.modulus);
    }
    std::int64_t expression() {
      if (look() == '-') return ++at, -digit();
      if (look() == '0') return digit();
      ++at;  // (
      std::int64_t value = expression();
      if (look() != ')') {
        const char op = look();
        ++at;
        value = applied(op, value, expression(), task.spec_.modulus);
      }
      ++at;  // )
      return value;
    }
  };
};

void resolve(Options& options) {
  resolve_sizes(options);
  const std::string& form = options.get_string("task.form");
  if ((form == "brackets" || form == "prefix") && options.get_string("task.query_at") == "every")
    throw OptionError(
        "task.query_at",
        fmt::format("task.query_at = \"every\": what is open has no value yet; form {} is asked at the end",
                    form));
}

TaskKind kind() {
  return {
      "arithmetic",
      "parity, and arithmetic modulo 5 without brackets, with them, or in prefix notation",
      "form = \"parity\": bits, and the parity of all of them due at the last one. form = \"flat\": digits modulo `modulus` with + - * between and = "
      "at the end, where the value is due; * binds tighter. form = \"brackets\": expressions of digits, -d, (d), (-d) and (left op right), split at "
      "random. form = \"prefix\" with modulus = 23: + - * in front of two operands, as many operators left of the second as a uniform draw says (Mano, "
      "Allen-Zhu 2025, arXiv 2512.17351: 1 to L operators in training, L in evaluation, L = 10, 13, 16; the published text opens with a token for the "
      "number of operators, left out here as prefix notation says where it ends). Sizes (bits, operands, tokens, operators) are uniform in shortest .. longest, of evaluation in eval_shortest .. eval_longest; the rest of a "
      "sequence is blank. query_at = \"every\" asks at every bit or operand what the value is so far, which is learned far sooner than one label a "
      "sequence: say which of the two a number belongs to. The languages are those of Deletang et al. 2023 (arXiv 2207.02098), one label and "
      "training on 3 .. 40 tokens, read at 40 .. 256, those of Grazzi et al. 2024 (arXiv 2411.12537; their code counts the answer, = and a blank "
      "among the tokens, so that these are 2 .. 39 bits, 1 .. 19 operands, and brackets of 2 .. 37 tokens without *; table 3: scaled accuracy of "
      "DeltaNet with eigenvalues in [-1, 1] 1.000 on parity, 0.971 without and 0.260 with brackets, with those in [0, 1] 0.017, 0.314 and 0.194). "
      "times = false leaves * out. Guessing is right once in `modulus` (chance_accuracy; parity 1/2), and as products are often 0, "
      "baseline_most_common_accuracy is more.",
      with_sizes({choice("form", "parity", "parity, arithmetic without or with brackets, or prefix notation",
                         {"parity", "flat", "brackets", "prefix"}),
                  {"modulus", 5, "digits are 0 .. modulus - 1; of parity 2", 2, 1024},
                  choice("query_at", "end", "where an answer is due", {"end", "every"}),
                  {"times", true, "whether products occur"}},
                 "bits, operands (flat), tokens (brackets), operators (prefix)", 3),
      resolve,
      make<Arithmetic>};
}

}  // namespace crosstalk::arithmetic_task
