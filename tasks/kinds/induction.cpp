// induction: what came after this token when it was here before?
// SPDX-License-Identifier: Apache-2.0
#include "tasks/drawn_task.h"
#include "tasks/kinds/induction_sequence.h"

namespace crosstalk::induction_task {

class Induction final : public DrawnTask<Induction, TokenTask, induction_sequence, induction_scratch_size> {
 public:
  explicit Induction(const Options& options)
      : DrawnTask({int_option(options, "vocabulary"), int_option(options, "length")}) {}

  Vocabulary vocabulary() const override { return token_vocabulary(spec_.vocabulary); }
  SequenceShape full_shape(Split split) const override { return {of(split).length, 1, 1}; }

  std::int32_t reference_answer(const SequenceView& sequence, std::int32_t key, int position) const override {
    std::int32_t answer = -1;
    for (int t = 0; t + 1 < position; ++t)
      if (sequence.tokens[t] == key) answer = sequence.tokens[t + 1];
    return answer;
  }

  void lengthen(int factor) override { eval_.length = lengthened_size(spec_.length, factor); }
  int eval_load() const override { return eval_.length; }

 protected:
  std::string word(const SequenceView& sequence, int t) const override {
    return sequence.tokens[t] + 1 == spec_.vocabulary ? "!" : fmt::format("{}", sequence.tokens[t]);
  }
  int answers() const override { return spec_.vocabulary - 1; }

  /// most_recent: the token before the last trigger. random_in_context: any token but the triggers.
  Shortcuts shortcuts(const SequenceView& sequence, int q) const override {
    double right = 0;
    for (int t = 0; t < sequence.shape.T; ++t) right += sequence.tokens[t] == sequence.target[q];
    return {{"most_recent", sequence.tokens[sequence.shape.T - 2] == sequence.target[q] ? 1.0 : 0.0},
            {"random_in_context", right / (sequence.shape.T - 2)}};
  }
};

TaskKind kind() {
  return {
      "induction",
      "random tokens with one trigger; when it comes again, say what followed it",
      "A sequence of `length` tokens drawn uniformly from 0 .. vocabulary - 2. One token but the last two is the trigger, id vocabulary - 1, and so "
      "is the last one, where the token that followed the first trigger is the answer: one bigram to be found and repeated, the induction head of "
      "Olsson et al. 2022 (arXiv 2209.11895), as a task of 256 tokens and 16 ids in Gu and Dao 2023 (arXiv 2312.00752, table 2), read at up to 4,096 "
      "times the length. A layer whose keys and values come from the same token cannot bind the trigger to what follows: it takes a short "
      "convolution, a token shift or a second layer.",
      {{"vocabulary", 16, "token ids, the trigger among them", 3, 1 << 20},
       {"length", 256, "tokens of a sequence", 3, max_option_size}},
      nullptr,
      make<Induction>};
}

}  // namespace crosstalk::induction_task
