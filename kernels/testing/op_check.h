// One op call described once (shapes, data, how to call it, a naive oracle), and the checks that every op
// passes: reference, gradient, replicas, CUDA against CPU.
//
// A test file writes its cases and instantiates OpCheck with them; op_check.cpp holds the checks.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>

#include "kernels/base/exec.h"
#include "kernels/base/random.h"
#include "kernels/testing/compare.h"
#include "kernels/testing/tensors.h"

namespace crosstalk::checks {

/// Replicas that a case has data for.
constexpr int kReplicas = 5;

using Numbers = std::vector<double>;
using Integers = std::vector<std::int32_t>;

/// What an oracle sees and makes: the tensors of one replica, flat, by name.
struct Values {
  std::map<std::string, Numbers> real;
  std::map<std::string, Integers> integer;
  const Numbers& operator[](const std::string& name) const { return real.at(name); }
};

/// Makes element i of replica r.
using Fill = std::function<double(RandomStream&, int r, std::int64_t i)>;
Fill normal(double scale = 1);
Fill uniform(double low, double high);
/// Normal, but at least 0.05 away from 0: no kink within reach of a difference quotient.
Fill off_zero(double scale = 1);
Fill constant(double value);
/// Uniform integer in [low, high].
Fill integer_in(int low, int high);
/// position [R,B,Q] for sequences of T tokens: all of them, none of them and everything between.
Fill positions(int T);

class OpCase {
 public:
  explicit OpCase(std::string name) : name_(std::move(name)) {}

  /// A real input that gets a gradient d_<name>, and one that gets none.
  OpCase& input(const std::string& name, std::vector<int> dims, const Fill& fill) {
    return add_field(name, std::move(dims), fill, true);
  }
  OpCase& parameter(const std::string& name, std::vector<int> dims, const Fill& fill) {
    return add_field(name, std::move(dims), fill, false);
  }
  OpCase& integers(const std::string& name, std::vector<int> dims, const Fill& fill);
  /// Optional tensor that is left out, and its gradient with it.
  OpCase& absent(const std::string& name) {
    absent_.push_back(name);
    return *this;
  }
  /// Changes the data of an input after it was filled.
  OpCase& edit(const std::string& name, const std::function<void(int r, Numbers&)>& f);

  /// A real output with a random cotangent d_<name>.
  OpCase& output(const std::string& name, std::vector<int> dims) {
    outputs_.push_back({name, std::move(dims), true, true, {}});
    return *this;
  }
  /// An output that the oracle gives and whose gradient nobody asks for.
  OpCase& output_without_gradient(const std::string& name, std::vector<int> dims) {
    outputs_.push_back({name, std::move(dims), false, true, {}});
    return *this;
  }
  /// An output whose cotangent is 1 (a loss).
  OpCase& loss(const std::string& name) {
    outputs_.push_back({name, {}, true, true, Numbers{1}});
    return *this;
  }
  /// Written by forward for backward, or workspace: not looked at.
  OpCase& workspace(const std::string& name, std::vector<int> dims) {
    outputs_.push_back({name, std::move(dims), false, false, {}});
    return *this;
  }
  OpCase& integer_output(const std::string& name, std::vector<int> dims) {
    integer_outputs_.emplace_back(name, std::move(dims));
    return *this;
  }

  /// Each a generic callable (const Exec&, TensorSet<Real>&).
  template <class F>
  OpCase& forward(F f) {
    forward64_ = f;
    forward32_ = f;
    return *this;
  }
  template <class F>
  OpCase& backward(F f) {
    backward64_ = f;
    backward32_ = f;
    return *this;
  }
  /// Outputs of one replica from its inputs, in at least double precision.
  OpCase& oracle(std::function<Values(const Values&)> f) {
    oracle_ = std::move(f);
    return *this;
  }
  /// Roundings on the longest path of forward; backward has about three times as many.
  OpCase& roundings(double n) {
    roundings_ = n;
    return *this;
  }
  /// How much larger than the result intermediate numbers are, where terms cancel.
  OpCase& condition(double c) {
    condition_ = c;
    return *this;
  }
  /// Of inputs larger than this, the gradient check takes only so many elements.
  OpCase& gradient_elements(std::int64_t n) {
    gradient_elements_ = n;
    return *this;
  }

  const std::string& name() const { return name_; }
  /// The inputs of replica r as the oracle sees them in double precision.
  Values inputs(int r) const;
  void check_reference() const;
  void check_gradient() const;
  void check_replicas() const;
  void check_cuda() const;

  template <class Real>
  void fill(TensorSet<Real>& set, const std::vector<int>& replicas) const;
  template <class Real>
  void run_forward(const Exec& exec, TensorSet<Real>& set) const;
  template <class Real>
  void run_backward(const Exec& exec, TensorSet<Real>& set) const;

 private:
  struct Field {
    std::string name;
    std::vector<int> dims;
    bool differentiable;
    std::vector<Numbers> values;  ///< by replica
  };
  struct Output {
    std::string name;
    std::vector<int> dims;
    bool differentiable, compared;
    Numbers cotangent;  ///< empty: random
  };
  struct IntegerField {
    std::string name;
    std::vector<int> dims;
    std::vector<Integers> values;
  };
  OpCase& add_field(const std::string& name, std::vector<int> dims, const Fill& fill, bool differentiable);
  RandomStream stream(const std::string& name, int r) const;
  template <class Real>
  void reference() const;
  template <class Real>
  void replicas() const;
  template <class Real>
  void single_gradient() const;
  template <class Real>
  void cuda() const;
  bool has_backward() const { return static_cast<bool>(backward64_); }

  std::string name_;
  std::vector<Field> fields_;
  std::vector<IntegerField> integers_;
  std::vector<std::string> absent_;
  std::vector<Output> outputs_;
  std::vector<std::pair<std::string, std::vector<int>>> integer_outputs_;
  std::function<void(const Exec&, TensorSet<double>&)> forward64_, backward64_;
  std::function<void(const Exec&, TensorSet<float>&)> forward32_, backward32_;
  std::function<Values(const Values&)> oracle_;
  double roundings_ = 1, condition_ = 1;
  std::int64_t gradient_elements_ = 1 << 30;
};

inline void PrintTo(const OpCase& op, std::ostream* out) { *out << op.name(); }

/// INSTANTIATE_TEST_SUITE_P(Name, OpCheck, ::testing::ValuesIn(cases()), case_name);
class OpCheck : public ::testing::TestWithParam<OpCase> {};
inline std::string case_name(const ::testing::TestParamInfo<OpCase>& info) { return info.param.name(); }

}  // namespace crosstalk::checks
