// Candidates of a search over update laws: drawn, changed and crossed, each a law in canonical text that the checker takes.
//
//   candidate    = canonical_text(law)           one text for laws that differ in names, order and signs alone
//   child, what  = mutated(law) | crossed(a, b)  one typed change of the law's graph, and a phrase that says it
//   before training: exceeds(price), unstable, dead; known if value_key is known; probe ranks what is left
//
// All are pure functions of their arguments; draws are of a counter-based stream (kernels/base/random.h), so that a candidate is
// RandomStream(seed, RandomDomain::candidate, its number) whatever the number of workers. Texts may be in any spelling that
// parse_law() takes; what comes back is canonical. A text that is refused throws rules::LawError.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "kernels/base/random.h"

namespace crosstalk::search {

/// What a candidate may cost, at these sizes of a head; 0: no limit.
struct Limits {
  int K = 16, V = 16;
  double operations = 0;    ///< of a token: additions, products and functions of numbers
  std::int64_t floats = 0;  ///< of state
  int gates = 4;            ///< learned quantities: token, asking, parameter
  int nodes = 24;           ///< operations of the law's graph, however large their values are
  int states = 2;
};

struct Price {
  double operations = 0;
  std::int64_t floats = 0;
  int gates = 0, nodes = 0, states = 0;
  bool engines =
      false;        ///< it becomes calls of the engines of built-in memories; else it runs token after token
  std::string why;  ///< why it runs token after token: state and reason
};
/// Counts of the law's canonical graph at these sizes.
Price price(const std::string& law, int K, int V);
/// What is over a limit, in a sentence: "it keeps 512 floats of state, and at most 256 are allowed"; or nothing.
std::optional<std::string> exceeds(const Price& price, const Limits& limits);

/// The law simplified: numbers worked out, signs and factors collected, terms of sums and products in one order, signs and factors
/// of projections that stand alone left to their weights, only what is needed, names of quantities and states given anew.
/// canonical_text(canonical_text(x)) is canonical_text(x).
std::string canonical_text(const std::string& law);

/// The law that a search can do with least.
inline constexpr const char* kPlainSum = "S += v k^T; read S q";
/// A law drawn at random within the limits, by types: always one whose reading asks a state that a token changes; kPlainSum where none
/// of some hundred keeps to them.
std::string random_candidate(RandomStream& random, const Limits& limits);

struct Change {
  std::string law;  ///< canonical; the same as the parent's where no change that was tried fits the limits
  std::string
      what;  ///< one phrase for the lineage: "gates v k^T by sigmoid(token)"; "" where nothing changed
};
/// One change, mostly, of a term: inserted, replaced, deleted, gated, through a map; of a gate: shared, split; of a state: a second
/// one, or one away; of the reading: before or after the write.
Change mutated(const std::string& law, RandomStream& random, const Limits& limits);
/// `a` with a term of `b` in place of one of the same shape, or its reading.
Change crossed(const std::string& a, const std::string& b, RandomStream& random, const Limits& limits);

/// The same for laws that read the same after the same tokens, and have the same gradients, up to what training takes up: which
/// projection is which, their signs, those of q and k. 32 hexadecimal digits. Equal laws may have two keys where rounding is
/// large; laws that differ have two.
std::string value_key(const std::string& law);

/// Why it would not train: a state multiplied by more than 1, or reads that are not finite or grow on random tokens; or nothing.
std::optional<std::string> unstable(const std::string& law);
/// Tells whether what is read depends on no value or on no key of the tokens, or is the same for all queries.
bool dead(const std::string& law);
/// Loss without training of the better of recall and replacement (orthogonal keys, every gate near 0, a half or near 1, the read
/// times its best factor), from 0 to 0.5, the loss of answering nothing. Lower is better.
double probe(const std::string& law);

}  // namespace crosstalk::search
