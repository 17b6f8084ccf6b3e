// mqar: multi-query associative recall in token form, as Zoology draws it (Arora et al. 2023, arXiv 2312.04927).
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "kernels/base/error.h"
#include "tasks/draw_cuda.h"
#include "tasks/fused_task.h"
#include "tasks/mqar_sequence.h"
#include "tasks/number_groups.h"
#include "tasks/token_task.h"

namespace crosstalk {
namespace {

constexpr std::int64_t kLargestLength = 1 << 17;  // a slot has 16 bits
constexpr const char* kSegments = "64:4:100000 (length:pairs:sequences)";
constexpr const char* kTestSegments = "64:4 or 64:4:1000 (length:pairs:sequences)";

/// Why a sequence cannot be made; the key is the option that is wrong.
void check_sizes(std::int64_t vocabulary, std::int64_t length, std::int64_t pairs, std::int64_t passes,
                 const std::string& length_key, const std::string& pairs_key) {
  if (length % 2 != 0)
    throw OptionError(length_key,
                      fmt::format("{}: a length of {} is odd; slots have two tokens, give an even one",
                                  length_key, length));
  const std::int64_t needed = 2 * pairs * passes + 2 * pairs;
  if (needed > length)
    throw OptionError(
        length_key,
        fmt::format("{}: {} pairs need {} tokens of context and {} of slots, more than a length of "
                    "{}; give a length of at least {}, or at most {} pairs",
                    length_key, pairs, 2 * pairs * passes, 2 * pairs, length, needed,
                    length / (2 * passes + 2)));
  const std::int64_t keys = vocabulary / 2 - 1;
  if (pairs > keys)
    throw OptionError(pairs_key,
                      fmt::format("{}: {} pairs need as many distinct keys, but a vocabulary of {} has "
                                  "{} (1 .. {}); give task.vocabulary = {} or more",
                                  pairs_key, pairs, vocabulary, keys, keys, 2 * (pairs + 1)));
}

std::vector<NumberGroup> segments_of(const Options& options, const std::string& name) {
  const std::string key = "task." + name;
  const bool train = name == "segments";
  return number_groups(key, options.get_string(key), train ? 3 : 2, 3, std::int64_t{1} << 40,
                       train ? kSegments : kTestSegments);
}

class Mqar final : public TokenTask {
 public:
  explicit Mqar(const Options& options)
      : Mqar({int_option(options, "vocabulary"), int_option(options, "length"), int_option(options, "pairs"),
              int_option(options, "passes"), options.get_double("task.power"),
              options.get_string("task.filler") == "random", 0,
              options.get_bool("task.fresh")
                  ? 0
                  : static_cast<std::uint64_t>(options.get_int("task.examples"))}) {
    const bool fresh = options.get_bool("task.fresh");
    std::uint32_t part = 0;
    const auto segment = [&](const NumberGroup& group) {
      MqarSpec spec = spec_;
      spec.length = static_cast<std::int32_t>(group.numbers[0]);
      spec.pairs = static_cast<std::int32_t>(group.numbers[1]);
      const std::int64_t sequences = group.numbers.size() > 2 ? group.numbers[2] : 0;
      spec.part = ++part;
      spec.examples = fresh ? 0 : static_cast<std::uint64_t>(sequences);
      return TaskSegment{fmt::format("{}:{}", spec.length, spec.pairs), std::make_shared<Mqar>(spec),
                         sequences};
    };
    for (const NumberGroup& group : segments_of(options, "segments")) parts_.push_back(segment(group));
    part = 0;
    for (const NumberGroup& group : segments_of(options, "test_segments"))
      eval_parts_.push_back(segment(group));
    if (eval_parts_.empty())
      for (const TaskSegment& trained : parts_) eval_parts_.push_back({trained.name, trained.task, 0});
    // Sizes in evaluation are those of the longest segment there.
    for (const TaskSegment& part_of_eval : eval_parts_) {
      const auto& other = static_cast<const Mqar&>(*part_of_eval.task).spec_;
      if (&part_of_eval == &eval_parts_.front() ||
          std::pair(other.length, other.pairs) > std::pair(eval_.length, eval_.pairs))
        eval_.length = other.length, eval_.pairs = other.pairs;
    }
  }
  explicit Mqar(const MqarSpec& spec) : spec_(spec), eval_(spec) {}

  Vocabulary vocabulary() const override {
    return {.keys = 0, .values = spec_.vocabulary, .second_key = false, .tokens = spec_.vocabulary};
  }

  SequenceShape shape(Split split, int max_queries) const override {
    if (split == Split::train) return {spec_.length, 1, spec_.pairs};
    return {eval_.length, 1, capped_queries(eval_.pairs, max_queries)};
  }

  void sequence(std::uint64_t data_seed, Split split, std::uint64_t n, const SequenceView& out,
                std::int32_t* scratch) const override {
    check_shape(split, out);
    mqar_sequence(spec_of_split(split), data_seed, split, n, out, scratch);
  }

  int scratch_size() const override { return std::max(mqar_scratch_size(spec_), mqar_scratch_size(eval_)); }

  std::int64_t sequences(Split split) const override {
    return split == Split::train ? static_cast<std::int64_t>(spec_.examples) : 0;
  }

  std::int32_t reference_answer(const SequenceView& sequence, std::int32_t key, int position) const override {
    const int context = spec_of_length(sequence).context();
    std::int32_t answer = -1;
    for (int t = 0; t + 1 < std::min(position, context); t += 2)
      if (sequence.tokens[t] == key) answer = sequence.tokens[t + 1];
    return answer;
  }

  std::unique_ptr<Task> lengthened(int factor) const override {
    check_length_factor(factor);
    if (factor > 1 && !eval_parts_.empty())
      throw OptionError(
          "eval.length_factors",
          fmt::format("task mqar with task.segments or task.test_segments has no form {} times as "
                      "long; use factor 1, and name the longer ones in task.test_segments",
                      factor));
    auto longer = std::make_unique<Mqar>(*this);
    longer->eval_.length = lengthened_size(eval_.length, factor);
    longer->eval_.pairs = lengthened_size(eval_.pairs, factor);
    if (factor > 1 && (longer->eval_.length > kLargestLength || longer->eval_.pairs > spec_.keys()))
      throw OptionError(
          "eval.length_factors",
          fmt::format("a length factor of {} makes {} pairs in {} tokens; a vocabulary of {} has {} "
                      "keys, and at most {} tokens are supported",
                      factor, longer->eval_.pairs, longer->eval_.length, spec_.vocabulary, spec_.keys(),
                      kLargestLength));
    return longer;
  }

  int eval_load() const override { return eval_.pairs; }

 protected:
  std::string word(const SequenceView& sequence, int t) const override {
    const std::int32_t token = sequence.tokens[t];
    if (token == 0) return ".";
    return fmt::format("{}{}", token < spec_.vocabulary / 2 ? 'k' : 'v', token);
  }
  std::string answer_word(std::int32_t answer) const override { return fmt::format("v{}", answer); }

  int answers() const override { return spec_.values(); }

  /// random_in_context: any value of the context. first, most_recent: the value of the first or last pair. in_order: the
  /// q-th query is taken for the q-th pair, to which the law of gaps gives the better slots. unused: any value that was
  /// not an answer before, which distinct values allow.
  Shortcuts shortcuts(const SequenceView& sequence, int q) const override {
    const MqarSpec& spec = spec_of_length(sequence);
    const std::int32_t target = sequence.target[q];
    const auto value_of = [&](int pair) { return sequence.tokens[2 * pair + 1]; };
    return {{"random_in_context", 1.0 / spec.pairs},
            {"first", value_of(0) == target ? 1.0 : 0.0},
            {"most_recent", value_of(spec.pairs - 1) == target ? 1.0 : 0.0},
            {"in_order", value_of(q) == target ? 1.0 : 0.0},
            {"unused", 1.0 / (spec.pairs - q)}};
  }

 private:
  const MqarSpec& spec_of_split(Split split) const { return split == Split::train ? spec_ : eval_; }
  const MqarSpec& spec_of_length(const SequenceView& sequence) const {
    return sequence.shape.T == spec_.length ? spec_ : eval_;
  }
  void draw_cuda(const Exec& exec, const DrawArgs& args) const override {
    draw_on_cuda(spec_of_split(args.split), exec, args);
  }

  MqarSpec spec_, eval_;
};

/// With segments the task's own sizes are those of the longest one.
void resolve_segments(Options& options) {
  const std::int64_t vocabulary = options.get_int("task.vocabulary"), passes = options.get_int("task.passes");
  for (const std::string name : {"segments", "test_segments"}) {
    const std::string key = "task." + name;
    const std::vector<NumberGroup> groups = segments_of(options, name);
    std::pair<std::int64_t, std::int64_t> longest{0, 0};
    std::int64_t sequences = 0;
    for (const NumberGroup& group : groups) {
      if (group.numbers[0] > kLargestLength)
        throw OptionError(key, fmt::format("{}: a length of {} in {}; at most {} are supported", key,
                                           group.numbers[0], group.text, kLargestLength));
      check_sizes(vocabulary, group.numbers[0], group.numbers[1], passes, key, key);
      longest = std::max(longest, {group.numbers[0], group.numbers[1]});
      if (group.numbers.size() > 2) sequences += group.numbers[2];
    }
    if (groups.empty() || name != "segments") continue;
    const auto derive = [&](const std::string& own, std::int64_t standard, std::int64_t value) {
      const std::int64_t given = options.get_int(own);
      if (given != standard && given != value)
        throw OptionError(
            own, fmt::format("{} = {} contradicts task.segments, whose {} is {}; leave {} out", own, given,
                             own == "task.examples" ? "sum of sequences" : "longest segment", value, own));
      options.set(own, value);
    };
    derive("task.length", 64, longest.first);
    derive("task.pairs", 4, longest.second);
    derive("task.examples", 0, sequences);
  }
}

void resolve(Options& options) {
  resolve_segments(options);
  check_sizes(options.get_int("task.vocabulary"), options.get_int("task.length"),
              options.get_int("task.pairs"), options.get_int("task.passes"), "task.length", "task.pairs");
  if (options.get_bool("task.fresh") && options.get_int("task.examples") == 0)
    throw OptionError(
        "task.fresh",
        "task.fresh = true has no meaning without task.examples or task.segments: the stream has no "
        "end, and every sequence of it is new; leave it out");
}

}  // namespace

TaskKind mqar_kind() {
  return {
      "mqar",
      "multi-query associative recall in single tokens: pairs first, then each key once among fillers",
      "A sequence of `length` tokens begins with D = pairs keys, each followed by its value: k1 v1 .. kD vD, "
      "shown `passes` times. Keys are distinct ids of 1 .. vocabulary/2 - 1, values distinct ids of "
      "vocabulary/2 .. vocabulary - 1, 0 is blank. What follows is cut into slots of two tokens; D different "
      "slots begin with a key, each key once, and the answer, due at that token, is its value, which is not "
      "in "
      "the input there. Slot i = 1 .. n is drawn with weight i^(power - 1), one after the other without "
      "replacement, and the slots drawn first go to the keys that were shown first; power = 1 is uniform, "
      "0.01 "
      "asks most keys soon. All other tokens are blank (filler = zero) or any id, keys and values among them "
      "(filler = random). Layout, labels and law are those of Zoology (Arora et al. 2023, arXiv 2312.04927). "
      "With examples = N training has N sequences, the same ones in the same order in every epoch, as there; "
      "with fresh = true every epoch has new ones. A mixture is named by its segments: "
      "task.segments = \"64:4:100000 128:8:20000\" trains on 100,000 sequences of length 64 with 4 pairs in "
      "an "
      "epoch, then 20,000 of length 128 with 8 pairs; task.test_segments = \"64:4 1024:256\" evaluates on "
      "those, "
      "each on as many sequences as eval.sequences says or as a third number says, and says so for each. A "
      "guess among the values in the context is right once in `pairs` (baseline_random_in_context_accuracy); "
      "baseline_in_order_accuracy is what the order of the gaps gives away.",
      {{"vocabulary", std::int64_t{8192}, "token ids: one blank, keys, values (half of all)", 4, 1 << 20},
       {"length", std::int64_t{64}, "tokens of a sequence; even", 4, kLargestLength},
       {"pairs", std::int64_t{4}, "keys with their values in a sequence (D)", 1, kLargestLength / 4},
       {"power", 0.01, "of the law of gaps: slot i has weight i^(power - 1); 1 is uniform", 0, 16, {}, true},
       {"passes", std::int64_t{1}, "times that the pairs are shown before the queries", 1, 64},
       {"filler", std::string("zero"), "tokens between the queries", 0, 0, {"zero", "random"}},
       {"examples", std::int64_t{0},
        "sequences of an epoch of training; 0 means no end (with task.segments: what they add up to)", 0,
        1099511627776.0},
       {"fresh", false, "whether every epoch has new sequences"},
       {"segments", std::string(), "training on a mixture: length:pairs:sequences, one after the other"},
       {"test_segments", std::string(),
        "evaluation on a mixture: length:pairs or length:pairs:sequences; empty means as in training"}},
      resolve,
      [](const Options& options) -> std::unique_ptr<Task> { return std::make_unique<Mqar>(options); }};
}

}  // namespace crosstalk
