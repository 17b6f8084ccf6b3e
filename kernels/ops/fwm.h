// The fast weight memory of Schlag, Munkhdalai, Schmidhuber (2021), as the synthetic code of Schlag et al.
// (2021) has it:
//   S_1 = beta_1 v_1 k_1^T;   S' = S_{t-1} + beta_t (v_t - S_{t-1} k_t) k_t^T,   S_t = S' / (relu(|S'|_F - 1)
//   + 1).
// The rescaling makes it non-linear in S, so the state itself is formed. Values are one-hot (value ids).
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/base/exec.h"

namespace crosstalk {

/// Steps between two kept states, about the square root of T: the backward pass recomputes one segment at a
/// time.
int fwm_segment(int T);

/// k [R,B,T,P], q [R,B,Q,P], beta [R,B,T], tokens int32 [R,B,T,C] with the value id in channel 1 (-1: zero
/// value), position int32 [R,B,Q] -> y [R,B,Q,V]. checkpoints [R,B,ceil(T/segment),V*P]: states before each
/// segment.
template <class Real>
struct FwmReadForward {
  Tensor<Real> k, q, beta, y, checkpoints;
  Tensor<std::int32_t> tokens, position;
};

/// workspace [R,B,segment+2,V*P]: the states of one segment, and two more.
template <class Real>
struct FwmReadBackward {
  Tensor<Real> k, q, beta, checkpoints, workspace, d_y, d_k, d_q, d_beta;
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
