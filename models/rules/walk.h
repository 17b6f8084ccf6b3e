// Nodes of a law's graph worked out operation by operation in double, for many examples at once: what no engine and no program
// has touched.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <vector>

#include "models/rules/law.h"

namespace crosstalk::rules {

class Walk {
 public:
  /// Numbers of a value, [rows, columns, examples].
  using Numbers = std::vector<double>;
  Walk(const std::vector<Value>& roots, int examples, int K, int V);
  /// Of a leaf that is no number, ones or eye: to be filled before run(); nullptr where no root needs it. 0 at first.
  Numbers* leaf(Value leaf);
  const std::vector<Value>& leaves() const { return leaves_; }
  void run();
  /// Of a node below the roots.
  const Numbers& of(Value node) const { return numbers_.at(node); }
  int entries(Value node) const { return size(node->shape.rows) * size(node->shape.columns); }
  int size(int letter) const { return sized(letter, K_, V_); }

 private:
  void work(Value node, Numbers& y) const;
  const int B_, K_, V_;
  std::vector<Value> order_, leaves_;
  std::map<Value, Numbers> numbers_;
};

/// What is read at a token, over the states before it and what the token and its query give. Adds nodes to the graph.
Value read_of_token(Law& law);

}  // namespace crosstalk::rules
