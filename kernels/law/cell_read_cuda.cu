// Nonlinear recurrences on CUDA (law/cell_read_law.h).
// SPDX-License-Identifier: Apache-2.0
#include "kernels/law/cell_read_law.h"
#include "kernels/law/law_team.cuh"

namespace crosstalk {

template <class Real>
void forward_cuda(const Exec& exec, const CellRead<Real>& op) {
  law::run_forward<law::CellLaw<Real>>(exec, op);
}
template <class Real>
void backward_cuda(const Exec& exec, const CellRead<Real>& op) {
  law::run_backward<law::CellLaw<Real>>(exec, op);
}

CROSSTALK_INSTANTIATE(cuda, CellRead)

}  // namespace crosstalk
