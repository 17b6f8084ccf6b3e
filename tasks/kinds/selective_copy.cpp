// selective_copy: keep what matters, in order, and nothing else.
// SPDX-License-Identifier: Apache-2.0
#include "tasks/drawn_task.h"
#include "tasks/kinds/selective_copy_sequence.h"

namespace crosstalk::selective_copy_task {

SelectiveCopySpec spec_of(const Options& options) {
  return {int_option(options, "vocabulary"), int_option(options, "length"), int_option(options, "data"),
          options.get_string("task.places") == "uniform", examples_of(options)};
}

class SelectiveCopy final
    : public DrawnTask<SelectiveCopy, TokenTask, selective_copy_sequence, selective_copy_scratch_size> {
 public:
  explicit SelectiveCopy(const Options& options) : DrawnTask(spec_of(options)) {}

  Vocabulary vocabulary() const override { return token_vocabulary(spec_.vocabulary); }
  SequenceShape full_shape(Split split) const override { return {of(split).length, 1, spec_.data}; }

  /// The i-th token before the copy token that is no blank, at the i-th token behind it.
  std::int32_t reference_answer(const SequenceView& sequence, std::int32_t, int position) const override {
    int copy = 0;
    while (sequence.tokens[copy] != spec_.copy()) ++copy;
    for (int t = 0, i = 0; t < copy; ++t)
      if (sequence.tokens[t] != spec_.blank() && i++ == position - copy - 2) return sequence.tokens[t];
    return -1;
  }

  /// Places are keys, numbered behind all ids; what stands at the i-th of them is due i tokens behind the copy token.
  std::vector<KeyWrite> writes(const SequenceView& sequence) const override {
    std::vector<KeyWrite> all;
    for (int t = 0; t < sequence.shape.T && sequence.tokens[t] != spec_.copy(); ++t)
      if (sequence.tokens[t] != spec_.blank())
        all.push_back(
            {t + 1, 0, spec_.vocabulary + static_cast<std::int32_t>(all.size()), sequence.tokens[t]});
    return all;
  }
  std::int32_t asked_key(const SequenceView& sequence, int q) const override {
    return spec_.vocabulary + sequence.query_position[q] - (sequence.shape.T - spec_.data) - 1;
  }

  void lengthen(int factor) override { eval_.length = lengthened_size(spec_.length, factor); }
  int eval_load() const override { return spec_.data; }

 protected:
  std::string word(const SequenceView& sequence, int t) const override {
    const std::int32_t token = sequence.tokens[t];
    return token == spec_.blank() ? "." : token == spec_.copy() ? "!" : fmt::format("{}", token);
  }
  int answers() const override { return spec_.vocabulary - 2; }

  /// random_in_context: any of the data tokens. first, most_recent: the first and the last of them.
  Shortcuts shortcuts(const SequenceView& sequence, int q) const override {
    double right = 0;
    std::int32_t first = -1, last = -1;
    for (int t = 0; t < sequence.shape.T - spec_.data - 1; ++t) {
      const std::int32_t token = sequence.tokens[t];
      if (token == spec_.blank()) continue;
      right += token == sequence.target[q];
      if (first < 0) first = token;
      last = token;
    }
    const auto is = [&](std::int32_t token) { return token == sequence.target[q] ? 1.0 : 0.0; };
    return {{"random_in_context", right / spec_.data}, {"first", is(first)}, {"most_recent", is(last)}};
  }
};

void resolve(Options& options) {
  const SelectiveCopySpec spec = spec_of(options);
  if (spec.length < 2 * std::int64_t{spec.data} + 1)
    refuse(options, "task.length",
           fmt::format(": {} data tokens, a copy token and as many answers need {}", spec.data,
                       2 * std::int64_t{spec.data} + 1));
}

TaskKind kind() {
  return {
      "selective_copy",
      "data tokens among blanks, then say them in their order",
      "`data` tokens, drawn uniformly with replacement from 0 .. vocabulary - 3, stand in order among blanks, id vocabulary - 2; then comes the copy "
      "token, id vocabulary - 1, and as many blanks as there are data tokens, at which those are due, one after the other. A memory has to keep what "
      "matters and count. places = \"before\" is the law of mad-lab (Poli et al. 2024, arXiv 2403.17844; vocabulary 16, length 256, 16 data tokens, "
      "and 32, 64, 96 of them): each blank goes in front of a data token that is drawn uniformly, so that none stands behind the last (a known "
      "shortcut, and the published generator takes blanks from numpy's global state, which no seed fixes); places = \"uniform\" chooses all places "
      "uniformly, as Gu and Dao 2023 (arXiv 2312.00752, table 1: length 4096, 16 data tokens, vocabulary 16). chance_accuracy is one among the data "
      "tokens' ids.",
      {{"vocabulary", 16, "token ids: data, blank and copy", 3, 1 << 20},
       {"length", 256, "tokens of a sequence", 3, max_option_size},
       {"data", 16, "tokens to copy", 1, 1 << 16},
       choice("places", "before", "law of the places of data tokens", {"before", "uniform"}),
       examples_option()},
      resolve,
      make<SelectiveCopy>};
}

}  // namespace crosstalk::selective_copy_task
