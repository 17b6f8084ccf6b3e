// Scores and softmax. One query: a warp a key; more: tiled products with the tokens not seen masked while
// tiles are loaded or stored. SPDX-License-Identifier: Apache-2.0
#include "kernels/ops/attention.h"
#include "kernels/ops/column_sum.cuh"
#include "kernels/ops/gemm.cuh"

namespace crosstalk {
namespace {
using namespace device;

constexpr int kThreads = 256, kWarps = kThreads / 32;

// Q = 1: a_t = scale q.k_t.
template <class Real>
__global__ void __launch_bounds__(kThreads) one_query(const __grid_constant__ ScoresForward<Real> a) {
  const int t = static_cast<int>(blockIdx.x * kWarps + threadIdx.x / 32), b = blockIdx.y, r = blockIdx.z;
  const int T = a.k.dim(1), P = a.k.dim(2);
  if (t >= T) return;
  Real* out = a.a.at(r) + static_cast<std::int64_t>(b) * T + t;
  if (t >= a.position.at(r)[b]) {
    if (threadIdx.x % 32 == 0) *out = 0;
    return;
  }
  const Real* q = a.q.at(r) + static_cast<std::int64_t>(b) * P;
  const Real score = warp_dot(q, a.k.at(r) + (static_cast<std::int64_t>(b) * T + t) * P, P);
  if (threadIdx.x % 32 == 0) *out = static_cast<Real>(a.scale) * score;
}

// Q = 1: d_k_t = scale d_a_t q.
template <class Real>
__global__ void __launch_bounds__(kThreads) one_query_d_k(const __grid_constant__ ScoresBackward<Real> a) {
  const int t = static_cast<int>(blockIdx.x * kWarps + threadIdx.x / 32), b = blockIdx.y, r = blockIdx.z;
  const int T = a.d_k.dim(1), P = a.d_k.dim(2);
  if (t >= T) return;
  const std::int64_t row = static_cast<std::int64_t>(b) * T + t;
  const bool seen = t < a.position.at(r)[b];
  if (!seen && a.write_k == Write::add) return;
  const Real weight = seen ? static_cast<Real>(a.scale) * a.d_a.at(r)[row] : Real(0);
  const Real* q = a.q.at(r) + static_cast<std::int64_t>(b) * P;
  for (int j = threadIdx.x % 32; j < P; j += 32) put(a.write_k, a.d_k.at(r) + row * P + j, weight * q[j]);
}

template <class Real>
__global__ void __launch_bounds__(kThreads) softmax(const __grid_constant__ SoftmaxForward<Real> a) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  const int r = blockIdx.y, T = a.x.columns(), lane = threadIdx.x % 32;
  if (i >= a.x.rows()) return;
  const Real* x = a.x.at(r) + i * T;
  Real* y = a.y.at(r) + i * T;
  const int seen = clamped(a.position.at(r)[i], T);
  Real largest = -INFINITY;
  for (int t = lane; t < seen; t += 32) largest = x[t] > largest ? x[t] : largest;
  largest = warp_max(largest);
  Real total = 0;
  for (int t = lane; t < seen; t += 32) {
    const Real e = exp(x[t] - largest);
    y[t] = e;
    total += e;
  }
  const Real inverse = 1 / warp_sum(total);
  for (int t = lane; t < T; t += 32) y[t] = t < seen ? y[t] * inverse : Real(0);
}

template <class Real>
__global__ void __launch_bounds__(kThreads)
    softmax_backward(const __grid_constant__ SoftmaxBackward<Real> a) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  const int r = blockIdx.y, T = a.y.columns();
  if (i >= a.y.rows()) return;
  const Real* y = a.y.at(r) + i * T;
  const Real* d_y = a.d_y.at(r) + i * T;
  const Real along = warp_dot(y, d_y, T);
  for (int t = threadIdx.x % 32; t < T; t += 32)
    put(a.write_x, a.d_x.at(r) + i * T + t, y[t] * (d_y[t] - along));
}

// [R,B,rows,ld] as one matrix of each (replica, sequence).
template <class Real>
Operand<const Real> sequences(const Tensor<Real>& t, int ld) {
  return {t.data, t.replica_stride, static_cast<std::int64_t>(t.dim(1)) * ld, ld};
}

template <class Real>
Operand<Real> written(const Tensor<Real>& t, int ld) {
  return {t.data, t.replica_stride, static_cast<std::int64_t>(t.dim(1)) * ld, ld};
}

}  // namespace

template <class Real>
void run_cuda(const Exec& exec, const ScoresForward<Real>& a) {
  const int B = a.k.dim(0), T = a.k.dim(1), P = a.k.dim(2), Q = a.q.dim(1), R = a.k.R;
  if (Q == 1) {
    if (B == 0 || T == 0 || R == 0) return;
    one_query<<<dim3(blocks_for(T, kWarps), static_cast<unsigned>(B), static_cast<unsigned>(R)), kThreads, 0,
                stream_of(exec)>>>(a);
    check_launch("scores");
    return;
  }
  Product<Real, true, true, Mask::c_columns> product;  // a = scale q k^T
  product.M = Q, product.N = T, product.K = P;
  product.a = sequences(a.q, P);
  product.b = sequences(a.k, P);
  product.c = written(a.a, T);
  product.scale = static_cast<Real>(a.scale);
  product.seen = {a.position.data, a.position.replica_stride, Q, 0};
  gemm<Real>(exec, "scores", product, B, R);
}

template <class Real>
void run_cuda(const Exec& exec, const ScoresBackward<Real>& a) {
  const int B = a.k.dim(0), T = a.k.dim(1), P = a.k.dim(2), Q = a.q.dim(1), R = a.k.R;
  if (a.write_k != Write::none && Q == 1) {
    if (B > 0 && T > 0 && R > 0) {
      one_query_d_k<<<dim3(blocks_for(T, kWarps), static_cast<unsigned>(B), static_cast<unsigned>(R)),
                      kThreads, 0, stream_of(exec)>>>(a);
      check_launch("scores backward (k)");
    }
  } else if (a.write_k != Write::none) {
    Product<Real, false, false, Mask::a_rows> product;  // d_k = scale d_a^T q
    product.M = T, product.N = P, product.K = Q;
    product.a = sequences(a.d_a, T);
    product.b = sequences(a.q, P);
    product.c = written(a.d_k, P);
    product.mode = a.write_k;
    product.scale = static_cast<Real>(a.scale);
    product.seen = {a.position.data, a.position.replica_stride, Q, 0};
    gemm<Real>(exec, "scores backward (k)", product, B, R);
  }
  if (a.write_q != Write::none && Q == 1) {
    ColumnSum<Real> sum;  // d_q = scale sum_t d_a_t k_t
    sum.rows = T, sum.columns = P, sum.batch = B;
    sum.x = a.k.data, sum.x_replica = a.k.replica_stride, sum.x_batch = static_cast<std::int64_t>(T) * P;
    sum.weight = a.d_a.data, sum.weight_replica = a.d_a.replica_stride, sum.weight_batch = T;
    sum.seen = a.position.data, sum.seen_replica = a.position.replica_stride;
    sum.scale = static_cast<Real>(a.scale);
    sum.mode = a.write_q;
    sum.out = a.d_q.data, sum.out_replica = a.d_q.replica_stride, sum.out_batch = P;
    column_sum(exec, "scores backward (q)", sum, R);
  } else if (a.write_q != Write::none) {
    Product<Real, true, false, Mask::a_columns> product;  // d_q = scale d_a k
    product.M = Q, product.N = P, product.K = T;
    product.a = sequences(a.d_a, T);
    product.b = sequences(a.k, P);
    product.c = written(a.d_q, P);
    product.mode = a.write_q;
    product.scale = static_cast<Real>(a.scale);
    product.seen = {a.position.data, a.position.replica_stride, Q, 0};
    gemm<Real>(exec, "scores backward (q)", product, B, R);
  }
}

template <class Real>
void run_cuda(const Exec& exec, const SoftmaxForward<Real>& a) {
  if (a.x.rows() == 0 || a.x.R == 0) return;
  softmax<<<dim3(blocks_for(a.x.rows(), kWarps), static_cast<unsigned>(a.x.R)), kThreads, 0,
            stream_of(exec)>>>(a);
  check_launch("softmax");
}

template <class Real>
void run_cuda(const Exec& exec, const SoftmaxBackward<Real>& a) {
  if (a.write_x == Write::none || a.y.rows() == 0 || a.y.R == 0) return;
  softmax_backward<<<dim3(blocks_for(a.y.rows(), kWarps), static_cast<unsigned>(a.y.R)), kThreads, 0,
                     stream_of(exec)>>>(a);
  check_launch("softmax backward");
}

CROSSTALK_CUDA_OP(ScoresForward)
CROSSTALK_CUDA_OP(ScoresBackward)
CROSSTALK_CUDA_OP(SoftmaxForward)
CROSSTALK_CUDA_OP(SoftmaxBackward)

}  // namespace crosstalk
