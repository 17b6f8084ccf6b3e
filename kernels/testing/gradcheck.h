// Gradient check: a backward pass against central 4-point differences of its forward pass,
//   df/dx = (8 (f(x+h) - f(x-h)) - (f(x+2h) - f(x-2h))) / 12h + O(h^4),    f = sum of cotangent * output,
// every element of every input, and the three ways (Write) to store a gradient.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>

#include "kernels/base/random.h"
#include "kernels/testing/compare.h"

namespace crosstalk::checks {

/// `write` is what backward() will obey for this input.
struct GradInput {
  std::string name;
  Tensor<double> x, d_x;
  Write* write = nullptr;
};

/// d_y must be filled: with random numbers, so that no error can hide behind a zero.
struct GradOutput {
  std::string name;
  Tensor<double> y, d_y;
};

/// CPU only. backward() may destroy what forward() kept: forward() runs before each backward(). Replicas are
/// independent, hence each is checked with the same evaluations.
struct GradientProblem {
  std::vector<GradInput> inputs;
  std::vector<GradOutput> outputs;
  std::function<void()> forward, backward;
  double step = 1e-3;
  double tolerance = 1e-8;          ///< relative to the largest derivative of the input in the replica
  double smallest_scale = 1e-2;     ///< where all derivatives are about zero
  std::int64_t elements = 1 << 30;  ///< of large inputs, only so many evenly spread elements
};

namespace detail {

inline std::vector<long double> objective(const GradientProblem& problem, int R) {
  problem.forward();
  std::vector<long double> f(static_cast<std::size_t>(R), 0);
  for (const GradOutput& out : problem.outputs) {
    for (int r = 0; r < R; ++r) {
      const double *y = out.y.at(r), *d_y = out.d_y.at(r);
      for (std::int64_t i = 0; i < out.y.size(); ++i)
        f[static_cast<std::size_t>(r)] += (long double)d_y[i] * y[i];
    }
  }
  return f;
}

inline std::vector<std::vector<double>> gradients(const GradientProblem& problem, int R) {
  problem.forward();
  problem.backward();
  std::vector<std::vector<double>> copies;
  for (const GradInput& in : problem.inputs)
    for (int r = 0; r < R; ++r) copies.emplace_back(in.d_x.at(r), in.d_x.at(r) + in.d_x.size());
  return copies;
}

inline void fill(const GradientProblem& problem, int R, const std::function<double(std::int64_t)>& f) {
  for (const GradInput& in : problem.inputs) {
    for (int r = 0; r < R; ++r)
      for (std::int64_t i = 0; i < in.d_x.size(); ++i) in.d_x.at(r)[i] = f(i + r);
  }
}

inline void set_all(const GradientProblem& problem, Write write) {
  for (const GradInput& in : problem.inputs) *in.write = write;
}

/// overwrite ignores what was there, add adds to it, none touches nothing and changes no other gradient.
inline ::testing::AssertionResult check_writes(const GradientProblem& problem, int R,
                                               const std::vector<std::vector<double>>& want) {
  const auto at = [R](std::size_t input, int r) {
    return input * static_cast<std::size_t>(R) + static_cast<std::size_t>(r);
  };
  const auto before = [](std::int64_t i) { return 0.75 + 0.125 * static_cast<double>(i % 11); };
  set_all(problem, Write::add);
  fill(problem, R, before);
  const auto added = gradients(problem, R);
  for (std::size_t k = 0; k < problem.inputs.size(); ++k) {
    for (int r = 0; r < R; ++r) {
      std::vector<double> sum = want[at(k, r)];
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += before(static_cast<std::int64_t>(i) + r);
      const auto n = static_cast<std::int64_t>(sum.size());
      const Tolerance limit = checks::tolerance<double>(64, 2 + magnitude(sum.data(), n));
      auto result = close("Write::add to d_" + problem.inputs[k].name, added[at(k, r)].data(), sum.data(), n,
                          limit.limit());
      if (!result) return result;
    }
  }
  for (std::size_t none = 0; none < problem.inputs.size(); ++none) {
    set_all(problem, Write::overwrite);
    *problem.inputs[none].write = Write::none;
    fill(problem, R, before);
    const auto got = gradients(problem, R);
    for (std::size_t k = 0; k < problem.inputs.size(); ++k) {
      for (int r = 0; r < R; ++r) {
        std::vector<double> expected = want[at(k, r)];
        if (k == none)
          for (std::size_t i = 0; i < expected.size(); ++i)
            expected[i] = before(static_cast<std::int64_t>(i) + r);
        auto result = identical(
            fmt::format("d_{} while d_{} is Write::none", problem.inputs[k].name, problem.inputs[none].name),
            got[at(k, r)].data(), expected.data(), static_cast<std::int64_t>(expected.size()));
        if (!result) return result;
      }
    }
  }
  return ::testing::AssertionSuccess();
}

}  // namespace detail

inline ::testing::AssertionResult check_gradients(const GradientProblem& problem) {
  if (problem.inputs.empty() || problem.outputs.empty())
    return ::testing::AssertionFailure() << "a gradient check needs inputs and outputs";
  const int R = problem.inputs[0].x.R;
  detail::set_all(problem, Write::overwrite);
  detail::fill(problem, R, [](std::int64_t) { return std::numeric_limits<double>::quiet_NaN(); });
  const auto got = detail::gradients(problem, R);
  for (std::size_t k = 0; k < problem.inputs.size(); ++k) {
    const GradInput& in = problem.inputs[k];
    const std::int64_t n = in.x.size(), stride = std::max<std::int64_t>(1, n / problem.elements);
    std::vector<std::vector<double>> numeric(static_cast<std::size_t>(R)),
        analytic(static_cast<std::size_t>(R));
    for (std::int64_t i = 0; i < n; i += stride) {
      std::vector<double> x0(static_cast<std::size_t>(R));
      for (int r = 0; r < R; ++r) x0[static_cast<std::size_t>(r)] = in.x.at(r)[i];
      const auto f = [&](double delta) {
        for (int r = 0; r < R; ++r) in.x.at(r)[i] = x0[static_cast<std::size_t>(r)] + delta;
        return detail::objective(problem, R);
      };
      const double h = problem.step;
      const auto f1 = f(h), f2 = f(-h), f3 = f(2 * h), f4 = f(-2 * h);
      for (int r = 0; r < R; ++r) {
        const auto j = static_cast<std::size_t>(r);
        in.x.at(r)[i] = x0[j];
        numeric[j].push_back(static_cast<double>((8 * (f1[j] - f2[j]) - (f3[j] - f4[j])) / (12 * h)));
        analytic[j].push_back(got[k * static_cast<std::size_t>(R) + j][static_cast<std::size_t>(i)]);
      }
    }
    for (int r = 0; r < R; ++r) {
      const auto &a = analytic[static_cast<std::size_t>(r)], &b = numeric[static_cast<std::size_t>(r)];
      const auto count = static_cast<std::int64_t>(a.size());
      const double scale = std::max(problem.smallest_scale, magnitude(b.data(), count));
      std::vector<int> dims(in.x.dims, in.x.dims + in.x.rank);
      if (stride > 1) dims.clear();
      auto result = close(fmt::format("d_{}, replica {}", in.name, r), a.data(), b.data(), count,
                          problem.tolerance * scale, dims);
      if (!result) return result;
    }
  }
  return detail::check_writes(problem, R, got);
}

}  // namespace crosstalk::checks
