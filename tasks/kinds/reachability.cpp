// reachability: which nodes of a growing forest descend from its first one.
// SPDX-License-Identifier: Apache-2.0
#include <set>

#include "tasks/drawn_task.h"
#include "tasks/kinds/reachability_sequence.h"

namespace crosstalk::reachability_task {

class Reachability final
    : public DrawnTask<Reachability, TokenTask, reachability_sequence, reachability_scratch_size> {
 public:
  explicit Reachability(const Options& options)
      : DrawnTask({int_option(options, "nodes"), int_option(options, "vocabulary"),
                   options.get_string("task.names") == "random", examples_of(options)}) {}

  Vocabulary vocabulary() const override { return token_vocabulary(spec_.vocabulary, 2); }
  SequenceShape full_shape(Split split) const override { return {2 * of(split).nodes, 1, of(split).nodes}; }

  /// Collects what descends from the first node.
  std::int32_t reference_answer(const SequenceView& sequence, std::int32_t key, int position) const override {
    std::set<std::int32_t> reached = {sequence.tokens[0]};
    for (int t = 0; t + 1 < position; t += 2)
      if (reached.count(sequence.tokens[t]) == 1) reached.insert(sequence.tokens[t + 1]);
    return static_cast<std::int32_t>(reached.count(key));
  }

  void lengthen(int factor) override {
    eval_.nodes = lengthened_size(spec_.nodes, factor);
    if (eval_.nodes > spec_.vocabulary)
      throw OptionError(
          "eval.length_factors",
          fmt::format(
              "a length factor of {} makes {} nodes, and there are {} ids; give a larger task.vocabulary",
              factor, eval_.nodes, spec_.vocabulary));
  }
  int eval_load() const override { return eval_.nodes; }

 protected:
  std::string word(const SequenceView& sequence, int t) const override {
    return fmt::format("{}{}", t % 2 == 0 ? "/" : "", sequence.tokens[t]);
  }
  std::string answer_word(std::int32_t answer) const override { return answer == 1 ? "yes" : "no"; }
  int answers() const override { return 2; }

  /// one_hop: whether the parent is the first node. most_recent: the answer before.
  Shortcuts shortcuts(const SequenceView& sequence, int q) const override {
    const std::int32_t *tokens = sequence.tokens, at = sequence.query_position[q] - 1;
    const auto is = [&](std::int32_t answer) { return answer == sequence.target[q] ? 1.0 : 0.0; };
    const std::int32_t before = at < 2 ? 1 : reference_answer(sequence, tokens[at - 2], at - 1);
    return {{"one_hop", is(tokens[at - 1] == tokens[0] ? 1 : 0)}, {"most_recent", is(before)}};
  }
};

void resolve(Options& options) {
  const std::int64_t nodes = options.get_int("task.nodes"), ids = options.get_int("task.vocabulary");
  if (nodes % 2 != 0) refuse(options, "task.nodes", " is odd; two trees are equally large");
  if (ids == 0) options.set("task.vocabulary", nodes);
  if (ids != 0 && ids < nodes)
    refuse(options, "task.vocabulary",
           fmt::format(": {} nodes need as many ids; give at least that, or 0", nodes));
}

TaskKind kind() {
  return {
      "reachability",
      "two trees as edges: does a node descend from the first one, however many steps away",
      "Every node once, behind its parent, which was shown before; a root stands behind itself. At the node it is due whether it is in the tree "
      "of the first node. Nodes fall into two equal halves at random, and in each half a node has a uniform earlier one of that half as its "
      "parent. DAG reachability of DeltaFormer (2025, arXiv 2505.19488, section 4.2 and appendix G.2: 32 nodes; one layer of DeltaFormer about "
      "100 %, several layers of attention below). There a token is the row of an adjacency matrix, real numbers; here it is an id, and an edge "
      "is two tokens. names = \"sorted\" names nodes by their place, as there; \"random\" by random ids. accuracy_by_touches is accuracy by the "
      "steps from the root. Guessing is right half of the time; baseline_one_hop_accuracy looks at the parent only.",
      {{"nodes", 32, "nodes of a sequence, even", 2, 1 << 16},
       {"vocabulary", 0, "ids that nodes may have; 0 means as many as there are nodes", 0, 1 << 20},
       choice("names", "sorted", "how nodes are named", {"sorted", "random"}),
       examples_option()},
      resolve,
      make<Reachability>};
}

}  // namespace crosstalk::reachability_task
