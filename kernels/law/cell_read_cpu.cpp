// Nonlinear recurrences on the CPU: the specification (law/cell_read_law.h).
// SPDX-License-Identifier: Apache-2.0
#include "kernels/law/cell_read_law.h"
#include "kernels/law/law_cpu.h"

namespace crosstalk {

template <class Real>
void forward_cpu(const Exec& exec, const CellRead<Real>& op) {
  law::run_forward<law::CellLaw<Real>>(exec, op);
}
template <class Real>
void backward_cpu(const Exec& exec, const CellRead<Real>& op) {
  law::run_backward<law::CellLaw<Real>>(exec, op);
}

CROSSTALK_INSTANTIATE(cpu, CellRead)

}  // namespace crosstalk
