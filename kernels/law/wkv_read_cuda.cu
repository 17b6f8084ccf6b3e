// RWKV-4.s memory on CUDA (ops/wkv_read_law.h).
// SPDX-License-Identifier: Apache-2.0
#include "kernels/law/law_team.cuh"
#include "kernels/law/wkv_read_law.h"

namespace crosstalk {

template <class Real>
void forward_cuda(const Exec& exec, const WkvRead<Real>& op) {
  law::run_forward<law::Wkv<Real>>(exec, op);
}
template <class Real>
void backward_cuda(const Exec& exec, const WkvRead<Real>& op) {
  law::run_backward<law::Wkv<Real>>(exec, op);
}

CROSSTALK_INSTANTIATE(cuda, WkvRead)

}  // namespace crosstalk
