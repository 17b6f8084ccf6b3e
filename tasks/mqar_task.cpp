// SPDX-License-Identifier: Apache-2.0
#include "tasks/mqar_task.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/base/text/narrow.h"
#include "tasks/drawn_task.h"

namespace crosstalk {
namespace {

MqarSpec resized(MqarSpec spec, std::int64_t length, std::int64_t pairs, double update_fraction) {
  spec.length = narrow<std::int32_t>(length, "length of a sequence");
  spec.pairs = narrow<std::int32_t>(pairs, "pairs of a sequence");
  spec.updates = mqar_updates(update_fraction, pairs);
  return spec;
}

class Mqar final : public DrawnTask<Mqar, TokenTask, mqar_sequence, mqar_scratch_size> {
 public:
  Mqar(const MqarSpec& spec, const MqarSpec& eval, double update_fraction)
      : DrawnTask(spec), update_fraction_(update_fraction) {
    eval_ = eval;
  }

  explicit Mqar(const MqarPlan& plan)
      : Mqar(plan.spec,
             resized(plan.spec, plan.eval_length > 0 ? plan.eval_length : plan.spec.length, plan.spec.pairs,
                     plan.update_fraction),
             plan.update_fraction) {
    std::uint32_t part = 0;
    const auto segment = [&](const NumberGroup& group) {
      MqarSpec spec = resized(spec_, group.numbers[0], group.numbers[1], update_fraction_);
      const std::int64_t sequences = group.numbers.size() > 2 ? group.numbers[2] : 0;
      spec.part = ++part;
      spec.examples = plan.fresh ? 0 : static_cast<std::uint64_t>(sequences);
      return TaskSegment{fmt::format("{}:{}", spec.length, spec.pairs),
                         std::make_shared<Mqar>(spec, spec, update_fraction_), sequences};
    };
    for (const NumberGroup& group : plan.segments) parts_.push_back(segment(group));
    part = 0;
    for (const NumberGroup& group : plan.test_segments) eval_parts_.push_back(segment(group));
    if (eval_parts_.empty())
      for (const TaskSegment& trained : parts_) eval_parts_.push_back({trained.name, trained.task, 0});
    // Sizes in evaluation are those of the longest segment there.
    std::pair<std::int32_t, std::int32_t> longest{0, 0};
    for (const TaskSegment& evaluated : eval_parts_) {
      const MqarSpec& spec = static_cast<const Mqar&>(*evaluated.task).spec_;
      longest = std::max(longest, {spec.length, spec.pairs});
    }
    if (!eval_parts_.empty()) eval_ = resized(eval_, longest.first, longest.second, update_fraction_);
  }

  Vocabulary vocabulary() const override { return token_vocabulary(spec_.vocabulary()); }

  SequenceShape full_shape(Split split) const override { return {of(split).length, 1, of(split).pairs}; }

  int scratch_size() const override {
    int size = DrawnTask::scratch_size();
    for (const auto* parts : {&parts_, &eval_parts_})
      for (const TaskSegment& part : *parts) size = std::max(size, part.task->scratch_size());
    return size;
  }

  std::int32_t reference_answer(const SequenceView& sequence, std::int32_t key, int position) const override {
    const int context = spec_of_length(sequence).context();
    std::int32_t answer = -1;
    for (int t = 0; t + 1 < std::min(position, context); t += 2)
      if (sequence.tokens[t] == key) answer = sequence.tokens[t + 1];
    return answer;
  }

  void lengthen(int factor) override {
    if (!eval_parts_.empty())
      refuse_longer(factor, "a mixture by task.segments or task.test_segments",
                    "it has the lengths that are named", "and name the longer ones in task.test_segments");
    if (factor == 1) return;
    eval_ = resized(eval_, lengthened_size(eval_.length, factor), lengthened_size(eval_.pairs, factor),
                    update_fraction_);
    if (eval_.length > mqar_largest_length || eval_.pairs > spec_.keys || eval_.pairs > spec_.values)
      throw OptionError(
          "eval.length_factors",
          fmt::format(
              "a length factor of {} makes {} pairs in {} tokens; there are {} keys and {} values, and at most {} tokens are supported",
              factor, eval_.pairs, eval_.length, spec_.keys, spec_.values, mqar_largest_length));
  }

  int eval_load() const override { return eval_.pairs; }

 protected:
  std::string word(const SequenceView& sequence, int t) const override {
    const std::int32_t token = sequence.tokens[t];
    return token == 0 ? "." : token < spec_.first_value() ? fmt::format("k{}", token) : answer_word(token);
  }
  std::string answer_word(std::int32_t answer) const override { return fmt::format("v{}", answer); }

  int answers() const override { return spec_.values; }

  /// random_in_context: a value shown there. first, most_recent: the value shown first or last. in_order: the q-th query
  /// is taken for the q-th pair, to which the law of gaps gives the better slots. unused: any value that was not an answer
  /// before, which distinct values allow. unchanged: the value before updates.
  Shortcuts shortcuts(const SequenceView& sequence, int q) const override {
    const MqarSpec& spec = spec_of_length(sequence);
    const std::int32_t target = sequence.target[q], *tokens = sequence.tokens;
    double shown = 0;
    for (int t = 1; t < spec.context(); t += 2) shown += tokens[t] == target;
    const auto is = [&](std::int32_t value) { return value == target ? 1.0 : 0.0; };
    Shortcuts guesses = {{"random_in_context", shown / (spec.context() / 2)},
                         {"first", is(tokens[1])},
                         {"most_recent", is(tokens[spec.context() - 1])}};
    // Without updates the answer of a key is the value beside it; with them, what it holds in the end.
    guesses["in_order"] = is(reference_answer(sequence, tokens[2 * q], sequence.shape.T));
    if (spec.updates == 0) guesses["unused"] = 1.0 / (spec.pairs - q);
    if (spec.updates > 0)
      guesses["unchanged"] = is(reference_answer(sequence, sequence.query[q], spec.bindings()));
    return guesses;
  }

 private:
  const MqarSpec& spec_of_length(const SequenceView& sequence) const {
    return sequence.shape.T == spec_.length ? spec_ : eval_;
  }
  double update_fraction_;
};

constexpr const char* kSegments = "64:4:100000 (length:pairs:sequences)";
/// Of an epoch, as task.examples; of an evaluation, which reads all of them at once and counts with 32 bits.
constexpr std::int64_t kMostSequences = std::int64_t{1} << 40, kMostTestSequences = std::int64_t{1} << 24;
constexpr const char* kTestSegments = "64:4 or 64:4:1000 (length:pairs:sequences)";

}  // namespace

std::int32_t mqar_updates(double fraction, std::int64_t pairs) {
  return narrow<std::int32_t>(std::llround(fraction * static_cast<double>(pairs)), "updates of a sequence");
}

void check_mqar(const MqarSpec& spec, const std::string& length_key, const std::string& pairs_key,
                const MqarNames& names) {
  if (spec.length > mqar_largest_length)
    throw OptionError(length_key, fmt::format("{}: a length of {}; at most {} are supported", length_key,
                                              spec.length, mqar_largest_length));
  if (spec.length % 2 != 0)
    throw OptionError(length_key,
                      fmt::format("{}: a length of {} is odd; slots have two tokens, give an even one",
                                  length_key, spec.length));
  const std::int64_t pairs = spec.pairs, context = 2 * pairs * spec.passes + 2 * std::int64_t{spec.updates},
                     needed = context + 2 * pairs;
  if (needed > spec.length)
    throw OptionError(
        length_key,
        fmt::format(
            "{}: {} pairs need {} tokens of context and {} of slots, more than a length of {}; give a length of at least {}, or fewer pairs",
            length_key, pairs, context, 2 * pairs, spec.length, needed));
  if (pairs > spec.keys || pairs > spec.values)
    throw OptionError(
        pairs_key,
        fmt::format(
            "{}: {} pairs need as many distinct keys and values, but there are {} and {}; give fewer pairs, or a larger {}",
            pairs_key, pairs, spec.keys, spec.values, names.more_keys));
  if (spec.updates > 0 && spec.values < 2)
    throw OptionError(pairs_key,
                      fmt::format("{}: one value leaves no different one for an update; give a larger {}",
                                  pairs_key, names.more_keys));
}

std::vector<OptionSpec> mqar_options() {
  return {
      {"power", 0.01, "of the law of gaps: slot i has weight i^(power - 1); 1 is uniform", 0, 16, {}, true},
      choice("filler", "zero", "tokens between the queries", {"zero", "random"}),
      {"examples", 0,
       "sequences of an epoch of training; 0 means no end (with task.segments: what they add up to)", 0,
       1099511627776.0},
      {"fresh", false, "whether every epoch has new sequences"},
      {"segments", "", "training on a mixture: length:pairs:sequences, one after the other"},
      {"test_segments", "",
       "evaluation on a mixture: length:pairs or length:pairs:sequences; empty means as in training"}};
}

std::vector<NumberGroup> mqar_segments(const Options& options, const std::string& name) {
  const bool train = name == "segments";
  const std::string key = "task." + name;
  const std::int64_t most = train ? kMostSequences : kMostTestSequences;
  std::vector<NumberGroup> groups =
      number_groups(key, options.get_string(key), train ? 3 : 2, 3, most, train ? kSegments : kTestSegments);
  std::int64_t sequences = 0;
  for (const NumberGroup& group : groups) {
    if (group.numbers[0] > mqar_largest_length || group.numbers[1] > mqar_largest_length)
      throw OptionError(key, fmt::format("{}: {} is too long; at most {} tokens are supported", key,
                                         group.text, mqar_largest_length));
    if (group.numbers.size() > 2) sequences += group.numbers[2];
    if (sequences > most)
      throw OptionError(key, fmt::format("{}: up to {} there are {} sequences; at most {} are supported", key,
                                         group.text, sequences, most));
  }
  return groups;
}

void resolve_mqar(Options& options, const MqarPlan& plan, const std::string& length_key,
                  std::int64_t standard_length, std::int64_t standard_pairs) {
  for (const std::string name : {"segments", "test_segments"}) {
    const std::string key = "task." + name;
    const std::vector<NumberGroup> groups = mqar_segments(options, name);
    std::pair<std::int64_t, std::int64_t> longest{0, 0};
    std::int64_t sequences = 0;
    for (const NumberGroup& group : groups) {
      check_mqar(resized(plan.spec, group.numbers[0], group.numbers[1], plan.update_fraction), key, key,
                 plan.names);
      longest = std::max(longest, {group.numbers[0], group.numbers[1]});
      if (group.numbers.size() > 2) sequences += group.numbers[2];
    }
    if (groups.empty() || name != "segments") continue;
    const auto derive = [&](const std::string& own, std::int64_t standard, std::int64_t value,
                            const char* what) {
      const std::int64_t given = options.get_int(own);
      if (given != standard && given != value)
        refuse(options, own,
               fmt::format(" contradicts task.segments, where {} is {}; leave {} out", what, value, own));
      options.set(own, value);
    };
    derive(length_key, standard_length, longest.first, "the longest length");
    derive(plan.names.pairs, standard_pairs, longest.second, "its number of pairs");
    derive("task.examples", 0, sequences, "the sum of sequences");
  }
  if (options.get_bool("task.fresh") && options.get_int("task.examples") == 0)
    throw OptionError(
        "task.fresh",
        "task.fresh = true has no meaning without task.examples or task.segments: the stream has "
        "no end, and every sequence of it is new; leave it out");
}

std::unique_ptr<Task> make_mqar(const MqarPlan& plan) { return std::make_unique<Mqar>(plan); }

}  // namespace crosstalk
