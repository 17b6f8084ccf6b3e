// stacks: many stacks at once, each of them last in, first out.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <map>

#include "tasks/drawn_task.h"
#include "tasks/kinds/stacks_sequence.h"

namespace crosstalk::stacks_task {

class Stacks final : public DrawnTask<Stacks, TokenTask, stacks_sequence, stacks_scratch_size> {
 public:
  explicit Stacks(const Options& options)
      : DrawnTask({int_option(options, "stacks"), int_option(options, "elements"),
                   int_option(options, "length") / 3,
                   static_cast<std::int32_t>(std::lround(options.get_double("task.pop") * (1 << 24))),
                   examples_of(options)}) {}

  Vocabulary vocabulary() const override { return token_vocabulary(spec_.vocabulary()); }
  /// Stacks are keys, what lies on top is their value: a pop gives a stack what lay below, if anything did.
  std::vector<KeyWrite> writes(const SequenceView& sequence) const override {
    std::vector<KeyWrite> all;
    std::map<std::int32_t, std::vector<std::int32_t>> stacks;
    for (int t = 0; t + 2 < sequence.shape.T; t += 3) {
      std::vector<std::int32_t>& stack = stacks[sequence.tokens[t + 1]];
      if (sequence.tokens[t] == 0) {
        stack.push_back(sequence.tokens[t + 2]);
      } else if (!stack.empty()) {
        stack.pop_back();
      }
      if (!stack.empty()) all.push_back({t + 3, 0, sequence.tokens[t + 1], stack.back()});
    }
    return all;
  }
  std::int32_t asked_key(const SequenceView& sequence, int q) const override {
    return sequence.tokens[sequence.query_position[q] - 1];
  }
  /// At most every second operation is a pop.
  SequenceShape full_shape(Split split) const override {
    return {3 * of(split).operations, 1, of(split).operations / 2};
  }

  /// Pushes and pops real stacks.
  std::int32_t reference_answer(const SequenceView& sequence, std::int32_t key, int position) const override {
    std::map<std::int32_t, std::vector<std::int32_t>> stacks;
    for (int t = 0; t + 3 <= position; t += 3) {
      std::vector<std::int32_t>& stack = stacks[sequence.tokens[t + 1]];
      if (sequence.tokens[t] == 0) {
        stack.push_back(sequence.tokens[t + 2]);
      } else {
        stack.pop_back();
      }
    }
    return stacks[key].empty() ? -1 : stacks[key].back();
  }

  void lengthen(int factor) override { eval_.operations = lengthened_size(spec_.operations, factor); }
  int eval_load() const override { return eval_.operations; }

 protected:
  std::string word(const SequenceView& sequence, int t) const override {
    const std::int32_t token = sequence.tokens[t];
    return token == 0                      ? "PUSH"
           : token == 1                    ? "POP"
           : token < spec_.first_element() ? fmt::format("s{}", token - spec_.first_stack())
                                           : answer_word(token);
  }
  std::string answer_word(std::int32_t answer) const override {
    return fmt::format("x{}", answer - spec_.first_element());
  }
  int answers() const override { return spec_.elements; }

  /// most_recent: the element pushed last. random_in_context: any element pushed. latest_of_stack: the one pushed last on this
  /// stack, as if nothing was ever popped.
  Shortcuts shortcuts(const SequenceView& sequence, int q) const override {
    double right = 0, all = 0;
    std::int32_t last = -1, of_stack = -1;
    const std::int32_t target = sequence.target[q];
    for (int t = 0; t + 3 <= sequence.query_position[q]; t += 3) {
      if (sequence.tokens[t] != 0) continue;
      last = sequence.tokens[t + 2];
      if (sequence.tokens[t + 1] == sequence.query[q]) of_stack = last;
      all += 1, right += last == target;
    }
    const auto is = [&](std::int32_t element) { return element == target ? 1.0 : 0.0; };
    return {{"random_in_context", right / all}, {"most_recent", is(last)}, {"latest_of_stack", is(of_stack)}};
  }
};

void resolve(Options& options) {
  if (options.get_int("task.length") < 6)
    refuse(options, "task.length", ": a push and a pop are 6 tokens; give at least that");
}

TaskKind kind() {
  return {
      "stacks",
      "many stacks at once: what was pushed last, and not popped yet",
      "Operations of three tokens: PUSH s x puts element x on stack s, POP s x takes it from there; x is due at the s of a pop, and stands in "
      "the input behind it. An operation pops with probability `pop` where any stack holds something, a stack drawn uniformly from those that "
      "do, else it pushes a uniform element on a uniform stack; the last one pops. length is rounded down to whole operations. The 64 stacks of "
      "Kimi Linear (Zhang et al. 2025, arXiv 2510.26692, section 5.1: lengths 256 to 2048, 2 layers with 2 heads of 128; the law of operations "
      "and the number of elements are not printed, those here are ours). A third party's rerun at three seeds: KDA 0.965, Gated DeltaNet 0.942. "
      "baseline_latest_of_stack_accuracy is what a memory scores that holds one element a stack: so much is recall, the rest is a stack. "
      "chance_accuracy is one among the elements.",
      {{"stacks", 64, "stacks (ids behind PUSH and POP)", 1, 1 << 16},
       {"elements", 64, "different elements", 1, 1 << 20},
       {"length", 256, "tokens of a sequence; three an operation", 3, max_option_size},
       {"pop", 0.5, "probability that an operation pops, where it can", 0, 1},
       examples_option()},
      resolve,
      make<Stacks>};
}

}  // namespace crosstalk::stacks_task
