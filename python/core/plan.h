// Planned graphs that Python fills and reads, kept for further calls of the same kind.
//
// Making a plan takes as long as running it, so that plans are kept: by what they compute, options, sizes, inputs, precision,
// device and stream. A Call has one for itself until it is let go.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/base/exec.h"
#include "kernels/base/precision.h"
#include "models/graph/graph.h"
#include "python/core/convert.h"

namespace crosstalk {
class CudaDeviceGuard;
}

namespace crosstalk::python {

/// Numbers of a plan, float or double as the plan is, in order: rows, one a replica, without gaps inside.
struct Place {
  void* data = nullptr;
  std::vector<std::size_t> shape;
  std::size_t rows = 1, stride = 0;  ///< numbers from row to row
  std::size_t size() const {
    std::size_t n = 1;
    for (const std::size_t d : shape) n *= d;
    return n;
  }
  std::size_t row() const { return size() / rows; }
};

/// Of one replica, shown as dims.
template <class Real>
Place place_of(const Tensor<Real>& tensor, const std::vector<int>& dims) {
  return {tensor.at(0), {dims.begin(), dims.end()}};
}
/// Of all replicas: [R, dims...].
template <class Real>
Place places_of(const Tensor<Real>& tensor, const std::vector<int>& dims) {
  Place place{tensor.at(0),
              {static_cast<std::size_t>(tensor.R)},
              static_cast<std::size_t>(tensor.R),
              static_cast<std::size_t>(tensor.replica_stride)};
  place.shape.insert(place.shape.end(), dims.begin(), dims.end());
  return place;
}
template <class Real>
Place places_of(const Tensor<Real>& tensor) {
  return places_of(tensor, {tensor.dims, tensor.dims + tensor.rank});
}

/// A planned graph in either precision. Places are asked for by name, a name that is not there gives none.
class Plan {
 public:
  virtual ~Plan() = default;
  virtual std::size_t word() const = 0;  ///< bytes of a number: 4 or 8
  virtual std::size_t bytes() const = 0;
  virtual std::optional<Place> input(const std::string& name) = 0;
  virtual std::optional<Place> gradient(const std::string& name) = 0;  ///< none: nothing depends on the input
  virtual Place output() = 0;
  virtual std::optional<Place> cotangent() = 0;
  virtual std::vector<std::string> states() const = 0;
  virtual std::optional<Place> state(const std::string& name) = 0;
  virtual std::optional<Place> end_cotangent(const std::string& name) = 0;
  virtual void forward(const Exec& exec) = 0;
  virtual void backward(const Exec& exec) = 0;

  /// Makes memory of the caller that of a place, until unbind(): what is there now is not looked at. Returns false where the place
  /// has to stay. `what`: "input", "gradient", "output", "cotangent" or "state". No memory (null): the place has its own again;
  /// false where it had it.
  virtual bool bind(const std::string& /*what*/, const std::string& /*name*/, void* /*data*/) {
    return false;
  }
  bool is_bound() const { return !own_.empty(); }  ///< whether any place had such memory
  void unbind() {
    for (auto back = unbound_.rbegin(); back != unbound_.rend(); ++back) (*back)();
    unbound_.clear();
    moved_.clear();
    own_.clear();
  }

 protected:
  /// bind() of a variable's value or gradient. `alone`: not where it is another name of what has been bound.
  template <class Real>
  bool bind_variable(Graph<Real>& graph, Variable<Real>* variable, bool gradient, void* data,
                     bool alone = false) {
    Variable<Real>* const root = variable->root();
    const auto part = gradient ? &Variable<Real>::gradient : &Variable<Real>::value;
    if (data == nullptr) {
      const auto own = own_.find({root, gradient});
      if (own == own_.end()) return false;
      move(graph, root, gradient, static_cast<Real*>(own->second));
      return true;
    }
    if (!root->owned || (root->*part).data == nullptr) return false;
    own_.try_emplace({root, gradient}, (root->*part).data);
    if (alone && std::find(moved_.begin(), moved_.end(), root) != moved_.end()) return false;
    moved_.push_back(root);
    unbound_.push_back(
        [this, &graph, root, gradient, old = (root->*part).data] { move(graph, root, gradient, old); });
    move(graph, root, gradient, static_cast<Real*>(data));
    return true;
  }

 private:
  template <class Real>
  static void move(Graph<Real>& graph, Variable<Real>* root, bool gradient, Real* data) {
    const auto part = gradient ? &Variable<Real>::gradient : &Variable<Real>::value;
    (root->*part).data = data;
    for (auto& node : graph.nodes()) {
      bool touched = false;
      for (const auto* variables : {&node.inputs, &node.outputs}) {
        for (Variable<Real>* one : *variables) {
          if (one == nullptr || one->root() != root) continue;
          (one->*part).data = data;
          touched = true;
        }
      }
      if (touched && node.bind) node.bind(node.writes);
    }
  }
  std::vector<std::function<void()>> unbound_;
  std::vector<const void*> moved_;                     ///< variables that have memory of the caller
  std::map<std::pair<const void*, bool>, void*> own_;  ///< of variables, or their gradients, that had such
};

/// Where a plan lies and runs. `stream`: a cudaStream_t of whoever calls, in whose order everything is queued.
struct Where {
  Device device = Device::cpu;
  int index = 0;
  std::uintptr_t stream = 0;
  std::string text() const;
  /// Device and stream, with threads.
  Exec exec(int threads) const;
};
/// "cpu", or "cuda" with the number of the device and the stream.
Where where_of(int device, std::uintptr_t stream);

/// The device of `where` as long as it lives, where there is one to choose.
class OnDevice {
 public:
  explicit OnDevice(const Where& where);
  ~OnDevice();

 private:
  std::unique_ptr<CudaDeviceGuard> guard_;
};

Precision precision_of(const std::string& name);

/// How plans of one kind are made, and by what they are known.
struct Recipe {
  std::string key;
  /// `gradients`: 0 none, 1 of o, 2 of o and the states at the end.
  std::function<std::unique_ptr<Plan>(Device device, int gradients)> make;
};

/// One use of a plan: inputs filled in by the caller, passes, results.
class Call {
 public:
  Call(const Recipe& recipe, int gradients, const Where& where);
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  const Plan& plan() const { return *plan_; }
  /// Of "input", "gradient", "output", "cotangent", "state" or "end_cotangent".
  std::optional<Place> find(const std::string& what, const std::string& name) const;
  const Where& where() const { return where_; }
  bool bind(const std::string& what, const std::string& name, void* data) const {
    return plan_->bind(what, name, data);
  }
  /// At most `threads`, on which no result depends: fewer where waiting for them would take longer than what they do.
  void pass(int threads, bool back) const;  ///< releases the GIL
  void run(int threads, bool back) const;   ///< has it released

 private:
  std::string key_;
  Where where_;
  std::unique_ptr<Plan> plan_;
};

}  // namespace crosstalk::python
