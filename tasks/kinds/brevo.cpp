// brevo: what a node of a graph depends on, in an order that goes by the edges.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <set>

#include "tasks/drawn_task.h"
#include "tasks/kinds/brevo_sequence.h"

namespace crosstalk::brevo_task {
namespace {
class Brevo final : public DrawnTask<Brevo, TokenTask, brevo_sequence, brevo_scratch_size> {
 public:
  explicit Brevo(const Options& options) : DrawnTask({int_option(options, "nodes"), examples_of(options)}) {}

  Vocabulary vocabulary() const override { return token_vocabulary(spec_.blank() + 1); }
  SequenceShape full_shape(Split split) const override { return {of(split).tokens(), 1, of(split).nodes}; }

  std::int32_t reference_answer(const SequenceView& sequence, std::int32_t, int position) const override {
    return due_from(sequence, position)[0];
  }
  void lengthen(int factor) override {
    refuse_longer(factor, "brevo", "its nodes are all ids that there are", "train with a larger task.nodes");
  }
  int eval_load() const override { return eval_.nodes; }

 protected:
  std::string word(const SequenceView& sequence, int t) const override {
    return answer_word(sequence.tokens[t]);
  }
  std::string answer_word(std::int32_t id) const override {
    return id < spec_.nodes ? fmt::format("{}", id) : std::string(1, "?=."[id - spec_.nodes]);
  }
  int answers() const override { return spec_.nodes + 1; }

  /// unordered: the smallest id that is left, whatever it depends on.
  Shortcuts shortcuts(const SequenceView& sequence, int q) const override {
    const auto due = due_from(sequence, sequence.query_position[q]);
    return {{"unordered", *std::min_element(due.begin(), due.end()) == due[0] ? 1.0 : 0.0}};
  }

 private:
  /// All that is due from `position` on, in its order: goes back from the node asked, and takes what waits for nothing.
  std::vector<std::int32_t> due_from(const SequenceView& sequence, int position) const {
    std::map<std::int32_t, std::set<std::int32_t>> needs;
    int t = 0;
    for (; sequence.tokens[t] != spec_.query(); t += 2)
      needs[sequence.tokens[t + 1]].insert(sequence.tokens[t]);
    std::vector<std::int32_t> seen = {sequence.tokens[t + 1]}, said;
    std::set<std::int32_t> left;
    for (std::size_t i = 0; i < seen.size(); ++i)
      for (const std::int32_t before : needs[seen[i]])
        if (left.insert(before).second) seen.push_back(before);
    const auto waits = [&](std::int32_t node) { return left.count(node) == 1; };
    while (!left.empty()) {
      said.push_back(*std::find_if(left.begin(), left.end(), [&](std::int32_t node) {
        return std::none_of(needs[node].begin(), needs[node].end(), waits);
      }));
      left.erase(said.back());
    }
    said.push_back(spec_.answer());
    return {said.begin() + (position - t - 3), said.end()};
  }
};

}  // namespace

TaskKind kind() {
  return {
      "brevo",
      "a graph as a shuffled list of edges: all that a node depends on, each behind what it depends on itself",
      "Edges a b, b depends on a, of a directed acyclic graph in random order, then ? q = and all that q depends on, each behind what it depends on "
      "itself, in the input behind the tokens at which it was due; = is due at the last. Brevo of Physics of language models 4.1 (Allen-Zhu 2025, "
      "arXiv 2512.17351: at most four edges into a node and out of it, 125 ids). Otherwise than there: of several that may come the "
      "smallest id is due, where any is right there; the law of the graph is ours: a node draws 0 .. 4 of those before it, and those drawn twice or "
      "with four that depend on them fall away. Training has 3 .. nodes of them. baseline_unordered_accuracy names the smallest id left.",
      {{"nodes", 20, "largest number of nodes, and their ids", 3, 1 << 12}, examples_option()},
      nullptr,
      make<Brevo>};
}

}  // namespace crosstalk::brevo_task
