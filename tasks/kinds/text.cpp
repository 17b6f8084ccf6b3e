// text: somebody's own text, byte after byte or in token ids; the next token is due at each.
// SPDX-License-Identifier: Apache-2.0
#include "tasks/drawn_task.h"
#include "tasks/kinds/text_sequence.h"
#include "tasks/lanes.h"
#include "tasks/text_data.h"

namespace crosstalk::text_task {
namespace {

constexpr std::int64_t kLongestLane =
    std::int64_t{1} << 23;  // of validation and test: what is read of each token stays in memory

/// The text that resolved options describe, cut into splits and lanes.
TextSpec spec_of(const Options& options, const TextData& data) {
  TextSpec spec = data.spec(int_option(options, "length"), options.get_double("task.eval_share"),
                            options.get_double("task.test_share"));
  spec.lanes = int_option(options, "lanes"), spec.eval_lanes = int_option(options, "eval_lanes");
  const auto check = [&](const char* key, Split split, std::int64_t least, std::int64_t most) {
    const auto s = static_cast<std::size_t>(split);
    if (options.get_int(key) == 0) return;
    if (const std::int64_t lane = text_lane(spec, split); lane < least || lane > most)
      refuse(options, key,
             fmt::format(" makes lanes of {} tokens of the {} of {}; give {} lanes", lane, spec.part[s].count,
                         split_names[s],
                         lane < least ? fmt::format("at most {}", (spec.part[s].count - 1) / least)
                                      : fmt::format("at least {}", (spec.part[s].count - 2) / most + 1)));
  };
  check("task.lanes", Split::train, 2 * std::int64_t{spec.length}, std::int64_t{1} << 32);
  for (const Split split : {Split::eval, Split::test})
    check("task.eval_lanes", split, std::int64_t{spec.length} + 1, kLongestLane);
  return spec;
}

class Text final : public DrawnTask<Text, TokenTask, text_sequence, text_scratch_size>,
                   public ReadsFiles,
                   public HasLanes {
 public:
  explicit Text(const Options& options) : Text(options, files_of<TextData>(options)) {}

  Vocabulary vocabulary() const override { return token_vocabulary(tokens_); }
  SequenceShape full_shape(Split split) const override {
    const int length = text_length(of(split), split);
    return {length, 1, length};
  }
  int train_lanes() const override { return spec_.lanes; }
  int eval_window() const override { return eval_.eval_lanes > 0 ? eval_.length : 0; }
  bool is_text() const override { return true; }

  void sequence(std::uint64_t data_seed, Split split, std::uint64_t n, const SequenceView& out,
                std::int32_t* scratch) const override {
    if (data_->is_held()) return DrawnTask::sequence(data_seed, split, n, out, scratch);
    check_sequence_shape(*this, split, out);
    const TextPart& part = of(split).part[static_cast<std::size_t>(split)];
    put_text(data_->read(split, part.first + text_place(of(split), data_seed, split, n), out.shape.T + 1), 0,
             out);
  }

  /// Windows side by side, of training as many as an epoch has, wherever they lie; or lanes.
  std::int64_t sequences(Split split) const override {
    if (split == Split::train && spec_.lanes > 0) return spec_.lanes * text_windows(spec_);
    if (split != Split::train && eval_.eval_lanes > 0) return eval_.eval_lanes;
    return (of(split).part[static_cast<std::size_t>(split)].count - 1) /
           static_cast<std::uint32_t>(of(split).length);
  }

  std::map<std::string, double> baselines() const override {
    auto numbers = TokenTask::baselines();
    numbers["unigram_loss"] = data_->unigrams(spec_).entropy;
    return numbers;
  }

  /// What stands behind the position in the text: the window's next token; of the last one, nothing is known here.
  std::int32_t reference_answer(const SequenceView& sequence, std::int32_t, int position) const override {
    return position < sequence.shape.T ? sequence.tokens[position] : sequence.target[sequence.shape.Q - 1];
  }
  std::vector<KeyWrite> writes(const SequenceView&) const override { return {}; }

  void lengthen(int factor) override {
    if (eval_.eval_lanes > 0)
      throw OptionError(
          "eval.length_factors",
          fmt::format("eval.length_factors has no meaning with task.eval_lanes = {}: validation and test "
                      "are read from end to end; leave one of the two out",
                      eval_.eval_lanes));
    const int length = lengthened_size(spec_.length, factor);
    eval_ = data_->spec(length, eval_share_, test_share_);
  }
  int eval_load() const override { return eval_.length; }
  const GivenFiles& files() const override { return *data_; }
  void prepare(Device device) const override {
    if (device == Device::cuda) data_->upload();
  }

 protected:
  /// A byte as C writes it, so that a line of text stays one; an id as a number.
  std::string word(const SequenceView& sequence, int t) const override {
    return answer_word(sequence.tokens[t]);
  }
  std::string answer_word(std::int32_t id) const override {
    if (!data_->is_bytes()) return fmt::format("{}", id);
    return id > 32 && id < 127 ? std::string(1, static_cast<char>(id)) : fmt::format("\\x{:02x}", id);
  }
  int answers() const override { return tokens_; }

  /// most_common: the most frequent token of training. most_recent: the token itself.
  Shortcuts shortcuts(const SequenceView& sequence, int q) const override {
    return {{"most_common", sequence.target[q] == data_->unigrams(spec_).most_common ? 1.0 : 0.0},
            {"most_recent", sequence.target[q] == sequence.query[q] ? 1.0 : 0.0}};
  }

 private:
  Text(const Options& options, std::shared_ptr<const TextData> data)
      : DrawnTask(spec_of(options, *data)),
        data_(std::move(data)),
        tokens_(int_option(options, "vocabulary")),
        eval_share_(options.get_double("task.eval_share")),
        test_share_(options.get_double("task.test_share")) {}

  void draw_cuda(const Exec& exec, const DrawArgs& args) const override {
    draw_on_cuda(data_->uploaded(of(args.split)), exec, args);
  }

  std::shared_ptr<const TextData> data_;
  int tokens_;
  double eval_share_, test_share_;
};

constexpr double kShare = 0.05;

void resolve(Options& options) {
  const auto data = files_of<TextData>(options);
  options.set("task.content", data->content());
  if (data->is_bytes() && options.get_int("task.vocabulary") > 0 && options.get_int("task.vocabulary") < 256)
    refuse(options, "task.vocabulary", ", but a text of bytes has 256 tokens; give at least 256, or 0");
  resolve_size(options, "task.vocabulary", data->tokens(), data->tokens(), "token");
  for (const char* key : {"task.eval_share", "task.test_share"})
    if (!data->is_one_file() && options.get_double(key) != kShare)
      refuse(options, key,
             ": the folder holds a file for each split; a share cuts one file alone; leave it out");
  if (options.get_double("task.eval_share") + options.get_double("task.test_share") >= 1)
    refuse(options, "task.eval_share",
           fmt::format(" and task.test_share = {} leave nothing to train on",
                       options.get_double("task.test_share")));
  if (options.get_int("task.eval_lanes") == 0) options.set("task.eval_lanes", options.get_int("task.lanes"));
  spec_of(options, *data);
}

}  // namespace

TaskKind kind() {
  return {
      .name = "text",
      .summary = "a text of your own, in bytes or token ids; the next token is due at every token",
      .description =
          "The folder holds one file, which is cut into training, validation and test in this order (eval_share, test_share of its tokens), or "
          "train, eval (or val) and test, each with an ending; without test, the second half of eval is it. A file is read as bytes (.txt, or any "
          "other ending: a vocabulary of 256), as token ids of 16 bits (.bin, as nanoGPT writes them), or as an array of ids (.npy, [N], any "
          "width). Training draws windows of `length` tokens anywhere in its part, an epoch as many as lie there side by side; validation and test "
          "go through theirs window after window, each beginning without a past, and what is left at the end is not read. As in Graves 2013 (arXiv "
          "1308.0850) the loss is the mean cross-entropy in nats of the next token, at every token; with lanes "
          "and eval_lanes states are carried from window to window (truncated backpropagation), as in tables 2 to 5 of Schlag et al. 2021 (arXiv "
          "2102.11174). Metric test_bits_per_token is that of the test "
          "split over log 2, for bytes: bits a byte, and test_perplexity its exponential. unigram_loss is that of the shares of tokens in training "
          "(its first 4 million), baseline_most_common_accuracy and baseline_most_recent_accuracy are the scores of its most frequent token and of "
          "repeating the last one. What the ids are, not where they lie, is part of a run's identity; files that change while runs train on them "
          "stop these. Texts of more than 64 MiB are read window by window on the CPU, and held on a GPU.",
      .options =
          {{"folder", std::string(), "folder of the text, from where the program is started"},
           {"content", std::string(), "hash of the ids in the files; filled in, a study may pin it"},
           {"length", std::int64_t{256}, "tokens of a window", 1, max_option_size},
           {"vocabulary", std::int64_t{0}, "token ids; 0 means 256 for bytes, else 1 + the largest id", 0,
            max_option_size},
           {"lanes", std::int64_t{0},
            "parts of equal length side by side through which training goes window after window, as many as train.batch: what "
            "memories hold at the end of a window is what the next begins with, and gradients end there; 0: windows lie anywhere, "
            "each without a past",
            0, max_option_size},
           {"eval_lanes", std::int64_t{0},
            "the same of validation and test, which are read from end to end: with 1 every token sees all before it; 0 means as many "
            "as lanes",
            0, max_option_size},
           {"eval_share", kShare, "of one file: the share of validation", 0, 1},
           {"test_share", kShare, "of one file: the share of test, at its end", 0, 1}},
      .resolve = resolve,
      .make = make<Text>,
      .drawn = false};
}

}  // namespace crosstalk::text_task
