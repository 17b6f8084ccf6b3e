// reachability: which nodes of a growing forest descend from its first one.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "kernels/base/error.h"
#include "tasks/draw_cuda.h"
#include "tasks/fused_task.h"
#include "tasks/kinds/reachability_sequence.h"
#include "tasks/token_task.h"

namespace crosstalk::reachability_task {
namespace {

class Reachability final : public TokenTask {
 public:
  explicit Reachability(const Options& options)
      : spec_{int_option(options, "nodes"), int_option(options, "vocabulary"),
              options.get_string("task.names") == "random",
              static_cast<std::uint64_t>(options.get_int("task.examples"))},
        eval_(spec_) {}

  Vocabulary vocabulary() const override {
    return {.keys = 0, .values = 2, .second_key = false, .tokens = spec_.vocabulary};
  }
  SequenceShape shape(Split split, int max_queries) const override {
    const int N = of(split).nodes;
    return {2 * N, 1, split == Split::train ? N : capped_queries(N, max_queries)};
  }
  void sequence(std::uint64_t data_seed, Split split, std::uint64_t n, const SequenceView& out,
                std::int32_t* scratch) const override {
    check_shape(split, out);
    reachability_sequence(of(split), data_seed, split, n, out, scratch);
  }
  int scratch_size() const override {
    return std::max(reachability_scratch_size(spec_), reachability_scratch_size(eval_));
  }
  std::int64_t sequences(Split split) const override {
    return split == Split::train ? static_cast<std::int64_t>(spec_.examples) : 0;
  }

  /// Collects what descends from the first node.
  std::int32_t reference_answer(const SequenceView& sequence, std::int32_t key, int position) const override {
    std::set<std::int32_t> reached = {sequence.tokens[0]};
    for (int t = 0; t + 1 < position; t += 2)
      if (reached.count(sequence.tokens[t]) == 1) reached.insert(sequence.tokens[t + 1]);
    return static_cast<std::int32_t>(reached.count(key));
  }

  std::unique_ptr<Task> lengthened(int factor) const override {
    check_length_factor(factor);
    auto longer = std::make_unique<Reachability>(*this);
    longer->eval_.nodes = lengthened_size(spec_.nodes, factor);
    if (longer->eval_.nodes > spec_.vocabulary)
      throw OptionError(
          "eval.length_factors",
          fmt::format("a length factor of {} makes {} nodes, and there are {} ids; give a larger "
                      "task.vocabulary",
                      factor, longer->eval_.nodes, spec_.vocabulary));
    return longer;
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

 private:
  const ReachabilitySpec& of(Split split) const { return split == Split::train ? spec_ : eval_; }
  void draw_cuda(const Exec& exec, const DrawArgs& args) const override {
    draw_on_cuda(of(args.split), exec, args);
  }

  ReachabilitySpec spec_, eval_;
};

void resolve(Options& options) {
  const std::int64_t nodes = options.get_int("task.nodes"), ids = options.get_int("task.vocabulary");
  if (nodes % 2 != 0)
    throw OptionError("task.nodes",
                      fmt::format("task.nodes = {} is odd; two trees are equally large", nodes));
  if (ids == 0) options.set("task.vocabulary", nodes);
  if (ids != 0 && ids < nodes)
    throw OptionError("task.vocabulary",
                      fmt::format("task.vocabulary = {}: {} nodes need as many ids; give at "
                                  "least that, or 0",
                                  ids, nodes));
}

}  // namespace

TaskKind kind() {
  return {"reachability",
          "two trees as edges: does a node descend from the first one, however many steps away",
          "Every node once, behind its parent, which was shown before; a root stands behind itself. At the "
          "node it is due "
          "whether it is in the tree of the first node. Nodes fall into two equal halves at random, and in "
          "each half a node "
          "has a uniform earlier one of that half as its parent. DAG reachability of DeltaFormer (2025, "
          "arXiv 2505.19488, "
          "section 4.2 and appendix G.2: 32 nodes; one layer of DeltaFormer about 100 %, several layers of "
          "attention below). "
          "There a token is the row of an adjacency matrix, real numbers; here it is an id, and an edge is "
          "two tokens. names "
          "= \"sorted\" names nodes by their place, as there; \"random\" by random ids. accuracy_by_touches "
          "is accuracy by "
          "the steps from the root. Guessing is right half of the time; baseline_one_hop_accuracy looks at "
          "the parent only.",
          {{"nodes", std::int64_t{32}, "nodes of a sequence, even", 2, 1 << 16},
           {"vocabulary", std::int64_t{0}, "ids that nodes may have; 0 means as many as there are nodes", 0,
            1 << 20},
           {"names", std::string("sorted"), "how nodes are named", {}, {}, {"sorted", "random"}},
           {"examples", std::int64_t{0},
            "sequences of an epoch of training, the same in each; 0 means no end", 0, 1099511627776.0}},
          resolve,
          [](const Options& options) -> std::unique_ptr<Task> {
            return std::make_unique<Reachability>(options);
          }};
}

}  // namespace crosstalk::reachability_task
