// Affine maps: tiled products, and kernels of their own for one output (gates), where a product would waste a
// tile's width. SPDX-License-Identifier: Apache-2.0
#include "kernels/ops/column_sum.cuh"
#include "kernels/ops/gemm.cuh"
#include "kernels/ops/linear.h"

namespace crosstalk {
namespace {
using namespace device;

constexpr int kWarps = 8;  // rows in flight of one block

// y_n = w.x_n + b: a warp a row.
template <class Real>
__global__ void __launch_bounds__(32 * kWarps) one_output(const __grid_constant__ LinearForward<Real> a) {
  const int n = static_cast<int>(blockIdx.x * kWarps + threadIdx.x / 32), r = blockIdx.y, in = a.x.columns();
  if (n >= a.x.rows()) return;
  const Real* x = a.x.at(r) + static_cast<std::int64_t>(n) * in;
  const Real* w = a.w.at(r);
  Real y = 0;
  for (int i = threadIdx.x % 32; i < in; i += 32)
    y += rounded(a.precision, x[i]) * rounded(a.precision, w[i]);
  y = warp_sum(y);
  if (threadIdx.x % 32 == 0) a.y.at(r)[n] = a.b ? y + a.b.at(r)[0] : y;
}

// d_x_n = d_y_n w: a warp a row.
template <class Real>
__global__ void __launch_bounds__(32 * kWarps)
    one_output_d_x(const __grid_constant__ LinearBackward<Real> a) {
  const int n = static_cast<int>(blockIdx.x * kWarps + threadIdx.x / 32), r = blockIdx.y,
            in = a.d_x.columns();
  if (n >= a.d_x.rows()) return;
  const Real d_y = rounded(a.precision, a.d_y.at(r)[n]);
  Real* d_x = a.d_x.at(r) + static_cast<std::int64_t>(n) * in;
  for (int i = threadIdx.x % 32; i < in; i += 32)
    put(a.write_x, d_x + i, d_y * rounded(a.precision, a.w.at(r)[i]));
}

// A product whose operands may be rounded: floats as the tensor cores take them, doubles as they are loaded.
template <class Real, bool kAlongA, bool kAlongB>
struct Rounding : Product<Real, kAlongA, kAlongB> {
  static constexpr bool kRounds = true;
  Precision precision = Precision::full;

  __device__ void load_a(int row, int k, Real (&v)[4], Real* side) const {
    Product<Real, kAlongA, kAlongB>::load_a(row, k, v, side);
#pragma unroll
    for (int i = 0; i < 4; ++i) v[i] = rounded(precision, v[i]);
  }
  __device__ void load_b(int column, int k, Real (&v)[4]) const {
    Product<Real, kAlongA, kAlongB>::load_b(column, k, v);
#pragma unroll
    for (int i = 0; i < 4; ++i) v[i] = rounded(precision, v[i]);
  }
};

template <class Real>
Operand<const Real> read_only(const Tensor<Real>& t, int ld) {
  return {t.data, t.replica_stride, 0, ld};
}

template <class Real>
Operand<Real> written(const Tensor<Real>& t, int ld) {
  return {t.data, t.replica_stride, 0, ld};
}

// d_w = d_y^T x, and d_b = column sums of d_y beside it.
template <class Real>
struct WeightGradient : Rounding<Real, false, false> {
  static constexpr bool kSide = true;
  Operand<Real> d_b;  ///< data null: none
  Write write_b = Write::none;

  Real* d_b_;

  __device__ void bind(int r, int batch) {
    Product<Real, false, false>::bind(r, batch);
    d_b_ = d_b.data ? d_b.at(r, batch) : nullptr;
  }
  __device__ bool wants_side(int column) const { return d_b_ && column == 0; }
  template <int W>
  __device__ static void add_side(const Real (&v)[W], Real* side) {
#pragma unroll
    for (int i = 0; i < W; ++i) side[i] += v[i];
  }
  __device__ void load_a(int row, int k, Real (&v)[4], Real* side) const {
    Product<Real, false, false>::load_a(row, k, v, side);
    add_side(v, side);
#pragma unroll
    for (int i = 0; i < 4; ++i) v[i] = rounded(this->precision, v[i]);
  }
  template <int W>
  __device__ void store(int row, int column, Real (&v)[W], Real side) const {
    Product<Real, false, false>::store(row, column, v, side);
    if (d_b_ && column == 0 && row < this->M) put(write_b, d_b_ + row, side);
  }
};

}  // namespace

template <class Real>
void run_cuda(const Exec& exec, const LinearForward<Real>& a) {
  const int n = static_cast<int>(a.y.rows()), in = a.x.columns(), out = a.y.columns(), R = a.y.R;
  if (out == 1) {
    if (n == 0 || R == 0) return;
    one_output<<<dim3(blocks_for(n, kWarps), static_cast<unsigned>(R)), 32 * kWarps, 0, stream_of(exec)>>>(a);
    check_launch("linear");
    return;
  }
  Rounding<Real, true, true> product;  // y = x w^T
  product.M = n, product.N = out, product.K = in;
  product.a = read_only(a.x, in);
  product.b = read_only(a.w, in);
  product.c = written(a.y, out);
  if (a.b) product.bias = read_only(a.b, 0);
  product.precision = a.precision;
  gemm<Real>(exec, "linear", product, 1, R, a.precision);
}

template <class Real>
void run_cuda(const Exec& exec, const LinearBackward<Real>& a) {
  const int n = static_cast<int>(a.d_y.rows()), out = a.d_y.columns(), R = a.d_y.R;
  if (a.write_x != Write::none) {
    const int in = a.d_x.columns();
    if (out == 1 && n > 0 && R > 0) {
      one_output_d_x<<<dim3(blocks_for(n, kWarps), static_cast<unsigned>(R)), 32 * kWarps, 0,
                       stream_of(exec)>>>(a);
      check_launch("linear backward (x)");
    } else {
      Rounding<Real, true, false> product;  // d_x = d_y w
      product.M = n, product.N = in, product.K = out;
      product.a = read_only(a.d_y, out);
      product.b = read_only(a.w, in);
      product.c = written(a.d_x, in);
      product.mode = a.write_x;
      product.precision = a.precision;
      gemm<Real>(exec, "linear backward (x)", product, 1, R, a.precision);
    }
  }
  if (a.write_w != Write::none) {
    const int in = a.x.columns();
    if (out == 1) {
      ColumnSum<Real> sum;  // d_w = sum_n d_y_n x_n
      sum.rows = n, sum.columns = in;
      sum.x = a.x.data, sum.x_replica = a.x.replica_stride;
      sum.weight = a.d_y.data, sum.weight_replica = a.d_y.replica_stride;
      sum.out = a.d_w.data, sum.out_replica = a.d_w.replica_stride;
      sum.mode = a.write_w;
      sum.precision = a.precision;
      column_sum(exec, "linear backward (w)", sum, R);
    } else {
      WeightGradient<Real> product;
      product.M = out, product.N = in, product.K = n;
      product.a = read_only(a.d_y, out);
      product.b = read_only(a.x, in);
      product.c = written(a.d_w, in);
      product.mode = a.write_w;
      if (a.write_b != Write::none) product.d_b = written(a.d_b, 0), product.write_b = a.write_b;
      product.precision = a.precision;
      gemm<Real>(exec, "linear backward (w)", product, 1, R, a.precision);
      if (in > 0) return;
    }
  }
  ColumnSum<Real> sum;  // d_b = sum_n d_y_n
  sum.rows = n, sum.columns = out;
  sum.x = a.d_y.data, sum.x_replica = a.d_y.replica_stride;
  sum.out = a.d_b.data, sum.out_replica = a.d_b.replica_stride;
  sum.mode = a.write_b;
  column_sum(exec, "linear backward (b)", sum, R);
}

CROSSTALK_CUDA_OP(LinearForward)
CROSSTALK_CUDA_OP(LinearBackward)

}  // namespace crosstalk
