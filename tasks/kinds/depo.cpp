// depo: successors on a cycle of words, several steps at once.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <map>

#include "tasks/drawn_task.h"
#include "tasks/kinds/depo_sequence.h"

namespace crosstalk::depo_task {

void weigh(DepoSpec& spec) {
  spec.bias = std::sqrt(static_cast<double>(spec.nodes));
  spec.weights = 0;
  for (int n = 3; n <= spec.nodes; ++n) spec.weights += 1.0 / (n + spec.bias);
}

DepoSpec spec_of(const Options& options) {
  DepoSpec spec;
  spec.nodes = int_option(options, "nodes");
  spec.hops = int_option(options, "hops");
  spec.asked = int_option(options, "queries");
  spec.shortest = int_option(options, "shortest_word");
  spec.longest = int_option(options, "longest_word");
  spec.alphabet = int_option(options, "alphabet");
  spec.examples = examples_of(options);
  weigh(spec);
  return spec;
}

/// How many words there are.
double words_of(const DepoSpec& spec) {
  double words = 0;
  for (int size = spec.shortest; size <= spec.longest; ++size) words += std::pow(spec.alphabet, size);
  return words;
}

class Depo final : public DrawnTask<Depo, TokenTask, depo_sequence, depo_scratch_size> {
 public:
  explicit Depo(const Options& options) : DrawnTask(spec_of(options)) {}

  Vocabulary vocabulary() const override { return token_vocabulary(spec_.vocabulary()); }
  SequenceShape full_shape(Split split) const override {
    return {of(split).tokens(), 1, of(split).queries() * spec_.longest};
  }

  /// Reads the edges into a map, and walks.
  std::int32_t reference_answer(const SequenceView& sequence, std::int32_t, int position) const override {
    const Asked asked = read(sequence, position);
    Word word = asked.from;
    for (int k = 0; k < asked.hops; ++k) word = asked.next.at(word);
    return word[asked.said];
  }

  void lengthen(int factor) override {
    eval_.nodes = lengthened_size(spec_.nodes, factor);
    if (words_of(spec_) < 2.0 * eval_.nodes)
      throw OptionError(
          "eval.length_factors",
          fmt::format(
              "a length factor of {} makes {} nodes, and there are {} words for them; give a smaller factor",
              factor, eval_.nodes, words_of(spec_)));
    weigh(eval_);
  }
  int eval_load() const override { return eval_.nodes; }

 protected:
  std::string word(const SequenceView& sequence, int t) const override {
    return answer_word(sequence.tokens[t]);
  }
  std::string answer_word(std::int32_t token) const override {
    return token == depo::blank           ? "."
           : token == depo::start         ? "^"
           : token == depo::answer        ? "="
           : token < spec_.first_letter() ? fmt::format("[{}]", token - 2)
           : token < spec_.first_ending() ? fmt::format("{}", token - spec_.first_letter())
                                          : fmt::format("{};", token - spec_.first_ending());
  }
  int answers() const override { return 2 * spec_.alphabet; }

  /// itself: the word asked. one_hop: what follows it.
  Shortcuts shortcuts(const SequenceView& sequence, int q) const override {
    const Asked asked = read(sequence, sequence.query_position[q]);
    const auto is = [&](const Word& word) {
      return asked.said < word.size() && word[asked.said] == sequence.target[q] ? 1.0 : 0.0;
    };
    return {{"itself", is(asked.from)}, {"one_hop", is(asked.next.at(asked.from))}};
  }

 private:
  using Word = std::vector<std::int32_t>;
  struct Asked {
    std::map<Word, Word> next;
    Word from;
    int hops = 0;
    std::size_t said = 0;  ///< tokens of the answer that have been said
  };
  Asked read(const SequenceView& sequence, int position) const {
    Asked asked;
    Word word, before;
    bool second = false;
    for (int t = 1; t < position; ++t) {
      const std::int32_t token = sequence.tokens[t];
      if (token == depo::answer) {
        asked.said = 0;
      } else if (token < spec_.first_letter()) {
        asked.hops = token - 2;
        word.clear();
        asked.from.clear();
      } else {
        word.push_back(token);
        ++asked.said;
        if (token < spec_.first_ending()) continue;
        if (asked.hops == 0) {
          if (second) asked.next[before] = word;
          before = word;
          second = !second;
        } else if (asked.from.empty()) {
          asked.from = word;
        }
        word.clear();
      }
    }
    return asked;
  }
};

void resolve(Options& options) {
  const DepoSpec spec = spec_of(options);
  refuse_above(options, "task.shortest_word", "task.longest_word");
  if (std::pow(spec.alphabet + 1.0, spec.longest) > 2e9)
    refuse(options, "task.longest_word",
           fmt::format(": of {} letters these are more words than are counted; give less", spec.alphabet));
  if (words_of(spec) < 2.0 * spec.nodes)
    refuse(options, "task.nodes",
           fmt::format(
               ": there are {} words, and half of them at most are used; give at most {}, or longer words",
               words_of(spec), std::floor(words_of(spec) / 2)));
}

TaskKind kind() {
  return {
      "depo",
      "a cycle as a shuffled list of edges: which node is k steps further",
      "The edges v_i v_(i+1) of a cycle of n nodes in random order, then at most `queries` queries [k] v = and the answer, the node k steps behind "
      "v, in the input behind the tokens at which it was due. Nodes are named by words of shortest_word .. longest_word tokens, the last of which is "
      "from a second alphabet. Depo of Physics of language models 4.1 (Allen-Zhu 2025, arXiv 2512.17351; law of PhysicsLM4): in training n = 3 .. "
      "nodes with weight 1 / (n + sqrt(nodes)) and k uniform in 1 .. hops, in evaluation n = nodes and k a power of 2, or hops. Depo1: nodes = 225, "
      "300 or 375, hops = 8, words of 1 or 2 tokens of 50; Depo2: nodes = 75, 100 or 125, hops = 16, shortest_word = 5, longest_word = 7, alphabet = "
      "3. Sequences are as long as the longest one and end in blanks. Otherwise than there the answer mark, which always follows, is not due itself; "
      "the released generator stops at a name that it does not define (its assertion on token_type). accuracy_by_touches is accuracy by k. "
      "chance_accuracy is one among the tokens of words; baseline_one_hop_accuracy is the successor.",
      {{"nodes", 225, "largest number of nodes (N)", 3, 1 << 14},
       {"hops", 8, "largest k (K)", 1, 1 << 12},
       {"queries", 10, "queries of a sequence, as many as it has nodes at most (M)", 1, 1 << 12},
       {"shortest_word", 1, "fewest tokens of a word", 1, 16},
       {"longest_word", 2, "most tokens of a word", 1, 16},
       {"alphabet", 50, "tokens that words are made of, and as many that end one", 1, 1 << 14},
       examples_option()},
      resolve,
      make<Depo>};
}

}  // namespace crosstalk::depo_task
