// file: somebody's own sequences, from .npy files.
// SPDX-License-Identifier: Apache-2.0
#include <stdexcept>
#include <type_traits>

#include "kernels/base/text/no_effect.h"
#include "tasks/drawn_task.h"
#include "tasks/example_task.h"
#include "tasks/file_data.h"
#include "tasks/kinds/file_sequence.h"

namespace crosstalk::file_task {

/// Sequences of the files, as `Base` reads them: associations of ids (FusedTask) or examples of real numbers (ExampleTask).
template <class Base>
class File final : public DrawnTask<File<Base>, Base, file_sequence, file_scratch_size>, public ReadsFiles {
  using Drawn = DrawnTask<File<Base>, Base, file_sequence, file_scratch_size>;

 public:
  template <class... Arguments>
  explicit File(const Options& options, Arguments... of_base)
      : Drawn(files_of<FileData>(options)->spec(), of_base...),
        data_(files_of<FileData>(options)),
        keys_(int_option(options, "keys")),
        values_(int_option(options, "values")),
        associations_(int_option(options, "associations")) {
    this->spec_.shuffled = this->eval_.shuffled = options.get_string("task.order") == "shuffled";
  }

  Vocabulary vocabulary() const override {
    if constexpr (std::is_same_v<Base, FusedTask>)
      return {keys_, values_, data_->channels() > channel_second_key};
    else
      return Base::vocabulary();
  }

  SequenceShape full_shape(Split split) const override {
    return {part_of(split).T, data_->channels(), part_of(split).Q};
  }
  std::int64_t sequences(Split split) const override { return part_of(split).N; }

  void lengthen(int factor) override {
    refuse_longer(factor, "task file", "its sequences are those of the files",
                  "and a folder of its own for each length");
  }

  int eval_load() const override { return associations_; }
  const GivenFiles& files() const override { return *data_; }
  void prepare(Device device) const override {
    if (device == Device::cuda) data_->upload();
  }

 private:
  const FilePart& part_of(Split split) const { return this->spec_.part[static_cast<int>(split)]; }

  void draw_cuda(const Exec& exec, const DrawArgs& args) const override {
    FileSpec spec = data_->uploaded();
    spec.shuffled = this->spec_.shuffled;
    draw_on_cuda(spec, exec, args);
  }

  std::shared_ptr<const FileData> data_;
  int keys_, values_, associations_;
};

void resolve(Options& options) {
  const auto data = files_of<FileData>(options);
  options.set("task.content", data->content());
  for (const char* key : {"task.keys", "task.values"})
    if (data->numbers() > 0 && options.get_int(key) != 0)
      throw NoEffect(key,
                     fmt::format("on the examples of {}, whose inputs and outputs are real numbers",
                                 options.get_string("task.folder")),
                     "name a folder of tokens");
  resolve_size(options, "task.keys", data->keys(), data->keys(), "key");
  resolve_size(options, "task.values", data->values(), data->values(), "value");
  if (options.get_int("task.associations") == 0)
    options.set("task.associations", std::int64_t{data->spec().part[static_cast<int>(Split::eval)].T});
}

TaskKind kind() {
  return {
      .name = "file",
      .summary = "sequences of your own, read from .npy files",
      .description =
          "The folder holds SPLIT_tokens.npy, SPLIT_query.npy, SPLIT_position.npy and SPLIT_target.npy for each SPLIT of train, eval (validation: "
          "stops training, chooses rates) and test; whole numbers of any width, as numpy.save writes them. tokens is [N,T,2] or [N,T,3]: N sequences "
          "of T tokens, each [key, value] or [key, value, second key]; keys and values are counted from 0, value -1 writes none, second key -1 is "
          "none (with one, the values of the two keys change places). query is [N,Q], the key that is read; position [N,Q], how many tokens the read "
          "sees (1 .. T); target [N,Q], the value that is right, -1 in an unused slot. N, T and Q may differ between splits. Training goes through "
          "its N sequences epoch after epoch, each in an order of its own that follows from the data seed; eval.sequences are taken from the start "
          "of eval and test. order = \"file\" takes them as they stand. A folder SPLIT/ with what 'crosstalk sample TASK --split SPLIT --out "
          "FOLDER/SPLIT' writes of a task of keys and values stands for the four files; single tokens are read by task tokens. Examples of real "
          "numbers, as task regression has them, are SPLIT_x.npy [N,T,n], the inputs that are shown, SPLIT_y.npy [N,T], their outputs, "
          "SPLIT_asked_x.npy [N,Q,n] and SPLIT_asked_y.npy [N,Q], what is asked after them and right, Q at most T; or what sample writes of "
          "regression. They are kept as whole multiples of 2^-20, up to 2047. What the numbers are, not where they lie, is part of a run's identity: "
          "changed files make other runs. docs/own_data.md makes in-context recall of MAD (Poli et al. 2024, arXiv 2403.17844) with numpy.",
      .options = {{"folder", "", "folder of the .npy files, from where the program is started"},
                  {"content", "", "hash of the numbers in the files; filled in, a study may pin it"},
                  {"associations", 0, "x value in figures; 0 means tokens of an eval sequence", 0,
                   max_option_size},
                  {"keys", 0, "size of the key vocabulary; 0 means 1 + the largest key in the files", 0,
                   max_option_size},
                  {"values", 0, "size of the value vocabulary; 0 means 1 + the largest value in the files", 0,
                   max_option_size},
                  choice("order", "shuffled",
                         "training in an order of its own in each epoch, or as the file stands",
                         {"shuffled", "file"})},
      .resolve = resolve,
      .make = [](const Options& options) -> std::unique_ptr<Task> {
        if (const int numbers = files_of<FileData>(options)->numbers(); numbers > 0)
          return std::make_unique<File<ExampleTask>>(options, numbers);
        return std::make_unique<File<FusedTask>>(options);
      },
      .drawn = false};
}

}  // namespace crosstalk::file_task
