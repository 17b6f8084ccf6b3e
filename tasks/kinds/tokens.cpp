// tokens: somebody's own sequences of single tokens, from .npy files.
// SPDX-License-Identifier: Apache-2.0
#include "tasks/drawn_task.h"
#include "tasks/kinds/tokens_sequence.h"
#include "tasks/token_data.h"

namespace crosstalk::tokens_task {

/// Tokens of a sequence up to which wrong answers are told apart: every answer looks at every token.
constexpr int longest_told_apart = 4096;

class Tokens final : public DrawnTask<Tokens, TokenTask, tokens_sequence, tokens_scratch_size>,
                     public ReadsFiles {
 public:
  explicit Tokens(const Options& options) : Tokens(options, files_of<TokenData>(options), -1) {
    for (int segment = 0; segment < static_cast<int>(std::ssize(data_->segments())); ++segment)
      kinds_.push_back(std::shared_ptr<Tokens>(new Tokens(options, data_, segment)));
  }

  Vocabulary vocabulary() const override { return token_vocabulary(tokens_, values_); }

  SequenceShape full_shape(Split split) const override { return {part_of(split).T, 1, part_of(split).Q}; }

  void sequence(std::uint64_t data_seed, Split split, std::uint64_t n, const SequenceView& out,
                std::int32_t* scratch) const override {
    if (data_->is_held()) return DrawnTask::sequence(data_seed, split, n, out, scratch);
    check_sequence_shape(*this, split, out);
    put_tokens(data_->row_of(split, tokens_row(spec_, data_seed, split, n)), 0, out);
  }

  std::int64_t sequences(Split split) const override { return part_of(split).N; }

  std::vector<TaskSegment> segments(Split split) const override {
    if (split == Split::train) return {};
    std::vector<TaskSegment> parts;
    for (const auto& kind : kinds_)
      parts.push_back({fmt::format("segment={}", data_->segments()[static_cast<std::size_t>(kind->segment_)]),
                       kind, kind->sequences(split)});
    return parts;
  }

  /// Files bring answers and no rule: what the sequence says there.
  std::int32_t reference_answer(const SequenceView& sequence, std::int32_t, int position) const override {
    for (int q = 0; q < sequence.shape.Q; ++q)
      if (sequence.target[q] >= 0 && sequence.query_position[q] == position) return sequence.target[q];
    return -1;
  }

  /// Of files nothing is known but the tokens: each is given the one that follows it.
  std::vector<KeyWrite> writes(const SequenceView& sequence) const override {
    std::vector<KeyWrite> all;
    if (sequence.shape.T > longest_told_apart) return all;
    for (int t = 0; t + 1 < sequence.shape.T; ++t)
      all.push_back({t + 2, 0, sequence.tokens[t], sequence.tokens[t + 1]});
    return all;
  }

  void lengthen(int factor) override {
    refuse_longer(factor, "task tokens", "its sequences are those of the files",
                  "and a folder of its own for each length, or test_segment.npy");
  }

  int eval_load() const override { return load_; }
  const GivenFiles& files() const override { return *data_; }
  void prepare(Device device) const override {
    if (device == Device::cuda) data_->upload();
  }

 protected:
  std::string word(const SequenceView& sequence, int t) const override {
    return fmt::format("{}", sequence.tokens[t]);
  }
  int answers() const override { return data_->different_labels(); }

  /// most_common: the label that training has most often. most_recent: the token itself. random_in_context: a token up
  /// to there.
  Shortcuts shortcuts(const SequenceView& sequence, int q) const override {
    const std::int32_t target = sequence.target[q], position = sequence.query_position[q];
    double right = 0;
    for (int t = 0; t < position; ++t) right += sequence.tokens[t] == target;
    return {{"most_common", target == data_->most_common_label() ? 1.0 : 0.0},
            {"most_recent", sequence.query[q] == target ? 1.0 : 0.0},
            {"random_in_context", right / position}};
  }

 private:
  Tokens(const Options& options, std::shared_ptr<const TokenData> data, int segment)
      : DrawnTask(data->spec(segment)),
        data_(std::move(data)),
        segment_(segment),
        tokens_(int_option(options, "vocabulary")),
        values_(int_option(options, "answers")),
        load_(int_option(options, "load")) {
    spec_.shuffled = eval_.shuffled = options.get_string("task.order") == "shuffled";
  }

  const TokensPart& part_of(Split split) const { return spec_.part[static_cast<int>(split)]; }

  void draw_cuda(const Exec& exec, const DrawArgs& args) const override {
    TokensSpec spec = data_->uploaded(segment_);
    spec.shuffled = spec_.shuffled;
    draw_on_cuda(spec, exec, args);
  }

  std::shared_ptr<const TokenData> data_;
  int segment_, tokens_, values_, load_;
  std::vector<std::shared_ptr<const Tokens>> kinds_;
};

void resolve(Options& options) {
  const auto data = files_of<TokenData>(options);
  options.set("task.content", data->content());
  const std::int64_t largest = std::max(data->tokens(), data->labels());
  resolve_size(options, "task.vocabulary", data->tokens(), largest, "token");
  resolve_size(options, "task.answers", data->labels(), std::max(largest, options.get_int("task.vocabulary")),
               "label");
  if (options.get_int("task.load") == 0)
    options.set("task.load", std::int64_t{data->spec().part[static_cast<int>(Split::eval)].T});
}

TaskKind kind() {
  return {
      .name = "tokens",
      .summary = "sequences of single tokens of your own, read from .npy files",
      .description =
          "The folder holds, for each SPLIT of train, eval (validation: stops training, chooses rates) and test, SPLIT_inputs.npy and "
          "SPLIT_labels.npy, whole numbers of any width of shape [N,T], as numpy.save writes them: N sequences of T token ids, and beside each token "
          "the answer that is due there, -100 or -1 where none is. Or SPLIT_tokens.npy [N,T], SPLIT_positions.npy and SPLIT_targets.npy [N,Q]: the "
          "tokens, counted from 0, at which answers are due, in rising order, and the answers, -1 in an unused slot. Either may lie in a folder "
          "SPLIT/ without the prefix, as 'crosstalk sample TASK --split SPLIT --out FOLDER/SPLIT' writes them. The loss is the mean over all "
          "labelled tokens; sequences without a label are left out. SPLIT_segment.npy [N] of eval and test, where it is there, names the kind of "
          "each sequence, and accuracy is said for each kind. SPLIT_document.npy [N,T], where it is there, numbers the documents that share a sequence: "
          "each is a sequence of its own then, filled up to the longest of its split, so that nothing is carried from one into the next. N, T and Q may differ between splits. Training goes through its N sequences epoch "
          "after epoch, each in an order of its own that follows from the data seed (order = \"file\": as they stand); eval.sequences are taken from "
          "the start of eval and test, of segments all. What the numbers are, not where they lie, is part of a run's identity; files that change "
          "while runs train on them stop these. A DataSegment of Zoology (Arora et al. 2023, arXiv 2312.04927) and a data set of MAD (Poli et al. "
          "2024, arXiv 2403.17844) are such arrays: docs/own_data.md has the lines of numpy. chance_accuracy is one among the different labels in "
          "the files. Wrong answers (error_...) are told apart by what followed the token at which they were due: at its first showing (oldest), its "
          "last (newest) or another one, another token of the sequence (other_value), that token itself (key), or a token that was not shown "
          "(never).",
      .options = {{"folder", "", "folder of the .npy files, from where the program is started"},
                  {"content", "", "hash of the numbers in the files; filled in, a study may pin it"},
                  {"vocabulary", 0, "token ids; 0 means 1 + the largest number among tokens and labels", 0,
                   max_option_size},
                  {"answers", 0, "labels; 0 means as many as token ids", 0, max_option_size},
                  choice("order", "shuffled",
                         "training in an order of its own in each epoch, or as the file stands",
                         {"shuffled", "file"}),
                  {"load", 0, "x value in figures; 0 means tokens of an eval sequence", 0, max_option_size}},
      .resolve = resolve,
      .make = make<Tokens>,
      .drawn = false};
}

}  // namespace crosstalk::tokens_task
