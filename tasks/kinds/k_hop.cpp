// k_hop: what followed the last showing of this letter, and that again, k times.
// SPDX-License-Identifier: Apache-2.0
#include "tasks/drawn_task.h"
#include "tasks/kinds/k_hop_sequence.h"

namespace crosstalk::k_hop_task {

KHopSpec spec_of(const Options& options) {
  return {int_option(options, "letters"),
          int_option(options, "least_hops"),
          int_option(options, "hops"),
          int_option(options, "length"),
          options.get_string("task.query_at") == "every",
          examples_of(options)};
}

class KHop final : public DrawnTask<KHop, TokenTask, k_hop_sequence, k_hop_scratch_size> {
 public:
  explicit KHop(const Options& options) : DrawnTask(spec_of(options)) {}

  Vocabulary vocabulary() const override { return token_vocabulary(spec_.vocabulary()); }
  SequenceShape full_shape(Split split) const override {
    const int N = of(split).length;
    return {N + 1, 1, spec_.query_every ? N : 1};
  }

  /// The definition, read aloud.
  std::int32_t reference_answer(const SequenceView& sequence, std::int32_t, int position) const override {
    return hopped(sequence, position - 1, sequence.tokens[0]);
  }

  void lengthen(int factor) override { eval_.length = lengthened_size(spec_.length, factor); }
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
};

void resolve(Options& options) { refuse_above(options, "task.least_hops", "task.hops"); }

TaskKind kind() {
  return {
      "k_hop",
      "induction k times over: what followed the last showing of a letter, and of that one, ...",
      "A sequence names a number k, then shows `length` letters, drawn uniformly. find(i) is the place behind the last earlier showing of letter i, "
      "and at every letter hop_k(i) = x_find(find(..find(i))), k times, is due, or \"none\" where it leads out of the sequence. k is uniform in "
      "least_hops .. hops; hop_0 is the letter itself, hop_1 what an induction head says. Sanford, Hsu and Telgarsky 2024 (arXiv 2402.09268): 100 "
      "letters of 4, k from 0 to 16; attention of depth L learns k <= 2^(L-2), a recurrent memory needs depth k or a width of about N / k^6. Letters "
      "are independent here; the law of the paper's sequences was not at hand. query_at = \"end\" asks at the last letter only. accuracy_by_touches "
      "is accuracy by k. chance_accuracy is one among the letters and \"none\"; baseline_one_hop_accuracy is induction alone.",
      {{"length", 100, "letters of a sequence (N)", 1, max_option_size},
       {"letters", 4, "different letters", 1, 1 << 20},
       {"hops", 16, "largest k", 0, 1 << 16},
       {"least_hops", 0, "smallest k", 0, 1 << 16},
       choice("query_at", "every", "where an answer is due", {"every", "end"}),
       examples_option()},
      resolve,
      make<KHop>};
}

}  // namespace crosstalk::k_hop_task
