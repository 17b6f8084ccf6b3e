// recall: how many associations can a memory hold? (Schlag et al. 2021, arXiv 2102.11174, section 6.1.1)
// SPDX-License-Identifier: Apache-2.0
#include "tasks/drawn_task.h"
#include "tasks/kinds/recall_sequence.h"

namespace crosstalk::recall_task {

class Recall final : public DrawnTask<Recall, FusedTask, recall_sequence, recall_scratch_size> {
 public:
  explicit Recall(const Options& options)
      : DrawnTask({int_option(options, "associations"), int_option(options, "keys"),
                   int_option(options, "values")}),
        queries_(int_option(options, "queries")) {}

  Vocabulary vocabulary() const override { return {spec_.keys, spec_.values, false}; }

  SequenceShape full_shape(Split split) const override {
    return {of(split).associations, 2, split == Split::train ? queries_ : of(split).associations};
  }

  std::map<std::string, double> baselines() const override {
    auto numbers = FusedTask::baselines();
    numbers.erase("baseline_unchanged_accuracy");  // nothing changes: it is the task itself
    return numbers;
  }

  void lengthen(int factor) override {
    eval_.associations = lengthened_size(spec_.associations, factor);
    if (eval_.associations > std::min(spec_.keys, spec_.values))
      refuse_longer(factor, "task recall", "it stores each key once and would run out of keys",
                    fmt::format("or task.keys and task.values of at least {}, or task reassign or swap",
                                eval_.associations));
  }

  int eval_load() const override { return eval_.associations; }

 private:
  int queries_;
};

void resolve(Options& options) {
  resolve_vocabulary(options);
  const std::int64_t associations = options.get_int("task.associations");
  const std::int64_t queries = options.get_int("task.queries");
  if (queries > associations)
    refuse(options, "task.queries",
           fmt::format(
               " asks more distinct keys than the task.associations = {0} that are stored; give at most {0}",
               associations));
}

TaskKind kind() {
  return {
      "recall",
      "store S associations, each key once, then retrieve them: capacity",
      "A sequence holds S = associations tokens; each is a key together with its value. Keys and values are drawn without replacement, in random "
      "order. Then a stored key is asked and its value is right. With keys = values = associations this is setting 1 of Schlag, Irie and Schmidhuber "
      "2021 (arXiv 2102.11174, section 6.1.1): every key occurs in every sequence and only the binding changes. A memory whose reads depend on d_dot "
      "features of the key cannot get below 0.5 (1 - d_dot / S) where all queries weigh the same ('crosstalk describe loss'). With more keys than "
      "associations and queries = associations it is multi-query associative recall (MQAR; Arora et al. 2023, arXiv 2312.04927) with key and value "
      "fused in one token; with frozen codes for both (model.key_codes, model.value_codes) the continuous MQAR of Zoology (keys = values = 4096, 4 "
      "to 64 associations in training, up to 256 in evaluation). Training asks `queries` distinct stored keys; evaluation asks all of them, in "
      "ascending order of the key.",
      with_vocabulary(
          {{"associations", 20, "key/value pairs stored in a sequence (S)", 1, max_option_size},
           {"queries", 1, "distinct stored keys asked in a training sequence", 1, max_option_size}}),
      resolve,
      make<Recall>};
}

}  // namespace crosstalk::recall_task
