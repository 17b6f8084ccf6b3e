// Reading a memory with a scalar-gated, rank-one-erasing recurrence, without forming its state.
//
//   S_t = decay_t S_{t-1} - erase_t (S_{t-1} k_t) k_t^T + write_t v_t k_t^T,      o = S_n q after n tokens
//
// gives o = sum_t a_t v_t with the weights, for t = n .. 1 and r_n = q,
//
//   c_t     = k_t . r_t
//   a_t     = write_t c_t
//   r_{t-1} = decay_t r_t - erase_t c_t k_t.
//
//   sum rule                                            decay 1         erase 0           write 1
//   delta rule (Schlag, Irie, Schmidhuber 2021, eq. 24) decay 1         erase beta        write beta
//   Peng's gate (2021)                                  decay 1 - beta  erase 0           write beta
//   delta rule with attention normalisation             decay 1         erase beta/(z.k)  write beta
// Cost O(T P) a query instead of O(T P V).
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/base/exec.h"

namespace crosstalk {

/// k [R,B,T,P], q [R,B,Q,P], write, erase, decay [R,B,T] (absent: 1, 0, 1), position int32 [R,B,Q] (tokens seen)
/// -> a [R,B,Q,T] (0 for tokens not seen). history [R,B,T,P] keeps r_t for the backward pass where Q = 1.
/// trail [R,B,P+T or more], instead of history, keeps r_0 and then c_t: the backward pass makes
///   r_t = r_{t-1} + erase_t c_t k_t
/// again. Only for Q = 1 without decay, and only sound where no step makes r longer (erase |k|^2 <= 2): else r_0
/// outgrows the others and they are lost in its rounding.
template <class Real>
struct RecurrentReadForward {
  Tensor<Real> k, q, write, erase, decay, a, history;
  Tensor<std::int32_t> position;
  Tensor<Real> trail = {};
};

/// Adjoint, in forward time:
///   rho_0   = 0
///   d_c     = write d_a - erase (k.rho_{t-1})
///   d_write = c d_a
///   d_decay = r_t.rho_{t-1}
///   d_erase = -c (k.rho_{t-1})
///   d_k     = d_c r_t - erase c rho_{t-1}
///   rho_t   = decay rho_{t-1} + d_c k
///   d_q     = rho_n
/// history [R,B,T,P] is workspace (and input where Q = 1); trail as the forward pass left it.
template <class Real>
struct RecurrentReadBackward {
  Tensor<Real> k, q, write, erase, decay, history, d_a;
  Tensor<std::int32_t> position;
  Tensor<Real> d_k, d_q, d_write, d_erase, d_decay;
  Write write_k = Write::none, write_q = Write::none, write_write = Write::none, write_erase = Write::none,
        write_decay = Write::none;
  Tensor<Real> trail = {};
};

template <class Real>
void run_cpu(const Exec& exec, const RecurrentReadForward<Real>& args);
template <class Real>
void run_cuda(const Exec& exec, const RecurrentReadForward<Real>& args);
template <class Real>
void run_cpu(const Exec& exec, const RecurrentReadBackward<Real>& args);
template <class Real>
void run_cuda(const Exec& exec, const RecurrentReadBackward<Real>& args);

}  // namespace crosstalk
