// MesaNet's memory on CUDA: the form that the op was planned with, else token after token (ridge_read_law.h).
// SPDX-License-Identifier: Apache-2.0
#include "kernels/law/law_team.cuh"
#include "kernels/law/ridge_read_law.h"

namespace crosstalk {

template <class Real>
void forward_cuda(const Exec& exec, const RidgeRead<Real>& op) {
  if (op.form) return op.form->forward(exec, op);
  law::run_forward<law::Ridge<Real>>(exec, op);
}
template <class Real>
void backward_cuda(const Exec& exec, const RidgeRead<Real>& op) {
  if (op.form) return op.form->backward(exec, op);
  law::run_backward<law::Ridge<Real>>(exec, op);
}

CROSSTALK_INSTANTIATE(cuda, RidgeRead)

}  // namespace crosstalk
