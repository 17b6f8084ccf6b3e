// SPDX-License-Identifier: Apache-2.0
#include "models/graph/graph.h"

#include <algorithm>
#include <stdexcept>

namespace crosstalk {

template <class Real>
Variable<Real>* Graph<Real>::parameter(const ParameterBlock<Real>& block, int i) {
  for (Var& var :
       variables_) {  // asked for twice: one variable, or the second gradient would erase the first
    if (!var.owned && var.value.data == block.value(i).data) return &var;
  }
  variables_.push_back({block.value(i), block.gradient(i), train_, false, false});
  return &variables_.back();
}

template <class Real>
Variable<Real>* Graph<Real>::variable(std::initializer_list<int> dims, bool differentiable) {
  Var var;
  var.value = var.gradient = shaped<Real>(R_, dims);
  var.needs_gradient = train_ && differentiable;
  variables_.push_back(var);
  return &variables_.back();
}

template <class Real>
Variable<Real>* Graph<Real>::like(const Var* model, int columns) {
  Var* var = variable({});
  var->value = model->value;
  var->value.dims[var->value.rank - 1] = columns;
  var->value.data = nullptr;
  var->gradient = var->value;
  return var;
}

template <class Real>
Tensor<std::int32_t>* Graph<Real>::integers(std::initializer_list<int> dims, int copies) {
  integers_.push_back({shaped<std::int32_t>(R_, dims), copies});
  return &integers_.back().tensor;
}

template <class Real>
Tensor<double>* Graph<Real>::doubles(std::initializer_list<int> dims) {
  doubles_.push_back(shaped<double>(R_, dims));
  return &doubles_.back();
}

template <class Real>
void Graph<Real>::node(std::string name, std::vector<Var*> inputs, std::vector<Var*> outputs, Forward forward,
                       Backward backward) {
  nodes_.push_back({std::move(name),
                    std::move(inputs),
                    std::move(outputs),
                    std::move(forward),
                    std::move(backward),
                    {},
                    false});
}

template <class Real>
void Graph<Real>::plan() {
  for (auto node = nodes_.rbegin(); node != nodes_.rend(); ++node) {
    node->writes.assign(node->inputs.size(), Write::none);
    node->runs_backward =
        train_ && (node->outputs.empty() || std::any_of(node->outputs.begin(), node->outputs.end(),
                                                        [](Var* out) { return out->gradient_written; }));
    if (!node->runs_backward) continue;
    for (const Var* out : node->outputs) {
      if (out->needs_gradient && !out->gradient_written) {
        throw std::logic_error("[graph] node " + node->name + " has an output that nobody differentiates");
      }
    }
    for (std::size_t i = 0; i < node->inputs.size(); ++i) {
      Var* in = node->inputs[i];
      if (!in || !in->needs_gradient) continue;
      node->writes[i] = in->gradient_written ? Write::add : Write::overwrite;
      in->gradient_written = true;
    }
  }
  for (Var& var : variables_) {
    if (!var.owned) continue;
    arena_.reserve(&var.value);
    if (var.gradient_written) arena_.reserve(&var.gradient);
  }
  for (auto& [tensor, copies] : integers_) arena_.reserve(&tensor, copies);
  for (auto& tensor : doubles_) arena_.reserve(&tensor);
  arena_.allocate();
}

template <class Real>
void Graph<Real>::forward(const Exec& exec) const {
  for (const Node& node : nodes_) node.forward(exec);
}

template <class Real>
void Graph<Real>::backward(const Exec& exec) const {
  if (!train_) throw std::logic_error("[graph] backward of a graph that was planned without gradients");
  for (auto node = nodes_.rbegin(); node != nodes_.rend(); ++node) {
    if (node->runs_backward) node->backward(exec, node->writes);
  }
}

template <class Real>
std::vector<std::string> Graph<Real>::node_names() const {
  std::vector<std::string> names;
  for (const Node& node : nodes_) names.push_back(node.name);
  return names;
}

template class Graph<float>;
template class Graph<double>;

}  // namespace crosstalk
