// swap: can a memory exchange what two keys hold? (state tracking; DeltaFormer, arXiv 2505.19488)
// SPDX-License-Identifier: Apache-2.0
#include <numeric>

#include "tasks/drawn_task.h"
#include "tasks/kinds/swap_sequence.h"

namespace crosstalk::swap_task {

SwapSpec spec_of(const Options& options, SwapLayout layout) {
  return {int_option(options, "associations"),
          int_option(options, "keys"),
          int_option(options, "values"),
          int_option(options, "operations"),
          options.get_double("task.identity_fraction"),
          options.get_double("task.set_fraction"),
          options.get_string("task.query_at") == "every",
          layout,
          int_option(options, "queries")};
}

class Swap final : public DrawnTask<Swap, FusedTask, swap_sequence, swap_scratch_size> {
 public:
  explicit Swap(const Options& options) : DrawnTask(spec_of(options, SwapLayout::fused)) {}

  Vocabulary vocabulary() const override { return {spec_.keys, spec_.values, true}; }

  SequenceShape full_shape(Split split) const override {
    const int operations = of(split).operations;
    return {spec_.associations + operations, 3,
            spec_.query_every       ? operations
            : split == Split::train ? spec_.queries
                                    : spec_.associations};
  }

  void lengthen(int factor) override { eval_.operations = lengthened_size(spec_.operations, factor); }

  int eval_load() const override { return eval_.operations; }
};

/// Layouts tag and split, for the language model.
class SwapTokens final : public DrawnTask<SwapTokens, TokenTask, swap_sequence, swap_scratch_size> {
 public:
  explicit SwapTokens(const Options& options)
      : DrawnTask(spec_of(options,
                          options.get_string("task.layout") == "tag" ? SwapLayout::tag : SwapLayout::split)) {
    add_stages(options, "operations", [](SwapTokens& stage, int size, std::uint32_t) {
      stage.spec_.operations = stage.eval_.operations = size;
    });
  }

  Vocabulary vocabulary() const override {
    const int n = spec_.associations;
    if (tag())
      return {.keys = 0,
              .values = n,
              .second_key = false,
              .tokens = swap_tokens::pairs(n) + (spec_.identity_fraction > 0 ? 1 : 0)};
    const int tokens = first_value() + spec_.values;
    return token_vocabulary(tokens);
  }

  SequenceShape full_shape(Split split) const override {
    const int operations = of(split).operations, n = spec_.associations;
    const int all = spec_.query_every ? operations : tag() ? 1 : spec_.queries;
    return {tag() ? operations : 3 * n + 3 * operations + 2 * all, 1, all};
  }

  std::int32_t reference_answer(const SequenceView& s, std::int32_t key, int position) const override {
    if (tag()) {
      std::vector<std::int32_t> element(static_cast<std::size_t>(spec_.associations));
      std::iota(element.begin(), element.end(), 0);
      for (int t = 0; t < position; ++t)
        if (const auto [a, b] = places(s.tokens[t]); a >= 0)
          std::swap(element[static_cast<std::size_t>(a)], element[static_cast<std::size_t>(b)]);
      return element[0];
    }
    std::map<std::int32_t, std::int32_t> bound;
    for (int t = 0; t + 2 < position; ++t) {
      const std::int32_t *token = s.tokens + t, what = *token;
      if (what == swap_tokens::kSet) bound[token[1]] = token[2];
      if (what == swap_tokens::kSwap) std::swap(bound[token[1]], bound[token[2]]);
    }
    const auto found = bound.find(key);
    return found == bound.end() ? -1 : found->second;
  }

  /// What SET says; of the layout tag, the elements that lie at their own places before the first operation.
  std::vector<KeyWrite> writes(const SequenceView& s) const override {
    std::vector<KeyWrite> all;
    if (tag()) {
      for (std::int32_t i = 0; i < spec_.associations; ++i) all.push_back({0, 0, place_key(i), i});
      return all;
    }
    for (int t = 0; t + 2 < s.shape.T; ++t)
      if (s.tokens[t] == swap_tokens::kSet) all.push_back({t + 3, 0, s.tokens[t + 1], s.tokens[t + 2]});
    return all;
  }
  std::int32_t asked_key(const SequenceView& s, int q) const override {
    return tag() ? place_key(0) : s.query[q];
  }

  void lengthen(int factor) override {
    eval_.operations = lengthened_size(spec_.operations, factor);
    lengthened_size(shape(Split::eval, 0).T, 1);
  }

  int eval_load() const override { return eval_.operations; }

 protected:
  std::string word(const SequenceView& sequence, int t) const override {
    const std::int32_t token = sequence.tokens[t];
    if (tag()) {
      const auto [a, b] = places(token);
      return a < 0 ? "()" : fmt::format("({} {})", a, b);
    }
    static constexpr const char* names[] = {"SET", "SWAP", "QRY"};
    if (token < swap_tokens::kFirstKey) return names[token];
    return token < first_value() ? fmt::format("k{}", token - swap_tokens::kFirstKey) : answer_word(token);
  }
  std::string answer_word(std::int32_t answer) const override {
    return tag() ? fmt::format("{}", answer) : fmt::format("v{}", answer - first_value());
  }
  int answers() const override { return spec_.values; }

  /// unchanged: element 0, or the value first set; random_in_context, of the layout split: a value that was set.
  Shortcuts shortcuts(const SequenceView& s, int q) const override {
    const std::int32_t target = s.target[q];
    if (tag()) return {{"unchanged", target == 0 ? 1.0 : 0.0}};
    std::int32_t first = -1;
    double sets = 0, right = 0;
    for (int t = 0; t < s.query_position[q]; ++t) {
      if (s.tokens[t] != swap_tokens::kSet) continue;
      if (s.tokens[t + 1] == s.query[q] && first < 0) first = s.tokens[t + 2];
      ++sets, right += s.tokens[t + 2] == target;
    }
    return {{"unchanged", first == target ? 1.0 : 0.0}, {"random_in_context", right / sets}};
  }

 private:
  bool tag() const { return spec_.layout == SwapLayout::tag; }
  /// A place as a key that is no element.
  std::int32_t place_key(std::int32_t place) const { return spec_.associations + place; }
  int first_value() const { return swap_tokens::kFirstKey + spec_.keys; }
  /// The pair that a token of layout tag names, in the order of pairs; -1 for the identity.
  std::pair<int, int> places(std::int32_t token) const {
    for (int a = 0, id = 0; a < spec_.associations; ++a)
      for (int b = a + 1; b < spec_.associations; ++b, ++id)
        if (id == token) return {a, b};
    return {-1, -1};
  }
};

/// Layouts of single tokens: what has no meaning there.
void resolve_layout(Options& options) {
  const std::string& layout = options.get_string("task.layout");
  if (layout == "fused") {
    if (!options.get_string("task.curriculum").empty())
      throw OptionError(
          "task.curriculum",
          "task.curriculum belongs to single tokens; leave it out, or set task.layout = \"tag\" or \"split\"");
    return;
  }
  resolve_curriculum(options, "operations", 16);
  if (layout == "split") return;
  const std::int64_t n = options.get_int("task.associations");
  for (const auto& [key, only] : {std::pair<const char*, OptionValue>{"task.keys", n},
                                  {"task.values", n},
                                  {"task.queries", 1},
                                  {"task.set_fraction", 0.0}})
    if (options.at(key) != only)
      refuse(options, key,
             fmt::format(
                 " has no meaning with task.layout = \"tag\", where {0} elements lie at {0} places and swaps "
                 "are all that happens; leave it out, or set task.layout = \"split\"",
                 n));
  constexpr std::int64_t most = 1448;  // about a million tokens
  if (n > most)
    refuse(options, "task.associations",
           fmt::format(" makes {} tokens, one for each pair; give at most {} with task.layout = \"tag\"",
                       n * (n - 1) / 2, most));
}

void resolve(Options& options) {
  resolve_vocabulary(options);
  resolve_layout(options);
  const double identity = options.get_double("task.identity_fraction");
  const double set = options.get_double("task.set_fraction");
  if (identity + set > 1.0)
    throw OptionError(
        "task.set_fraction",
        fmt::format(
            "task.identity_fraction = {} and task.set_fraction = {} add up to more than 1; what they leave of 1 is the fraction of swaps",
            identity, set));
  const std::int64_t queries = options.get_int("task.queries");
  const std::int64_t associations = options.get_int("task.associations");
  if (options.get_string("task.query_at") == "every" && queries != 1)
    refuse(
        options, "task.queries",
        " has no meaning with task.query_at = \"every\", which asks one key after every operation; leave it out, or set task.query_at = \"end\"");
  if (queries > associations)
    refuse(options, "task.queries",
           fmt::format(" asks more distinct keys than the task.associations = {0} in play; give at most {0}",
                       associations));
}

TaskKind kind() {
  return {
      "swap",
      "bind n keys, exchange the values of two keys again and again, then retrieve: state tracking",
      "A sequence first binds n = associations keys to distinct values, one token each, then holds `operations` tokens that each name two keys and "
      "no value: their values change places. A key is asked and the value that it holds by then is right. This is the tracking problem of "
      "DeltaFormer (Zhong et al. 2025, arXiv 2505.19488) with both keys in one token. Writing value zero under the difference of the two keys by a "
      "delta rule with beta = 2 (key of norm 1) is a reflection that exchanges them exactly; beta in (0, 1) has no negative eigenvalue and cannot do "
      "it. Swaps alone reach only every other permutation at a given step: identity_fraction mixes in operations that change nothing, set_fraction "
      "operations that overwrite a key with a value drawn from all values. With query_at = \"every\" one key drawn uniformly is asked after every "
      "operation, in training and evaluation; with \"end\" keys are asked after the last one (evaluation: all n). baseline_unchanged_accuracy is "
      "what reading the first binding scores. layout = \"tag\" is the paper's own experiment for a language model (appendix G.1, there n = 5 and 16 "
      "operations, which are the defaults here): one token names a pair of places, n (n - 1) / 2 tokens in all and one more where identity_fraction "
      "> 0; element i lies at place i at first, and the answer at every token (query_at = \"end\": at the last one) is the element that lies at "
      "place 0 by then. Figure 4 trains 256 operations through task.curriculum = \"32 64 128 256\". layout = \"split\" writes the same as words for "
      "a language model: [SET k v] for a binding, [SWAP k k] for an operation (one that changes nothing names a key twice), [QRY k] after every "
      "operation or at the end (`queries` distinct keys), the answer due at k.",
      with_vocabulary(
          {{"associations", 5, "keys in play, each bound once first (n)", 2, max_option_size},
           {"operations", 16, "operations after the bindings", 1, max_option_size},
           {"identity_fraction", 0.0, "probability that an operation changes nothing", 0, 1},
           {"set_fraction", 0.0, "probability that an operation overwrites one key with a random value", 0,
            1},
           choice("query_at", "every", "when keys are asked: one after every operation, or at the end only",
                  {"every", "end"}),
           {"queries", 1, "distinct keys asked in a training sequence with query_at = \"end\"", 1,
            max_option_size},
           choice(
               "layout", "fused",
               "a token is a whole operation in channels (fused), names a pair of places (tag), or a word (split)",
               {"fused", "tag", "split"}),
           curriculum_option("operations")}),
      resolve,
      [](const Options& options) -> std::unique_ptr<Task> {
        if (options.get_string("task.layout") == "fused") return std::make_unique<Swap>(options);
        return std::make_unique<SwapTokens>(options);
      }};
}

}  // namespace crosstalk::swap_task
