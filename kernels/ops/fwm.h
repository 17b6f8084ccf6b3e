// The fast weight memory of Schlag, Munkhdalai, Schmidhuber (2021), as the synthetic code of Schlag et al.
// (2021) has it:
//   S_1 = beta_1 v_1 k_1^T
//   S'  = S_{t-1} + beta_t (v_t - S_{t-1} k_t) k_t^T
//   S_t = S' / (relu(|S'|_F - 1) + 1)
// The rescaling makes it non-linear in S, so the state itself is formed. Values are one-hot (value ids).
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/base/exec.h"

namespace crosstalk {

/// Steps between two kept states.
constexpr int kFwmSegment = 16;
constexpr int fwm_segments(int T) { return (T + kFwmSegment - 1) / kFwmSegment; }

/// Whether the chunked CUDA version (fwm_chunk.cuh) covers a shape; it wants `kept`, the generic CUDA version
/// (rescaled_walk.cuh) `workspace`, the CPU neither.
template <class Real>
constexpr bool fwm_chunked(Device device, int Q, int P, int V) {
  return device == Device::cuda && sizeof(Real) == sizeof(float) && Q == 1 && P % 4 == 0 && P <= 128 &&
         V <= 256;
}
/// States in `checkpoints`: the chunked version may walk few tokens at a time, the generic one has the state
/// that it works on behind the others.
constexpr int kFwmFew = 4;
template <class Real>
constexpr int fwm_states(Device device, int T, int Q, int P, int V) {
  return fwm_chunked<Real>(device, Q, P, V) ? (T + kFwmFew - 1) / kFwmFew
                                            : fwm_segments(T) + (device == Device::cuda ? 1 : 0);
}
/// Columns of `kept`.
template <class Real>
constexpr int fwm_kept(Device device, int Q, int P, int V) {
  return fwm_chunked<Real>(device, Q, P, V) ? (V + 3) / 4 * 4 + 4 : 0;
}
/// States in `workspace`.
template <class Real>
constexpr int fwm_workspace(Device device, int Q, int P, int V) {
  return device == Device::cpu || fwm_chunked<Real>(device, Q, P, V) ? 0 : kFwmSegment + 4;
}

/// k [R,B,T,P], q [R,B,Q,P], beta [R,B,T], tokens int32 [R,B,T,C] with the value id in channel 1 (-1: zero
/// value), position int32 [R,B,Q] -> y [R,B,Q,V]. For the backward pass: checkpoints
/// [R,B,fwm_states,V*P], states before each segment that a query sees; kept [R,B,T,fwm_kept], which only CUDA
/// fills: v - S k of each step and the inverse of its divisor, and how many tokens make a segment.
template <class Real>
struct FwmReadForward {
  Tensor<Real> k, q, beta, y, checkpoints, kept;
  Tensor<std::int32_t> tokens, position;
};

/// workspace [R,B,fwm_workspace,V*P], for CUDA: the states around the tokens of one segment, the gradient of
/// the state, and two columns of it.
template <class Real>
struct FwmReadBackward {
  Tensor<Real> k, q, beta, checkpoints, kept, workspace, d_y, d_k, d_q, d_beta;
  Tensor<std::int32_t> tokens, position;
  Write write_k = Write::none, write_q = Write::none, write_beta = Write::none;
};

template <class Real>
void run_cpu(const Exec& exec, const FwmReadForward<Real>& args);
template <class Real>
void run_cuda(const Exec& exec, const FwmReadForward<Real>& args);
template <class Real>
void run_cpu(const Exec& exec, const FwmReadBackward<Real>& args);
template <class Real>
void run_cuda(const Exec& exec, const FwmReadBackward<Real>& args);

}  // namespace crosstalk
