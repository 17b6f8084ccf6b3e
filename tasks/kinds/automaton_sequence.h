// automaton: a machine with a state reads inputs, and says now and then what it holds.
//
// Words of one or two tokens are inputs; where answers are revealed a mark stands, and behind it the answer where it is shown. A step is idle
// with probability `ignore` where a machine has idle words; of the others half reveal, where marks do. What follows the last word is blank.
//
//   table     the next state stands in a table, the answer in another          drawn  the same, with a table that each sequence draws
//   undo      w b writes a bit above those before, u takes the last one away   majority  the input seen most often so far, the least of several
//   dyck      brackets of several kinds, nested: what closes next              language  strings of a random automaton: the next symbol
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "tasks/put_labels.h"

namespace crosstalk {

enum class Machine : std::int32_t { table, drawn, undo, majority, dyck, language };
enum class Reveal : std::int32_t { every, end, marks, shown, next };

struct AutomatonSpec {
  /// [states, inputs] next states | [states] answers | [inputs, 2] tokens of a word, the second -1 where it has one
  const std::int32_t* table = nullptr;
  Machine machine = Machine::table;
  Reveal reveal = Reveal::every;
  std::int32_t states = 0, inputs = 0;
  std::int32_t changes = 0;    ///< inputs from here on are idle
  std::int32_t mark = 0;       ///< id of the mark; of what stands between strings
  std::int32_t answer = 0;     ///< id of answer 0, where answers are shown
  std::int32_t depth = 0;      ///< most that a stack holds; 0 = no bound
  std::int32_t string = 1;     ///< longest string of a language
  std::uint64_t examples = 0;  ///< training has this many sequences; 0 = no end
  std::int32_t shortest = 1, longest = 1;
  std::int32_t ignore = 0;  ///< probability in units of 2^-24
  std::int32_t undo = 0;    ///< above 0: undo + 1 writes, as many undone but one, then idle words

  CT_HD const std::int32_t* answers() const { return table + states * inputs; }
  CT_HD const std::int32_t* words() const { return answers() + states; }
  /// Tokens of a reveal.
  CT_HD std::int32_t tail() const { return reveal == Reveal::shown ? 2 : reveal == Reveal::marks ? 1 : 0; }
};

namespace automaton {

constexpr std::int32_t kEdges = 4;  ///< most that leave a state of a language

/// A machine on its way through a sequence.
struct Run {
  const AutomatonSpec& spec;
  const std::int32_t* next;  ///< [states, inputs]
  std::int32_t* held;        ///< undo: tokens where what it holds was written; majority: counts
  std::int32_t state = 0;    ///< undo: how many it holds
  std::int32_t set = 0;      ///< token that the answer is from

  CT_HD void read(std::int32_t input, std::int32_t at) {
    if (input >= spec.changes) return;
    set = at;
    if (spec.machine == Machine::majority) {
      const std::int32_t count = ++held[input], most = held[state];
      if (count > most || (count == most && input < state)) state = input;
    } else if (spec.machine == Machine::undo) {
      if (input < 2)
        held[state++] = at;
      else
        --state;
      set = held[state - 1];
    } else {
      state = next[state * spec.inputs + input];
    }
  }
  CT_HD std::int32_t answer(const std::int32_t* tokens) const {
    return spec.machine == Machine::undo       ? tokens[held[state - 1]] - spec.answer
           : spec.machine == Machine::majority ? state
                                               : spec.answers()[state];
  }
};

/// The input of a step, -1 for a reveal. Machines with idle words begin with another.
CT_HD inline std::int32_t draw_input(RandomStream& random, const AutomatonSpec& spec, std::int32_t state,
                                     std::int32_t step) {
  constexpr std::int32_t one = 1 << 24;
  const std::int32_t idle = spec.inputs - spec.changes;
  if (spec.undo > 0 && step > 0)
    return step <= spec.undo       ? draw_below(random, 2)
           : step <= 2 * spec.undo ? 2
                                   : spec.changes + draw_below(random, idle);
  const std::int32_t u = draw_below(random, one);
  if (step > 0 || idle == 0) {
    if (u < spec.ignore) return spec.changes + draw_below(random, idle);
    if (spec.tail() > 0 && u < spec.ignore + (one - spec.ignore) / 2) return -1;
  }
  if (spec.machine != Machine::undo) return draw_below(random, spec.changes);
  return state > 1 && (state == spec.depth || draw_below(random, 2) == 0) ? 2 : draw_below(random, 2);
}

/// Words and reveals in `size` tokens, of which the last may stay blank where no word fits.
CT_HD inline void write_words(RandomStream& random, Run& run, std::int32_t size, std::int32_t* tokens,
                              std::int32_t* labels, std::int32_t* set) {
  const AutomatonSpec& spec = run.spec;
  const std::int32_t tail = spec.tail();
  std::int32_t t = 0;
  const auto ask = [&] {
    labels[t - 1] = run.answer(tokens);
    set[t - 1] = run.set;
  };
  const auto reveal = [&] {
    tokens[t++] = spec.mark;
    ask();
    if (tail == 2) tokens[t] = spec.answer + labels[t - 1], ++t;
  };
  for (std::int32_t step = 0; t + tail < size; ++step) {
    const std::int32_t room = size - t - tail;
    std::int32_t input = draw_input(random, spec, run.state, step);
    const std::int32_t* word = input < 0 ? nullptr : spec.words() + 2 * input;
    if ((word == nullptr ? tail : word[1] < 0 ? 1 : 2) > room) {
      if (tail != 1) break;
      word = nullptr;
    }
    if (word == nullptr) {
      reveal();
      continue;
    }
    tokens[t++] = word[0];
    if (word[1] >= 0) tokens[t++] = word[1];
    run.read(input, t - 1);
    if (spec.reveal == Reveal::every) ask();
  }
  if (tail > 0) reveal();
  if (spec.reveal == Reveal::end) ask();
}

/// Brackets: k that open, k that close. Due in front of each that closes.
CT_HD inline void write_brackets(RandomStream& random, const AutomatonSpec& spec, std::int32_t size,
                                 std::int32_t* tokens, std::int32_t* labels, std::int32_t* set,
                                 std::int32_t* held) {
  std::int32_t depth = 0;
  for (std::int32_t t = 0; t < size; ++t)
    if (depth > 0 && (t + 1 == size || depth == spec.depth || draw_below(random, 2) == 0)) {
      set[t - 1] = held[--depth];
      labels[t - 1] = tokens[set[t - 1]] - 1;
      tokens[t] = 1 + spec.inputs + labels[t - 1];
    } else {
      held[depth++] = t;
      tokens[t] = 1 + draw_below(random, spec.inputs);
    }
}

/// Draws an automaton of 4 .. states states and 4 .. inputs symbols, 1 .. 4 edges from a state with different symbols to different other
/// states, then strings that begin in state 0 and take each edge alike. Due: the next symbol of a string.
CT_HD inline void write_strings(RandomStream& random, const AutomatonSpec& spec, std::int32_t size,
                                std::int32_t* tokens, std::int32_t* labels, std::int32_t* set,
                                std::int32_t* work) {
  const std::int32_t S = kEdges + draw_below(random, spec.states - kEdges + 1),
                     symbols = kEdges + draw_below(random, spec.inputs - kEdges + 1),
                     most = S - 1 < kEdges ? S - 1 : kEdges;
  std::int32_t *alphabet = work, *others = alphabet + spec.inputs, *count = others + S, *symbol = count + S,
               *target = symbol + kEdges * S;
  count_up(alphabet, spec.inputs);
  arrange(random, alphabet, spec.inputs, symbols);
  for (std::int32_t s = 0; s < S; ++s) {
    count[s] = 1 + draw_below(random, most);
    for (std::int32_t i = 0; i + 1 < S; ++i) others[i] = i < s ? i : i + 1;
    arrange(random, alphabet, symbols, count[s]);
    arrange(random, others, S - 1, count[s]);
    for (std::int32_t e = 0; e < count[s]; ++e)
      symbol[kEdges * s + e] = alphabet[e], target[kEdges * s + e] = others[e];
  }
  for (std::int32_t t = 0; t < size;) {
    tokens[t++] = spec.mark;
    const std::int32_t length = 1 + draw_below(random, spec.string);
    for (std::int32_t i = 0, state = 0; i < length && t < size; ++i, ++t) {
      const std::int32_t edge = kEdges * state + draw_below(random, count[state]);
      labels[t - 1] = symbol[edge];
      set[t - 1] = t - 1;
      tokens[t] = 1 + symbol[edge];
      state = target[edge];
    }
  }
}

}  // namespace automaton

/// [labels | token that each is from | a drawn table, what a stack holds, counts, or a language]
CT_HD inline std::int32_t automaton_scratch_size(const AutomatonSpec& spec) {
  return 2 * spec.longest + (spec.machine == Machine::drawn      ? spec.states * spec.inputs
                             : spec.machine == Machine::language ? spec.inputs + 10 * spec.states
                                                                 : spec.longest + spec.inputs);
}

CT_HD inline void automaton_sequence(const AutomatonSpec& spec, std::uint64_t data_seed, Split split,
                                     std::uint64_t n, const SequenceView& out, std::int32_t* labels) {
  RandomStream random = stream_of(spec, data_seed, split, n);
  const std::int32_t T = out.shape.T,
                     size = spec.shortest + draw_below(random, spec.longest - spec.shortest + 1);
  std::int32_t *set = labels + T, *work = set + T;
  for (std::int32_t t = 0; t < T; ++t) out.tokens[t] = 0, labels[t] = -1;
  if (spec.machine == Machine::dyck) {
    automaton::write_brackets(random, spec, size, out.tokens, labels, set, work);
  } else if (spec.machine == Machine::language) {
    automaton::write_strings(random, spec, size, out.tokens, labels, set, work);
  } else {
    automaton::Run run{spec, spec.machine == Machine::drawn ? work : spec.table, work};
    if (spec.machine == Machine::drawn)
      for (std::int32_t i = 0; i < spec.states * spec.inputs; ++i) work[i] = draw_below(random, spec.states);
    if (spec.machine == Machine::majority)
      for (std::int32_t i = 0; i < spec.inputs; ++i) work[i] = 0;
    automaton::write_words(random, run, size, out.tokens, labels, set);
  }
  put_labels(out, labels, T);
  for (std::int32_t q = 0; out.meta && q < out.shape.Q; ++q) {
    if (out.target[q] < 0) continue;
    const std::int32_t at = out.query_position[q] - 1;
    std::int32_t* meta = out.meta + static_cast<std::int64_t>(q) * meta_count;
    meta[meta_gap] = at - set[at];
    meta[meta_operations] = at;
  }
}

}  // namespace crosstalk
