// swap: can a memory exchange what two keys hold? (state tracking; DeltaFormer, arXiv 2505.19488)
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "kernels/base/error.h"
#include "tasks/draw_cuda.h"
#include "tasks/fused_task.h"
#include "tasks/swap_sequence.h"

namespace crosstalk {
namespace {

class Swap final : public FusedTask {
 public:
  explicit Swap(const Options& options)
      : spec_{int_option(options, "associations"),     int_option(options, "keys"),
              int_option(options, "values"),           options.get_double("task.identity_fraction"),
              options.get_double("task.set_fraction"), options.get_string("task.query_at") == "every"},
        operations_(int_option(options, "operations")),
        eval_operations_(operations_),
        queries_(int_option(options, "queries")) {}

  Vocabulary vocabulary() const override { return {spec_.keys, spec_.values, true}; }

  SequenceShape shape(Split split, int max_queries) const override {
    const bool train = split == Split::train;
    const int operations = train ? operations_ : eval_operations_;
    const int all = spec_.query_every ? operations : train ? queries_ : spec_.associations;
    return {spec_.associations + operations, 3, train ? all : capped_queries(all, max_queries)};
  }

  void sequence(std::uint64_t data_seed, Split split, std::uint64_t n, const SequenceView& out,
                std::int32_t* scratch) const override {
    check_shape(split, out);
    swap_sequence(spec_, data_seed, split, n, out, scratch);
  }

  int scratch_size() const override { return swap_scratch_size(spec_); }

  std::unique_ptr<Task> lengthened(int factor) const override {
    check_length_factor(factor);
    auto longer = std::make_unique<Swap>(*this);
    longer->eval_operations_ = lengthened_size(operations_, factor);
    return longer;
  }

  int eval_load() const override { return eval_operations_; }

 private:
  void draw_cuda(const Exec& exec, const DrawArgs& args) const override { draw_on_cuda(spec_, exec, args); }

  SwapSpec spec_;
  int operations_;
  int eval_operations_;
  int queries_;
};

void resolve(Options& options) {
  resolve_vocabulary(options);
  const double identity = options.get_double("task.identity_fraction");
  const double set = options.get_double("task.set_fraction");
  if (identity + set > 1.0)
    throw OptionError(
        "task.set_fraction",
        fmt::format("task.identity_fraction = {} and task.set_fraction = {} add up to more than "
                    "1; what they leave of 1 is the fraction of swaps",
                    identity, set));
  const std::int64_t queries = options.get_int("task.queries");
  const std::int64_t associations = options.get_int("task.associations");
  if (options.get_string("task.query_at") == "every" && queries != 1)
    throw OptionError(
        "task.queries",
        fmt::format("task.queries = {} has no meaning with task.query_at = \"every\", which asks "
                    "one key after every operation; leave it out, or set task.query_at = \"end\"",
                    queries));
  if (queries > associations)
    throw OptionError("task.queries", fmt::format("task.queries = {} asks more distinct keys than the "
                                                  "task.associations = {} in play; give at most {}",
                                                  queries, associations, associations));
}

}  // namespace

TaskKind swap_kind() {
  return {
      "swap",
      "bind n keys, exchange the values of two keys again and again, then read: state tracking",
      "A sequence first binds n = associations keys to distinct values, one token each, then holds "
      "`operations` tokens that each name two keys and no value: their values change places. A key is "
      "asked and the value that it holds by then is right. This is the tracking problem of DeltaFormer "
      "(Zhong et al. 2025, arXiv 2505.19488) with both keys in one token. Writing value zero under the "
      "difference of the two keys by a delta rule with beta = 2 (key of norm 1) is a reflection that "
      "exchanges them exactly; beta in (0, 1) has no negative eigenvalue and cannot do it. Swaps alone "
      "reach only every other permutation at a given step: identity_fraction mixes in operations that "
      "change nothing, set_fraction operations that overwrite a key with a value drawn from all values. "
      "With query_at = \"every\" one key drawn uniformly is asked after every operation, in training and "
      "evaluation; with \"end\" keys are asked after the last one (evaluation: all n). "
      "baseline_unchanged_accuracy is what reading the first binding scores.",
      {{"associations", std::int64_t{5}, "keys in play, each bound once first (n)", 2, max_option_size},
       {"keys", std::int64_t{0}, "size of the key vocabulary; 0 means as many as associations", 0,
        max_option_size},
       {"values", std::int64_t{0}, "size of the value vocabulary; 0 means as many as associations", 0,
        max_option_size},
       {"operations", std::int64_t{16}, "operations after the bindings", 1, max_option_size},
       {"identity_fraction", 0.0, "probability that an operation changes nothing", 0, 1},
       {"set_fraction", 0.0, "probability that an operation overwrites one key with a random value", 0, 1},
       {"query_at",
        std::string("every"),
        "when keys are asked: one after every operation, or at the end only",
        {},
        {},
        {"every", "end"}},
       {"queries", std::int64_t{1}, "distinct keys asked in a training sequence with query_at = \"end\"", 1,
        max_option_size}},
      resolve,
      [](const Options& options) -> std::unique_ptr<Task> { return std::make_unique<Swap>(options); }};
}

}  // namespace crosstalk
