// regression: examples (x, y = w.x + noise) of one unknown w, then inputs whose output is asked. Real numbers are whole multiples
// of kNumberUnit, so that every device draws the same.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>

#include "kernels/base/normal.h"
#include "tasks/sequence_common.h"

namespace crosstalk {

struct RegressionSpec {
  std::int32_t inputs = 0;  ///< n: numbers of x
  std::int32_t pairs = 0;   ///< examples that are shown, and as many that may be asked
  double noise = 0;         ///< standard deviation of what is added to shown outputs
};

/// w, in multiples of 2^-28.
CT_HD inline std::int32_t regression_scratch_size(const RegressionSpec& spec) { return spec.inputs; }

constexpr double kWeightUnit = 1.0 / (1 << 28);

/// The nearest multiple of `unit`.
CT_HD inline std::int32_t in_units(double x, double unit) {
  return static_cast<std::int32_t>(std::floor(x / unit + 0.5));
}

/// Draws w (standard normal / sqrt(n)), then for each token the shown x, its noise, and the asked x, all standard normal.
CT_HD inline void regression_sequence(const RegressionSpec& spec, std::uint64_t data_seed, Split split,
                                      std::uint64_t n, const SequenceView& out, std::int32_t* scratch) {
  RandomStream random = sequence_stream(data_seed, split, n);
  const std::int32_t inputs = spec.inputs;
  const double scale = 1 / std::sqrt(static_cast<double>(inputs));
  for (std::int32_t i = 0; i < inputs; ++i)
    scratch[i] = in_units(standard_normal(random.uniform()) * scale, kWeightUnit);
  for (std::int32_t t = 0; t < spec.pairs; ++t) {
    std::int32_t* token = out.tokens + static_cast<std::int64_t>(t) * out.shape.C;
    for (std::int32_t part = 0; part < 2; ++part) {
      std::int32_t* x = token + part * (inputs + 1);
      double y = 0;
      for (std::int32_t i = 0; i < inputs; ++i) {
        x[i] = in_units(standard_normal(random.uniform()), kNumberUnit);
        y += scratch[i] * kWeightUnit * (x[i] * kNumberUnit);
      }
      if (part == 0) y += spec.noise * standard_normal(random.uniform());
      x[inputs] = in_units(y, kNumberUnit);
    }
    if (out.role) out.role[t] = static_cast<std::int32_t>(Role::write);
  }
  for (std::int32_t q = 0; q < out.shape.Q; ++q) {
    out.query[q] = q;
    out.query_position[q] = spec.pairs;
    out.target[q] = 0;
    if (!out.meta) continue;
    for (std::int32_t m = 0; m < meta_count; ++m) out.meta[static_cast<std::int64_t>(q) * meta_count + m] = 0;
  }
}

}  // namespace crosstalk
