// A law on the sequential engine with memory of its own, outside of any graph: for tests and benchmarks.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "kernels/base/buffer.h"
#include "kernels/base/device/cuda_runtime.h"
#include "kernels/rule/rule_read.h"

namespace crosstalk::rules {

struct RuleRunSize {
  int R = 1, B = 1, T = 1;
  int Q = 0;              ///< queries at positions; 0: one at every token
  bool ends = false;      ///< states at the end, with gradients
  bool positive = false;  ///< inputs above 0: sums that something divides by stay away from 0
};

/// RuleRead with inputs and incoming gradients drawn; replicas have equal numbers.
template <class Real>
class RuleRun {
 public:
  RuleRun(const std::shared_ptr<const RuleProgram>& program, const RuleRunSize& s, Device device,
          bool compiled)
      : arena_(device) {
    op_.device = device, op_.program = program, op_.compiled = compiled;
    op_.batch = s.B, op_.tokens = s.T, op_.queries = s.Q > 0 ? s.Q : s.T, op_.heads = 1;
    const auto count = program->inputs.size();
    for (std::size_t i = 0; i < count; ++i) {
      const RuleProgram::Input& one = program->inputs[i];
      op_.x[i].value = op_.x[i].gradient = shaped<Real>(s.R, {s.B, op_.rows_of(one.per), 1, one.width});
      op_.x[i].write = Write::overwrite;
    }
    if (s.Q > 0) op_.position.value = shaped<std::int32_t>(s.R, {s.B, s.Q});
    for (std::size_t i = 0; i < program->states.size() && s.ends; ++i)
      op_.end[i].value = op_.end[i].gradient = shaped<Real>(s.R, {s.B, 1, program->states[i].numbers()});
    op_.plan();
    op_.o.gradient = op_.o.value;
    for (std::size_t i = 0; i < count; ++i)
      arena_.reserve(&op_.x[i].value), arena_.reserve(&op_.x[i].gradient);
    if (s.Q > 0) arena_.reserve(&op_.position.value);
    for (std::size_t i = 0; i < program->states.size() && s.ends; ++i)
      arena_.reserve(&op_.end[i].value), arena_.reserve(&op_.end[i].gradient);
    arena_.reserve(&op_.o.value), arena_.reserve(&op_.o.gradient);
    arena_.reserve(&op_.states.value), arena_.reserve(&op_.work.value);
    arena_.allocate();
    for (std::size_t i = 0; i < count; ++i)
      draw(op_.x[i].value, 1 / std::sqrt(program->inputs[i].width), s.positive);
    draw(op_.o.gradient, 1);
    for (std::size_t i = 0; i < program->states.size() && s.ends; ++i) draw(op_.end[i].gradient, 1);
    std::vector<std::int32_t> positions(static_cast<std::size_t>(s.B * s.Q));
    for (std::int32_t& one : positions) one = static_cast<std::int32_t>((uniform() + 1) / 2 * (s.T + 1));
    for (int r = 0; r < s.R && s.Q > 0; ++r) put(op_.position.value.at(r), positions);
  }
  const RuleRead<Real>& op() const { return op_; }
  /// Reads, ends, gradients of inputs of a replica.
  std::vector<std::vector<Real>> results(int r = 0) const {
    std::vector<std::vector<Real>> out;
    const auto take = [&](const Tensor<Real>& x) {
      const std::vector<Real> all = arena_.copy_of(x);
      out.emplace_back(all.begin() + r * x.size(), all.begin() + (r + 1) * x.size());
    };
    take(op_.o.value);
    for (std::size_t i = 0; i < op_.program->states.size() && op_.end[i]; ++i) take(op_.end[i].value);
    for (std::size_t i = 0; i < op_.program->inputs.size(); ++i) take(op_.x[i].gradient);
    return out;
  }

 private:
  /// Reproducible numbers in (-1, 1).
  double uniform() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<double>(state_ >> 40) / static_cast<double>(1u << 23) - 1;
  }
  void draw(const Tensor<Real>& x, double scale, bool positive = false) {
    std::vector<Real> numbers(static_cast<std::size_t>(x.size()));
    for (Real& one : numbers) {
      const double drawn = scale * uniform();
      one = static_cast<Real>(static_cast<float>(positive ? std::abs(drawn) : drawn));
    }
    for (int r = 0; r < x.R; ++r) put(x.at(r), numbers);
  }
  template <class T>
  void put(T* to, const std::vector<T>& numbers) {
    if (op_.device == Device::cuda) {
      cuda_copy_to_device(to, numbers.data(), numbers.size() * sizeof(T));
    } else {
      std::copy(numbers.begin(), numbers.end(), to);
    }
  }
  RuleRead<Real> op_;
  Arena arena_;
  std::uint64_t state_ = 7;
};

/// The largest difference of two results, each over the largest of its numbers; infinite for what is not finite.
template <class A, class B>
double farthest(const std::vector<std::vector<A>>& x, const std::vector<std::vector<B>>& y) {
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    double most = 1e-300, apart = 0;
    for (std::size_t j = 0; j < x[i].size(); ++j) {
      most = std::max(most, std::abs(static_cast<double>(y[i][j])));
      const double d = std::abs(static_cast<double>(x[i][j]) - static_cast<double>(y[i][j]));
      apart = std::isfinite(d) ? std::max(apart, d) : INFINITY;
    }
    worst = std::max(worst, apart / most);
  }
  return worst;
}

}  // namespace crosstalk::rules
