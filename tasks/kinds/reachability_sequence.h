// reachability: two trees as a list of edges; which nodes descend from the first one (DeltaFormer 2025, arXiv 2505.19488, section
// 4.2 and appendix G.2).
//
//   p_1 c_1 p_2 c_2 ..   every node once as c, behind its parent p, which was shown before; a root is its own parent
//
// The nodes 1 .. n fall into two halves at random; in each half every node but the first has a uniform earlier one of that half as
// its parent. At c it is due whether c is in the tree of node 1.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "tasks/sequence_common.h"

namespace crosstalk {

struct ReachabilitySpec {
  std::int32_t nodes = 0;       ///< n, even
  std::int32_t vocabulary = 0;  ///< ids of nodes
  bool renamed = false;         ///< ids are a random choice, else node i is i - 1
  std::uint64_t examples = 0;   ///< training has this many sequences; 0 = no end
};

/// [ids | half of a node | nodes of both halves | depth]
CT_HD inline std::int32_t reachability_scratch_size(const ReachabilitySpec& spec) {
  return spec.vocabulary + 4 * spec.nodes;
}

CT_HD inline void reachability_sequence(const ReachabilitySpec& spec, std::uint64_t data_seed, Split split,
                                        std::uint64_t n, const SequenceView& out, std::int32_t* ids) {
  RandomStream random = stream_of(spec, data_seed, split, n);
  const std::int32_t N = spec.nodes, Q = out.shape.Q;
  std::int32_t* half_of = ids + spec.vocabulary;
  std::int32_t* members = half_of + N;  // of half h at h N
  std::int32_t* depth = members + 2 * N;
  count_up(ids, spec.vocabulary);
  if (spec.renamed) arrange(random, ids, spec.vocabulary, N);
  std::int32_t left = N / 2, size[2] = {0, 0};
  for (std::int32_t i = 0, q = 0; i < N; ++i) {
    const bool first = draw_below(random, N - i) < left;
    left -= first;
    const std::int32_t half = first ? 0 : 1;
    half_of[i] = half;
    const std::int32_t parent = size[half] == 0 ? i : members[half * N + draw_below(random, size[half])];
    members[half * N + size[half]++] = i;
    depth[i] = parent == i ? 0 : depth[parent] + 1;
    put_id(out, 2 * i, Role::write, ids[parent]);
    put_id(out, 2 * i + 1, Role::ask, ids[i]);
    if (!asked(i, N, q, Q)) continue;
    if (std::int32_t* meta = put_due(out, q++, 2 * i + 1, half == half_of[0])) meta[meta_touches] = depth[i];
  }
}

}  // namespace crosstalk
