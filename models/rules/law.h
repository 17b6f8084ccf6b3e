// A law: what a token does to states, and what is read, as a graph of typed operations.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "models/rules/graph.h"
#include "models/rules/text.h"

namespace crosstalk::rules {

inline constexpr int kRankOfKeys = -3;  ///< rank = d

/// A quantity that a model learns: a projection of the token, or of what asks, or a parameter of a head.
struct Learned {
  Kind kind;
  std::string name;
  Shape shape;
  std::string init;             ///< "", "constant", "normal", "uniform", "log_uniform", "inverse_softplus"
  std::vector<double> numbers;  ///< of init
  int rank = 0;
  bool in_reading = false;  ///< only the reading and what asks use it
};

struct LawState {
  std::string name;
  Shape shape;
  Value start = nullptr;  ///< nullptr: 0
  Value step = nullptr;
};

/// A number that a study may set beside the law: memory.c.
struct NamedNumber {
  std::string name;
  double value;
};

/// A grad() of the text.
struct LawGradient {
  Value gradient, of, by;
};

struct Law {
  LawGraph graph;
  std::vector<LawState> states;
  std::vector<Learned> learned;
  std::vector<std::pair<std::string, Value>> values;  ///< what steps gave a name, as the text has it
  std::vector<LawGradient> gradients;
  std::vector<std::string> notes;  ///< what the author may not expect
  Value read = nullptr;
  bool before = false;  ///< read before the token is written
  const LawState& state(const std::string& name) const;
  const Learned& quantity(const std::string& name) const;
  std::vector<Value> roots() const;
};

/// Throws LawError.
std::unique_ptr<Law> parse_law(const std::vector<std::string>& steps,
                               const std::vector<NamedNumber>& numbers = {});

/// Steps that give the same law: the states, a step for each learned quantity, for each value that is needed
/// twice (x1, x2,
/// ...), for each state, and the reading. Spaces, parentheses, spelling of numbers and names of values do
/// not count.
std::vector<std::string> canonical(const Law& law);
/// "token(K, rank = d)"
std::string learned_text(const Learned& one);
/// An expression, with learned quantities by their names.
std::string expression_text(const Law& law, Value root);

/// The law and its canonical text in one string, steps joined by "; ". Throws LawError, also where that does
/// not read back.
struct Accepted {
  std::unique_ptr<Law> law;
  std::string text;
};
Accepted accept_law(const std::vector<std::string>& steps, const std::vector<NamedNumber>& numbers = {});

}  // namespace crosstalk::rules
