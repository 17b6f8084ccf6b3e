// Adam on the CPU, number by number.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/optimizer/adam.h"

#include <cmath>

#include "kernels/base/parallel.h"

namespace crosstalk {

template <class Real>
void run_cpu(const Exec& exec, const AdamStep<Real>& a) {
  parallel_blocks(exec, a.parameter.R, a.parameter.size(), 16384,
                  [&](int r, std::int64_t begin, std::int64_t end) {
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
                    if (a.weight_decay) {
                      const Real keep = static_cast<Real>(1 - *a.learning_rate.at(r) * *a.weight_decay.at(r));
                      for (std::int64_t i = begin; i < end; ++i) p[i] *= keep;
                    }
                    if (a.gradient_scale) {
                      const Real scale = static_cast<Real>(*a.gradient_scale.at(r));
                      for (std::int64_t i = begin; i < end; ++i) {
                        const Real scaled = scale * g[i];
                        m[i] = b1 * m[i] + c1 * scaled;
                        v[i] = b2 * v[i] + c2 * scaled * scaled;
                        p[i] -= rate * m[i] / (std::sqrt(v[i]) / root + eps);
                      }
                      return;
                    }
                    for (std::int64_t i = begin; i < end; ++i) {
                      m[i] = b1 * m[i] + c1 * g[i];
                      v[i] = b2 * v[i] + c2 * g[i] * g[i];
                      p[i] -= rate * m[i] / (std::sqrt(v[i]) / root + eps);
                    }
                  });
}

CROSSTALK_INSTANTIATE_STEP(cpu, AdamStep)

}  // namespace crosstalk
