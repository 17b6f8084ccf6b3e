// reassign: does a memory forget what was overwritten? (Schlag et al. 2021, arXiv 2102.11174, section 6.1.2)
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kernels/base/error.h"
#include "tasks/draw_cuda.h"
#include "tasks/fused_task.h"
#include "tasks/reassign_sequence.h"

namespace crosstalk {
namespace {

/// Updates that follow the bindings; -1 = keys drawn with replacement.
std::int64_t updates_of(const Options& options) {
  const double fraction = options.get_double("task.update_fraction");
  if (fraction < 0) return -1;
  return std::llround(fraction * static_cast<double>(options.get_int("task.associations")));
}

/// E[1/m] for m ~ Bin(length, 1/S) given m >= 1: how often a key that occurs was written.
double mean_inverse_writes(int length, int S) {
  if (S == 1) return 1.0 / length;
  const double p = 1.0 / S;
  double sum = 0, weight = 0;
  for (int m = 1; m <= length; ++m) {
    const double log_choose =
        std::lgamma(length + 1.0) - std::lgamma(m + 1.0) - std::lgamma(length - m + 1.0);
    const double probability = std::exp(log_choose + m * std::log(p) + (length - m) * std::log1p(-p));
    sum += probability / m;
    weight += probability;
  }
  return sum / weight;
}

class Reassign final : public FusedTask {
 public:
  explicit Reassign(const Options& options)
      : spec_{int_option(options, "associations"), int_option(options, "keys"),
              int_option(options, "values"),       static_cast<std::int32_t>(updates_of(options)),
              int_option(options, "length"),       options.get_string("task.query_by") == "element"},
        eval_length_(int_option(options, "eval_length")),
        queries_(int_option(options, "queries")) {}

  Vocabulary vocabulary() const override { return {spec_.keys, spec_.values, false}; }

  SequenceShape shape(Split split, int max_queries) const override {
    if (split == Split::train) return {spec_.max_length, 2, queries_};
    return {eval_length_, 2, capped_queries(std::min(spec_.associations, eval_length_), max_queries)};
  }

  void sequence(std::uint64_t data_seed, Split split, std::uint64_t n, const SequenceView& out,
                std::int32_t* scratch) const override {
    check_shape(split, out);
    reassign_sequence(spec_, data_seed, split, n, out, scratch);
  }

  int scratch_size() const override { return reassign_scratch_size(spec_); }

  /// Besides the common ones, for keys that a memory tells apart perfectly but sums up (it reads the mean of
  /// the m values written to the key): sum_rule_floor = 0.5 (1 - E[1/m]), as published, which takes the m
  /// values as different; sum_rule_floor_exact also counts that values drawn with replacement coincide.
  std::map<std::string, double> baselines() const override {
    auto numbers = FusedTask::baselines();
    const bool with_replacement = spec_.updates < 0;
    const double inverse = with_replacement ? mean_inverse_writes(eval_length_, spec_.associations)
                                            : 1.0 - 0.5 * spec_.updates / spec_.associations;
    numbers["sum_rule_floor"] = 0.5 * (1.0 - inverse);
    numbers["sum_rule_floor_exact"] =
        0.5 * (1.0 - inverse) * (with_replacement ? 1.0 - 1.0 / spec_.values : 1.0);
    return numbers;
  }

  std::unique_ptr<Task> lengthened(int factor) const override {
    check_length_factor(factor);
    if (factor > 1 && spec_.updates >= 0)
      throw OptionError(
          "eval.length_factors",
          fmt::format("task reassign with task.update_fraction updates each key at most once and has no form "
                      "{} times as long; use factor 1, or task.update_fraction = -1 (keys with replacement)",
                      factor));
    auto longer = std::make_unique<Reassign>(*this);
    longer->eval_length_ = lengthened_size(spec_.max_length, factor);
    return longer;
  }

  int eval_load() const override { return eval_length_; }

 private:
  void draw_cuda(const Exec& exec, const DrawArgs& args) const override { draw_on_cuda(spec_, exec, args); }

  ReassignSpec spec_;
  int eval_length_;
  int queries_;
};

/// Sets `key` to `derived` where it is 0; refuses anything else than `derived` if `fixed`.
void derive_length(Options& options, const std::string& key, std::int64_t derived, bool fixed) {
  const std::int64_t given = options.get_int(key);
  if (fixed && given != 0 && given != derived)
    throw OptionError(key,
                      fmt::format("{} = {} contradicts task.update_fraction, which fixes the length at {} "
                                  "(associations + updates); leave {} out",
                                  key, given, derived, key));
  if (given == 0) options.set(key, derived);
}

void resolve(Options& options) {
  resolve_vocabulary(options);
  const std::int64_t associations = options.get_int("task.associations");
  const double fraction = options.get_double("task.update_fraction");
  if (fraction < 0 && fraction != -1.0)
    throw OptionError("task.update_fraction",
                      fmt::format("task.update_fraction = {} is neither a fraction in 0 .. 1 nor -1 (keys "
                                  "drawn with replacement)",
                                  fraction));
  const std::int64_t updates = updates_of(options);
  const bool with_replacement = updates < 0;
  if (updates > 0 && options.get_int("task.values") < 2)
    throw OptionError("task.values",
                      "task.values = 1 leaves no different value for an update; give at least 2");
  derive_length(options, "task.length", with_replacement ? 2 * associations : associations + updates,
                !with_replacement);
  derive_length(options, "task.eval_length", with_replacement ? associations : associations + updates,
                !with_replacement);
  const std::int64_t queries = options.get_int("task.queries"), length = options.get_int("task.length");
  const bool by_element = options.get_string("task.query_by") == "element";
  const std::int64_t askable = by_element ? length : std::min(associations, length);
  if (queries > askable)
    throw OptionError("task.queries",
                      fmt::format("task.queries = {} asks more {} than a training sequence "
                                  "can have; give at most {}",
                                  queries, by_element ? "elements" : "distinct keys", askable));
}

}  // namespace

TaskKind reassign_kind() {
  return {
      "reassign",
      "write keys again and again, then read: the last value wins",
      "A sequence holds `length` tokens, each a key together with its value, both drawn with replacement, "
      "so that keys are written several times; then a key is asked and the value written to it last is "
      "right. This is setting 2 of Schlag, Irie and Schmidhuber 2021 (arXiv 2102.11174, section 6.1.2). A "
      "memory that does not see the order of writes can at best read the mean of the m values written to a "
      "key and cannot get below 0.5 (1 - E[1/m]) (1 - 1/values) (sum_rule_floor_exact); a delta rule can. "
      "Training asks the key of a random element, so keys "
      "count as often as they occur; evaluation asks each key that occurs, once, in ascending order. The "
      "released code trains with 2 S tokens but evaluates with S: eval_length = 0 means the same here. "
      "With update_fraction in 0 .. 1 every key is first bound once and then that fraction of the keys "
      "gets another value, as in the forgetting test of Zoology: baseline_unchanged_accuracy is what "
      "ignoring the updates scores.",
      {{"associations", std::int64_t{20}, "keys in play (S)", 1, max_option_size},
       {"keys", std::int64_t{0}, "size of the key vocabulary; 0 means as many as associations", 0,
        max_option_size},
       {"values", std::int64_t{0}, "size of the value vocabulary; 0 means as many as associations", 0,
        max_option_size},
       {"length", std::int64_t{0}, "tokens of a training sequence; 0 means 2 x associations", 0,
        max_option_size},
       {"eval_length", std::int64_t{0},
        "tokens of an evaluation sequence; 0 means as many as associations, as the released code of Schlag "
        "2021 evaluates (not the training length)",
        0, max_option_size},
       {"queries", std::int64_t{1}, "queries of a training sequence", 1, max_option_size},
       {"query_by",
        std::string("element"),
        "training queries: the key of a token drawn uniformly (element), or a distinct key present (key)",
        {},
        {},
        {"element", "key"}},
       {"update_fraction", -1.0,
        "-1: keys drawn with replacement; 0 .. 1: every key bound once, then this fraction updated", -1, 1}},
      resolve,
      [](const Options& options) -> std::unique_ptr<Task> { return std::make_unique<Reassign>(options); }};
}

}  // namespace crosstalk
