// compression: all tokens of a sequence in what is held at its end.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "tasks/draw_cuda.h"
#include "tasks/fused_task.h"
#include "tasks/kinds/compression_sequence.h"
#include "tasks/token_task.h"

namespace crosstalk::compression_task {
namespace {

class Compression final : public TokenTask {
 public:
  explicit Compression(const Options& options)
      : spec_{int_option(options, "vocabulary"),
              static_cast<std::uint64_t>(options.get_int("task.examples"))},
        length_(int_option(options, "length")),
        eval_length_(length_) {}

  Vocabulary vocabulary() const override {
    return {.keys = 0, .values = spec_.vocabulary, .second_key = false, .tokens = spec_.vocabulary};
  }
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
  SequenceShape shape(Split split, int max_queries) const override {
    const int T = split == Split::train ? length_ : eval_length_;
    return {T, 1, split == Split::train ? T - 1 : capped_queries(T - 1, max_queries)};
  }
  void sequence(std::uint64_t data_seed, Split split, std::uint64_t n, const SequenceView& out,
                std::int32_t* scratch) const override {
    check_shape(split, out);
    compression_sequence(spec_, data_seed, split, n, out, scratch);
  }
  int scratch_size() const override { return compression_scratch_size(spec_); }
  std::int64_t sequences(Split split) const override {
    return split == Split::train ? static_cast<std::int64_t>(spec_.examples) : 0;
  }
  std::int32_t reference_answer(const SequenceView& sequence, std::int32_t, int position) const override {
    return sequence.tokens[position - 1];
  }
  std::unique_ptr<Task> lengthened(int factor) const override {
    check_length_factor(factor);
    auto longer = std::make_unique<Compression>(*this);
    longer->eval_length_ = lengthened_size(length_, factor);
    return longer;
  }
  int eval_load() const override { return eval_length_ - 1; }

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

 private:
  void draw_cuda(const Exec& exec, const DrawArgs& args) const override { draw_on_cuda(spec_, exec, args); }

  CompressionSpec spec_;
  int length_, eval_length_;
};

void resolve(Options&) {}

}  // namespace

TaskKind kind() {
  return {
      "compression",
      "hold all tokens of a sequence at its end, and tell each by its place",
      "length - 1 tokens, drawn uniformly with replacement from 0 .. vocabulary - 2, then a mark, id "
      "vocabulary - 1. "
      "Every token is due at its own place, of a model with model.decoder = \"last\", whose answers are made "
      "of what "
      "the last token holds and the place asked; others are refused. The task compression of MAD "
      "(Poli et "
      "al. 2024, arXiv 2403.17844; mad-lab): vocabulary 16 (32, 64, 128), length 32 (64, 128, 256), examples "
      "= 12800 "
      "(6400 to 800). There the mark itself is scored too, as one class of `vocabulary` that is always "
      "right, so a score "
      "of MAD is ((vocabulary - 1) test_class_accuracy + 1) / vocabulary; and the published generator, which can put "
      "noise among "
      "the tokens, returns its inputs as targets, so that noise is scored like data: noise is left out here. "
      "chance_accuracy is one among the data ids.",
      {{"vocabulary", std::int64_t{16}, "token ids: data, and one mark", 2, 1 << 20},
       {"length", std::int64_t{32}, "tokens of a sequence, the mark included", 2, max_option_size},
       {"examples", std::int64_t{0}, "sequences of an epoch of training, the same in each; 0 means no end", 0,
        1099511627776.0}},
      resolve,
      [](const Options& options) -> std::unique_ptr<Task> { return std::make_unique<Compression>(options); }};
}

}  // namespace crosstalk::compression_task
