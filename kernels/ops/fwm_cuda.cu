// The fast weight memory on CUDA: chunk by chunk on the tensor cores in single precision with one query
// (fwm_chunk.cuh), else by the generic form (rescaled_walk.cuh).
// SPDX-License-Identifier: Apache-2.0
#include <type_traits>

#include "kernels/base/cuda_launch.cuh"
#include "kernels/ops/fwm.h"
#include "kernels/ops/fwm_chunk_backward.cuh"
#include "kernels/ops/fwm_chunk_forward.cuh"
#include "kernels/ops/rescaled_walk.cuh"

namespace crosstalk {
namespace {
using namespace device;

static_assert(kFwmSegment == kRescaledSegment);

template <class Real, class Args>
RescaledTensors<Real> tensors(const Args& a, int V) {
  RescaledTensors<Real> generic;
  generic.T = a.k.dim(1), generic.Q = a.q.dim(1), generic.K = a.k.dim(2), generic.V = V;
  generic.q = a.q, generic.k = a.k, generic.beta = a.beta, generic.ids = a.tokens;
  generic.position = a.position;
  generic.states = a.checkpoints;
  generic.states_apart = (fwm_segments(generic.T) + 1) * generic.size();
  return generic;
}

}  // namespace

template <class Real>
void run_cuda(const Exec& exec, const FwmReadForward<Real>& a) {
  const int B = a.k.dim(0), P = a.k.dim(2), V = a.y.columns();
  if (B == 0 || a.k.R == 0) return;
  if constexpr (std::is_same_v<Real, float>) {
    if (fwm_chunked<Real>(Device::cuda, a.q.dim(1), P, V)) {
      run_fwm_chunked(stream_of(exec), a);
      return check_launch("fast weight memory");
    }
  }
  RescaledTensors<Real> generic = tensors<Real>(a, V);
  generic.o = a.y;
  generic.work = a.checkpoints, generic.work_apart = generic.states_apart;
  generic.work.data += fwm_segments(generic.T) * generic.size();
  run_rescaled(exec, generic, B, a.k.R, false);
}

template <class Real>
void run_cuda(const Exec& exec, const FwmReadBackward<Real>& a) {
  const int B = a.k.dim(0), P = a.k.dim(2), V = a.d_y.columns();
  if (B == 0 || a.k.R == 0) return;
  if constexpr (std::is_same_v<Real, float>) {
    if (fwm_chunked<Real>(Device::cuda, a.q.dim(1), P, V)) {
      run_fwm_chunked(stream_of(exec), a);
      return check_launch("fast weight memory backward");
    }
  }
  RescaledTensors<Real> generic = tensors<Real>(a, V);
  generic.d_o = a.d_y, generic.d_k = a.d_k, generic.d_q = a.d_q, generic.d_beta = a.d_beta;
  generic.write_k = a.write_k, generic.write_q = a.write_q, generic.write_beta = a.write_beta;
  generic.work = a.workspace, generic.work_apart = (kFwmSegment + 4) * generic.size();
  run_rescaled(exec, generic, B, a.k.R, true);
}

CROSSTALK_CUDA_OP(FwmReadForward)
CROSSTALK_CUDA_OP(FwmReadBackward)

}  // namespace crosstalk
