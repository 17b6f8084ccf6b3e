// The fast weight memory on the CPU: the specification (fwm_law.h).
// SPDX-License-Identifier: Apache-2.0
#include "kernels/law/fwm_law.h"
#include "kernels/law/law_cpu.h"

namespace crosstalk {

template <class Real>
void forward_cpu(const Exec& exec, const FwmRead<Real>& op) {
  law::run_forward<law::Fwm<Real>>(exec, op);
}
template <class Real>
void backward_cpu(const Exec& exec, const FwmRead<Real>& op) {
  law::run_backward<law::Fwm<Real>>(exec, op);
}

CROSSTALK_INSTANTIATE(cpu, FwmRead)

}  // namespace crosstalk
