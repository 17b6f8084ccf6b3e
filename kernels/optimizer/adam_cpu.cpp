// Adam on the CPU, number by number.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/optimizer/adam.h"

#include <algorithm>
#include <cmath>

#include "kernels/base/parallel.h"

namespace crosstalk {

namespace {

/// The sum of squares of n numbers, in kSums chains, which a processor adds side by side.
double sum_of_squares(const auto* x, std::int64_t n) {
  constexpr int kSums = 16;
  double sums[kSums] = {};
  std::int64_t i = 0;
  for (; i + kSums <= n; i += kSums)
    for (int j = 0; j < kSums; ++j) sums[j] += static_cast<double>(x[i + j]) * static_cast<double>(x[i + j]);
  for (int j = 0; i < n; ++i, ++j) sums[j] += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  for (int half = kSums / 2; half > 0; half /= 2)
    for (int j = 0; j < half; ++j) sums[j] += sums[j + half];
  return sums[0];
}

constexpr int kParallel = 16384;  // parameters of one item of work
static_assert(kParallel % kAdamBlock == 0);

}  // namespace

template <class Real>
void run_cpu(const Exec& exec, const AdamStep<Real>& a) {
  parallel_blocks(
      exec, a.parameter.R, a.parameter.size(), kParallel, [&](int r, std::int64_t begin, std::int64_t end) {
        const double t = *a.step.at(r);
        const Real rate = static_cast<Real>(*a.learning_rate.at(r) / (1 - std::pow(a.beta1, t)));
        const Real root = static_cast<Real>(std::sqrt(1 - std::pow(a.beta2, t)));
        const Real b1 = static_cast<Real>(a.beta1), b2 = static_cast<Real>(a.beta2),
                   eps = static_cast<Real>(a.eps);
        const Real c1 = static_cast<Real>(1 - a.beta1), c2 = static_cast<Real>(1 - a.beta2);
        Real* p = a.parameter.at(r);
        const Real* g = a.gradient.at(r);
        Real* m = a.m.at(r);
        Real* v = a.v.at(r);
        for (std::int64_t i = begin; i < end && a.squares; i += kAdamBlock)
          a.squares.at(r)[i / kAdamBlock] =
              sum_of_squares(g + i, std::min<std::int64_t>(kAdamBlock, end - i));
        if (a.weight_decay) {
          const Real keep = static_cast<Real>(1 - *a.learning_rate.at(r) * *a.weight_decay.at(r));
          for (std::int64_t i = begin; i < end; ++i) p[i] *= keep;
        }
        const Real scale = a.gradient_scale ? static_cast<Real>(*a.gradient_scale.at(r)) : Real(1);
        for (std::int64_t i = begin; i < end; ++i) {
          const Real scaled = scale * g[i];
          m[i] = b1 * m[i] + c1 * scaled;
          v[i] = b2 * v[i] + c2 * scaled * scaled;
          p[i] -= rate * m[i] / (std::sqrt(v[i]) / root + eps);
        }
      });
}

CROSSTALK_INSTANTIATE_STEP(cpu, AdamStep)

}  // namespace crosstalk
