// memorise: what weights can hold, with nothing to be found in the sequence.
// SPDX-License-Identifier: Apache-2.0
#include "tasks/drawn_task.h"
#include "tasks/kinds/memorise_sequence.h"

namespace crosstalk::memorise_task {

MemoriseSpec spec_of(const Options& options) {
  const int ids = int_option(options, "vocabulary") - 1;
  return {ids / 2, ids - ids / 2, static_cast<std::uint64_t>(options.get_int("task.map")),
          examples_of(options), int_option(options, "length")};
}

class Memorise final : public DrawnTask<Memorise, TokenTask, memorise_sequence, memorise_scratch_size> {
 public:
  explicit Memorise(const Options& options) : DrawnTask(spec_of(options)) {
    for (std::int32_t key = 0; key < spec_.keys; ++key) values_.push_back(memorised_value(spec_, key));
  }

  Vocabulary vocabulary() const override { return token_vocabulary(spec_.mark() + 1); }
  SequenceShape full_shape(Split split) const override { return {of(split).length, 1, of(split).length / 2}; }
  std::int32_t reference_answer(const SequenceView& sequence, std::int32_t, int position) const override {
    return values_[static_cast<std::size_t>(sequence.tokens[position - 2])];
  }
  void lengthen(int factor) override { eval_.length = lengthened_size(spec_.length, factor); }
  int eval_load() const override { return spec_.keys; }

 protected:
  std::string word(const SequenceView& sequence, int t) const override {
    return sequence.tokens[t] == spec_.mark() ? "!" : fmt::format("k{}", sequence.tokens[t]);
  }
  std::string answer_word(std::int32_t answer) const override {
    return fmt::format("v{}", answer - spec_.keys);
  }
  int answers() const override { return spec_.values; }
  /// What the sequence shows says nothing.
  Shortcuts shortcuts(const SequenceView&, int) const override { return {}; }

 private:
  std::vector<std::int32_t> values_;
};

void resolve(Options& options) {
  if (options.get_int("task.length") % 2 != 0)
    refuse(options, "task.length", " is odd; a key and its mark are two tokens");
}

TaskKind kind() {
  return {
      "memorise",
      "a fixed map of keys to values that no sequence shows: what weights hold",
      "A sequence is keys, drawn uniformly, each followed by a mark, and at the mark the key's value is due. Which value that is follows from a "
      "fixed one-to-one map of the first half of the ids to the second, the same for all sequences, seeds and splits (task.map names another), and "
      "no sequence shows it: it must be learned in the weights, and mixing tokens does not help. The task memorisation of MAD (Poli et al. 2024, "
      "arXiv 2403.17844): vocabulary 256 (512 to 8192), length 32, examples = 256. chance_accuracy is one among the values.",
      {{"vocabulary", 256, "token ids: keys, values and the mark", 3, 1 << 20},
       {"length", 32, "tokens of a sequence; even", 2, max_option_size},
       {"map", 12345, "names the map", 0, 2147483647.0},
       examples_option()},
      resolve,
      make<Memorise>};
}

}  // namespace crosstalk::memorise_task
