// The state whose entries fade on their own, on CUDA: the form that the op was planned with, else token after token
// (diagonal_read_law.h).
// SPDX-License-Identifier: Apache-2.0
#include "kernels/law/diagonal_read_law.h"
#include "kernels/law/law_team.cuh"

namespace crosstalk {

template <class Real>
void forward_cuda(const Exec& exec, const DiagonalRead<Real>& op) {
  if (op.form) return op.form->forward(exec, op);
  law::run_forward<law::Diagonal<Real>>(exec, op);
}
template <class Real>
void backward_cuda(const Exec& exec, const DiagonalRead<Real>& op) {
  if (op.form) return op.form->backward(exec, op);
  law::run_backward<law::Diagonal<Real>>(exec, op);
}

CROSSTALK_INSTANTIATE(cuda, DiagonalRead)

}  // namespace crosstalk
