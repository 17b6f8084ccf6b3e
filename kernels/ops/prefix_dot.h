// Products with the running sum of keys, the denominators of attention normalisation:
//   z_t = sum_{i<=t} k_i,   zk_t = z_{t-1}.k_t (0 at the first token),   zq = z_n.q for a query that sees n
//   tokens.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/base/exec.h"

namespace crosstalk {

/// k [R,B,T,P], q [R,B,Q,P], position int32 [R,B,Q] -> zk [R,B,T], zq [R,B,Q].
template <class Real>
struct PrefixDotForward {
  Tensor<Real> k, q, zk, zq;
  Tensor<std::int32_t> position;
};

/// d_k_t = d_zk_t z_{t-1} + sum_{s>t} d_zk_s k_s + sum over queries that see t of d_zq q;  d_q = d_zq z_n.
template <class Real>
struct PrefixDotBackward {
  Tensor<Real> k, q, d_zk, d_zq, d_k, d_q;
  Tensor<std::int32_t> position;
  Write write_k = Write::none, write_q = Write::none;
};

template <class Real>
void run_cpu(const Exec& exec, const PrefixDotForward<Real>& args);
template <class Real>
void run_cuda(const Exec& exec, const PrefixDotForward<Real>& args);
template <class Real>
void run_cpu(const Exec& exec, const PrefixDotBackward<Real>& args);
template <class Real>
void run_cuda(const Exec& exec, const PrefixDotBackward<Real>& args);

}  // namespace crosstalk
