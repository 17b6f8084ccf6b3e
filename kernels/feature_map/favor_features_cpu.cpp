// Random orthogonal features on the CPU.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/feature_map/favor_features.h"

#include <cmath>
#include <vector>

#include "kernels/base/parallel.h"
#include "kernels/base/random.h"

namespace crosstalk {

template <class Real>
void run_cpu(const Exec& exec, const FavorFeatures<Real>& a) {
  const int m = a.omega.dim(0), d = a.omega.dim(1);
  parallel_items(exec, a.omega.R, 1, [&](int r, std::int64_t) {
    const auto* words = reinterpret_cast<const std::uint32_t*>(a.seed.at(r));
    const std::uint64_t seed = words[0] | (static_cast<std::uint64_t>(words[1]) << 32);
    RandomStream stream(seed, RandomDomain::feature_map, static_cast<std::uint32_t>(*a.draw.at(r)),
                        a.purpose);
    double* q = a.workspace.at(r);  // column j of the block lies in row j
    std::vector<double> norm(static_cast<std::size_t>(d));
    for (int start = 0; start < m; start += d) {
      std::fill(norm.begin(), norm.end(), 0.0);
      for (int i = 0; i < d; ++i) {
        for (int j = 0; j < d; ++j) {
          const double g = normal_from_uniform(stream.uniform());
          q[j * d + i] = g;
          norm[static_cast<std::size_t>(i)] += g * g;
        }
      }
      for (int j = 0; j < std::min(d, m - start); ++j) {
        double* column = q + j * d;
        for (int pass = 0; pass < 2; ++pass)  // twice is enough (Kahan): orthogonal to rounding
          for (int i = 0; i < j; ++i) axpy(-dot(q + i * d, column, d), q + i * d, column, d);
        const double inverse = 1 / std::sqrt(dot(column, column, d));
        for (int i = 0; i < d; ++i) column[i] *= inverse;
        Real* row = a.omega.at(r) + static_cast<std::int64_t>(start + j) * d;
        const double length = std::sqrt(norm[static_cast<std::size_t>(j)]);
        for (int i = 0; i < d; ++i) row[i] = static_cast<Real>(column[i] * length);
      }
    }
  });
}

CROSSTALK_INSTANTIATE_STEP(cpu, FavorFeatures)

}  // namespace crosstalk
