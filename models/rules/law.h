// A law: what a token does to states, and what is read, as a graph of typed operations.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
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
  Kind kind = Kind::token;
  std::string name = {};
  Shape shape = {};
  std::string init =
      {};  ///< "", "constant", "normal", "uniform", "log_uniform", "inverse_softplus", .. or a ramp's name in quotes
  std::vector<double> numbers = {};  ///< of init
  int rank = 0;
  double weights = 1;        ///< of a projection: its weights start as the model's do, times this
  std::string through = {};  ///< what the numbers of its rank go through: "tanh", or nothing
  bool each_write = false;   ///< one of every write of a token
  bool any_sign = false;     ///< an input that may be below 0 where it is given
  bool weight = false;       ///< of an input of a memory, whose step says what it becomes
  Value made = nullptr;      ///< of an input of a memory: what its step says
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

/// The memory whose own text a law is: values of its options, of which ?: chooses, and its inputs, which are given or made by
/// the steps that are called so. The kind and shape of an input without a step are as here.
struct MemoryText {
  std::map<std::string, std::string> options;
  std::vector<Learned> inputs;
  std::vector<std::string> absent = {};  ///< optional inputs that are not there: 0
  bool study = false;  ///< as a law of a study: inputs are values, or learned where no step makes them
  bool given =
      false;  ///< inputs are given, and states begin at 0 where nobody gives them: no parameter is there
  bool asks_at_tokens = false;  ///< every token has a query, which steps of states may look at
};

/// A grad() of the text.
struct LawGradient {
  Value gradient, of, by;
};

struct Law {
  LawGraph graph;
  std::vector<LawState> states;
  std::vector<Learned> learned;                       ///< of a memory's text: its inputs
  std::vector<Learned> weights;                       ///< of a memory's text: what inputs are made of
  std::vector<std::pair<std::string, Value>> values;  ///< what steps gave a name, as the text has it
  std::vector<LawGradient> gradients;
  std::vector<std::string> notes;  ///< what the author may not expect
  Value read = nullptr;
  bool before = false;  ///< read before the token is written
  const LawState& state(const std::string& name) const;
  /// That of a node of kind token, asking or parameter.
  const Learned& quantity(Value node) const;
  std::vector<Value> roots() const;
};

/// Throws LawError.
std::unique_ptr<Law> parse_law(const std::vector<std::string>& steps,
                               const std::vector<NamedNumber>& numbers = {},
                               const MemoryText* memory = nullptr);

/// Steps that give the same law: the states, a step for each learned quantity, for each value that is needed
/// twice (x1, x2,
/// ...), for each state, and the reading. Spaces, parentheses, spelling of numbers and names of values do
/// not count.
std::vector<std::string> canonical(const Law& law);
/// "token(K, rank = d)"
std::string learned_text(const Learned& one);
/// An expression, with learned quantities by their names, or as they stand in their steps.
std::string expression_text(const Law& law, Value root, bool names = true);

/// The law and its canonical text in one string, steps joined by "; ". Throws LawError, also where that does
/// not read back.
struct Accepted {
  std::unique_ptr<Law> law;
  std::string text;
};
Accepted accept_law(const std::vector<std::string>& steps, const std::vector<NamedNumber>& numbers = {});

}  // namespace crosstalk::rules
