// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/parallel.h"
#include "kernels/ops/add_positions.h"

namespace crosstalk {
namespace {
constexpr std::int64_t kBlock = 1024;
}

template <class Real>
void forward_cpu(const Exec& exec, const AddPositions<Real>& op) {
  const std::int64_t row = static_cast<std::int64_t>(op.T()) * op.D();
  parallel_blocks(exec, op.y.value.R, op.y.value.size(), kBlock,
                  [&](int r, std::int64_t begin, std::int64_t end) {
                    for (std::int64_t i = begin; i < end; ++i)
                      op.y.value.at(r)[i] = op.x.value.at(r)[i] + op.table.value.at(r)[i % row];
                  });
}

template <class Real>
void backward_cpu(const Exec& exec, const AddPositions<Real>& op) {
  if (op.x.wanted()) {
    parallel_blocks(exec, op.y.gradient.R, op.y.gradient.size(), kBlock,
                    [&](int r, std::int64_t begin, std::int64_t end) {
                      for (std::int64_t i = begin; i < end; ++i)
                        put(op.x.write, op.x.gradient.at(r) + i, op.y.gradient.at(r)[i]);
                    });
  }
  if (!op.table.wanted()) return;
  parallel_blocks(exec, op.y.gradient.R, op.table.value.size(), kBlock,
                  [&](int r, std::int64_t begin, std::int64_t end) {
                    for (std::int64_t i = begin; i < end; ++i)
                      put(op.table.write, op.table.gradient.at(r) + i, op.d_table(r, i));
                  });
}

CROSSTALK_INSTANTIATE(cpu, AddPositions)

}  // namespace crosstalk
