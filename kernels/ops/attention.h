// Scores of queries against keys, and their softmax: a_qt = scale q.k_t for the tokens that query q sees.
//
// position [R,B,Q] is the number of tokens that a query sees; weights of later tokens are 0 and pass no
// gradient. SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/base/exec.h"

namespace crosstalk {

/// k [R,B,T,P], q [R,B,Q,P], position int32 [R,B,Q] -> a [R,B,Q,T].
template <class Real>
struct ScoresForward {
  double scale = 1;
  Tensor<Real> k, q, a;
  Tensor<std::int32_t> position;
};

template <class Real>
struct ScoresBackward {
  double scale = 1;
  Tensor<Real> k, q, d_a, d_k, d_q;
  Tensor<std::int32_t> position;
  Write write_k = Write::none, write_q = Write::none;
};

/// x [R,B,Q,T] -> y [R,B,Q,T], softmax over the tokens seen, 0 elsewhere; all 0 for a query that sees none.
template <class Real>
struct SoftmaxForward {
  Tensor<Real> x, y;
  Tensor<std::int32_t> position;
};

template <class Real>
struct SoftmaxBackward {
  Tensor<Real> y, d_y, d_x;
  Write write_x = Write::none;
};

template <class Real>
void run_cpu(const Exec& exec, const ScoresForward<Real>& args);
template <class Real>
void run_cuda(const Exec& exec, const ScoresForward<Real>& args);
template <class Real>
void run_cpu(const Exec& exec, const ScoresBackward<Real>& args);
template <class Real>
void run_cuda(const Exec& exec, const ScoresBackward<Real>& args);
template <class Real>
void run_cpu(const Exec& exec, const SoftmaxForward<Real>& args);
template <class Real>
void run_cuda(const Exec& exec, const SoftmaxForward<Real>& args);
template <class Real>
void run_cpu(const Exec& exec, const SoftmaxBackward<Real>& args);
template <class Real>
void run_cuda(const Exec& exec, const SoftmaxBackward<Real>& args);

}  // namespace crosstalk
