// The fast weight memory on CUDA: chunk by chunk on the tensor cores in single precision with one query
// (fwm_chunk.cuh), else by the generic form (rescaled_walk.cuh).
// SPDX-License-Identifier: Apache-2.0
#include <type_traits>

#include "kernels/base/cuda_launch.cuh"
#include "kernels/law/fwm.h"
#include "kernels/law/fwm_chunk_backward.cuh"
#include "kernels/law/fwm_chunk_forward.cuh"
#include "kernels/law/rescaled_walk.cuh"

namespace crosstalk {
namespace {
using namespace device;

static_assert(kFwmSegment == kRescaledSegment);

template <class Real>
RescaledTensors<Real> tensors(const FwmRead<Real>& a, int V) {
  RescaledTensors<Real> generic;
  generic.q = a.q.value, generic.k = a.k.value, generic.beta = a.beta.value, generic.ids = a.tokens.value;
  generic.T = generic.k.dim(1), generic.Q = generic.q.dim(1), generic.K = generic.k.dim(2), generic.V = V;
  generic.position = a.position.value;
  generic.states = a.checkpoints.value;
  generic.states_apart = (fwm_segments(generic.T) + 1) * generic.size();
  return generic;
}

}  // namespace

template <class Real>
void forward_cuda(const Exec& exec, const FwmRead<Real>& a) {
  const int B = a.k.value.dim(0), P = a.k.value.dim(2), V = a.y.value.columns();
  if (B == 0 || a.k.value.R == 0) return;
  if constexpr (std::is_same_v<Real, float>) {
    if (fwm_chunked<Real>(Device::cuda, a.q.value.dim(1), P, V)) {
      run_fwm_forward(stream_of(exec), a);
      return check_launch("fast weight memory");
    }
  }
  RescaledTensors<Real> generic = tensors<Real>(a, V);
  generic.o = a.y.value;
  generic.work = a.checkpoints.value, generic.work_apart = generic.states_apart;
  generic.work.data += fwm_segments(generic.T) * generic.size();
  run_rescaled(exec, generic, B, a.k.value.R, false);
}

template <class Real>
void backward_cuda(const Exec& exec, const FwmRead<Real>& a) {
  const int B = a.k.value.dim(0), P = a.k.value.dim(2), V = a.y.gradient.columns();
  if (B == 0 || a.k.value.R == 0) return;
  if constexpr (std::is_same_v<Real, float>) {
    if (fwm_chunked<Real>(Device::cuda, a.q.value.dim(1), P, V)) {
      run_fwm_backward(stream_of(exec), a);
      return check_launch("fast weight memory backward");
    }
  }
  RescaledTensors<Real> generic = tensors<Real>(a, V);
  generic.d_o = a.y.gradient, generic.d_k = a.k.gradient, generic.d_q = a.q.gradient,
  generic.d_beta = a.beta.gradient;
  generic.write_k = a.k.write, generic.write_q = a.q.write, generic.write_beta = a.beta.write;
  generic.work = a.workspace.value, generic.work_apart = (kFwmSegment + 4) * generic.size();
  run_rescaled(exec, generic, B, a.k.value.R, true);
}

CROSSTALK_INSTANTIATE(cuda, FwmRead)

}  // namespace crosstalk
