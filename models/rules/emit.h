// Operations of a program from nodes of a law: what goes together, and where each value stands.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "kernels/rule/rule_program.h"
#include "models/rules/graph.h"

namespace crosstalk::rules {

constexpr int aligned(int place) { return (place + 3) / 4 * 4; }

/// Places of leaves, and which of them hold nothing that is wanted when the part has run.
struct Places {
  std::map<Value, int> of;
  std::set<Value> replaced;
  std::map<double, int> constants;
  int first_temporary = 0;
};

class Emitter {
 public:
  Emitter(RuleProgram& program, const Places& places, int K, int V)
      : program_(program), places_(places), K_(K), V_(V) {}
  /// Works the nodes out and leaves each at its place. Gives the part, and the numbers that it needs in all.
  std::pair<RuleProgram::Part, int> emit(const std::vector<std::pair<Value, int>>& outputs);

  int size(int letter) const { return sized(letter, K_, V_); }
  int numbers(Value x) const { return size(x->shape.rows) * size(x->shape.columns); }

 private:
  struct Block {
    int place, numbers;
    Value held;  ///< nullptr: free
  };
  void look_at(const std::vector<Value>& nodes, const std::vector<std::pair<Value, int>>& outputs);
  bool used_once(Value x) const { return uses_.at(x) == 1; }
  bool full(Value x, Value like) const { return x->shape == like->shape; }
  Value stored(Value x) const;
  bool array(Value x) const;
  std::vector<Value> arguments(Value node) const;
  int place(Value x) const;
  std::vector<Value> scheduled(const std::vector<Value>& nodes) const;
  RuleOperation operation(Value node) const;
  int target(Value node, const RuleOperation& op, int now);
  void release(Value node, int now);
  void gather_numbers(int first);
  int free_place(int numbers, Value node);

  RuleProgram& program_;
  const Places& places_;
  const int K_, V_;
  std::map<Value, int> uses_, last_, at_, wanted_at_;
  std::map<Value, std::vector<Value>> users_;
  std::set<Value> absorbed_, aliases_;
  std::vector<Block> blocks_;
  int end_ = 0;
};

}  // namespace crosstalk::rules
