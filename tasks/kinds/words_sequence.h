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
  std::int32_t length = 0;     ///< T, but for the token in front

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
  if (spec.start) put_id(out, 0, Role::identity, spec.order);
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
    put_id(out, first + t, pause ? Role::identity : Role::multiply, x);
    if (t < late) continue;  // nothing is due yet
    if (spec.query_every ? !asked(t - late, T - late, q, out.shape.Q) : t + 1 != T) continue;
    const std::int32_t answer = t % spec.transition == late ? product : before;
    if (std::int32_t* meta = put_due(out, q++, first + t, answer))
      meta[meta_operations] = (t + 1) / spec.transition;
  }
}

}  // namespace crosstalk
