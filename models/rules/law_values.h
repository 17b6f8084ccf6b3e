// Meaning of the expressions of a law: names, numbers, functions and learned quantities as nodes of its graph. What steps do with
// them is law.cpp's.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>

#include "models/rules/law.h"

namespace crosstalk::rules {

/// A value, or a number times I, whose size its neighbour decides.
struct Meaning {
  Value value = nullptr, identity = nullptr;
  bool is_identity() const { return identity != nullptr; }
};

class LawValues {
 public:
  explicit LawValues(Law& law, const MemoryText* memory = nullptr)
      : law_(law), g_(law.graph), memory_(memory) {}

  /// Errors are of this step, counted from 1.
  void at_step(int step) { at_ = step; }
  int step() const { return at_; }
  /// Learned quantities are called as what is defined, or of a state as its start.
  void begin(const std::string& definition, bool starts, bool reads) {
    definition_ = definition, learned_here_ = 0, starts_ = starts, reads_ = reads;
  }
  /// Throws LawError.
  [[noreturn]] void fail(int column, const std::string& message) const {
    throw LawError(at_, column, message);
  }

  /// Values by name: nullptr where it has none any more.
  std::map<std::string, Value>& names() { return names_; }
  bool used(const std::string& name) const { return used_.count(name) != 0; }
  /// A value as a name has it. One that some grad() is by is a leaf to what follows, or rewrites would take it apart and nothing
  /// would seem to depend on it.
  Value kept(const std::string& name, Value node);
  /// With the values in place of such leaves, but of one.
  Value expanded(Value root, Value but = nullptr);
  void differentiate_by(const Tree& tree);  ///< finds those names
  /// What the steps of a state gave, whose name from here on is a leaf.
  void settled(const std::string& state, Value node) { settled_[state] = node; }
  LawState* state_at(const std::string& name) const;
  bool is_state(const std::string& name) const { return state_at(name) != nullptr; }

  Meaning value(const Tree& tree);
  /// Makes it a value of this shape.
  Value shaped(const Meaning& meaning, Shape shape, int column);
  int size(const Tree& tree);
  /// The node of a learned quantity.
  Value leaf(const Learned& one) { return g_.make(one.kind, {}, one.shape, one.name, one.weight ? 1 : 0); }

 private:
  Value plain(const Tree& tree, int column);
  Meaning named(const Tree& tree);
  Meaning made(const Tree& tree);
  void wants_arguments(const Tree& tree) const;
  Value call(const Tree& tree);
  Value learn(const Tree& tree);
  void init(const Tree& tree, Learned& one);
  /// What a choice by an option comes to: the tree itself, or one of its sides; names of the other count as used.
  const Tree& chosen(const Tree& tree);
  bool is_so(const Tree& condition) const;
  void use(const Tree& tree);
  /// A number that is written out, or that of a name.
  std::optional<double> number(const Tree& tree);
  /// Nodes on which a value depends, through such leaves too, but not through some.
  std::set<Value> reached(Value root, const std::set<Value>& but = {}) const;
  /// Refuses a gradient of a number by a leaf that would miss what it depends on.
  void check_gradient(const Tree& tree, Value of, Value by);

  Law& law_;
  LawGraph& g_;
  const MemoryText* memory_;
  std::map<std::string, Value> names_, settled_;
  std::set<std::string> used_, by_;
  std::vector<std::pair<Value, Value>> leaves_;  ///< and their values, which may have earlier leaves
  struct Inner {
    Value gradient;
    std::set<Value> through;  ///< leaves whose values the gradient has in their place
  };
  std::vector<Inner> inner_;  ///< the gradients so far
  int at_ = 1, learned_here_ = 0;
  std::string definition_;
  bool starts_ = false, reads_ = false;
};

}  // namespace crosstalk::rules
