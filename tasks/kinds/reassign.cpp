// reassign: does a memory forget what was overwritten? (Schlag et al. 2021, arXiv 2102.11174, section 6.1.2)
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "kernels/base/text/narrow.h"
#include "tasks/drawn_task.h"
#include "tasks/kinds/reassign_sequence.h"
#include "tasks/mqar_task.h"

namespace crosstalk::reassign_task {

/// Updates that follow the bindings; -1 = keys drawn with replacement.
std::int64_t updates_of(const Options& options) {
  const double fraction = options.get_double("task.update_fraction");
  if (fraction < 0) return -1;
  return std::llround(fraction * static_cast<double>(options.get_int("task.associations")));
}

/// E[1/m] for m ~ Bin(length, 1/S) given m >= 1: how often a key that occurs was written. By recurrence from the most
/// likely m on, which takes the four operations only: those of the mathematics library differ in last digits.
double mean_inverse_writes(int length, int S) {
  if (S == 1) return 1.0 / length;
  const double N = length, others = S - 1;
  const double mode = std::max(1.0, std::floor((N + 1) / S));
  double sum = 1 / mode, weight = 1;
  double ratio = 1;  // of its probability to that of the mode
  for (double m = mode; m < N && ratio > 0; ++m) {
    ratio *= (N - m) / ((m + 1) * others);
    sum += ratio / (m + 1);
    weight += ratio;
  }
  ratio = 1;
  for (double m = mode; m > 1 && ratio > 0; --m) {
    ratio *= m * others / (N - m + 1);
    sum += ratio / (m - 1);
    weight += ratio;
  }
  return sum / weight;
}

ReassignSpec spec_of(const Options& options, Split split) {
  ReassignSpec spec;
  spec.associations = int_option(options, "associations");
  spec.keys = int_option(options, "keys");
  spec.values = int_option(options, "values");
  spec.updates = narrow<std::int32_t>(updates_of(options), "updates of a sequence");
  spec.length = int_option(options, split == Split::train ? "length" : "eval_length");
  spec.query_by_element = options.get_string("task.query_by") == "element";
  return spec;
}

/// With updates a sequence has one length.
void check_longer(const ReassignSpec& spec, int factor) {
  if (spec.updates >= 0)
    refuse_longer(factor, "task reassign with task.update_fraction", "it updates each key at most once",
                  "or task.update_fraction = -1 (keys with replacement)");
}

class Reassign final : public DrawnTask<Reassign, FusedTask, reassign_sequence, reassign_scratch_size> {
 public:
  explicit Reassign(const Options& options)
      : DrawnTask(spec_of(options, Split::train)), queries_(int_option(options, "queries")) {
    eval_ = spec_of(options, Split::eval);
  }

  Vocabulary vocabulary() const override { return {spec_.keys, spec_.values, false}; }

  SequenceShape full_shape(Split split) const override {
    const int length = of(split).length;
    return {length, 2, split == Split::train ? queries_ : std::min(spec_.associations, length)};
  }

  /// Besides the common ones, for keys that a memory tells apart perfectly but sums up (it reads the mean of
  /// the m values written to the key): sum_rule_floor = 0.5 (1 - E[1/m]), as published, which takes the m
  /// values as different; sum_rule_floor_exact also counts that values drawn with replacement coincide.
  std::map<std::string, double> baselines() const override {
    auto numbers = FusedTask::baselines();
    const bool with_replacement = spec_.updates < 0;
    const double inverse = with_replacement ? mean_inverse_writes(eval_.length, spec_.associations)
                                            : 1.0 - 0.5 * spec_.updates / spec_.associations;
    numbers["sum_rule_floor"] = 0.5 * (1.0 - inverse);
    numbers["sum_rule_floor_exact"] =
        0.5 * (1.0 - inverse) * (with_replacement ? 1.0 - 1.0 / spec_.values : 1.0);
    return numbers;
  }

  void lengthen(int factor) override {
    check_longer(spec_, factor);
    eval_.length = lengthened_size(spec_.length, factor);
  }

  int eval_load() const override { return eval_.length; }

 private:
  int queries_;
};

/// Layout split, for the language model.
class ReassignTokens final
    : public DrawnTask<ReassignTokens, TokenTask, reassign_sequence, reassign_scratch_size> {
 public:
  explicit ReassignTokens(const Options& options) : DrawnTask(spec_of(options, Split::train)) {
    eval_ = spec_of(options, Split::eval);
    spec_.asked = eval_.asked = int_option(options, "queries");
    add_stages(options, spec_.updates < 0 ? "length" : "associations",
               [&](ReassignTokens& stage, int size, std::uint32_t part) {
                 if (part == 0) return;
                 ReassignSpec& spec = stage.spec_;
                 if (spec.updates >= 0) spec.associations = size;
                 if (spec.updates > 0)
                   spec.updates = mqar_updates(options.get_double("task.update_fraction"), size);
                 spec.length = size + std::max(spec.updates, 0);
                 stage.eval_ = spec;
               });
  }

  Vocabulary vocabulary() const override { return token_vocabulary(first_value() + spec_.values); }

  SequenceShape full_shape(Split split) const override {
    return {2 * (of(split).length + spec_.asked), 1, spec_.asked};
  }

  std::int32_t reference_answer(const SequenceView& s, std::int32_t key, int position) const override {
    std::int32_t answer = -1;
    for (int t = 0; t + 1 < position && s.tokens[t] != reassign_tokens::kAsk; t += 2)
      if (s.tokens[t] == key) answer = s.tokens[t + 1];
    return answer;
  }

  void lengthen(int factor) override {
    check_longer(spec_, factor);
    eval_.length = lengthened_size(eval_.length, factor);
    lengthened_size(shape(Split::eval, 0).T, 1);
  }

  int eval_load() const override { return eval_.length; }

 protected:
  std::string word(const SequenceView& sequence, int t) const override {
    const std::int32_t token = sequence.tokens[t];
    if (token == reassign_tokens::kAsk) return "QRY";
    return token < first_value() ? fmt::format("k{}", token - reassign_tokens::kFirstKey)
                                 : answer_word(token);
  }
  std::string answer_word(std::int32_t answer) const override {
    return fmt::format("v{}", answer - first_value());
  }
  int answers() const override { return spec_.values; }

  /// random_in_context: a value written; first, most_recent: the one written first or last; unchanged: the one first
  /// written to the key.
  Shortcuts shortcuts(const SequenceView& s, int q) const override {
    const std::int32_t target = s.target[q];
    std::int32_t first = -1;
    int writes = 0, right = 0;
    for (; s.tokens[2 * writes] != reassign_tokens::kAsk; ++writes) {
      right += s.tokens[2 * writes + 1] == target;
      if (first < 0 && s.tokens[2 * writes] == s.query[q]) first = s.tokens[2 * writes + 1];
    }
    const auto is = [&](std::int32_t value) { return value == target ? 1.0 : 0.0; };
    return {{"random_in_context", right / static_cast<double>(writes)},
            {"first", is(s.tokens[1])},
            {"most_recent", is(s.tokens[2 * writes - 1])},
            {"unchanged", is(first)}};
  }

 private:
  int first_value() const { return reassign_tokens::kFirstKey + spec_.keys; }
  int length_, eval_length_;
};

/// Layout slots is mqar with updates.
MqarPlan plan_of(const Options& options) {
  const bool fresh = options.get_bool("task.fresh");
  MqarSpec spec;
  spec.keys = int_option(options, "keys");
  spec.values = int_option(options, "values");
  spec.length = int_option(options, "length");
  spec.pairs = int_option(options, "associations");
  spec.updates = narrow<std::int32_t>(updates_of(options), "updates of a sequence");
  spec.power = options.get_double("task.power");
  spec.random_filler = options.get_string("task.filler") == "random";
  spec.examples = fresh ? 0 : examples_of(options);
  return {.spec = spec,
          .eval_length = int_option(options, "eval_length"),
          .update_fraction = options.get_double("task.update_fraction"),
          .fresh = fresh,
          .segments = mqar_segments(options, "segments"),
          .test_segments = mqar_segments(options, "test_segments"),
          .names = {"task.associations", "task.keys or task.values"}};
}

/// Sets `key` to `derived` where it is 0; refuses anything else than `derived` if `fixed`.
void derive_length(Options& options, const std::string& key, std::int64_t derived, bool fixed) {
  const std::int64_t given = options.get_int(key);
  if (fixed && given != 0 && given != derived)
    refuse(
        options, key,
        fmt::format(
            " contradicts task.update_fraction, which fixes the length at {} (associations + updates); leave {} out",
            derived, key));
  if (given == 0) options.set(key, derived);
}

void check_fraction(const Options& options) {
  const double fraction = options.get_double("task.update_fraction");
  if (fraction < 0 && fraction != -1.0)
    refuse(options, "task.update_fraction",
           " is neither a fraction in 0 .. 1 nor -1 (keys drawn with replacement)");
}

void resolve_slots(Options& options) {
  if (options.get_double("task.update_fraction") < 0)
    throw OptionError(
        "task.update_fraction",
        "task.layout = \"slots\" shows every key once and updates a fraction of them: give "
        "task.update_fraction from 0 to 1, or set task.layout = \"split\" for keys with replacement");
  if (options.get_int("task.queries") != 1 || options.get_string("task.query_by") != "element")
    throw OptionError(
        "task.queries",
        "task.layout = \"slots\" asks every key once; leave task.queries and task.query_by out");
  std::int64_t most = options.get_int("task.associations");
  for (const char* name : {"segments", "test_segments"})
    for (const NumberGroup& group : mqar_segments(options, name)) most = std::max(most, group.numbers[1]);
  for (const char* key : {"task.keys", "task.values"})
    if (options.get_int(key) == 0) options.set(key, most);
  resolve_mqar(options, plan_of(options), "task.length", 0, 20);
  const std::int64_t pairs = options.get_int("task.associations");
  if (options.get_int("task.length") == 0) options.set("task.length", 4 * pairs + 2 * updates_of(options));
  if (options.get_int("task.eval_length") == 0)
    options.set("task.eval_length", options.get_int("task.length"));
  MqarPlan plan = plan_of(options);
  check_mqar(plan.spec, "task.length", "task.associations", plan.names);
  plan.spec.length = plan.eval_length;
  check_mqar(plan.spec, "task.eval_length", "task.associations", plan.names);
}

/// What belongs to other layouts.
void check_layout(const Options& options, const std::string& layout) {
  const auto refuse = [&](const std::string& key, const std::string& right) {
    throw OptionError(key,
                      fmt::format("{} belongs to task.layout = {}; leave it out, or set that", key, right));
  };
  if (layout != "split" && !options.get_string("task.curriculum").empty())
    refuse("task.curriculum", "\"split\"");
  if (layout == "slots") return;
  for (const OptionSpec& option : mqar_options())
    if (options.at("task." + option.name) != option.default_value) refuse("task." + option.name, "\"slots\"");
}

void resolve(Options& options) {
  const std::string layout = options.get_string("task.layout");
  const bool split = layout == "split";
  check_layout(options, layout);
  check_fraction(options);
  if (layout == "slots") return resolve_slots(options);
  if (split && updates_of(options) < 0) resolve_curriculum(options, "length", 0);
  if (split && updates_of(options) >= 0) resolve_curriculum(options, "associations", 20);
  resolve_vocabulary(options);
  const std::int64_t associations = options.get_int("task.associations");
  const std::int64_t updates = updates_of(options);
  const bool with_replacement = updates < 0;
  if (updates > 0 && options.get_int("task.values") < 2)
    refuse(options, "task.values", " leaves no different value for an update; give at least 2");
  derive_length(options, "task.length", with_replacement ? 2 * associations : associations + updates,
                !with_replacement);
  derive_length(options, "task.eval_length",
                !with_replacement ? associations + updates
                : split           ? options.get_int("task.length")
                                  : associations,
                !with_replacement);
  const std::int64_t queries = options.get_int("task.queries"), length = options.get_int("task.length");
  const bool by_element = options.get_string("task.query_by") == "element";
  const std::int64_t askable = by_element ? length : std::min(associations, length);
  if (queries > askable)
    refuse(options, "task.queries",
           fmt::format(" asks more {} than a training sequence can have; give at most {}",
                       by_element ? "elements" : "distinct keys", askable));
}

std::vector<OptionSpec> options() {
  std::vector<OptionSpec> all = with_vocabulary(
      {{"associations", 20, "keys in play (S)", 1, max_option_size},
       {"length", 0,
        "tokens of a training sequence, writes in layout split; 0 means 2 x associations, or the updates' least",
        0, max_option_size},
       {"eval_length", 0,
        "tokens of an evaluation sequence; 0 means as many as associations, as the released code of Schlag "
        "2021 evaluates (not the training length); layouts slots and split: as in training",
        0, max_option_size},
       {"queries", 1, "queries of a training sequence", 1, max_option_size},
       choice(
           "query_by", "element",
           "training queries: the key of a token drawn uniformly (element), or a distinct key present (key)",
           {"element", "key"}),
       {"update_fraction", -1.0,
        "-1: keys drawn with replacement; 0 .. 1: every key bound once, then this fraction updated", -1, 1},
       choice("layout", "fused",
              "a token is a whole write in channels (fused), or a key or a value (slots, split)",
              {"fused", "slots", "split"})});
  for (OptionSpec& option : mqar_options()) all.push_back(std::move(option));
  all.push_back(curriculum_option("writes (update_fraction = -1) or associations"));
  return all;
}

TaskKind kind() {
  return {
      "reassign",
      "write keys again and again, then retrieve: the last value is right",
      "A sequence holds `length` tokens, each a key together with its value, both drawn with replacement, so that keys are written several times; "
      "then a key is asked and the value written to it last is right. This is setting 2 of Schlag, Irie and Schmidhuber 2021 (arXiv 2102.11174, "
      "section 6.1.2). A memory that does not see the order of writes can at best read the mean of the m values written to a key and cannot get "
      "below 0.5 (1 - E[1/m]) (1 - 1/values) (sum_rule_floor_exact); a delta rule can. Training asks the key of a random element, so keys count as "
      "often as they occur; evaluation asks each key that occurs, once, in ascending order. The released code trains with 2 S tokens but evaluates "
      "with S: eval_length = 0 means the same here. With update_fraction in 0 .. 1 every key is first bound once and then that fraction of the keys "
      "gets another value, as in the forgetting test of Zoology: baseline_unchanged_accuracy is what ignoring the updates scores. For a language "
      "model the same comes in single tokens. layout = \"slots\" is Zoology's forgetting: k v for each of S distinct keys with distinct values, k v "
      "for each update (whose new value is another one; the released code excludes the old value of another key instead), then every key once at the "
      "head of a slot of two tokens, with fillers between, the answer due there (slots, power and filler as in task mqar; `length` counts tokens; "
      "ids are 0 blank, then keys, then values; mixtures name length:associations, and the fraction holds in each). layout = \"split\" writes k v "
      "for each of `length` writes, then [QRY k] for each of `queries`: with update_fraction = 0 it is \"remember\" of ARMT (Rodkin et al. 2024, "
      "arXiv 2407.04841, appendix B), with -1 \"rewrite\", where a key and a value are one token each (there strings of digits: 4,096 keys and 16 "
      "keys), and task.curriculum = \"1 2 3 5 10 20 40 50\" names their pairs. Of the numbers beside a query, `writes` tells whether its key was "
      "updated.",
      options(),
      resolve,
      [](const Options& options) -> std::unique_ptr<Task> {
        const std::string& layout = options.get_string("task.layout");
        if (layout == "slots") return make_mqar(plan_of(options));
        if (layout == "split") return std::make_unique<ReassignTokens>(options);
        return std::make_unique<Reassign>(options);
      }};
}

}  // namespace crosstalk::reassign_task
