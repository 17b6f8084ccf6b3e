// palindrome: say what was read backwards, or in another order.
// SPDX-License-Identifier: Apache-2.0
#include "tasks/drawn_task.h"
#include "tasks/kinds/palindrome_sequence.h"

namespace crosstalk::palindrome_task {

PalindromeSpec spec_of(const Options& options) {
  const std::string& order = options.get_string("task.order");
  return {int_option(options, "vocabulary"), int_option(options, "length"),
          order == "reverse"  ? CopyOrder::reverse
          : order == "same"   ? CopyOrder::same
          : order == "sorted" ? CopyOrder::sorted
          : order == "set"    ? CopyOrder::set
                              : CopyOrder::odds_first,
          examples_of(options)};
}

class Palindrome final
    : public DrawnTask<Palindrome, TokenTask, palindrome_sequence, palindrome_scratch_size> {
 public:
  explicit Palindrome(const Options& options) : DrawnTask(spec_of(options)) {}

  Vocabulary vocabulary() const override { return token_vocabulary(spec_.vocabulary); }
  /// Places are keys, numbered behind all ids; none where what is said has no place.
  std::vector<KeyWrite> writes(const SequenceView& sequence) const override {
    std::vector<KeyWrite> all;
    for (int t = 0; !spec_.counted() && t < sequence.shape.T / 2; ++t)
      all.push_back({t + 1, 0, spec_.vocabulary + t, sequence.tokens[t]});
    return all;
  }
  std::int32_t asked_key(const SequenceView& sequence, int q) const override {
    const int N = sequence.shape.T / 2;
    if (spec_.counted()) return sequence.query[q];
    return spec_.vocabulary + spec_.source(sequence.query_position[q] - 1 - N, N);
  }
  SequenceShape full_shape(Split split) const override { return {of(split).length, 1, of(split).length / 2}; }

  /// Writes down all that is said, and takes the one that is due.
  std::int32_t reference_answer(const SequenceView& sequence, std::int32_t, int position) const override {
    const std::int32_t* mark = std::find(sequence.tokens, sequence.tokens + sequence.shape.T, spec_.mark());
    std::vector<std::int32_t> read(sequence.tokens, const_cast<std::int32_t*>(mark)), said;
    if (spec_.order == CopyOrder::odds_first) {
      for (const std::size_t first : {std::size_t{0}, std::size_t{1}})
        for (std::size_t i = first; i < read.size(); i += 2) said.push_back(read[i]);
    } else {
      said = read;
      if (spec_.order == CopyOrder::reverse) std::reverse(said.begin(), said.end());
      if (spec_.counted()) std::sort(said.begin(), said.end());
      if (spec_.order == CopyOrder::set) {
        said.erase(std::unique(said.begin(), said.end()), said.end());
        said.push_back(spec_.mark());
      }
    }
    return said[static_cast<std::size_t>(position) - 1 - read.size()];
  }

  void lengthen(int factor) override { eval_.length = lengthened_size(spec_.length, factor); }
  int eval_load() const override { return eval_.length / 2; }

 protected:
  std::string word(const SequenceView& sequence, int t) const override {
    return sequence.tokens[t] == spec_.mark() ? "!" : fmt::format("{}", sequence.tokens[t]);
  }
  int answers() const override { return spec_.mark() + (spec_.order == CopyOrder::set ? 1 : 0); }

  /// random_in_context: any token that was read. first, most_recent: the first and the last of them.
  Shortcuts shortcuts(const SequenceView& sequence, int q) const override {
    const int N = sequence.shape.T / 2;
    const std::int32_t target = sequence.target[q];
    const auto right = std::count(sequence.tokens, sequence.tokens + N, target);
    const auto is = [&](std::int32_t token) { return token == target ? 1.0 : 0.0; };
    return {{"random_in_context", static_cast<double>(right) / N},
            {"first", is(sequence.tokens[0])},
            {"most_recent", is(sequence.tokens[N - 1])}};
  }
};

void resolve(Options& options) {
  if (options.get_int("task.length") % 2 != 0)
    refuse(options, "task.length",
           " is odd; half of the tokens are read, and half are said, so give an even one");
}

TaskKind kind() {
  return {
      "palindrome",
      "read tokens, then say them backwards (or in their order, the odd ones first, sorted, or each once)",
      "length / 2 tokens, drawn uniformly with replacement from 0 .. vocabulary - 2, then a mark, id vocabulary - 1, at which the first answer is "
      "due. Each answer but the last stands in the input behind the token at which it was due (teacher forcing), so that a model reads where it has "
      "come to. order = \"reverse\" is the palindrome of Kimi Linear (Zhang et al. 2025, arXiv 2510.26692, section 5.1: lengths 256 to 2048, 2 "
      "layers with 2 heads of 128, at most 20,000 steps; its vocabulary and batch are not printed, and two readings of its figure contradict each "
      "other, so no number is held). \"same\" is copying (Jelassi et al. 2024, arXiv 2402.01032: a state of |U| values errs on at least 1 - |U| / "
      "V^n), \"odds_first\" and \"reverse\" are languages of Deletang et al. 2023 (arXiv 2207.02098), which asks them without teacher forcing. \"sorted\" is its bucket sort (there 5 different tokens: vocabulary = 6), \"set\" says the different "
      "tokens in rising order and then the mark (named by xLSTM, arXiv 2405.04517, whose exact form is not held). "
      "chance_accuracy is one among the data ids.",
      {{"length", 256, "tokens of a sequence, even: half of them are read", 2, max_option_size},
       {"vocabulary", 64, "token ids: data, and one mark", 2, 1 << 20},
       choice("order", "reverse", "order in which they are said",
              {"reverse", "same", "odds_first", "sorted", "set"}),
       examples_option()},
      resolve,
      make<Palindrome>};
}

}  // namespace crosstalk::palindrome_task
