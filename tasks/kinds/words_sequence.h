// words: word problems of a group. Token t is an element x_t, its answer the product x_1 x_2 .. x_t.
//
// With n tokens a transition an element is followed by n - 1 pauses, and answers come n - 1 tokens late (Grazzi et al. 2024, arXiv
// 2411.12537). With pairs held out an element of training is uniform among those that may follow the one before.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "tasks/sequence_common.h"

namespace crosstalk {

struct WordsSpec {
  const std::int32_t* table = nullptr;    ///< [order, order], a b at a * order + b
  const std::int32_t* factors = nullptr;  ///< [choices] elements that occur
  std::int32_t order = 0, choices = 0, identity = 0;
  bool query_every = true;      ///< an answer at every token, else at the last one only
  bool start = false;           ///< one more token in front, `order`, that no answer follows
  std::uint32_t part = 0;       ///< stages of a curriculum draw from different sequences
  std::int32_t transition = 1;  ///< tokens of an element: itself, then pauses
  const std::int32_t* successors =
      nullptr;  ///< training: [choices + 1] where those of a factor begin, then all; or all may
  std::uint64_t examples = 0;  ///< training has this many sequences of each stage; 0 = no end

  CT_HD std::int32_t pause() const { return order + (start ? 1 : 0); }
  CT_HD std::int32_t tokens() const { return pause() + (transition > 1 ? 1 : 0); }
};

CT_HD inline std::int32_t words_scratch_size(const WordsSpec&) { return 0; }

CT_HD inline void words_sequence(const WordsSpec& spec, std::uint64_t data_seed, Split split, std::uint64_t n,
                                 const SequenceView& out, std::int32_t*) {
  if (is_train(split) && spec.examples > 0) n %= spec.examples;
  RandomStream random = sequence_stream(data_seed, split, n + (static_cast<std::uint64_t>(spec.part) << 48));
  const std::int32_t first = spec.start ? 1 : 0, T = out.shape.T - first, late = spec.transition - 1;
  const std::int32_t* successors = is_train(split) ? spec.successors : nullptr;
  std::int32_t product = spec.identity, before = spec.identity, factor = -1, q = 0;
  if (spec.start) {
    out.tokens[0] = spec.order;
    if (out.role) out.role[0] = static_cast<std::int32_t>(Role::identity);
  }
  for (std::int32_t t = 0; t < T; ++t) {
    const bool pause = t % spec.transition != 0;
    std::int32_t x = spec.pause();
    if (!pause) {
      if (successors == nullptr || factor < 0) {
        factor = draw_below(random, spec.choices);
      } else {
        const std::int32_t from = successors[factor], to = successors[factor + 1];
        factor = successors[spec.choices + 1 + from + draw_below(random, to - from)];
      }
      x = spec.factors[factor];
      before = product;
      product = spec.table[product * spec.order + x];
    }
    out.tokens[first + t] = x;
    if (out.role) out.role[first + t] = static_cast<std::int32_t>(pause ? Role::identity : Role::multiply);
    if (t < late) continue;  // nothing is due yet
    // Where fewer are wanted they spread evenly, and the last one stays.
    if (spec.query_every ? t + 1 - late != (static_cast<std::int64_t>(q) + 1) * (T - late) / out.shape.Q
                         : t + 1 != T)
      continue;
    out.query[q] = x;
    out.query_position[q] = first + t + 1;
    out.target[q] = t % spec.transition == late ? product : before;
    if (out.meta) {
      std::int32_t* meta = out.meta + static_cast<std::int64_t>(q) * meta_count;
      for (std::int32_t m = 0; m < meta_count; ++m)
        meta[m] = m == meta_operations ? (t + 1) / spec.transition : 0;
    }
    ++q;
  }
}

}  // namespace crosstalk
