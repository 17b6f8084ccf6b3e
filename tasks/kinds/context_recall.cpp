// context_recall: the value of a key depends on the context in which the key is asked.
// SPDX-License-Identifier: Apache-2.0
#include <map>

#include "tasks/drawn_task.h"
#include "tasks/kinds/context_recall_sequence.h"
#include "tasks/mqar_task.h"

namespace crosstalk::context_recall_task {

ContextRecallSpec spec_of(const Options& options) {
  ContextRecallSpec spec;
  spec.contexts = int_option(options, "contexts");
  spec.pairs = int_option(options, "pairs");
  spec.context_ids = int_option(options, "context_vocabulary");
  spec.key_ids = int_option(options, "key_vocabulary");
  spec.value_ids = int_option(options, "vocabulary") - 1 - spec.context_ids - spec.key_ids;
  spec.length = int_option(options, "length");
  spec.triples = options.get_string("task.layout") == "triples";
  spec.by_zone = options.get_string("task.query_by") == "zone";
  spec.shared = options.get_string("task.keys") == "shared";
  spec.distinct = options.get_string("task.values") == "distinct";
  spec.random_filler = options.get_string("task.filler") == "random";
  spec.power = options.get_double("task.power");
  spec.examples = examples_of(options);
  return spec;
}

/// The fewest tokens that hold what is shown and what is asked.
std::int64_t least_length(const ContextRecallSpec& spec) {
  const std::int64_t records = std::int64_t{spec.contexts} * spec.pairs,
                     shown = spec.triples ? 3 * records : spec.contexts + 2 * records,
                     asked = spec.by_zone ? spec.contexts + 2 * records : 3 * records;
  return shown + asked;
}

void check(const ContextRecallSpec& spec, const std::string& size_key) {
  if (spec.length < least_length(spec))
    throw OptionError(
        size_key,
        fmt::format("{}: {} keys in {} contexts are shown and asked in {} tokens, more than a length of {}; "
                    "give a length of at least that, or fewer keys",
                    size_key, spec.pairs, spec.contexts, least_length(spec), spec.length));
  const auto refuse = [&](const char* key, const char* what, std::int64_t needed, std::int32_t there) {
    throw OptionError(
        key, fmt::format("{}: a sequence has {} different {}, and there are {}; give fewer, or a larger {}",
                         key, needed, what, std::max(there, 0), key));
  };
  const std::int64_t records = std::int64_t{spec.contexts} * spec.pairs,
                     keys = spec.shared ? spec.pairs : records;
  if (spec.contexts > spec.context_ids)
    refuse("task.context_vocabulary", "contexts", spec.contexts, spec.context_ids);
  if (keys > spec.key_ids) refuse("task.key_vocabulary", "keys", keys, spec.key_ids);
  if (spec.value_ids < (spec.distinct ? records : 1))
    refuse("task.vocabulary", "values", spec.distinct ? records : 1, spec.value_ids);
}

class ContextRecall final
    : public DrawnTask<ContextRecall, TokenTask, context_recall_sequence, context_recall_scratch_size> {
 public:
  explicit ContextRecall(const Options& options) : DrawnTask(spec_of(options)) {}

  Vocabulary vocabulary() const override { return token_vocabulary(spec_.vocabulary()); }
  SequenceShape full_shape(Split split) const override { return {of(split).length, 1, of(split).records()}; }

  std::int32_t reference_answer(const SequenceView& sequence, std::int32_t key, int position) const override {
    const Shown shown = replay(sequence, position);
    auto context = shown.values.find(shown.context);
    if (eval_.confused && ++context == shown.values.end()) context = shown.values.begin();
    const auto found = context->second.find(key);
    return found == context->second.end() ? -1 : found->second;
  }

  std::vector<KeyWrite> writes(const SequenceView& sequence) const override {
    std::vector<KeyWrite> all;
    std::int32_t context = -1;
    for (int t = 0; t < shown_of(sequence).shown(); ++t) {
      const std::int32_t token = sequence.tokens[t];
      if (token < spec_.first_key()) context = token;
      if (token >= spec_.first_value()) all.push_back({t + 1, context, sequence.tokens[t - 1], token});
    }
    return all;
  }
  std::int32_t context_of(const SequenceView& sequence, int q) const override {
    return replay(sequence, sequence.query_position[q]).context;
  }

  void lengthen(int factor) override {
    eval_.length = lengthened_size(spec_.length, factor);
    eval_.pairs = lengthened_size(spec_.pairs, factor);
    if (factor > 1) check(eval_, "eval.length_factors");
  }
  int eval_load() const override { return eval_.records(); }

  std::unique_ptr<Task> confused() const override {
    if (!spec_.shared || spec_.contexts < 2) return nullptr;
    auto other = std::make_unique<ContextRecall>(*this);
    other->eval_.confused = true;
    return other;
  }

 protected:
  std::string word(const SequenceView& sequence, int t) const override {
    const std::int32_t token = sequence.tokens[t];
    return token == 0                    ? "."
           : token < spec_.first_key()   ? fmt::format("c{}", token)
           : token < spec_.first_value() ? fmt::format("k{}", token)
                                         : answer_word(token);
  }
  std::string answer_word(std::int32_t answer) const override { return fmt::format("v{}", answer); }
  int answers() const override { return spec_.value_ids; }

  /// any_context: the key's value in a context of the sequence. last_context: in the one in which it was shown last.
  /// own_context: any value of the context asked. random_in_context, first, most_recent: of all values shown.
  Shortcuts shortcuts(const SequenceView& sequence, int q) const override {
    const std::int32_t target = sequence.target[q], key = sequence.query[q];
    const Shown shown = replay(sequence, sequence.query_position[q]);
    double all = 0, all_right = 0, of_key = 0, key_right = 0, own = 0, own_right = 0;
    for (const auto& [context, values] : shown.values)
      for (const auto& [k, value] : values) {
        const double right = value == target ? 1 : 0;
        all += 1, all_right += right;
        if (k == key) of_key += 1, key_right += right;
        if (context == shown.context) own += 1, own_right += right;
      }
    const auto is = [&](std::int32_t value) { return value == target ? 1.0 : 0.0; };
    return {
        {"random_in_context", all_right / all},
        {"any_context", key_right / of_key},
        {"own_context", own_right / own},
        {"last_context", is(shown.latest.at(key))},
        {"first", is(sequence.tokens[2])},
        {"most_recent", is(sequence.tokens[(sequence.shape.T == spec_.length ? spec_ : eval_).shown() - 1])}};
  }

 private:
  /// What the tokens say, one after the other.
  struct Shown {
    std::map<std::int32_t, std::map<std::int32_t, std::int32_t>> values;  ///< context -> key -> value
    std::map<std::int32_t, std::int32_t> latest;                          ///< of a key, whatever the context
    std::int32_t context = -1;                                            ///< the last one
  };
  const ContextRecallSpec& shown_of(const SequenceView& sequence) const {
    return sequence.shape.T == spec_.length ? spec_ : eval_;
  }
  Shown replay(const SequenceView& sequence, int position) const {
    Shown shown;
    const ContextRecallSpec& spec = shown_of(sequence);
    std::int32_t key = -1;
    for (int t = 0; t < std::min(position, spec.shown()); ++t) {
      const std::int32_t token = sequence.tokens[t];
      if (token < spec_.first_key()) {
        shown.context = token;
      } else if (token < spec_.first_value()) {
        key = token;
      } else {
        shown.values[shown.context][key] = shown.latest[key] = token;
      }
    }
    // What is asked follows a context, or stands in its zone; other tokens there say nothing.
    const int asked = position - 1 - spec.shown();
    if (asked >= 0)
      shown.context =
          sequence.tokens[spec.by_zone ? spec.shown() + asked / spec.zone() * spec.zone() : position - 2];
    return shown;
  }
};

void resolve(Options& options) {
  if (options.get_int("task.context_vocabulary") == 0)
    options.set("task.context_vocabulary", options.get_int("task.contexts"));
  if (options.get_int("task.key_vocabulary") == 0)
    options.set(
        "task.key_vocabulary",
        std::max<std::int64_t>(
            1, (options.get_int("task.vocabulary") - 1 - options.get_int("task.context_vocabulary")) / 2));
  check(spec_of(options), "task.length");
}

TaskKind kind() {
  return {
      "context_recall",
      "the same keys with other values in every context: context-dependent and joint recall",
      "A sequence shows `contexts` contexts and in each of them `pairs` keys with a value; with keys = \"shared\" these are the same keys in all, so "
      "that no answer follows from the key alone (\"unique\" is the control). layout = \"blocks\": a context, its keys and values, the next context; "
      "\"triples\": a context, a key and a value for each record, in random order. Then query_by = \"zone\" gives every context an equal part of the "
      "rest, which names it once and then asks its keys, as context-dependent associative recall (CDAR: Switching Linear Attention 2026, section "
      "5.2: length 1024, vocabulary 8192, 4 contexts of 32 keys, all values distinct, examples = 100000; how the paper cuts zones and numbers "
      "contexts is not printed, so equal zones and the ids behind the blank are ours); \"pair\" names the context before every key, as joint recall "
      "(arXiv 2507.00449: a state of |U| values errs on at least 1 - |U| / |V|^n of n = contexts x pairs records). With layout = \"triples\" and "
      "query_by = \"pair\" it is Zoology's compositional MQAR (grids of contexts = pairs = sqrt(D), thirds of the ids for each part of a key and for "
      "values, filler = \"random\"; its fillers come from a generator that its seed does not set). Slots are drawn by the law of mqar, and the "
      "answer, due at the key, is not in the input there. Ids: 0 blank, contexts, keys, values. test_accuracy_other_context is how often the answer "
      "is the key's value in another context, and context_gap = test_accuracy minus that: 0 for a model that is blind to contexts. "
      "baseline_any_context_accuracy is what such a model scores, baseline_own_context_accuracy one that is blind to keys, "
      "baseline_last_context_accuracy one that overwrites.",
      {{"contexts", 4, "contexts of a sequence", 1, 1 << 12},
       {"pairs", 32, "keys of a context", 1, 1 << 15},
       {"length", 1024, "tokens of a sequence", 4, mqar_largest_length},
       {"vocabulary", 8192, "token ids: one blank, contexts, keys, values", 4, 1 << 20},
       {"context_vocabulary", 0, "of them contexts; 0 means as many as a sequence has", 0, 1 << 20},
       {"key_vocabulary", 0, "of them keys; 0 means half of what contexts leave", 0, 1 << 20},
       choice("layout", "blocks", "how records are shown", {"blocks", "triples"}),
       choice("query_by", "zone", "whether a context is named once for its keys, or before each",
              {"zone", "pair"}),
       choice("keys", "shared", "whether contexts have the same keys", {"shared", "unique"}),
       choice("values", "distinct", "whether values of a sequence differ", {"distinct", "any"}),
       {"power", 0.01, "of the law of gaps: slot i has weight i^(power - 1); 1 is uniform", 0, 16, {}, true},
       choice("filler", "zero", "tokens between what is asked: blank, or any id", {"zero", "random"}),
       examples_option()},
      resolve,
      make<ContextRecall>};
}

}  // namespace crosstalk::context_recall_task
