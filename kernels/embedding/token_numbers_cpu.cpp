// Numbers of tokens as rows, on the CPU.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/parallel.h"
#include "kernels/embedding/token_numbers.h"

namespace crosstalk {

template <class Real>
void forward_cpu(const Exec& exec, const TokenNumbers<Real>& op) {
  parallel_blocks(exec, op.y.value.R, op.y.value.size(), 1024,
                  [&](int r, std::int64_t begin, std::int64_t end) {
                    for (std::int64_t i = begin; i < end; ++i) op.y.value.at(r)[i] = op.number(r, i);
                  });
}

template <class Real>
void backward_cpu(const Exec&, const TokenNumbers<Real>&) {}

CROSSTALK_INSTANTIATE(cpu, TokenNumbers)

}  // namespace crosstalk
