// trace: a program of assignments and swaps of variables, whose prints show a part of the state (Siems et al. 2026, arXiv 2602.14814).
//
//   SET a v    a holds v from here on; first for every variable, different values
//   SWAP a b   they exchange what they hold; SWAP ? ? where the line is hidden
//   PRINT a v  a uniform variable and what it holds: v is due at a
//
// Lines of three tokens. A line in the middle is SET with probability `set`, with a uniform value, else SWAP of two different variables, hidden with
// probability `hidden`. Every `every` lines and at the end a print. In training, where `next` is set, every next token is due.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "tasks/put_labels.h"

namespace crosstalk {

struct TraceSpec {
  std::int32_t variables = 0, values = 0;
  std::int32_t every = 1;            ///< lines a print
  std::int32_t set = 0, hidden = 0;  ///< probabilities in units of 2^-24
  bool next = true;                  ///< training labels every next token
  std::uint64_t examples = 0;        ///< training has this many sequences; 0 = no end
  std::int32_t lines = 0;            ///< but for the first ones and prints

  // Ids: SET, SWAP, PRINT, ?, variables, values.
  CT_HD std::int32_t variable(std::int32_t i) const { return 4 + i; }
  CT_HD std::int32_t value(std::int32_t i) const { return 4 + variables + i; }
  CT_HD std::int32_t vocabulary() const { return 4 + variables + values; }
  CT_HD std::int32_t prints() const { return (lines + every - 1) / every; }
  CT_HD std::int32_t tokens() const { return 3 * (variables + lines + prints()); }
};

/// [labels | values of variables | values in random order]
CT_HD inline std::int32_t trace_scratch_size(const TraceSpec& spec) {
  return spec.tokens() + spec.variables + spec.values;
}

CT_HD inline void trace_sequence(const TraceSpec& spec, std::uint64_t data_seed, Split split, std::uint64_t n,
                                 const SequenceView& out, std::int32_t* labels) {
  constexpr std::int32_t one = 1 << 24;
  RandomStream random = stream_of(spec, data_seed, split, n);
  const std::int32_t T = out.shape.T, V = spec.variables;
  std::int32_t *held = labels + T, *pool = held + V, t = 0;
  const auto line = [&](std::int32_t word, std::int32_t a, std::int32_t b) {
    out.tokens[t] = word, out.tokens[t + 1] = a, out.tokens[t + 2] = b;
    t += 3;
  };
  const auto assign = [&](std::int32_t i, std::int32_t value) {
    line(0, spec.variable(i), spec.value(value));
    held[i] = value;
  };
  count_up(pool, spec.values);
  arrange(random, pool, spec.values, V);
  for (std::int32_t i = 0; i < V; ++i) assign(i, pool[i]);
  const bool all = is_train(split) && spec.next;
  for (std::int32_t i = 1; i <= spec.lines; ++i) {
    if (draw_below(random, one) < spec.set) {
      const std::int32_t a = draw_below(random, V);
      assign(a, draw_below(random, spec.values));
    } else {
      const std::int32_t a = draw_below(random, V), b = (a + 1 + draw_below(random, V - 1)) % V, x = held[a];
      const bool hidden = draw_below(random, one) < spec.hidden;
      line(1, hidden ? 3 : spec.variable(a), hidden ? 3 : spec.variable(b));
      held[a] = held[b], held[b] = x;
    }
    if (i % spec.every != 0 && i != spec.lines) continue;
    const std::int32_t a = draw_below(random, V);
    line(2, spec.variable(a), spec.value(held[a]));
  }
  for (std::int32_t i = 0; i < T; ++i)
    labels[i] = i + 1 < T && (all || (i % 3 == 1 && out.tokens[i - 1] == 2)) ? out.tokens[i + 1] : -1;
  put_labels(out, labels, T);
  for (std::int32_t q = 0; out.meta && q < out.shape.Q; ++q)
    if (out.target[q] >= 0)
      out.meta[static_cast<std::int64_t>(q) * meta_count + meta_operations] = out.query_position[q] / 3;
}

}  // namespace crosstalk
