// Weights times values, as products of matrices.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/attend.h"
#include "kernels/matmul/batched_product.cuh"

namespace crosstalk {
namespace {
using namespace device;

template <class Real>
BatchedProduct<Real> product(const Mix<Real>& op) {
  BatchedProduct<Real> p;
  p.B = op.a.value.dim(0), p.H = op.a.value.dim(1), p.R = op.a.value.R;
  return p;
}

}  // namespace

template <class Real>
void forward_cuda(const Exec& exec, const Mix<Real>& op) {
  BatchedProduct<Real> p = product(op);
  p.M = op.a.value.dim(2), p.N = op.v.value.dim(3), p.K = op.a.value.dim(3);
  p.a = head_matrices(op.a.value), p.b = token_rows(op.v.value), p.c = token_rows(op.o.value);
  batched_product(exec, "mix", p);
}

template <class Real>
void backward_cuda(const Exec& exec, const Mix<Real>& op) {
  const int Q = op.a.value.dim(2), T = op.a.value.dim(3), V = op.v.value.dim(3);
  BatchedProduct<Real> p = product(op);
  if (op.a.wanted()) {
    p.M = Q, p.N = T, p.K = V;
    p.a = token_rows(op.o.gradient), p.b = token_rows(op.v.value).transposed();
    p.c = head_matrices(op.a.gradient), p.mode = op.a.write;
    batched_product(exec, "mix backward (a)", p);
  }
  if (op.v.wanted()) {
    p.M = T, p.N = V, p.K = Q;
    p.a = head_matrices(op.a.value).transposed(), p.b = token_rows(op.o.gradient);
    p.c = token_rows(op.v.gradient), p.mode = op.v.write;
    batched_product(exec, "mix backward (v)", p);
  }
}

CROSSTALK_INSTANTIATE(cuda, Mix)

}  // namespace crosstalk
