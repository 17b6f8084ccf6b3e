// A thread a number.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/ops/add_positions.h"
#include "kernels/ops/each.cuh"

namespace crosstalk {
using namespace device;

template <class Real>
void forward_cuda(const Exec& exec, const AddPositions<Real>& op) {
  const std::int64_t row = static_cast<std::int64_t>(op.T()) * op.D();
  each(exec, "add_positions", op.y.value.R, op.y.value.size(), [=] __device__(int r, std::int64_t i) {
    op.y.value.at(r)[i] = op.x.value.at(r)[i] + op.table.value.at(r)[i % row];
  });
}

template <class Real>
void backward_cuda(const Exec& exec, const AddPositions<Real>& op) {
  if (op.x.wanted()) {
    each(exec, "add_positions backward (x)", op.y.gradient.R, op.y.gradient.size(),
         [=] __device__(int r, std::int64_t i) {
           put(op.x.write, op.x.gradient.at(r) + i, op.y.gradient.at(r)[i]);
         });
  }
  if (!op.table.wanted()) return;
  each(exec, "add_positions backward (table)", op.y.gradient.R, op.table.value.size(),
       [=] __device__(int r, std::int64_t i) {
         put(op.table.write, op.table.gradient.at(r) + i, op.d_table(r, i));
       });
}

CROSSTALK_INSTANTIATE(cuda, AddPositions)

}  // namespace crosstalk
