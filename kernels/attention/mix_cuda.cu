// Weights times values, as products of matrices.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/attend.h"
#include "kernels/matmul/gemm.cuh"

namespace crosstalk {
using namespace device;

template <class Real>
void forward_cuda(const Exec& exec, const Mix<Real>& op) {
  Product<Real, true, false> p;  // a v
  p.M = op.a.value.dim(2), p.N = op.v.value.dim(3), p.K = op.a.value.dim(3);
  p.a = head_matrices(op.a.value), p.b = token_rows(op.v.value), p.c = token_rows(op.o.value);
  gemm<Real>(exec, "mix", p, op.a.value.dim(0) * op.a.value.dim(1), op.a.value.R);
}

template <class Real>
void backward_cuda(const Exec& exec, const Mix<Real>& op) {
  const int Q = op.a.value.dim(2), T = op.a.value.dim(3), V = op.v.value.dim(3), R = op.a.value.R;
  const int matrices = op.a.value.dim(0) * op.a.value.dim(1);
  if (op.a.wanted()) {
    Product<Real, true, true> p;  // d_o v^T
    p.M = Q, p.N = T, p.K = V;
    p.a = token_rows(op.o.gradient), p.b = token_rows(op.v.value), p.c = head_matrices(op.a.gradient);
    p.mode = op.a.write;
    gemm<Real>(exec, "mix backward (a)", p, matrices, R);
  }
  if (op.v.wanted()) {
    Product<Real, false, false> p;  // a^T d_o
    p.M = T, p.N = V, p.K = Q;
    p.a = head_matrices(op.a.value), p.b = token_rows(op.o.gradient), p.c = token_rows(op.v.gradient);
    p.mode = op.v.write;
    gemm<Real>(exec, "mix backward (v)", p, matrices, R);
  }
}

CROSSTALK_INSTANTIATE(cuda, Mix)

}  // namespace crosstalk
