// MesaNet's memory on the CPU: the specification (ops/ridge_read_law.h).
// SPDX-License-Identifier: Apache-2.0
#include "kernels/law/law_cpu.h"
#include "kernels/law/ridge_read_law.h"

namespace crosstalk {

template <class Real>
void forward_cpu(const Exec& exec, const RidgeRead<Real>& op) {
  law::run_forward<law::Ridge<Real>>(exec, op);
}
template <class Real>
void backward_cpu(const Exec& exec, const RidgeRead<Real>& op) {
  law::run_backward<law::Ridge<Real>>(exec, op);
}

CROSSTALK_INSTANTIATE(cpu, RidgeRead)

}  // namespace crosstalk
