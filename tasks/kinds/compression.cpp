// compression: all tokens of a sequence in what is held at its end.
// SPDX-License-Identifier: Apache-2.0
#include "tasks/drawn_task.h"
#include "tasks/kinds/compression_sequence.h"

namespace crosstalk::compression_task {

class Compression final
    : public DrawnTask<Compression, TokenTask, compression_sequence, compression_scratch_size> {
 public:
  explicit Compression(const Options& options)
      : DrawnTask({int_option(options, "vocabulary"), int_option(options, "length"), examples_of(options)}) {}

  Vocabulary vocabulary() const override { return token_vocabulary(spec_.vocabulary); }
  /// Places are keys, numbered behind all ids; every answer is made at the end, when all are written.
  std::vector<KeyWrite> writes(const SequenceView& sequence) const override {
    std::vector<KeyWrite> all;
    for (int t = 0; t + 1 < sequence.shape.T; ++t)
      all.push_back({1, 0, spec_.vocabulary + t, sequence.tokens[t]});
    return all;
  }
  std::int32_t asked_key(const SequenceView& sequence, int q) const override {
    return spec_.vocabulary + sequence.query_position[q] - 1;
  }
  SequenceShape full_shape(Split split) const override { return {of(split).length, 1, of(split).length - 1}; }
  std::int32_t reference_answer(const SequenceView& sequence, std::int32_t, int position) const override {
    return sequence.tokens[position - 1];
  }
  void lengthen(int factor) override { eval_.length = lengthened_size(spec_.length, factor); }
  int eval_load() const override { return eval_.length - 1; }

 protected:
  std::string word(const SequenceView& sequence, int t) const override {
    return sequence.tokens[t] == spec_.mark() ? "!" : fmt::format("{}", sequence.tokens[t]);
  }
  int answers() const override { return spec_.mark(); }

  /// random_in_context: any token of the sequence. most_recent: the last one before the mark.
  Shortcuts shortcuts(const SequenceView& sequence, int q) const override {
    const int N = sequence.shape.T - 1;
    const std::int32_t target = sequence.target[q];
    const auto right = std::count(sequence.tokens, sequence.tokens + N, target);
    return {{"random_in_context", static_cast<double>(right) / N},
            {"most_recent", sequence.tokens[N - 1] == target ? 1.0 : 0.0}};
  }
};

TaskKind kind() {
  return {
      "compression",
      "hold all tokens of a sequence at its end, and tell each by its place",
      "length - 1 tokens, drawn uniformly with replacement from 0 .. vocabulary - 2, then a mark, id vocabulary - 1. Every token is due at its own "
      "place, of a model with model.decoder = \"last\", whose answers are made of what the last token holds and the place asked; others are refused. "
      "The task compression of MAD (Poli et al. 2024, arXiv 2403.17844; mad-lab): vocabulary 16 (32, 64, 128), length 32 (64, 128, 256), examples = "
      "12800 (6400 to 800). There the mark itself is scored too, as one class of `vocabulary` that is always right, so a score of MAD is "
      "((vocabulary - 1) test_class_accuracy + 1) / vocabulary; and the published generator, which can put noise among the tokens, returns its "
      "inputs as targets, so that noise is scored like data: noise is left out here. chance_accuracy is one among the data ids.",
      {{"vocabulary", 16, "token ids: data, and one mark", 2, 1 << 20},
       {"length", 32, "tokens of a sequence, the mark included", 2, max_option_size},
       examples_option()},
      nullptr,
      make<Compression>};
}

}  // namespace crosstalk::compression_task
