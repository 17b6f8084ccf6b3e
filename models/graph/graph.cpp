// Planning of a graph: who writes gradients first, and where tensors lie.
// SPDX-License-Identifier: Apache-2.0
#include "models/graph/graph.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <stdexcept>

#include "kernels/base/error.h"

namespace crosstalk {

std::string detail::dims_text(const int* dims, int rank) {
  return fmt::format("[{}]", fmt::join(dims, dims + rank, ","));
}

void detail::refuse_bf16(const char* op, const char* field, const std::string& others) {
  throw std::logic_error(fmt::format("[{}] {} may not be bf16; {} may", op, field,
                                     others.empty() ? "no field of this op" : others + " of this op"));
}

template <class Real>
Variable<Real>* Graph<Real>::parameter(const ParameterBlock<Real>& block, int i) {
  for (Variable<Real>& var : variables_) {
    // Asked for twice: one variable, or the second gradient would erase the first.
    if (var.parameter == i) return &var;
  }
  Variable<Real> var;
  var.value = block.value(i);
  var.gradient = block.gradient(i);
  var.needs_gradient = train_;
  var.owned = false;
  var.parameter = i;
  variables_.push_back(var);
  return &variables_.back();
}

template <class Real>
void Graph<Real>::check_format(Format format) const {
  if (format == Format::bf16 && (device_ == Device::cpu || sizeof(Real) != sizeof(float)))
    throw std::logic_error("[graph] tensors are bf16 on a GPU only, and only those of float");
}

template <class Real>
Variable<Real>* Graph<Real>::shape_of(const Tensor<Real>& shape, bool differentiable) {
  check_format(shape.format);
  Variable<Real> var;
  var.value = shape;
  var.value.data = nullptr;
  var.value.R = R_;
  var.gradient = var.value;
  var.needs_gradient = train_ && differentiable;
  variables_.push_back(var);
  return &variables_.back();
}

template <class Real>
Variable<Real>* Graph<Real>::variable(std::initializer_list<Dimension> dims, bool differentiable) {
  return shape_of(shaped<Real>(R_, dims), differentiable);
}

template <class Real>
Variable<Real>* Graph<Real>::like(const Variable<Real>* model, int columns) {
  Tensor<Real> shape = model->value;
  shape.dims[shape.rank - 1] = columns;
  return shape_of(shape, true);
}

template <class Real>
Variable<Real>* Graph<Real>::view(Variable<Real>* variable, const Tensor<Real>& shape) {
  const Tensor<Real>& now = variable->value;
  if (shape.size() != now.size()) throw std::logic_error("[graph] a view has another size");
  if (shape.rank == now.rank && std::equal(shape.dims, shape.dims + shape.rank, now.dims)) return variable;
  Variable<Real> var = *variable->root();
  const auto reshape = [&](Tensor<Real>& tensor) {
    tensor.rank = shape.rank;
    std::copy(shape.dims, shape.dims + Tensor<Real>::kMaxRank, tensor.dims);
  };
  reshape(var.value);
  reshape(var.gradient);
  var.view_of = variable->root();
  var.parameter = -1;
  variables_.push_back(var);
  return &variables_.back();
}

template <class Real>
Tensor<std::int32_t>* Graph<Real>::integers(std::initializer_list<Dimension> dims, int copies) {
  integers_.push_back({shaped<std::int32_t>(R_, dims), copies});
  return &integers_.back().tensor;
}

template <class Real>
Tensor<double>* Graph<Real>::doubles(std::initializer_list<Dimension> dims) {
  doubles_.push_back(shaped<double>(R_, dims));
  return &doubles_.back();
}

template <class Real>
bool Graph<Real>::may_be_bf16(Variable<Real>* variable) const {
  const Variable<Real>* root = variable->root();
  return root->owned && !root->kept && std::all_of(nodes_.begin(), nodes_.end(), [&](const Node& node) {
           return std::none_of(node.native.begin(), node.native.end(),
                               [&](Variable<Real>* other) { return other->root() == root; });
         });
}

template <class Real>
void Graph<Real>::reformat(const std::vector<Reformat>& changes) {
  if (planned_) throw std::logic_error("[graph] formats are chosen before plan()");
  std::map<Variable<Real>*, Variable<Real>*> next;  // of variables and their views
  for (const Reformat& change : changes) {
    Variable<Real>* before = change.variable;
    if (before->view_of || !before->owned || before->kept)
      throw std::logic_error("[graph] this variable's format is not the graph's to choose");
    Tensor<Real> shape = before->value;
    shape.format = change.value;
    Variable<Real>* made = shape_of(shape, before->needs_gradient);
    check_format(change.gradient);
    made->gradient.format = change.gradient;
    before->owned = false;  // without memory: nobody reads it any more
    next[before] = made;
  }
  const auto exchange = [&](Variable<Real>* v) {
    const auto root = v ? next.find(v->root()) : next.end();
    if (root == next.end()) return v;
    if (const auto found = next.find(v); found != next.end()) return found->second;
    return next[v] = view(root->second, v->value);
  };
  for (std::size_t i = 0, n = nodes_.size(); i < n; ++i) {
    Node& node = nodes_[i];
    const auto touches = [&](const std::vector<Variable<Real>*>& variables) {
      return std::any_of(variables.begin(), variables.end(),
                         [&](Variable<Real>* v) { return exchange(v) != v; });
    };
    if (!touches(node.inputs) && !touches(node.outputs)) continue;
    if (!node.add_again) throw std::logic_error("[graph] node " + node.name + " takes no other format");
    node.add_again(exchange);
    nodes_[i] = std::move(nodes_.back());
    nodes_.pop_back();
  }
}

template <class Real>
void Graph<Real>::node(std::string name, std::vector<Variable<Real>*> inputs,
                       std::vector<Variable<Real>*> outputs, Forward forward, Backward backward,
                       std::any info) {
  std::vector<Variable<Real>*> all;
  for (const auto* some : {&inputs, &outputs})
    for (Variable<Real>* v : *some) {
      if (!v) continue;
      if (v->value.is_bf16() || v->gradient.is_bf16())
        throw std::logic_error("[graph] node " + name + " has a variable in bf16, which only ops may have");
      all.push_back(v->root());
    }
  push(std::move(name), std::move(inputs), std::move(outputs), std::move(forward), std::move(backward),
       std::move(info));
  nodes_.back().native = std::move(all);
}

template <class Real>
void Graph<Real>::push(std::string name, std::vector<Variable<Real>*> inputs,
                       std::vector<Variable<Real>*> outputs, Forward forward, Backward backward,
                       std::any info) {
  Node node;
  node.name = std::move(name);
  node.inputs = std::move(inputs);
  node.outputs = std::move(outputs);
  node.forward = std::move(forward);
  node.backward = std::move(backward);
  node.info = std::move(info);
  nodes_.push_back(std::move(node));
}

template <class Real>
void Graph<Real>::plan_gradients() {
  for (auto node = nodes_.rbegin(); node != nodes_.rend(); ++node) {
    node->writes.assign(node->inputs.size(), Write::none);
    node->runs_backward =
        train_ && (node->outputs.empty() ||
                   std::any_of(node->outputs.begin(), node->outputs.end(),
                               [](Variable<Real>* output) { return output->root()->gradient_written; }));
    if (!node->runs_backward) continue;
    for (Variable<Real>* output : node->outputs) {
      // An op of one struct is told so; a node of functions reads the gradients of all its outputs.
      if (!node->bind && output->needs_gradient && !output->root()->gradient_written)
        throw std::logic_error("[graph] node " + node->name + " has an output that nobody differentiates");
    }
    for (std::size_t i = 0; i < node->inputs.size(); ++i) {
      Variable<Real>* input = node->inputs[i];
      if (!input || !input->root()->needs_gradient) continue;
      node->writes[i] = input->root()->gradient_written ? Write::add : Write::overwrite;
      input->root()->gradient_written = true;
    }
  }
}

template <class Real>
void Graph<Real>::place() {
  for (Variable<Real>& var : variables_) {
    if (!var.owned || var.view_of) continue;
    arena_.reserve(&var.value);
    if (var.gradient_written) arena_.reserve(&var.gradient);
  }
}

// Forward of node i is time i, its backward time 2 n - 1 - i. A value lives from the node that writes it to
// the last that may read it: forward of its readers, backward of its readers and of its writer. A gradient
// lives from its first writer's backward (a loss may write it in its forward already) to the backward of the
// node that made the value. What no node writes lives on.
template <class Real>
void Graph<Real>::place_by_lifetime() {
  const int n = static_cast<int>(nodes_.size()), forever = std::numeric_limits<int>::max();
  struct Life {
    int value_from = -1, value_to = -1, gradient_from = std::numeric_limits<int>::max(), gradient_to = -1;
  };
  std::map<Variable<Real>*, Life> lives;
  for (int i = 0; i < n; ++i) {
    const Node& node = nodes_[static_cast<std::size_t>(i)];
    const int last = node.runs_backward ? 2 * n - 1 - i : i;
    for (Variable<Real>* output : node.outputs) {
      Life& life = lives[output->root()];
      if (life.value_from < 0) life.value_from = i;
      life.value_to = std::max(life.value_to, last);
      life.gradient_to = std::max(life.gradient_to, last);
    }
    for (Variable<Real>* input : node.inputs) {
      if (!input) continue;
      Life& life = lives[input->root()];
      life.value_to = std::max(life.value_to, last);
      if (node.runs_backward)
        life.gradient_from = std::min(life.gradient_from, node.outputs.empty() ? i : last);
    }
  }
  struct Piece {
    Tensor<Real>* tensor;
    int from, to;
    std::size_t bytes, offset;
  };
  std::vector<Piece> pieces;
  const auto piece = [&](Tensor<Real>& tensor, int from, int to) {
    tensor.replica_stride = tensor.stride_for();
    const std::size_t bytes =
        static_cast<std::size_t>(tensor.replica_stride) * static_cast<std::size_t>(tensor.R) * sizeof(Real);
    pieces.push_back({&tensor, from, to, (bytes + 255) / 256 * 256, 0});
  };
  for (Variable<Real>& var : variables_) {
    if (!var.owned || var.view_of) continue;
    const auto found = lives.find(&var);
    if (found == lives.end() || found->second.value_from < 0) {
      piece(var.value, 0, forever);
      if (var.gradient_written) piece(var.gradient, 0, forever);
      continue;
    }
    const Life& life = found->second;
    piece(var.value, life.value_from, var.kept ? forever : life.value_to);
    if (var.gradient_written)
      piece(var.gradient, life.gradient_from,
            var.kept ? forever : std::max(life.gradient_to, life.gradient_from));
  }
  std::stable_sort(pieces.begin(), pieces.end(),
                   [](const Piece& a, const Piece& b) { return a.bytes > b.bytes; });
  std::size_t total = 0;
  std::vector<const Piece*> around;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    Piece& now = pieces[i];
    around.clear();
    for (std::size_t j = 0; j < i; ++j)
      if (pieces[j].from <= now.to && now.from <= pieces[j].to) around.push_back(&pieces[j]);
    std::sort(around.begin(), around.end(),
              [](const Piece* a, const Piece* b) { return a->offset < b->offset; });
    std::size_t at = 0;  // the first gap that is large enough
    for (const Piece* other : around) {
      if (other->offset >= at + now.bytes) break;
      at = std::max(at, other->offset + other->bytes);
    }
    now.offset = at;
    total = std::max(total, at + now.bytes);
  }
  for (Piece& now : pieces) arena_.reserve_at(now.tensor, now.offset);
  arena_.reserve_shared(total);
}

template <class Real>
void Graph<Real>::plan() {
  if (planned_) throw std::logic_error("[graph] planned twice");
  planned_ = true;
  if (device_ == Device::cuda && R_ > kMostGridRows)
    throw ShapeError(fmt::format("{} replicas are more than a GPU takes at once; --pack must be at most {}",
                                 R_, kMostGridRows));
  plan_gradients();
  if (sharing_ == Sharing::lifetime) {
    place_by_lifetime();
  } else {
    place();
  }
  for (auto& [tensor, copies] : integers_) arena_.reserve(&tensor, copies);
  for (auto& tensor : doubles_) arena_.reserve(&tensor);
  arena_.allocate();
  for (Variable<Real>& var : variables_) {
    if (!var.view_of) continue;
    for (const auto member : {&Variable<Real>::value, &Variable<Real>::gradient}) {
      (var.*member).data = (var.view_of->*member).data;
      (var.*member).replica_stride = (var.view_of->*member).replica_stride;
    }
  }
  // Fused forms that move 16 bytes at a time were chosen by shapes alone.
  for (const Variable<Real>& var : variables_)
    if (var.owned && (reinterpret_cast<std::uintptr_t>(var.value.data) % 16 != 0 ||
                      var.value.replica_stride * sizeof(Real) % 16 != 0))
      throw std::logic_error("[graph] a tensor has a place that is no multiple of 16 bytes");
  for (Node& node : nodes_)
    if (node.bind) node.bind(node.writes);
}

template <class Real>
void Graph<Real>::forward(const Exec& exec) const {
  for (const Node& node : nodes_) node.forward(exec);
}

template <class Real>
void Graph<Real>::backward(const Exec& exec) const {
  if (!train_) throw std::logic_error("[graph] backward of a graph that was planned without gradients");
  for (auto node = nodes_.rbegin(); node != nodes_.rend(); ++node)
    if (node->runs_backward) node->backward(exec, node->writes);
}

template <class Real>
std::vector<std::string> Graph<Real>::node_names() const {
  std::vector<std::string> names;
  for (const Node& node : nodes_) names.push_back(node.full_name());
  return names;
}

template <class Real>
std::string Graph<Real>::forms() const {
  std::string text;
  std::set<std::string> seen;
  for (const Node& node : nodes_) {
    const std::string name = node.full_name();
    if (seen.insert(name).second) text += (text.empty() ? "" : " ") + name;
  }
  return text;
}

template class Graph<float>;
template class Graph<double>;

}  // namespace crosstalk
