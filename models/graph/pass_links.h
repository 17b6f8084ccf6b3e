// What passes ask of a graph: who makes a variable, and who reads it.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <any>
#include <map>

#include "models/graph/graph.h"

namespace crosstalk {

/// Who makes a variable, and how many nodes read it.
template <class Real>
class Links {
 public:
  using Node = typename Graph<Real>::Node;
  explicit Links(Graph<Real>& graph) {
    for (Node& node : graph.nodes()) {
      for (Variable<Real>* output : node.outputs) made_by_[output->root()] = &node;
      for (Variable<Real>* input : node.inputs) {
        if (input) ++readers_[input->root()];
      }
    }
  }
  /// What made x, if it is a node of this kind and nobody else reads x.
  template <class Info>
  const Info* alone(Variable<Real>* x) const {
    const auto found = made_by_.find(x->root());
    if (found == made_by_.end() || readers_.at(x->root()) != 1 || x->root()->kept) return nullptr;
    return std::any_cast<Info>(&found->second->info);
  }
  int readers(Variable<Real>* x) const {
    const auto found = readers_.find(x->root());
    return found == readers_.end() ? 0 : found->second;
  }
  Node* maker(Variable<Real>* x) const { return made_by_.at(x->root()); }
  bool made(Variable<Real>* x) const { return made_by_.count(x->root()) != 0; }

 private:
  std::map<Variable<Real>*, Node*> made_by_;
  std::map<Variable<Real>*, int> readers_;
};

template <class Real>
Variable<Real>* of(const In<Real>& field) {
  return static_cast<Variable<Real>*>(field.variable);
}

}  // namespace crosstalk
