// The rescaled read on CUDA: one generic form (ops/rescaled_walk.cuh).
// SPDX-License-Identifier: Apache-2.0
#include "kernels/law/rescaled_read.h"

#include "kernels/law/rescaled_walk.cuh"

namespace crosstalk {
namespace {

template <class Real>
device::RescaledTensors<Real> tensors(const RescaledRead<Real>& op) {
  device::RescaledTensors<Real> a;
  a.T = op.T(), a.Q = op.Q(), a.H = op.H(), a.K = op.K(), a.V = op.V();
  a.q = op.q.value, a.k = op.k.value, a.v = op.v.value, a.beta = op.beta.value, a.start = op.start.value;
  a.o = op.o.value, a.end = op.end.value, a.position = op.position.value;
  a.d_q = op.q.gradient, a.d_k = op.k.gradient, a.d_v = op.v.gradient, a.d_beta = op.beta.gradient;
  a.d_start = op.start.gradient, a.d_o = op.o.gradient, a.d_end = op.end.gradient;
  a.write_q = op.q.write, a.write_k = op.k.write, a.write_v = op.v.write, a.write_beta = op.beta.write;
  a.write_start = op.start.write;
  a.states = op.states.value, a.states_apart = rescaled_segments(a.T) * a.size();
  a.work = op.work.value, a.work_apart = op.work.value.columns();
  return a;
}

}  // namespace

template <class Real>
void forward_cuda(const Exec& exec, const RescaledRead<Real>& op) {
  device::run_rescaled(exec, tensors(op), op.B() * op.H(), op.k.value.R, false);
}

template <class Real>
void backward_cuda(const Exec& exec, const RescaledRead<Real>& op) {
  device::run_rescaled(exec, tensors(op), op.B() * op.H(), op.k.value.R, true);
}

CROSSTALK_INSTANTIATE(cuda, RescaledRead)

}  // namespace crosstalk
