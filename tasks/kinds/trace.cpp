// trace: programs that assign and swap variables, and print some of them.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <map>

#include "tasks/drawn_task.h"
#include "tasks/kinds/trace_sequence.h"

namespace crosstalk::trace_task {

std::int32_t share_of(const Options& options, const std::string& name) {
  return static_cast<std::int32_t>(std::lround(options.get_double("task." + name) * (1 << 24)));
}

class Trace final : public DrawnTask<Trace, TokenTask, trace_sequence, trace_scratch_size> {
 public:
  explicit Trace(const Options& options)
      : DrawnTask({int_option(options, "variables"), int_option(options, "values"),
                   int_option(options, "reveal_every"), share_of(options, "assign_share"),
                   share_of(options, "hidden_share"), options.get_string("task.train_labels") == "next",
                   examples_of(options), int_option(options, "lines")}) {}

  Vocabulary vocabulary() const override { return token_vocabulary(spec_.vocabulary()); }
  SequenceShape full_shape(Split split) const override {
    const TraceSpec& spec = of(split);
    return {spec.tokens(), 1, split == Split::train && spec.next ? spec.tokens() - 1 : spec.prints()};
  }

  /// Runs the program; where lines are hidden, and in front of what is not printed, it takes what stands there.
  std::int32_t reference_answer(const SequenceView& sequence, std::int32_t, int position) const override {
    if (position % 3 != 2 || sequence.tokens[position - 2] != 2 || spec_.hidden > 0)
      return sequence.tokens[position];
    return replay(sequence, position);
  }

  void lengthen(int factor) override { eval_.lines = lengthened_size(spec_.lines, factor); }
  int eval_load() const override { return eval_.lines; }

 protected:
  std::string word(const SequenceView& sequence, int t) const override {
    return answer_word(sequence.tokens[t]);
  }
  std::string answer_word(std::int32_t token) const override {
    static constexpr const char* words[] = {"SET", "SWAP", "PRINT", "?"};
    return token < 4                ? words[token]
           : token < spec_.value(0) ? fmt::format("v{}", token - 4)
                                    : fmt::format("{}", token - spec_.value(0));
  }
  int answers() const override { return spec_.values; }

  /// most_recent: the value that stands last. unchanged: what the variable held first. last_shown: what stood beside it last, as if nothing was ever
  /// swapped. hidden_ignored: as if hidden lines did nothing.
  Shortcuts shortcuts(const SequenceView& sequence, int q) const override {
    const int position = sequence.query_position[q];
    const std::int32_t variable = sequence.query[q], target = sequence.target[q];
    const auto is = [&](std::int32_t value) { return value == target ? 1.0 : 0.0; };
    std::int32_t recent = -1, first = -1, shown = -1;
    for (int t = 0; t + 3 <= position; t += 3) {
      if (sequence.tokens[t] == 1) continue;
      recent = sequence.tokens[t + 2];
      if (sequence.tokens[t + 1] != variable) continue;
      if (first < 0) first = recent;
      shown = recent;
    }
    Shortcuts all = {{"most_recent", is(recent)}, {"unchanged", is(first)}, {"last_shown", is(shown)}};
    if (spec_.hidden > 0) all["hidden_ignored"] = is(replay(sequence, position));
    return all;
  }

 private:
  /// What the variable in front of `position` holds when the lines before were run as they stand.
  std::int32_t replay(const SequenceView& sequence, int position) const {
    std::map<std::int32_t, std::int32_t> held;
    for (int t = 0; t + 3 <= position; t += 3) {
      const std::int32_t *line = sequence.tokens + t, a = line[1];
      if (line[0] != 1)
        held[a] = line[2];
      else if (a != 3)
        std::swap(held[a], held[line[2]]);
    }
    return held[sequence.tokens[position - 1]];
  }
};

void resolve(Options& options) {
  if (options.get_int("task.values") == 0) options.set("task.values", options.get_int("task.variables"));
  refuse_above(options, "task.variables", "task.values");
  if (options.get_double("task.hidden_share") > 0 && options.get_double("task.assign_share") == 1)
    refuse(options, "task.hidden_share", " is of swaps, and task.assign_share = 1 leaves none; leave it out");
}

TaskKind kind() {
  return {
      "trace",
      "run a program: variables are assigned and swapped, prints show some of the state",
      "Lines of three tokens: SET a v, SWAP a b, PRINT a v. Every variable is set first, to different values; `lines` lines follow, SET with a uniform "
      "value with probability assign_share, else SWAP of two variables, and after every reveal_every of them, and after the last, a uniform variable is "
      "printed: its value is due at its name, and stands behind it. A swap is hidden with probability hidden_share: SWAP ? ? stands there, and what it "
      "did shows in prints alone. After the traces of Siems et al. 2026 (arXiv 2602.14814): permutations written as a program whose prints reveal the "
      "state, next-token loss (train_labels = \"next\", at every token; evaluation counts printed values); linear recurrences with eigenvalues in [-1, 1] "
      "learn it and go on beyond the length of training, Transformers do not, and where actions are hidden linear recurrences fall behind nonlinear ones "
      "(figures only; their tokens and sizes are not held here, lines of three tokens are ours). assign_share = 0 is permutations alone. "
      "chance_accuracy is one among the values; baseline_last_shown_accuracy what a memory scores that never swaps.",
      {{"variables", 5, "variables", 2, 1 << 16},
       {"values", 0, "values, at least as many as variables; 0 means as many", 0, 1 << 16},
       {"lines", 32, "lines behind the first assignments, but for prints", 1, 1 << 20},
       {"reveal_every", 1, "lines from print to print", 1, 1 << 20},
       {"assign_share", 0.25, "share of lines that assign; the others swap", 0, 1},
       {"hidden_share", 0.0, "share of swaps that do not say which variables", 0, 1},
       choice("train_labels", "next", "what training is asked: every next token, or what is printed",
              {"next", "due"}),
       examples_option()},
      resolve,
      make<Trace>};
}

}  // namespace crosstalk::trace_task
