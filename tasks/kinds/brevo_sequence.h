// brevo: a directed acyclic graph as a shuffled list of edges, and all that one node depends on, each behind what it depends on itself
// (Allen-Zhu 2025, Physics of language models 4.1, arXiv 2512.17351); of several that may come the smallest id, so that one answer is due.
//
//   a_1 b_1 a_2 b_2 .. ? q = y_1 .. y_m     b_i depends on a_i; y_1 is due at =, y_(i+1) at y_i, the mark = again at y_m
//
// Node i of n draws 0 .. 4 of those before it (node 1 one); those drawn twice, or with four that depend on them, fall away. Ids are a random
// choice, q is where a uniform edge leads. Training: n uniform in 3 .. N; evaluation: n = N.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "tasks/put_labels.h"

namespace crosstalk {

struct BrevoSpec {
  std::int32_t nodes = 0;      ///< N; their ids are 0 .. N - 1
  std::uint64_t examples = 0;  ///< training has this many sequences; 0 = no end

  CT_HD std::int32_t query() const { return nodes; }
  CT_HD std::int32_t answer() const { return nodes + 1; }
  CT_HD std::int32_t blank() const { return nodes + 2; }
  CT_HD std::int32_t edges() const { return nodes == 3 ? 3 : 4 * nodes - 10; }  ///< at most
  CT_HD std::int32_t tokens() const { return 2 * edges() + nodes + 2; }
};

/// [labels | ids | nodes that a node waits for, below 0 where it is not to be said | edges | their order]
CT_HD inline std::int32_t brevo_scratch_size(const BrevoSpec& spec) {
  return spec.tokens() + 2 * spec.nodes + 3 * spec.edges();
}

CT_HD inline void brevo_sequence(const BrevoSpec& spec, std::uint64_t data_seed, Split split, std::uint64_t n,
                                 const SequenceView& out, std::int32_t* labels) {
  RandomStream random = stream_of(spec, data_seed, split, n);
  const std::int32_t T = spec.tokens();
  std::int32_t *id = labels + T, *waits = id + spec.nodes, *edge = waits + spec.nodes,
               *order = edge + 2 * spec.edges();
  const std::int32_t nodes = is_train(split) ? 3 + draw_below(random, spec.nodes - 2) : spec.nodes;
  count_up(id, spec.nodes);
  arrange(random, id, spec.nodes, nodes);
  std::int32_t E = 0, t = 0;
  for (std::int32_t i = 0; i < nodes; ++i) {
    waits[i] = -1;
    for (std::int32_t left = i < 2 ? i : draw_below(random, 5); left > 0; --left) {
      const std::int32_t from = draw_below(random, i);
      std::int32_t dependants = 0;
      for (std::int32_t e = 0; e < E; ++e)
        if (edge[2 * e] == from) dependants += edge[2 * e + 1] == i ? 4 : 1;
      if (dependants < 4) edge[2 * E] = from, edge[2 * E++ + 1] = i;
    }
  }
  const std::int32_t asked = edge[2 * draw_below(random, E) + 1];
  waits[asked] = 0;
  for (std::int32_t e = E - 1; e >= 0; --e)  // b rises
    if (waits[edge[2 * e + 1]] >= 0) ++waits[edge[2 * e + 1]], waits[edge[2 * e]] += waits[edge[2 * e]] < 0;
  for (std::int32_t i = 0; i < T; ++i) labels[i] = -1, out.tokens[i] = spec.blank();
  count_up(order, E);
  arrange(random, order, E, E);
  for (std::int32_t e = 0; e < E; ++e)
    for (std::int32_t end = 0; end < 2; ++end) out.tokens[t++] = id[edge[2 * order[e] + end]];
  out.tokens[t++] = spec.query(), out.tokens[t++] = id[asked], out.tokens[t++] = spec.answer();
  for (waits[asked] = -1;;) {
    std::int32_t next = -1;
    for (std::int32_t i = 0; i < nodes; ++i)
      if (waits[i] == 0 && (next < 0 || id[i] < id[next])) next = i;
    labels[t - 1] = next < 0 ? spec.answer() : id[next];
    if (next < 0) break;
    out.tokens[t++] = id[next];
    waits[next] = -1;
    for (std::int32_t e = 0; e < E; ++e) waits[edge[2 * e + 1]] -= edge[2 * e] == next;
  }
  put_labels(out, labels, T);
}

}  // namespace crosstalk
