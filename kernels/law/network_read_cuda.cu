// A memory that is a network, on CUDA: the form that the op was planned with, else token after token
// (network_read_law.h).
// SPDX-License-Identifier: Apache-2.0
#include "kernels/law/law_team.cuh"
#include "kernels/law/network_read_law.h"

namespace crosstalk {

template <class Real>
void forward_cuda(const Exec& exec, const NetworkRead<Real>& op) {
  if (op.form) return op.form->forward(exec, op);
  law::run_forward<law::Network<Real>>(exec, op);
}
template <class Real>
void backward_cuda(const Exec& exec, const NetworkRead<Real>& op) {
  if (op.form) return op.form->backward(exec, op);
  law::run_backward<law::Network<Real>>(exec, op);
}

CROSSTALK_INSTANTIATE(cuda, NetworkRead)

}  // namespace crosstalk
