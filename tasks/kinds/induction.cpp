// induction: what came after this token when it was here before?
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "tasks/draw_cuda.h"
#include "tasks/fused_task.h"
#include "tasks/kinds/induction_sequence.h"
#include "tasks/token_task.h"

namespace crosstalk::induction_task {
namespace {

class Induction final : public TokenTask {
 public:
  explicit Induction(const Options& options)
      : spec_{int_option(options, "vocabulary")},
        length_(int_option(options, "length")),
        eval_length_(length_) {}

  Vocabulary vocabulary() const override {
    return {.keys = 0, .values = spec_.vocabulary, .second_key = false, .tokens = spec_.vocabulary};
  }
  SequenceShape shape(Split split, int) const override {
    return {split == Split::train ? length_ : eval_length_, 1, 1};
  }

  void sequence(std::uint64_t data_seed, Split split, std::uint64_t n, const SequenceView& out,
                std::int32_t* scratch) const override {
    check_shape(split, out);
    induction_sequence(spec_, data_seed, split, n, out, scratch);
  }
  int scratch_size() const override { return induction_scratch_size(spec_); }

  std::int32_t reference_answer(const SequenceView& sequence, std::int32_t key, int position) const override {
    std::int32_t answer = -1;
    for (int t = 0; t + 1 < position; ++t)
      if (sequence.tokens[t] == key) answer = sequence.tokens[t + 1];
    return answer;
  }

  std::unique_ptr<Task> lengthened(int factor) const override {
    check_length_factor(factor);
    auto longer = std::make_unique<Induction>(*this);
    longer->eval_length_ = lengthened_size(length_, factor);
    return longer;
  }
  int eval_load() const override { return eval_length_; }

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

 private:
  void draw_cuda(const Exec& exec, const DrawArgs& args) const override { draw_on_cuda(spec_, exec, args); }

  InductionSpec spec_;
  int length_, eval_length_;
};

void resolve(Options&) {}

}  // namespace

TaskKind kind() {
  return {
      "induction",
      "random tokens with one trigger; when it comes again, say what followed it",
      "A sequence of `length` tokens drawn uniformly from 0 .. vocabulary - 2. One token but the last two "
      "is the trigger, id vocabulary - 1, and so is the last one, where the token that followed the first "
      "trigger is the answer: one bigram to be found and repeated, the induction head of Olsson et al. "
      "2022 (arXiv 2209.11895), as a task of 256 tokens and 16 ids in Gu and Dao 2023 (arXiv 2312.00752, "
      "table 2), read at up to 4,096 times the length. A layer whose keys and values come from the same "
      "token cannot bind the trigger to what follows: it takes a short convolution, a token shift or a "
      "second layer.",
      {{"vocabulary", std::int64_t{16}, "token ids, the trigger among them", 3, 1 << 20},
       {"length", std::int64_t{256}, "tokens of a sequence", 3, max_option_size}},
      resolve,
      [](const Options& options) -> std::unique_ptr<Task> { return std::make_unique<Induction>(options); }};
}

}  // namespace crosstalk::induction_task
