// recall: how many associations can a memory hold? (Schlag et al. 2021, arXiv 2102.11174, section 6.1.1)
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "kernels/base/error.h"
#include "tasks/draw_cuda.h"
#include "tasks/fused_task.h"
#include "tasks/kinds/recall_sequence.h"

namespace crosstalk::recall_task {
namespace {

class Recall final : public FusedTask {
 public:
  explicit Recall(const Options& options)
      : spec_{int_option(options, "associations"), int_option(options, "keys"),
              int_option(options, "values")},
        queries_(int_option(options, "queries")) {}

  Vocabulary vocabulary() const override { return {spec_.keys, spec_.values, false}; }

  SequenceShape shape(Split split, int max_queries) const override {
    const int Q = split == Split::train ? queries_ : capped_queries(spec_.associations, max_queries);
    return {spec_.associations, 2, Q};
  }

  void sequence(std::uint64_t data_seed, Split split, std::uint64_t n, const SequenceView& out,
                std::int32_t* scratch) const override {
    check_shape(split, out);
    recall_sequence(spec_, data_seed, split, n, out, scratch);
  }

  int scratch_size() const override { return recall_scratch_size(spec_); }

  std::map<std::string, double> baselines() const override {
    auto numbers = FusedTask::baselines();
    numbers.erase("baseline_unchanged_accuracy");  // nothing changes: it is the task itself
    return numbers;
  }

  std::unique_ptr<Task> lengthened(int factor) const override {
    check_length_factor(factor);
    if (factor > 1)
      throw OptionError(
          "eval.length_factors",
          fmt::format("task recall has no form {} times as long: it stores each key once and would "
                      "run out of keys; use factor 1, or task reassign or swap",
                      factor));
    return std::make_unique<Recall>(*this);
  }

  int eval_load() const override { return spec_.associations; }

 private:
  void draw_cuda(const Exec& exec, const DrawArgs& args) const override { draw_on_cuda(spec_, exec, args); }

  RecallSpec spec_;
  int queries_;
};

void resolve(Options& options) {
  resolve_vocabulary(options);
  const std::int64_t associations = options.get_int("task.associations");
  const std::int64_t queries = options.get_int("task.queries");
  if (queries > associations)
    throw OptionError("task.queries", fmt::format("task.queries = {} asks more distinct keys than the "
                                                  "task.associations = {} that are stored; give at most {}",
                                                  queries, associations, associations));
}

}  // namespace

TaskKind kind() {
  return {
      "recall",
      "store S associations, each key once, then retrieve them: capacity",
      "A sequence holds S = associations tokens; each is a key together with its value. Keys and values "
      "are drawn without replacement, in random order. Then a stored key is asked and its value is right. "
      "With keys = values = associations this is setting 1 of Schlag, Irie and Schmidhuber 2021 (arXiv "
      "2102.11174, section 6.1.1): every key occurs in every sequence and only the binding changes. A "
      "memory whose reads depend on d_dot features of the key cannot get below 0.5 (1 - d_dot / S) where all "
      "queries weigh the same ('crosstalk describe loss'). With "
      "more keys than associations and queries = associations it is multi-query associative recall (MQAR; "
      "Arora et al. 2023, arXiv 2312.04927) with key and value fused in one token; with frozen codes for "
      "both (model.key_codes, model.value_codes) the "
      "continuous MQAR of Zoology (keys = values = 4096, 4 to 64 associations in training, up to 256 in "
      "evaluation). Training asks `queries` "
      "distinct stored keys; evaluation asks all of them, in ascending order of the key.",
      {{"associations", std::int64_t{20}, "key/value pairs stored in a sequence (S)", 1, max_option_size},
       {"keys", std::int64_t{0}, "size of the key vocabulary; 0 means as many as associations", 0,
        max_option_size},
       {"values", std::int64_t{0}, "size of the value vocabulary; 0 means as many as associations", 0,
        max_option_size},
       {"queries", std::int64_t{1}, "distinct stored keys asked in a training sequence", 1, max_option_size}},
      resolve,
      [](const Options& options) -> std::unique_ptr<Task> { return std::make_unique<Recall>(options); }};
}

}  // namespace crosstalk::recall_task
