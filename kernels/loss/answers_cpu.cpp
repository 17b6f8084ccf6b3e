// The largest logit on the CPU.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/loss/answers.h"

#include <limits>

#include "kernels/base/parallel.h"

namespace crosstalk {

template <class Real>
void run_cpu(const Exec& exec, const Answers<Real>& a) {
  constexpr std::int64_t kRows = 16;
  parallel_blocks(exec, a.x.R, a.x.rows(), kRows, [&](int r, std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n) {
      Real top = -std::numeric_limits<Real>::infinity();
      std::int32_t best = -1;
      for (int v = 0; v < a.V(); ++v)
        if (const Real logit = a.logit(r, n, v); logit > top) top = logit, best = v;
      a.answer.at(r)[n] = best;
    }
  });
}

CROSSTALK_INSTANTIATE_STEP(cpu, Answers)

}  // namespace crosstalk
