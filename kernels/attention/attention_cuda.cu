// Scores and softmax. One query: a warp a key; more: tiled products with the tokens not seen masked while
// tiles are loaded or stored.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/attention.h"
#include "kernels/matmul/column_sum.cuh"
#include "kernels/matmul/gemm.cuh"

namespace crosstalk {
namespace {
using namespace device;

constexpr int kThreads = 256, kWarps = kThreads / 32;

// Q = 1: a_t = scale q.k_t.
template <class Real>
__global__ void __launch_bounds__(kThreads) one_query(const __grid_constant__ Scores<Real> a) {
  const int t = static_cast<int>(blockIdx.x * kWarps + threadIdx.x / 32), b = blockIdx.y, r = blockIdx.z;
  const int T = a.k.value.dim(1), P = a.k.value.dim(2);
  if (t >= T) return;
  Real* out = a.a.value.at(r) + static_cast<std::int64_t>(b) * T + t;
  if (t >= a.position.value.at(r)[b]) {
    if (threadIdx.x % 32 == 0) *out = 0;
    return;
  }
  const Real* q = a.q.value.at(r) + static_cast<std::int64_t>(b) * P;
  const Real score = warp_dot(q, a.k.value.at(r) + (static_cast<std::int64_t>(b) * T + t) * P, P);
  if (threadIdx.x % 32 == 0) *out = static_cast<Real>(a.scale) * score;
}

// Q = 1: d_k_t = scale d_a_t q.
template <class Real>
__global__ void __launch_bounds__(kThreads) one_query_d_k(const __grid_constant__ Scores<Real> a) {
  const int t = static_cast<int>(blockIdx.x * kWarps + threadIdx.x / 32), b = blockIdx.y, r = blockIdx.z;
  const int T = a.k.gradient.dim(1), P = a.k.gradient.dim(2);
  if (t >= T) return;
  const std::int64_t row = static_cast<std::int64_t>(b) * T + t;
  const bool seen = t < a.position.value.at(r)[b];
  if (!seen && a.k.write == Write::add) return;
  const Real weight = seen ? static_cast<Real>(a.scale) * a.a.gradient.at(r)[row] : Real(0);
  const Real* q = a.q.value.at(r) + static_cast<std::int64_t>(b) * P;
  for (int j = threadIdx.x % 32; j < P; j += 32)
    put(a.k.write, a.k.gradient.at(r) + row * P + j, weight * q[j]);
}

template <class Real>
__global__ void __launch_bounds__(kThreads) softmax(const __grid_constant__ Softmax<Real> a) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  const int r = blockIdx.y, T = a.x.value.columns(), lane = threadIdx.x % 32;
  if (i >= a.x.value.rows()) return;
  const Real* x = a.x.value.at(r) + i * T;
  Real* y = a.y.value.at(r) + i * T;
  const int seen = clamped(a.position.value.at(r)[i], T);
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
__global__ void __launch_bounds__(kThreads) softmax_backward(const __grid_constant__ Softmax<Real> a) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  const int r = blockIdx.y, T = a.y.value.columns();
  if (i >= a.y.value.rows()) return;
  const Real* y = a.y.value.at(r) + i * T;
  const Real* d_y = a.y.gradient.at(r) + i * T;
  const Real along = warp_dot(y, d_y, T);
  for (int t = threadIdx.x % 32; t < T; t += 32)
    put(a.x.write, a.x.gradient.at(r) + i * T + t, y[t] * (d_y[t] - along));
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
void forward_cuda(const Exec& exec, const Scores<Real>& a) {
  const int B = a.k.value.dim(0), T = a.k.value.dim(1), P = a.k.value.dim(2), Q = a.q.value.dim(1),
            R = a.k.value.R;
  if (Q == 1) {
    if (B == 0 || T == 0 || R == 0) return;
    one_query<<<dim3(blocks_for(T, kWarps), static_cast<unsigned>(B), static_cast<unsigned>(R)), kThreads, 0,
                stream_of(exec)>>>(a);
    check_launch("scores");
    return;
  }
  Product<Real, true, true, Mask::c_columns> product;  // a = scale q k^T
  product.M = Q, product.N = T, product.K = P;
  product.a = sequences(a.q.value, P);
  product.b = sequences(a.k.value, P);
  product.c = written(a.a.value, T);
  product.scale = static_cast<Real>(a.scale);
  product.seen = {a.position.value.data, a.position.value.replica_stride, Q, 0};
  gemm<Real>(exec, "scores", product, B, R);
}

template <class Real>
void backward_cuda(const Exec& exec, const Scores<Real>& a) {
  const int B = a.k.value.dim(0), T = a.k.value.dim(1), P = a.k.value.dim(2), Q = a.q.value.dim(1),
            R = a.k.value.R;
  if (a.k.write != Write::none && Q == 1) {
    if (B > 0 && T > 0 && R > 0) {
      one_query_d_k<<<dim3(blocks_for(T, kWarps), static_cast<unsigned>(B), static_cast<unsigned>(R)),
                      kThreads, 0, stream_of(exec)>>>(a);
      check_launch("scores backward (k)");
    }
  } else if (a.k.write != Write::none) {
    Product<Real, false, false, Mask::a_rows> product;  // d_k = scale d_a^T q
    product.M = T, product.N = P, product.K = Q;
    product.a = sequences(a.a.gradient, T);
    product.b = sequences(a.q.value, P);
    product.c = written(a.k.gradient, P);
    product.mode = a.k.write;
    product.scale = static_cast<Real>(a.scale);
    product.seen = {a.position.value.data, a.position.value.replica_stride, Q, 0};
    gemm<Real>(exec, "scores backward (k)", product, B, R);
  }
  if (a.q.write != Write::none && Q == 1) {
    ColumnSum<Real> sum;  // d_q = scale sum_t d_a_t k_t
    sum.rows = T, sum.columns = P, sum.batch = B;
    sum.x = a.k.value.data, sum.x_replica = a.k.value.replica_stride,
    sum.x_batch = static_cast<std::int64_t>(T) * P;
    sum.weight = a.a.gradient.data, sum.weight_replica = a.a.gradient.replica_stride, sum.weight_batch = T;
    sum.seen = a.position.value.data, sum.seen_replica = a.position.value.replica_stride;
    sum.scale = static_cast<Real>(a.scale);
    sum.mode = a.q.write;
    sum.out = a.q.gradient.data, sum.out_replica = a.q.gradient.replica_stride, sum.out_batch = P;
    column_sum(exec, "scores backward (q)", sum, R);
  } else if (a.q.write != Write::none) {
    Product<Real, true, false, Mask::a_columns> product;  // d_q = scale d_a k
    product.M = Q, product.N = P, product.K = T;
    product.a = sequences(a.a.gradient, T);
    product.b = sequences(a.k.value, P);
    product.c = written(a.q.gradient, P);
    product.mode = a.q.write;
    product.scale = static_cast<Real>(a.scale);
    product.seen = {a.position.value.data, a.position.value.replica_stride, Q, 0};
    gemm<Real>(exec, "scores backward (q)", product, B, R);
  }
}

template <class Real>
void forward_cuda(const Exec& exec, const Softmax<Real>& a) {
  if (a.x.value.rows() == 0 || a.x.value.R == 0) return;
  softmax<<<dim3(blocks_for(a.x.value.rows(), kWarps), static_cast<unsigned>(a.x.value.R)), kThreads, 0,
            stream_of(exec)>>>(a);
  check_launch("softmax");
}

template <class Real>
void backward_cuda(const Exec& exec, const Softmax<Real>& a) {
  if (a.x.write == Write::none || a.y.value.rows() == 0 || a.y.value.R == 0) return;
  softmax_backward<<<dim3(blocks_for(a.y.value.rows(), kWarps), static_cast<unsigned>(a.y.value.R)), kThreads,
                     0, stream_of(exec)>>>(a);
  check_launch("softmax backward");
}

CROSSTALK_INSTANTIATE(cuda, Scores)
CROSSTALK_INSTANTIATE(cuda, Softmax)

}  // namespace crosstalk
