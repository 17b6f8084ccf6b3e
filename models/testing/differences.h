// Gradients of whole models against central differences of their losses.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/testing/compare.h"
#include "models/testing/model_run.h"

namespace crosstalk::checks {

/// (8 (f(x+h) - f(x-h)) - (f(x+2h) - f(x-2h))) / 12h for parameter p, element j, by replica; what the slope from x-h to x+h is more
/// than that from x-2h to x+2h goes to `bends`.
inline std::vector<double> difference(ModelRun<double>& run, const Tensor<double>& p, std::int64_t j, int R,
                                      std::vector<double>& bends) {
  const double h = 6e-5;
  std::vector<double> result(static_cast<std::size_t>(R), 0), x;
  bends = result;
  for (int r = 0; r < R; ++r) x.push_back(p.at(r)[j]);
  for (const auto& [steps, weight] :
       std::vector<std::pair<double, double>>{{1, 8}, {-1, -8}, {2, -1}, {-2, 1}}) {
    for (int r = 0; r < R; ++r) p.at(r)[j] = x[static_cast<std::size_t>(r)] + steps * h;
    run.forward();
    for (int r = 0; r < R; ++r) {
      result[static_cast<std::size_t>(r)] += weight * run.loss(r) / (12 * h);
      bends[static_cast<std::size_t>(r)] += std::copysign(run.loss(r), weight) / (2 * std::abs(steps) * h);
    }
  }
  for (int r = 0; r < R; ++r) p.at(r)[j] = x[static_cast<std::size_t>(r)];
  return result;
}

/// The gradient of every parameter of the first R replicas. Where the loss has a kink within reach, and `bent` is given, it says so
/// and nothing is compared.
inline void expect_gradients(ModelRun<double>& run, int R, bool* bent = nullptr) {
  run.forward();
  run.backward();
  auto& block = run.model.parameters();
  const auto replicas = static_cast<std::size_t>(R);
  std::vector<std::vector<double>> analytic;
  for (int i = 0; i < block.count(); ++i)
    for (int r = 0; r < R; ++r)
      analytic.emplace_back(block.gradient(i).at(r), block.gradient(i).at(r) + block.gradient(i).size());
  for (int i = 0; i < block.count(); ++i) {
    const Tensor<double> p = block.value(i);
    std::vector<std::vector<double>> numeric(replicas), bends(replicas);
    for (std::int64_t j = 0; j < p.size(); ++j) {
      std::vector<double> bend;
      const auto d = difference(run, p, j, R, bend);
      for (std::size_t r = 0; r < replicas; ++r) numeric[r].push_back(d[r]), bends[r].push_back(bend[r]);
    }
    for (std::size_t r = 0; r < replicas; ++r) {
      // Rounding of the loss, divided by the step, is 1e-10 of the loss at most.
      const double noise = 1e-2 * std::max(1., run.loss(static_cast<int>(r)));
      const double scale = std::max(noise, magnitude(numeric[r].data(), p.size()));
      if (bent != nullptr && (*bent = *bent || magnitude(bends[r].data(), p.size()) > 1e-5 * scale)) return;
      const auto& got = analytic[static_cast<std::size_t>(i) * replicas + r];
      ASSERT_TRUE(close("gradient of " + block.name(i), got.data(), numeric[r].data(), p.size(), 1e-8 * scale,
                        std::vector<int>(p.dims, p.dims + p.rank)));
    }
  }
}

}  // namespace crosstalk::checks
