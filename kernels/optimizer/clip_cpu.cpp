// The norm of a gradient on the CPU, block by block.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/optimizer/clip.h"

#include <cmath>

#include "kernels/base/parallel.h"

namespace crosstalk {

template <class Real>
void run_cpu(const Exec& exec, const ClipScale<Real>& a) {
  const std::int64_t n = a.gradient.size();
  parallel_blocks(exec, a.gradient.R, n, kClipBlock, [&](int r, std::int64_t begin, std::int64_t end) {
    const Real* g = a.gradient.at(r);
    double squares = 0;
    for (std::int64_t i = begin; i < end; ++i)
      squares += static_cast<double>(g[i]) * static_cast<double>(g[i]);
    a.partial.at(r)[begin / kClipBlock] = squares;
  });
  parallel_items(exec, a.gradient.R, 1, [&](int r, std::int64_t) {
    double squares = 0;
    for (int block = 0; block < clip_blocks(n); ++block) squares += a.partial.at(r)[block];
    *a.scale.at(r) = clip_scale(a.limit, std::sqrt(squares));
  });
}

CROSSTALK_INSTANTIATE_STEP(cpu, ClipScale)

}  // namespace crosstalk
