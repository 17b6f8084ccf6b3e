// A static graph with reverse-mode derivatives: nodes in the order of their making, memory planned once.
//
// Build: make variables and nodes (functions of models/graph/nodes.h, or add() of an op), then plan(). Run:
// forward(), backward(). Neither allocates nor synchronises. The plan finds out who writes a gradient first
// (overwrite) and who later (add), so gradients are never cleared; and where memory is shared, which tensors
// are never needed at the same time.
//
// A variable's value and its gradient have a format each. Ops name the fields that may be bf16; add() refuses
// others, and whatever an op's plan() does not take.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <any>
#include <cstdint>
#include <deque>
#include <functional>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/base/buffer.h"
#include "kernels/base/exec.h"
#include "kernels/base/op.h"
#include "kernels/base/precision.h"
#include "kernels/base/tensor.h"
#include "models/graph/op_fields.h"
#include "models/graph/parameters.h"

namespace crosstalk {

template <class Real>
class Graph;

/// A variable and its graph: what memories calculate with.
template <class Real>
struct Var {
  Graph<Real>* graph = nullptr;
  Variable<Real>* variable = nullptr;
  explicit operator bool() const { return variable != nullptr; }
  Size dim(int i) const { return Size(variable->value.dim(i)); }
};

/// Ways to cut the arena.
enum class Sharing {
  none,      ///< a place of its own for everything: overruns and reads of what nobody wrote show
  lifetime,  ///< tensors that are never needed at the same time share a place
};

template <class Real>
class Graph {
 public:
  using Writes = std::vector<Write>;
  using Forward = std::function<void(const Exec&)>;
  using Backward = std::function<void(const Exec&, const Writes&)>;

  using Exchange = detail::Exchange<Real>;

  struct Node {
    std::string name;
    std::vector<Variable<Real>*> inputs, outputs;
    Forward forward;
    Backward backward;
    std::any info = {};                            ///< what passes want to know of it
    std::function<void(const Writes&)> bind = {};  ///< called when there is memory
    Writes writes = {};
    bool runs_backward = false;
    std::vector<Variable<Real>*> native = {};  ///< of inputs and outputs: those that may not be bf16
    std::function<void(const Exchange&)> add_again = {};  ///< the same op of other variables, at the end
    std::function<std::string()> form =
        {};  ///< which of its forms runs, once there is memory; empty: the one that it has
    std::string full_name() const {
      const std::string which = form ? form() : "";
      return which.empty() ? name : name + ":" + which;
    }
  };

  /// `train` false: no gradients are planned, backward() may not be called.
  Graph(Device device, int R, bool train)
      : device_(device),
        R_(R),
        train_(train),
        sharing_(device == Device::cuda ? Sharing::lifetime : Sharing::none),
        arena_(device) {}
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  int replicas() const { return R_; }
  bool train() const { return train_; }
  Device device() const { return device_; }
  /// Sets the format to which linear maps made from now on round operands.
  void set_products(Precision precision) { products_ = precision; }
  Precision products() const { return products_; }
  void set_sharing(Sharing sharing) { sharing_ = sharing; }

  /// A leaf whose memory is that of parameter i.
  Variable<Real>* parameter(const ParameterBlock<Real>& block, int i);
  /// A tensor [R, dims...] that a node writes, or, without a node, whoever uses the graph. `differentiable`
  /// false: its gradient is never wanted.
  Variable<Real>* variable(std::initializer_list<Dimension> dims, bool differentiable = true);
  /// The same in a format: bf16 on a GPU and in float only.
  Variable<Real>* variable(std::initializer_list<Dimension> dims, Format format) {
    return shape_of(shaped<Real>(R_, dims, format), true);
  }
  Variable<Real>* tensor(const Tensor<Real>& shape, bool differentiable = true) {
    return shape_of(shape, differentiable);
  }
  /// A tensor with the leading dimensions of `like` and a last dimension of `columns`.
  Variable<Real>* like(const Variable<Real>* model, int columns);
  /// The same memory in another shape of equal size.
  Variable<Real>* view(Variable<Real>* variable, std::initializer_list<Dimension> dims) {
    return view(variable, shaped<Real>(R_, dims));
  }
  Variable<Real>* view(Variable<Real>* variable, const Tensor<Real>& shape);
  /// Somebody looks at it after forward(): its place is not given to another.
  void keep(Variable<Real>* variable) { variable->root()->kept = true; }
  /// Integers or scratch [R, dims...]; bound by plan(). `copies`: memory for so many of them, one after the
  /// other.
  Tensor<std::int32_t>* integers(std::initializer_list<Dimension> dims, int copies = 1);
  Tensor<double>* doubles(std::initializer_list<Dimension> dims);

  /// Adds a node. `inputs` may hold nullptr (an absent optional input: its Write is none). A node runs
  /// backward only if the gradient of an output was written by a later node, or if it has no outputs (a
  /// loss).
  void node(std::string name, std::vector<Variable<Real>*> inputs, std::vector<Variable<Real>*> outputs,
            Forward forward, Backward backward, std::any info = {});

  /// Adds an op: checks its shapes, makes what it writes (but an output that has a variable), and returns it
  /// with its outputs' variables in place.
  template <class Op>
  const Op& add(Op op);

  /// A variable (none is a view) and the formats that its value and gradient shall have.
  struct Reformat {
    Variable<Real>* variable;
    Format value, gradient;
  };
  /// Tells whether all that read or write a variable are ops that name the field, and nobody else looks at it.
  bool may_be_bf16(Variable<Real>* variable) const;
  /// Makes new variables in the places of these, and all ops that read or write one of them anew, each where
  /// it stood. Before plan(). Throws std::logic_error where an op refuses.
  void reformat(const std::vector<Reformat>& changes);

  /// Nodes in order, for passes that replace chains of them before plan().
  std::deque<Node>& nodes() { return nodes_; }
  const std::deque<Node>& nodes() const { return nodes_; }

  void plan();
  void forward(const Exec& exec) const;
  void backward(const Exec& exec) const;

  std::size_t bytes() const { return arena_.bytes(); }
  void check_guards() const { arena_.check_guards(); }
  /// Names of the nodes in order, to look at.
  std::vector<std::string> node_names() const;
  /// Names what computes the graph: the kinds of its nodes and the forms that run, in the order in which they first
  /// occur, for records. Of a planned graph.
  std::string forms() const;

 private:
  struct Integers {
    Tensor<std::int32_t> tensor;
    int copies;
  };
  Variable<Real>* shape_of(const Tensor<Real>& shape, bool differentiable);
  void push(std::string name, std::vector<Variable<Real>*> inputs, std::vector<Variable<Real>*> outputs,
            Forward forward, Backward backward, std::any info);
  void check_format(Format format) const;
  void plan_gradients();
  void place();
  void place_by_lifetime();

  Device device_;
  int R_;
  bool train_, planned_ = false;
  Sharing sharing_;
  Precision products_ = Precision::full;
  Arena arena_;
  std::deque<Variable<Real>> variables_;
  std::deque<Integers> integers_;
  std::deque<Tensor<double>> doubles_;
  std::deque<Node> nodes_;
};

/// An op's field from a variable, or absent.
template <class Real>
In<Real> in(Variable<Real>* v) {
  In<Real> field;
  if (!v) return field;
  field.value = v->value;
  field.gradient = without_memory(v->gradient);
  field.variable = v;
  field.memory = v->root();
  return field;
}
template <class Real>
In<Real> in(const Var<Real>& v) {
  return in(v.variable);
}
inline Ids ids(const Tensor<std::int32_t>* tensor) {
  Ids field;
  if (tensor) field.value = *tensor, field.source = tensor;
  return field;
}
/// The variable that add() made for an output.
template <class Real>
Variable<Real>* out(const Out<Real>& field) {
  return static_cast<Variable<Real>*>(field.variable);
}

template <class Real>
template <class Op>
const Op& Graph<Real>::add(Op prototype) {
  {
    const detail::Bf16Fields may(prototype);
    prototype.fields(detail::TakeFormats<Real>{});
    prototype.fields(detail::CheckFormats<Real>{Op::kName, may});
  }
  try {
    prototype.plan();
  } catch (const std::logic_error& error) {
    std::string shapes;
    prototype.fields(detail::ListShapes<Real>{&shapes});
    throw std::logic_error(std::string(error.what()) + ": " + shapes);
  }
  auto op = std::make_shared<Op>(std::move(prototype));
  const detail::Bf16Fields may(*op);
  op->fields(detail::TakeFormats<Real>{});  // plan() sets shapes
  op->fields(detail::CheckFormats<Real>{Op::kName, may});
  std::vector<Variable<Real>*> inputs, outputs;
  static constexpr bool kLoss = requires { Op::kLoss; };
  static constexpr bool kUnasked = kLoss || requires { Op::kWithoutGradient; };
  struct Make {
    Graph& graph;
    std::vector<Variable<Real>*>&inputs, &outputs;
    void operator()(const char*, In<Real>& f) const {
      inputs.push_back(static_cast<Variable<Real>*>(f.variable));
    }
    void operator()(const char*, Out<Real>& f) const {
      if (f) output(f.value, f.variable, !kUnasked);
    }
    void operator()(const char*, Saved<Real>& f) const {
      if (f.value.R > 0 && graph.train_) output(f.value, f.variable, false);
    }
    void operator()(const char*, Work<Real>& f) const {
      if (f.value.R > 0) output(f.value, f.variable, false);
    }
    void operator()(const char*, Ids&) const {}
    void operator()(const char*, OutIds& f) const {
      if (f.source) return;
      graph.integers_.push_back({f.value, 1});
      f.source = &graph.integers_.back().tensor;
    }
    void output(const Tensor<Real>& shape, void*& made, bool differentiable) const {
      if (!made) made = graph.shape_of(shape, differentiable);  // a pass writes what others read already
      if (!kLoss) outputs.push_back(static_cast<Variable<Real>*>(made));
    }
  };
  op->fields(Make{*this, inputs, outputs});
  struct Bind {
    const Writes& writes;
    std::size_t* next;
    static Variable<Real>* of(void* v) { return static_cast<Variable<Real>*>(v); }
    void operator()(const char*, In<Real>& f) const {
      f.write = writes[(*next)++];
      if (!f.variable) return;
      f.value = of(f.variable)->value;
      f.gradient = of(f.variable)->gradient;
    }
    void operator()(const char*, Out<Real>& f) const {
      if (!f.variable) return;
      f.value = of(f.variable)->value;
      f.gradient = of(f.variable)->gradient;  // without memory where nobody differentiates this output
    }
    void operator()(const char*, Saved<Real>& f) const {
      if (f.variable) f.value = of(f.variable)->value;
    }
    void operator()(const char*, Work<Real>& f) const {
      if (f.variable) f.value = of(f.variable)->value;
    }
    void operator()(const char*, Ids&) const {}
    void operator()(const char*, OutIds&) const {}
  };
  push(
      Op::kName, inputs, outputs,
      [op](const Exec& exec) {
        op->fields(detail::RefreshIds{});
        crosstalk::forward(exec, *op);
      },
      [op](const Exec& exec, const Writes& modes) {
        if (kLoss && std::count(modes.begin(), modes.end(), Write::add) > 0)
          throw std::logic_error(std::string("[") + Op::kName + "] shares an input with a later node");
        op->fields(detail::RefreshIds{});
        crosstalk::backward(exec, *op);
      },
      std::shared_ptr<const Op>(op));
  if constexpr (requires { op->form_name(device_); })
    nodes_.back().form = [op, device = device_] { return std::string(op->form_name(device)); };
  op->fields(detail::NativeFields<Real>{may, nodes_.back().native});
  nodes_.back().add_again = [this, op](const Exchange& exchange) {
    Op again = *op;
    again.fields(detail::ExchangeVariables<Real>{exchange});
    add(again);
  };
  nodes_.back().bind = [op](const Writes& writes) {
    std::size_t next = 0;
    op->fields(Bind{writes, &next});
    if constexpr (requires { op->check_writes(); }) op->check_writes();
  };
  return *op;
}

}  // namespace crosstalk
