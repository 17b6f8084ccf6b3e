// file: somebody's own sequences, from .npy files.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <stdexcept>
#include <type_traits>

#include "kernels/base/error.h"
#include "kernels/base/text/no_effect.h"
#include "tasks/draw_cuda.h"
#include "tasks/example_task.h"
#include "tasks/file_data.h"
#include "tasks/fused_task.h"
#include "tasks/kinds/file_sequence.h"
#include "tasks/token_task.h"

namespace crosstalk::file_task {
namespace {

/// Sequences of the files, as `Base` reads them: associations of ids (FusedTask) or examples of real numbers (ExampleTask).
template <class Base>
class File final : public Base, public ReadsFiles {
 public:
  template <class... Arguments>
  explicit File(const Options& options, Arguments... of_base)
      : Base(of_base...),
        data_(files_of<FileData>(options)),
        keys_(int_option(options, "keys")),
        values_(int_option(options, "values")),
        associations_(int_option(options, "associations")),
        shuffled_(options.get_string("task.order") == "shuffled") {}

  Vocabulary vocabulary() const override {
    if constexpr (std::is_same_v<Base, FusedTask>)
      return {keys_, values_, data_->channels() > channel_second_key};
    else
      return Base::vocabulary();
  }

  SequenceShape shape(Split split, int max_queries) const override {
    const FilePart& part = data_->spec().part[static_cast<int>(split)];
    return {part.T, data_->channels(), split == Split::train ? part.Q : capped_queries(part.Q, max_queries)};
  }

  void sequence(std::uint64_t data_seed, Split split, std::uint64_t n, const SequenceView& out,
                std::int32_t* scratch) const override {
    check_sequence_shape(*this, split, out);
    FileSpec spec = data_->spec();
    spec.shuffled = shuffled_;
    file_sequence(spec, data_seed, split, n, out, scratch);
  }

  int scratch_size() const override { return file_scratch_size(data_->spec()); }
  std::int64_t sequences(Split split) const override { return data_->spec().part[static_cast<int>(split)].N; }

  std::unique_ptr<Task> lengthened(int factor) const override {
    check_length_factor(factor);
    if (factor > 1)
      throw OptionError(
          "eval.length_factors",
          fmt::format("task file has no form {} times as long: its sequences are those of the files; use "
                      "factor 1, and a folder of its own for each length",
                      factor));
    return std::make_unique<File>(*this);
  }

  int eval_load() const override { return associations_; }
  const GivenFiles& files() const override { return *data_; }
  void prepare(Device device) const override {
    if (device == Device::cuda) data_->upload();
  }

 private:
  void draw_cuda(const Exec& exec, const DrawArgs& args) const override {
    FileSpec spec = data_->uploaded();
    spec.shuffled = shuffled_;
    draw_on_cuda(spec, exec, args);
  }

  std::shared_ptr<const FileData> data_;
  int keys_, values_, associations_;
  bool shuffled_;
};

void resolve(Options& options) {
  const auto data = files_of<FileData>(options);
  options.set("task.content", data->content());
  const auto at_least = [&](const std::string& key, std::int64_t size, const char* what) {
    const std::int64_t given = options.get_int(key);
    if (given == 0) options.set(key, size);
    if (given != 0 && given < size)
      throw OptionError(
          key, fmt::format("{} = {}, but the files of {} hold {} {}; give at least {}, or 0 for as many as "
                           "there are",
                           key, given, options.get_string("task.folder"), what, size - 1, size));
  };
  for (const char* key : {"task.keys", "task.values"})
    if (data->numbers() > 0 && options.get_int(key) != 0)
      throw NoEffect(key,
                     fmt::format("on the examples of {}, whose inputs and outputs are real numbers",
                                 options.get_string("task.folder")),
                     "name a folder of tokens");
  at_least("task.keys", data->keys(), "the key");
  at_least("task.values", data->values(), "the value");
  if (options.get_int("task.associations") == 0)
    options.set("task.associations", std::int64_t{data->spec().part[static_cast<int>(Split::eval)].T});
}

}  // namespace

TaskKind kind() {
  return {
      .name = "file",
      .summary = "sequences of your own, read from .npy files",
      .description =
          "The folder holds SPLIT_tokens.npy, SPLIT_query.npy, SPLIT_position.npy and SPLIT_target.npy for "
          "each SPLIT "
          "of train, eval (validation: stops training, chooses rates) and test; whole numbers of any width, "
          "as "
          "numpy.save writes them. tokens is [N,T,2] or [N,T,3]: N sequences of T tokens, each [key, value] "
          "or [key, "
          "value, second key]; keys and values are counted from 0, value -1 writes none, second key -1 is "
          "none "
          "(with one, the values of the two keys change places). query is [N,Q], the key that is read; "
          "position "
          "[N,Q], how many tokens the read sees (1 .. T); target [N,Q], the value that is right, -1 in an "
          "unused slot. "
          "N, T and Q may differ between splits. Training goes through its N sequences epoch after epoch, "
          "each in an "
          "order of its own that follows from the data seed; eval.sequences are taken from the start of eval "
          "and test. "
          "order = \"file\" takes them as they stand. A folder SPLIT/ with what 'crosstalk sample TASK "
          "--split SPLIT "
          "--out FOLDER/SPLIT' writes of a task of keys and values stands for the four files; single tokens "
          "are read by "
          "task tokens. Examples of real numbers, as task regression has them, are SPLIT_x.npy [N,T,n], the "
          "inputs that "
          "are shown, SPLIT_y.npy [N,T], their outputs, SPLIT_asked_x.npy [N,Q,n] and SPLIT_asked_y.npy "
          "[N,Q], what is "
          "asked after them and right, Q at most T; or what sample writes of regression. They are kept as "
          "whole "
          "multiples of 2^-20, up to 2047. "
          "What the numbers are, not where they lie, is part of a run's identity: changed files make other "
          "runs. "
          "docs/own_data.md makes in-context recall of MAD (Poli et al. 2024, arXiv 2403.17844) "
          "with numpy.",
      .options =
          {{"folder", std::string(), "folder of the .npy files, from where the program is started"},
           {"content", std::string(), "hash of the numbers in the files; filled in, a study may pin it"},
           {"associations", std::int64_t{0}, "x value in figures; 0 means tokens of an eval sequence", 0,
            max_option_size},
           {"keys", std::int64_t{0}, "size of the key vocabulary; 0 means 1 + the largest key in the files",
            0, max_option_size},
           {"values", std::int64_t{0},
            "size of the value vocabulary; 0 means 1 + the largest value in the files", 0, max_option_size},
           {"order",
            std::string("shuffled"),
            "training in an order of its own in each epoch, or as the file stands",
            {},
            {},
            {"shuffled", "file"}}},
      .resolve = resolve,
      .make = [](const Options& options) -> std::unique_ptr<Task> {
        if (const int numbers = files_of<FileData>(options)->numbers(); numbers > 0)
          return std::make_unique<File<ExampleTask>>(options, numbers);
        return std::make_unique<File<FusedTask>>(options);
      },
      .drawn = false};
}

}  // namespace crosstalk::file_task
