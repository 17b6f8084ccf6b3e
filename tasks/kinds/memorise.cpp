// memorise: what weights can hold, with nothing to be found in the sequence.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "kernels/base/error.h"
#include "tasks/draw_cuda.h"
#include "tasks/fused_task.h"
#include "tasks/kinds/memorise_sequence.h"
#include "tasks/token_task.h"

namespace crosstalk::memorise_task {
namespace {

class Memorise final : public TokenTask {
 public:
  explicit Memorise(const Options& options) : length_(int_option(options, "length")), eval_length_(length_) {
    const int ids = int_option(options, "vocabulary") - 1;
    spec_ = {ids / 2, ids - ids / 2, static_cast<std::uint64_t>(options.get_int("task.map")),
             static_cast<std::uint64_t>(options.get_int("task.examples"))};
    for (std::int32_t key = 0; key < spec_.keys; ++key) values_.push_back(memorised_value(spec_, key));
  }

  Vocabulary vocabulary() const override {
    return {.keys = 0, .values = spec_.mark() + 1, .second_key = false, .tokens = spec_.mark() + 1};
  }
  SequenceShape shape(Split split, int max_queries) const override {
    const int T = split == Split::train ? length_ : eval_length_;
    return {T, 1, split == Split::train ? T / 2 : capped_queries(T / 2, max_queries)};
  }
  void sequence(std::uint64_t data_seed, Split split, std::uint64_t n, const SequenceView& out,
                std::int32_t* scratch) const override {
    check_shape(split, out);
    memorise_sequence(spec_, data_seed, split, n, out, scratch);
  }
  int scratch_size() const override { return memorise_scratch_size(spec_); }
  std::int64_t sequences(Split split) const override {
    return split == Split::train ? static_cast<std::int64_t>(spec_.examples) : 0;
  }
  std::int32_t reference_answer(const SequenceView& sequence, std::int32_t, int position) const override {
    return values_[static_cast<std::size_t>(sequence.tokens[position - 2])];
  }
  std::unique_ptr<Task> lengthened(int factor) const override {
    check_length_factor(factor);
    auto longer = std::make_unique<Memorise>(*this);
    longer->eval_length_ = lengthened_size(length_, factor);
    return longer;
  }
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
  void draw_cuda(const Exec& exec, const DrawArgs& args) const override { draw_on_cuda(spec_, exec, args); }

  MemoriseSpec spec_;
  int length_, eval_length_;
  std::vector<std::int32_t> values_;
};

void resolve(Options& options) {
  if (const std::int64_t length = options.get_int("task.length"); length % 2 != 0)
    throw OptionError("task.length",
                      fmt::format("task.length = {} is odd; a key and its mark are two tokens", length));
}

}  // namespace

TaskKind kind() {
  return {
      "memorise",
      "a fixed map of keys to values that no sequence shows: what weights hold",
      "A sequence is keys, drawn uniformly, each followed by a mark, and at the mark the key's value is due. "
      "Which value "
      "that is follows from a fixed one-to-one map of the first half of the ids to the second, the same for "
      "all "
      "sequences, seeds and splits (task.map names another), and no sequence shows it: it must be learned in "
      "the "
      "weights, and mixing tokens does not help. The task memorisation of MAD (Poli et al. 2024, arXiv "
      "2403.17844): "
      "vocabulary 256 (512 to 8192), length 32, examples = 256. chance_accuracy is one among the values.",
      {{"vocabulary", std::int64_t{256}, "token ids: keys, values and the mark", 3, 1 << 20},
       {"length", std::int64_t{32}, "tokens of a sequence; even", 2, max_option_size},
       {"map", std::int64_t{12345}, "names the map", 0, 2147483647.0},
       {"examples", std::int64_t{0}, "sequences of an epoch of training, the same in each; 0 means no end", 0,
        1099511627776.0}},
      resolve,
      [](const Options& options) -> std::unique_ptr<Task> { return std::make_unique<Memorise>(options); }};
}

}  // namespace crosstalk::memorise_task
