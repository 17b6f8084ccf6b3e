// A static graph with reverse-mode derivatives: nodes in the order of their making, memory planned once.
//
// Build: make variables and nodes (functions of models/graph/nodes.h), then plan(). Run: forward(),
// backward(). Neither allocates nor synchronises. The plan finds out who writes a gradient first (overwrite)
// and who later (add), so gradients are never cleared. SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "kernels/base/buffer.h"
#include "kernels/base/exec.h"
#include "kernels/base/precision.h"
#include "kernels/base/tensor.h"
#include "models/graph/parameters.h"

namespace crosstalk {

/// A tensor of the graph and its gradient (the gradient of the loss with respect to it).
template <class Real>
struct Variable {
  Tensor<Real> value, gradient;
  bool needs_gradient = false;
  bool owned = true;              ///< memory comes from the graph's arena (else from a parameter block)
  bool gradient_written = false;  ///< some node writes the gradient in backward()
};

template <class Real>
class Graph {
 public:
  using Var = Variable<Real>;
  using Writes = std::vector<Write>;
  using Forward = std::function<void(const Exec&)>;
  using Backward = std::function<void(const Exec&, const Writes&)>;

  /// `train` false: no gradients are planned, backward() may not be called.
  Graph(Device device, int R, bool train) : device_(device), R_(R), train_(train), arena_(device) {}
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  int replicas() const { return R_; }
  bool train() const { return train_; }
  Device device() const { return device_; }
  /// What linear maps made from now on round the operands of their products to.
  void set_products(Precision precision) { products_ = precision; }
  Precision products() const { return products_; }

  /// A leaf whose memory is that of parameter i.
  Var* parameter(const ParameterBlock<Real>& block, int i);
  /// A tensor [R, dims...] that a node writes. `differentiable` false: its gradient is never wanted.
  Var* variable(std::initializer_list<int> dims, bool differentiable = true);
  /// A tensor with the leading dimensions of `like` and a last dimension of `columns`.
  Var* like(const Var* model, int columns);
  /// Integers or scratch [R, dims...]; bound by plan(). `copies`: memory for so many of them, one after the
  /// other.
  Tensor<std::int32_t>* integers(std::initializer_list<int> dims, int copies = 1);
  Tensor<double>* doubles(std::initializer_list<int> dims);

  /// Adds a node. `inputs` may hold nullptr (an absent optional input: its Write is none). A node runs
  /// backward only if the gradient of an output was written by a later node, or if it has no outputs (a
  /// loss).
  void node(std::string name, std::vector<Var*> inputs, std::vector<Var*> outputs, Forward forward,
            Backward backward);

  void plan();
  void forward(const Exec& exec) const;
  void backward(const Exec& exec) const;

  std::size_t bytes() const { return arena_.bytes(); }
  void check_guards() const { arena_.check_guards(); }
  /// Names of the nodes in order, to look at.
  std::vector<std::string> node_names() const;

 private:
  struct Node {
    std::string name;
    std::vector<Var*> inputs, outputs;
    Forward forward;
    Backward backward;
    Writes writes;
    bool runs_backward = false;
  };
  Device device_;
  int R_;
  bool train_;
  Precision products_ = Precision::full;
  Arena arena_;
  std::deque<Var> variables_;
  struct Integers {
    Tensor<std::int32_t> tensor;
    int copies;
  };
  std::deque<Integers> integers_;
  std::deque<Tensor<double>> doubles_;
  std::vector<Node> nodes_;
};

}  // namespace crosstalk
