// One op call described once (shapes, data, how to call it, a naive oracle), and the checks that every op
// passes: reference, gradient, replicas, CUDA against CPU.
//
// A test file writes its cases and instantiates OpCheck with them; op_check.cpp holds the checks. Cases at
// shapes that cut a kernel's tiles, warps and buffers go to CudaOpCheck, which needs a GPU and no oracle.
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

/// Numbers that an oracle sees and makes: the tensors of one replica, flat, by name.
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
/// Logarithms of decays: of every four one keeps all, and two as good as nothing.
Fill resets();
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
  /// An input, or where it is not there none.
  OpCase& optional(bool there, const std::string& name, std::vector<int> dims, const Fill& fill) {
    return there ? input(name, std::move(dims), fill) : absent(name);
  }
  /// Changes the data of an input now.
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
    integer_outputs_.push_back({name, std::move(dims), true});
    return *this;
  }
  OpCase& workspace_of_integers(const std::string& name, std::vector<int> dims) {
    integer_outputs_.push_back({name, std::move(dims), false});
    return *this;
  }

  /// Each a generic callable (const Exec&, TensorSet<Real>&).
  OpCase& forward(auto f) {
    forward64_ = f;
    forward32_ = f;
    return *this;
  }
  OpCase& backward(auto f) {
    backward64_ = f;
    backward32_ = f;
    return *this;
  }
  /// Outputs of one replica from its inputs, in at least double precision; absent where the text of a memory's law holds them.
  OpCase& oracle(std::function<void(const Values& in, Values& out)> f) {
    oracle_ = std::move(f);
    return *this;
  }
  /// Roundings on the longest path of forward; backward has about three times as many.
  OpCase& roundings(double n) {
    roundings_ = n;
    return *this;
  }
  /// Size of intermediate numbers relative to the result, where terms cancel.
  OpCase& condition(double c) {
    condition_ = c;
    return *this;
  }
  /// Allowed difference between CUDA and the CPU: 4 eps (4 + sqrt(terms)) scale max(1, magnitude), eps being 1.6e-14
  /// in double precision; `terms` of the longest sum, numbers on the way `scale` times the result.
  struct CudaLimit {
    double terms = 0, scale = 1;
  };
  OpCase& on_cuda(CudaLimit forward, CudaLimit backward) {
    limits_ = {forward, backward};
    return *this;
  }
  /// Left out where the GPU is slow (few_replicas()).
  OpCase& heavy(bool is = true) {
    heavy_ = is;
    return *this;
  }
  /// Limits the gradient check of larger inputs to so many elements.
  OpCase& gradient_elements(std::int64_t n) {
    gradient_elements_ = n;
    return *this;
  }

  const std::string& name() const { return name_; }
  bool is_heavy() const { return heavy_; }
  /// The inputs of replica r as the oracle sees them in double precision.
  Values inputs(int r) const;
  void check_reference() const;
  void check_gradient() const;
  void check_replicas() const;
  void check_cuda() const;
  /// The same where gradients are added too, and among 64 replicas.
  void check_cuda_in_company() const;

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
    Fill fill;
    std::vector<Numbers> edited;  ///< by replica; empty: as filled
  };
  struct Output {
    std::string name;
    std::vector<int> dims;
    bool differentiable, compared;
    Numbers cotangent;  ///< empty: random
  };
  struct IntegerOutput {
    std::string name;
    std::vector<int> dims;
    bool compared;
  };
  struct IntegerField {
    std::string name;
    std::vector<int> dims;
    Fill fill;
  };
  OpCase& add_field(const std::string& name, std::vector<int> dims, const Fill& fill, bool differentiable);
  RandomStream stream(const std::string& name, int r) const;
  /// Data is drawn when it is wanted: a program holds hundreds of cases and mostly runs one.
  template <class T>
  std::vector<T> drawn(const std::string& name, const std::vector<int>& dims, const Fill& fill, int r) const;
  Numbers numbers(const Field& field, int r) const {
    return field.edited.empty() ? drawn<double>(field.name, field.dims, field.fill, r)
                                : field.edited[static_cast<std::size_t>(r)];
  }
  template <class Real>
  void reference() const;
  template <class Real>
  void replicas() const;
  template <class Real>
  void single_gradient() const;
  template <class Real>
  void run_on_cuda(TensorSet<Real>& set, const std::vector<int>& replicas, Write write) const;
  template <class Real>
  void cuda(bool in_company) const;
  template <class Real>
  double cuda_limit(bool of_gradient, double magnitude) const;
  bool has_backward() const { return static_cast<bool>(backward64_); }

  std::string name_;
  std::vector<Field> fields_;
  std::vector<IntegerField> integers_;
  std::vector<std::string> absent_;
  std::vector<Output> outputs_;
  std::vector<IntegerOutput> integer_outputs_;
  std::function<void(const Exec&, TensorSet<double>&)> forward64_, backward64_;
  std::function<void(const Exec&, TensorSet<float>&)> forward32_, backward32_;
  std::function<void(const Values&, Values&)> oracle_;
  double roundings_ = 1, condition_ = 1;
  std::vector<CudaLimit> limits_;  ///< of values, of gradients; empty: from roundings and condition
  std::int64_t gradient_elements_ = 1 << 30;
  bool heavy_ = false;
};

/// Gives queries x and keys k of two numbers products of 3000 and 2998: exponentials overflow, and a rounding of a score is
/// one of 3000 eps in its weight.
OpCase& make_huge(OpCase& op);

/// Shapes of reads that cut warps, tiles and buffers: Q queries of T tokens with keys of size P.
struct ReadShape {
  int B, T, P, Q;
};
inline constexpr ReadShape kReadShapes[] = {
    {1, 1, 1, 1},    {3, 1, 5, 4},    {2, 9, 33, 1},   {3, 40, 64, 1},  {2, 23, 128, 1}, {2, 23, 100, 3},
    {2, 67, 64, 70}, {1, 12, 300, 2}, {2, 10, 700, 1}, {1, 6, 1500, 2}, {2, 70, 256, 1}, {2, 5, 512, 2}};

inline void PrintTo(const OpCase& op, std::ostream* out) { *out << op.name(); }

/// INSTANTIATE_TEST_SUITE_P(Name, OpCheck, ::testing::ValuesIn(cases()), case_name);
class OpCheck : public ::testing::TestWithParam<OpCase> {};
/// Cases at shapes that only kernels care for: CUDA against the CPU.
class CudaOpCheck : public ::testing::TestWithParam<OpCase> {
 protected:
  void SetUp() override;
};
inline std::string case_name(const ::testing::TestParamInfo<OpCase>& info) { return info.param.name(); }

}  // namespace crosstalk::checks
