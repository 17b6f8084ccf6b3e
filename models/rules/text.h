// The text of a law: steps, what they are made of, and trees of expressions. Shapes and meaning: law.h.
//
//   step     = "state" NAME "[" size ["," size] "]" ["=" choice] | NAME ("=" | "+=" | "-=") choice | "read" choice
//   choice   = sum | sum ["==" (WORD | sum)] "?" choice ":" choice          by an option of a memory
//   sum      = ["-"] product { ("+" | "-") product }
//   product  = joined { ("*" | "/") joined }            entry by entry
//   joined   = power { power }                          product of matrices
//   power    = atom { "^T" | "'" | "^" ["-"] DIGIT | "^" (NAME | "(" choice ")") }
//   atom     = NUMBER | NAME | FUNCTION "(" [argument { "," argument }] ")" | "(" choice ")"
//   argument = [NAME "="] choice
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace crosstalk::rules {

/// An error of a law, and what would be right: step and column count from 1.
struct LawError : std::invalid_argument {
  LawError(int step_, int column_, const std::string& message)
      : std::invalid_argument(message), step(step_), column(column_) {}
  int step, column;
};

/// A part of a step. `parts` of a call have the names of named arguments in `names`.
struct Tree {
  enum class Kind {
    number,
    name,
    call,
    transpose,
    power,
    negative,
    add,
    subtract,
    times,
    divide,
    joined,
    word,    ///< "softplus": a value of an option
    equal,   ///< the condition of a choice
    choice,  ///< condition ? this : that
  };
  Kind kind = Kind::number;
  int column = 1, depth = 1, power = 0;
  double number = 0;
  bool enclosed = false;  ///< stands in parentheses
  std::string name;
  std::vector<std::unique_ptr<Tree>> parts;
  std::vector<std::string> names;
};

struct Step {
  enum class Kind { state, set, add, subtract, read };
  Kind kind = Kind::set;
  int column = 1;  ///< of the name, or of read
  std::string name;
  std::vector<std::unique_ptr<Tree>> sizes;
  std::unique_ptr<Tree> value;  ///< of a state: how it starts, or nothing
};

/// One step; `number` is its place in the law. Throws LawError.
Step parse_step(std::string_view text, int number);

/// A law in one string, cut at its semicolons.
std::vector<std::string> steps_of(const std::string& law);

/// A number as canonical text has it: the fewest digits that read back.
std::string number_text(double x);

/// cos(x) is sin(x + a quarter turn).
inline constexpr double kQuarterTurn = 1.5707963267948966;
bool is_map(const std::string& name);       ///< goes entry by entry
bool is_function(const std::string& name);  ///< any function but token, asking and parameter
bool is_init(const std::string& name);
bool is_learned(const std::string& name);  ///< token, asking, parameter
const std::vector<std::string>& function_names();

/// Most characters of a step, parentheses and operations inside each other.
inline constexpr int kLongestStep = 4000, kDeepestParentheses = 60, kDeepestTree = 150;

}  // namespace crosstalk::rules
