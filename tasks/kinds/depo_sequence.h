// depo: the k-th successor on a cycle that is shown as a shuffled list of edges (Allen-Zhu 2025, Physics of language models 4.1,
// arXiv 2512.17351; law of PhysicsLM4's depo_data).
//
//   start | v_i v_(i+1), for all i in random order | [k] v_i = v_(i+k), for some i
//
// Names of nodes are different words of shortest .. longest tokens, the last of which is from a second alphabet. Training: n nodes
// with weight 1 / (n + sqrt N), n = 3 .. N, k uniform in 1 .. K. Evaluation: n = N, k = 1, 2, 4, .., K. The tokens of the answer
// are due one after the other, from "=" on, and each stands in the input behind the token at which it was due. What follows is
// blank.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "tasks/put_labels.h"

namespace crosstalk {

struct DepoSpec {
  std::int32_t nodes = 0, hops = 0, asked = 0;  ///< N, K, M
  std::int32_t shortest = 1, longest = 1;       ///< tokens of a word
  std::int32_t alphabet = 0;                    ///< of words; as many again end one
  double bias = 0, weights = 0;                 ///< sqrt N; sum of the weights of 3 .. N
  std::uint64_t examples = 0;                   ///< training has this many sequences; 0 = no end

  // Ids: blank, start, "=", k, letters, letters that end a word.
  CT_HD std::int32_t hop(std::int32_t k) const { return 2 + k; }
  CT_HD std::int32_t first_letter() const { return 3 + hops; }
  CT_HD std::int32_t first_ending() const { return first_letter() + alphabet; }
  CT_HD std::int32_t vocabulary() const { return first_ending() + alphabet; }
  CT_HD std::int32_t queries() const { return asked < nodes ? asked : nodes; }
  CT_HD std::int32_t tokens() const { return 1 + 2 * nodes * longest + queries() * (2 + 2 * longest); }
};

namespace depo {
constexpr std::int32_t blank = 0, start = 1, answer = 2;
}

/// [labels | hops of what is due | words | codes of words | order]
CT_HD inline std::int32_t depo_scratch_size(const DepoSpec& spec) {
  return 2 * spec.tokens() + spec.nodes * (spec.longest + 2);
}

CT_HD inline void depo_sequence(const DepoSpec& spec, std::uint64_t data_seed, Split split, std::uint64_t n,
                                const SequenceView& out, std::int32_t* scratch) {
  RandomStream random = stream_of(spec, data_seed, split, n);
  const std::int32_t T = spec.tokens(), longest = spec.longest;
  std::int32_t* labels = scratch;
  std::int32_t* hops = labels + T;
  std::int32_t* words = hops + T;
  std::int32_t* codes = words + spec.nodes * longest;
  std::int32_t* order = codes + spec.nodes;

  std::int32_t nodes = spec.nodes;
  if (is_train(split)) {
    double left = random.uniform() * spec.weights;
    for (nodes = 3; nodes < spec.nodes; ++nodes) {
      left -= 1.0 / (static_cast<double>(nodes) + spec.bias);
      if (left < 0) break;
    }
  }
  for (std::int32_t i = 0; i < nodes;) {
    std::int32_t* word = words + i * longest;
    const std::int32_t size = spec.shortest + draw_below(random, longest - spec.shortest + 1);
    std::int32_t code = 0;
    for (std::int32_t j = 0; j < size; ++j) {
      const std::int32_t letter = draw_below(random, spec.alphabet);
      word[j] = (j + 1 < size ? spec.first_letter() : spec.first_ending()) + letter;
      code = code * (spec.alphabet + 1) + letter + 1;
    }
    codes[i] = code;
    bool fresh = true;
    for (std::int32_t j = 0; j < i && fresh; ++j) fresh = codes[j] != code;
    i += fresh;
  }
  std::int32_t t = 0;
  for (std::int32_t i = 0; i < T; ++i) labels[i] = -1, hops[i] = 0;
  const auto put = [&](std::int32_t token) { out.tokens[t++] = token; };
  const auto put_word = [&](std::int32_t i, std::int32_t due) {
    const std::int32_t* word = words + i * longest;
    for (std::int32_t j = 0;; ++j) {
      if (due > 0) labels[t - 1] = word[j], hops[t - 1] = due;
      put(word[j]);
      if (word[j] >= spec.first_ending()) return;
    }
  };
  put(depo::start);
  count_up(order, nodes);
  arrange(random, order, nodes, nodes);
  for (std::int32_t i = 0; i < nodes; ++i) {
    put_word(order[i], 0);
    put_word((order[i] + 1) % nodes, 0);
  }
  const std::int32_t asked = spec.asked < nodes ? spec.asked : nodes;
  arrange(random, order, nodes, asked);
  std::int32_t powers = 1;  // 1, 2, 4, .. below K, and K
  while ((1 << (powers - 1)) < spec.hops) ++powers;
  for (std::int32_t i = 0; i < asked; ++i) {
    const std::int32_t drawn = draw_below(random, is_train(split) ? spec.hops : powers);
    const std::int32_t k = is_train(split) ? 1 + drawn : drawn + 1 == powers ? spec.hops : 1 << drawn;
    put(spec.hop(k));
    put_word(order[i], 0);
    put(depo::answer);
    put_word((order[i] + k) % nodes, k);
  }
  while (t < T) put(depo::blank);
  put_labels(out, labels, T);
  for (std::int32_t q = 0; out.meta && q < out.shape.Q; ++q)
    if (out.target[q] >= 0)
      out.meta[static_cast<std::int64_t>(q) * meta_count + meta_touches] = hops[out.query_position[q] - 1];
}

}  // namespace crosstalk
