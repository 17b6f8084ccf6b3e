// k_hop: what followed the last showing of this letter, and that again, k times.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "kernels/base/error.h"
#include "tasks/draw_cuda.h"
#include "tasks/fused_task.h"
#include "tasks/kinds/k_hop_sequence.h"
#include "tasks/token_task.h"

namespace crosstalk::k_hop_task {
namespace {

KHopSpec spec_of(const Options& options) {
  return {int_option(options, "letters"),
          int_option(options, "least_hops"),
          int_option(options, "hops"),
          int_option(options, "length"),
          options.get_string("task.query_at") == "every",
          static_cast<std::uint64_t>(options.get_int("task.examples"))};
}

class KHop final : public TokenTask {
 public:
  explicit KHop(const Options& options) : spec_(spec_of(options)), eval_(spec_) {}

  Vocabulary vocabulary() const override {
    return {.keys = 0, .values = spec_.vocabulary(), .second_key = false, .tokens = spec_.vocabulary()};
  }
  SequenceShape shape(Split split, int max_queries) const override {
    const int N = of(split).length, all = spec_.query_every ? N : 1;
    return {N + 1, 1, split == Split::train ? all : capped_queries(all, max_queries)};
  }
  void sequence(std::uint64_t data_seed, Split split, std::uint64_t n, const SequenceView& out,
                std::int32_t* scratch) const override {
    check_shape(split, out);
    k_hop_sequence(of(split), data_seed, split, n, out, scratch);
  }
  int scratch_size() const override { return std::max(k_hop_scratch_size(spec_), k_hop_scratch_size(eval_)); }
  std::int64_t sequences(Split split) const override {
    return split == Split::train ? static_cast<std::int64_t>(spec_.examples) : 0;
  }

  /// The definition, read aloud.
  std::int32_t reference_answer(const SequenceView& sequence, std::int32_t, int position) const override {
    return hopped(sequence, position - 1, sequence.tokens[0]);
  }

  std::unique_ptr<Task> lengthened(int factor) const override {
    check_length_factor(factor);
    auto longer = std::make_unique<KHop>(*this);
    longer->eval_.length = lengthened_size(spec_.length, factor);
    return longer;
  }
  int eval_load() const override { return spec_.most; }

 protected:
  std::string word(const SequenceView& sequence, int t) const override {
    const std::int32_t token = sequence.tokens[t];
    return token < spec_.first_letter() ? fmt::format("[{}]", token) : answer_word(token);
  }
  std::string answer_word(std::int32_t answer) const override {
    return answer == spec_.none() ? "none" : fmt::format("x{}", answer - spec_.first_letter());
  }
  int answers() const override { return spec_.letters + 1; }

  /// itself, one_hop: as if k were 0, or 1. none: "none". most_recent: the letter before.
  Shortcuts shortcuts(const SequenceView& sequence, int q) const override {
    const std::int32_t target = sequence.target[q], at = sequence.query_position[q] - 1;
    const auto is = [&](std::int32_t answer) { return answer == target ? 1.0 : 0.0; };
    return {{"itself", is(sequence.tokens[at])},
            {"one_hop", is(hopped(sequence, at, 1))},
            {"none", is(spec_.none())},
            {"most_recent", is(sequence.tokens[at - 1])}};
  }

 private:
  std::int32_t hopped(const SequenceView& sequence, int i, int hops) const {
    const std::int32_t* x = sequence.tokens;
    for (; hops > 0; --hops) {
      int j = i;
      while (j >= 2 && x[j - 1] != x[i]) --j;
      if (j < 2) return spec_.none();
      i = j;
    }
    return x[i];
  }
  const KHopSpec& of(Split split) const { return split == Split::train ? spec_ : eval_; }
  void draw_cuda(const Exec& exec, const DrawArgs& args) const override {
    draw_on_cuda(of(args.split), exec, args);
  }

  KHopSpec spec_, eval_;
};

void resolve(Options& options) {
  const std::int64_t least = options.get_int("task.least_hops"), most = options.get_int("task.hops");
  if (least > most)
    throw OptionError("task.least_hops",
                      fmt::format("task.least_hops = {} is more than task.hops = {}; give at "
                                  "most that",
                                  least, most));
}

}  // namespace

TaskKind kind() {
  return {
      "k_hop",
      "induction k times over: what followed the last showing of a letter, and of that one, ...",
      "A sequence names a number k, then shows `length` letters, drawn uniformly. find(i) is the place "
      "behind the last "
      "earlier showing of letter i, and at every letter hop_k(i) = x_find(find(..find(i))), k times, is due, "
      "or \"none\" "
      "where it leads out of the sequence. k is uniform in least_hops .. hops; hop_0 is the letter itself, "
      "hop_1 what an "
      "induction head says. Sanford, Hsu and Telgarsky 2024 (arXiv 2402.09268): 100 letters of 4, k from 0 "
      "to 16; "
      "attention of depth L learns k <= 2^(L-2), a recurrent memory needs depth k or a width of about N / "
      "k^6. Letters "
      "are independent here; the law of the paper's sequences was not at hand. query_at = \"end\" asks at "
      "the last letter "
      "only. accuracy_by_touches is accuracy by k. chance_accuracy is one among the letters and \"none\"; "
      "baseline_one_hop_accuracy is induction alone.",
      {{"length", std::int64_t{100}, "letters of a sequence (N)", 1, max_option_size},
       {"letters", std::int64_t{4}, "different letters", 1, 1 << 20},
       {"hops", std::int64_t{16}, "largest k", 0, 1 << 16},
       {"least_hops", std::int64_t{0}, "smallest k", 0, 1 << 16},
       {"query_at", std::string("every"), "where an answer is due", {}, {}, {"every", "end"}},
       {"examples", std::int64_t{0}, "sequences of an epoch of training, the same in each; 0 means no end", 0,
        1099511627776.0}},
      resolve,
      [](const Options& options) -> std::unique_ptr<Task> { return std::make_unique<KHop>(options); }};
}

}  // namespace crosstalk::k_hop_task
