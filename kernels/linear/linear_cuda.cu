// Affine maps: tiled products, and kernels of their own for one output (gates), where a product would waste a
// tile's width.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/device/reduce.cuh"
#include "kernels/linear/linear.h"
#include "kernels/matmul/column_sum.cuh"
#include "kernels/matmul/gemm.cuh"

namespace crosstalk {
namespace {
using namespace device;

constexpr int kWarps = 8;  // rows in flight of one block

// y_n = w.x_n + b: a warp a row.
template <class Real>
__global__ void __launch_bounds__(32 * kWarps) one_output(const __grid_constant__ Linear<Real> a) {
  const int n = static_cast<int>(blockIdx.x * kWarps + threadIdx.x / 32), r = blockIdx.y,
            in = a.x.value.columns();
  if (n >= a.x.value.rows()) return;
  const Real* x = a.x.value.at(r) + std::int64_t{n} * in;
  const Real* w = a.w.value.at(r);
  Real y = 0;
  for (int i = threadIdx.x % 32; i < in; i += 32)
    y += rounded(a.precision, x[i]) * rounded(a.precision, w[i]);
  y = warp_sum(y);
  if (threadIdx.x % 32 == 0) a.y.value.at(r)[n] = a.b.value ? y + a.b.value.at(r)[0] : y;
}

// d_x_n = d_y_n w: a warp a row.
template <class Real>
__global__ void __launch_bounds__(32 * kWarps) one_output_d_x(const __grid_constant__ Linear<Real> a) {
  const int n = static_cast<int>(blockIdx.x * kWarps + threadIdx.x / 32), r = blockIdx.y,
            in = a.x.gradient.columns();
  if (n >= a.x.gradient.rows()) return;
  const Real d_y = rounded(a.precision, a.y.gradient.at(r)[n]);
  Real* d_x = a.x.gradient.at(r) + std::int64_t{n} * in;
  for (int i = threadIdx.x % 32; i < in; i += 32)
    put(a.x.write, d_x + i, d_y * rounded(a.precision, a.w.value.at(r)[i]));
}

// A product whose operands may be rounded: floats as the tensor cores take them, doubles as they are loaded.
template <class Real, bool kAlongA, bool kAlongB>
struct Rounding : Product<Real, kAlongA, kAlongB> {
  static constexpr bool kRounds = true;
  Precision precision = Precision::full;

  __device__ void load_a(int row, int k, Real (&v)[4], Real* side) const {
    Product<Real, kAlongA, kAlongB>::load_a(row, k, v, side);
    CT_FOR(i, 4) v[i] = rounded(precision, v[i]);
  }
  __device__ void load_b(int column, int k, Real (&v)[4]) const {
    Product<Real, kAlongA, kAlongB>::load_b(column, k, v);
    CT_FOR(i, 4) v[i] = rounded(precision, v[i]);
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

/// Calls f(first, rows) for parts of n rows: products count elements of a matrix in 31 bits. There is one
/// part, but for tensors of 8 GiB and more.
void in_parts(int n, int columns, const auto& f) {
  constexpr std::int64_t kElements = INT32_MAX, kUnit = 128;
  const std::int64_t most = std::max(kUnit, kElements / std::max(1, columns) / kUnit * kUnit);
  for (std::int64_t first = 0; first < n; first += most)
    f(first, static_cast<int>(std::min(most, n - first)));
}

/// Rows of a matrix from `first` on.
template <class T>
Operand<T> from(Operand<T> of, std::int64_t first) {
  of.data += first * of.ld;
  return of;
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
    CT_FOR(i, W) side[i] += v[i];
  }
  __device__ void load_a(int row, int k, Real (&v)[4], Real* side) const {
    Product<Real, false, false>::load_a(row, k, v, side);
    add_side(v, side);
    CT_FOR(i, 4) v[i] = rounded(this->precision, v[i]);
  }
  template <int W>
  __device__ void store(int row, int column, Real (&v)[W], Real side) const {
    Product<Real, false, false>::store(row, column, v, side);
    if (d_b_ && column == 0 && row < this->M) put(write_b, d_b_ + row, side);
  }
};

/// d_w and d_b as sums of pieces of the rows.
template <class Real>
void weight_gradient_by_pieces(const Exec& exec, const Linear<Real>& a) {
  constexpr int P = Linear<Real>::kPieces;
  const int n = static_cast<int>(a.y.gradient.rows()) / P, out = a.y.gradient.columns(),
            in = a.x.value.columns(), R = a.y.gradient.R;
  const std::int64_t columns = a.pieces.value.columns(), replica = a.pieces.value.replica_stride;
  WeightGradient<Real> product;
  product.M = out, product.N = in, product.K = n;
  product.a = read_only(a.y.gradient, out);
  product.a.batch = std::int64_t{n} * out;
  product.b = read_only(a.x.value, in);
  product.b.batch = std::int64_t{n} * in;
  product.c = {a.pieces.value.data, replica, columns, in};
  if (a.b.wanted()) {
    product.d_b = {a.pieces.value.data + Linear<Real>::padded(out * in), replica, columns, 0};
    product.write_b = Write::overwrite;
  }
  product.precision = a.precision;
  gemm<Real>(exec, "linear backward (w)", product, P, R, a.precision);
  const std::int64_t weights = std::int64_t{out} * in, gap = Linear<Real>::padded(out * in) - weights;
  sum_pieces<Real, 256, 1>(
      exec, "linear backward (pieces)", R, weights + (a.b.wanted() ? out : 0), P, columns,
      [=] __device__(int r, std::int64_t i) { return a.pieces.value.at(r) + (i < weights ? i : i + gap); },
      [=] __device__(int r, std::int64_t i, Real sum) {
        if (i < weights) {
          put(a.w.write, a.w.gradient.at(r) + i, sum);
        } else {
          put(a.b.write, a.b.gradient.at(r) + (i - weights), sum);
        }
      });
}

}  // namespace

template <class Real>
void forward_cuda(const Exec& exec, const Linear<Real>& a) {
  const int n = static_cast<int>(a.y.value.rows()), in = a.x.value.columns(), out = a.y.value.columns(),
            R = a.y.value.R;
  const dim3 rows = per_replica(blocks_for(n, kWarps), R);
  if (out == 1) return launch(exec, "linear", one_output<Real>, rows, 32 * kWarps, 0, a);
  Rounding<Real, true, true> product;  // y = x w^T
  product.M = n, product.N = out, product.K = in;
  product.a = read_only(a.x.value, in);
  product.b = read_only(a.w.value, in);
  product.c = written(a.y.value, out);
  if (a.b.value) product.bias = read_only(a.b.value, 0);
  product.precision = a.precision;
  const Rounding<Real, true, true> whole = product;
  in_parts(n, std::max(in, out), [&](std::int64_t first, int rows) {
    product.M = rows, product.a = from(whole.a, first), product.c = from(whole.c, first);
    gemm<Real>(exec, "linear", product, 1, R, a.precision);
  });
}

template <class Real>
void backward_cuda(const Exec& exec, const Linear<Real>& a) {
  const int n = static_cast<int>(a.y.gradient.rows()), out = a.y.gradient.columns(), R = a.y.gradient.R;
  if (a.x.write != Write::none) {
    const int in = a.x.gradient.columns();
    if (out == 1 && n > 0 && R > 0) {
      launch(exec, "linear backward (x)", one_output_d_x<Real>, per_replica(blocks_for(n, kWarps), R),
             32 * kWarps, 0, a);
    } else {
      Rounding<Real, true, false> product;  // d_x = d_y w
      product.M = n, product.N = in, product.K = out;
      product.a = read_only(a.y.gradient, out);
      product.b = read_only(a.w.value, in);
      product.c = written(a.x.gradient, in);
      product.mode = a.x.write;
      product.precision = a.precision;
      const Rounding<Real, true, false> whole = product;
      in_parts(n, std::max(in, out), [&](std::int64_t first, int rows) {
        product.M = rows, product.a = from(whole.a, first), product.c = from(whole.c, first);
        gemm<Real>(exec, "linear backward (x)", product, 1, R, a.precision);
      });
    }
  }
  if (a.w.write != Write::none) {
    const int in = a.x.value.columns();
    if (out == 1) {
      ColumnSum<Real> sum;  // d_w = sum_n d_y_n x_n
      sum.rows = n, sum.columns = in;
      sum.x = a.x.value.data, sum.x_replica = a.x.value.replica_stride;
      sum.weight = a.y.gradient.data, sum.weight_replica = a.y.gradient.replica_stride;
      sum.out = a.w.gradient.data, sum.out_replica = a.w.gradient.replica_stride;
      sum.mode = a.w.write;
      sum.precision = a.precision;
      column_sum(exec, "linear backward (w)", sum, R);
    } else if (a.pieces && in > 0) {
      return weight_gradient_by_pieces(exec, a);
    } else {
      WeightGradient<Real> product;
      product.M = out, product.N = in, product.K = n;
      product.a = read_only(a.y.gradient, out);
      product.b = read_only(a.x.value, in);
      product.c = written(a.w.gradient, in);
      product.mode = a.w.write;
      if (a.b.write != Write::none) product.d_b = written(a.b.gradient, 0), product.write_b = a.b.write;
      product.precision = a.precision;
      if (n == 0) gemm<Real>(exec, "linear backward (w)", product, 1, R, a.precision);
      const WeightGradient<Real> whole = product;
      in_parts(n, std::max(in, out), [&](std::int64_t first, int rows) {
        product.K = rows, product.a = from(whole.a, first), product.b = from(whole.b, first);
        gemm<Real>(exec, "linear backward (w)", product, 1, R, a.precision);
        product.mode = product.write_b = Write::add;
      });
      if (in > 0) return;
    }
  }
  ColumnSum<Real> sum;  // d_b = sum_n d_y_n
  sum.rows = n, sum.columns = out;
  sum.x = a.y.gradient.data, sum.x_replica = a.y.gradient.replica_stride;
  sum.out = a.b.gradient.data, sum.out_replica = a.b.gradient.replica_stride;
  sum.mode = a.b.write;
  column_sum(exec, "linear backward (b)", sum, R);
}

CROSSTALK_INSTANTIATE(cuda, Linear)

}  // namespace crosstalk
