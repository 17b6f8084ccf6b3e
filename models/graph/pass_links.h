// Questions of passes to a graph: who makes a variable, and who reads it.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <any>
#include <iterator>
#include <map>
#include <memory>
#include <set>

#include "models/graph/graph.h"

namespace crosstalk {

/// The op of a node, if it is of this kind.
template <class Real, class Op>
const Op* op_of(const typename Graph<Real>::Node& node) {
  const auto* found = std::any_cast<std::shared_ptr<const Op>>(&node.info);
  return found ? found->get() : nullptr;
}
template <class Real>
Variable<Real>* of(const In<Real>& field) {
  return static_cast<Variable<Real>*>(field.variable);
}

/// Makers and readers of variables: their places in the graph. A view stands for what it is a view of.
template <class Real>
class Links {
 public:
  using Node = typename Graph<Real>::Node;
  explicit Links(Graph<Real>& graph) : nodes_(graph.nodes()) {
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      for (Variable<Real>* output : nodes_[i].outputs) made_at_[output->root()] = i;
      for (Variable<Real>* input : nodes_[i].inputs)
        if (input) readers_[input->root()].push_back(i);
    }
  }
  bool made(Variable<Real>* x) const { return made_at_.count(x->root()) != 0; }
  std::size_t place(Variable<Real>* x) const { return made_at_.at(x->root()); }
  Node* maker(Variable<Real>* x) const { return &nodes_[place(x)]; }
  const std::vector<std::size_t>& read_at(Variable<Real>* x) const {
    static const std::vector<std::size_t> nowhere;
    const auto found = readers_.find(x->root());
    return found == readers_.end() ? nowhere : found->second;
  }
  int readers(Variable<Real>* x) const { return static_cast<int>(read_at(x).size()); }
  /// The op that made x, if it is of this kind and nobody else reads x.
  template <class Op>
  const Op* alone_op(Variable<Real>* x) const {
    return read_once(x) ? op_of<Real, Op>(*maker(x)) : nullptr;
  }
  /// The same of nodes that are made by hand.
  template <class Info>
  const Info* alone(Variable<Real>* x) const {
    return read_once(x) ? std::any_cast<Info>(&maker(x)->info) : nullptr;
  }

 private:
  bool read_once(Variable<Real>* x) const { return made(x) && readers(x) == 1 && !x->root()->kept; }
  std::deque<Node>& nodes_;
  std::map<Variable<Real>*, std::size_t> made_at_;
  std::map<Variable<Real>*, std::vector<std::size_t>> readers_;
};

/// Calls make(), which adds nodes at the end of the graph, moves them in front of node `at` and removes those of `gone`.
template <class Real, class Make>
void put_in_place(Graph<Real>& graph, const std::set<std::size_t>& gone, std::size_t at, const Make& make) {
  auto& nodes = graph.nodes();
  const std::size_t before = nodes.size();
  make();
  std::deque<typename Graph<Real>::Node> next;
  for (std::size_t i = 0; i <= before; ++i) {
    if (i == at)
      std::move(nodes.begin() + static_cast<std::ptrdiff_t>(before), nodes.end(), std::back_inserter(next));
    if (i < before && gone.count(i) == 0) next.push_back(std::move(nodes[i]));
  }
  nodes = std::move(next);
}

}  // namespace crosstalk
