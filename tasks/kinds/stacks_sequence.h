// stacks: many stacks at once, pushed and popped in turn (Kimi Linear, Zhang et al. 2025, arXiv 2510.26692, section 5.1).
//
//   PUSH s x   puts x on stack s
//   POP s x    takes x from stack s: x is due at s, and stands in the input behind it
//
// An operation is a pop with probability `pop` where a stack holds anything, of a stack drawn uniformly from those that do; else
// a push of a uniform element on a uniform stack. The last one is a pop.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "tasks/put_labels.h"

namespace crosstalk {

struct StacksSpec {
  std::int32_t stacks = 0, elements = 0;  ///< S, V
  std::int32_t operations = 0;            ///< three tokens each
  std::int32_t pop = 0;                   ///< probability in units of 2^-24
  std::uint64_t examples = 0;             ///< training has this many sequences; 0 = no end

  CT_HD std::int32_t first_stack() const { return 2; }
  CT_HD std::int32_t first_element() const { return 2 + stacks; }
  CT_HD std::int32_t vocabulary() const { return 2 + stacks + elements; }
};

/// [labels | push below a push | push on top of a stack | stacks that hold something | place there | push of a pop]
CT_HD inline std::int32_t stacks_scratch_size(const StacksSpec& spec) {
  return 5 * spec.operations + 3 * spec.stacks;
}

CT_HD inline void stacks_sequence(const StacksSpec& spec, std::uint64_t data_seed, Split split,
                                  std::uint64_t n, const SequenceView& out, std::int32_t* scratch) {
  constexpr std::int32_t probability = 1 << 24;
  RandomStream random = stream_of(spec, data_seed, split, n);
  const std::int32_t N = spec.operations, S = spec.stacks, T = 3 * N;
  std::int32_t* labels = scratch;
  std::int32_t* below = labels + T;
  std::int32_t* top = below + N;
  std::int32_t* held = top + S;    // stacks that hold something, in no order
  std::int32_t* place = held + S;  // of a stack among them
  std::int32_t* pushed = place + S;
  std::int32_t some = 0;
  for (std::int32_t s = 0; s < S; ++s) top[s] = -1;
  for (std::int32_t i = 0; i < N; ++i) {
    const bool pop = (i + 1 == N || draw_below(random, probability) < spec.pop) && some > 0;
    const std::int32_t drawn = draw_below(random, pop ? some : S), s = pop ? held[drawn] : drawn;
    std::int32_t* token = out.tokens + 3 * i;
    token[0] = pop ? 1 : 0;
    token[1] = spec.first_stack() + s;
    labels[3 * i] = labels[3 * i + 1] = labels[3 * i + 2] = -1;
    if (pop) {
      const std::int32_t from = top[s];
      token[2] = labels[3 * i + 1] = out.tokens[3 * from + 2];
      pushed[i] = from;
      top[s] = below[from];
      if (top[s] < 0) {  // the last of those that hold something takes its place
        held[place[s]] = held[--some];
        place[held[some]] = place[s];
      }
    } else {
      token[2] = spec.first_element() + draw_below(random, spec.elements);
      below[i] = top[s];
      if (top[s] < 0) held[place[s] = some++] = s;
      top[s] = i;
    }
  }
  put_labels(out, labels, T);
  for (std::int32_t i = 0; out.role && i < N; ++i)
    for (std::int32_t t = 3 * i; out.tokens[3 * i] == 0 && t < 3 * i + 3; ++t)
      out.role[t] = static_cast<std::int32_t>(Role::write);
  for (std::int32_t q = 0; out.meta && q < out.shape.Q; ++q) {
    if (out.target[q] < 0) continue;
    const std::int32_t at = out.query_position[q] - 1;
    std::int32_t* meta = out.meta + static_cast<std::int64_t>(q) * meta_count;
    meta[meta_gap] = at - (3 * pushed[at / 3] + 2);
    meta[meta_operations] = at / 3;
  }
}

}  // namespace crosstalk
