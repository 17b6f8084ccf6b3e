// Products of one matrix a replica, sequence and head, with any strides, of any size: tiles in shared memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <utility>

#include "kernels/base/cuda_launch.cuh"

namespace crosstalk::device {

/// A matrix for every (replica, sequence, head), by strides.
template <class Real>
struct Matrices {
  Real* data = nullptr;
  std::int64_t replica = 0, sequence = 0, head = 0, row = 0, column = 0;

  __device__ Real* at(int r, int b, int h) const { return data + r * replica + b * sequence + h * head; }
  Matrices transposed() const { return {data, replica, sequence, head, column, row}; }
};

/// Rows of tokens: [R,B,N,H,C].
template <class Real>
Matrices<Real> token_rows(const Tensor<Real>& t) {
  const std::int64_t H = t.dim(2), C = t.dim(3);
  return {t.data, t.replica_stride, t.dim(1) * H * C, C, H * C, 1};
}

/// A matrix a head: [R,B,H,N,C].
template <class Real>
Matrices<Real> head_matrices(const Tensor<Real>& t) {
  const std::int64_t N = t.dim(2), C = t.dim(3);
  return {t.data, t.replica_stride, t.dim(1) * N * C, N * C, C, 1};
}

/// c = scale a b, a being M x K and b K x N.
template <class Real>
struct BatchedProduct {
  int M = 0, N = 0, K = 0, B = 0, H = 0, R = 0;
  Matrices<Real> a, b, c;
  Real scale = 1;
  Write mode = Write::overwrite;
};

// A block makes kM x kN of c, a thread kRows x kColumns of them, kSlice of the sum's length at a time.
template <class Real, int kM, int kN, int kRows, int kColumns>
__global__ void __launch_bounds__(256)
    batched_product_kernel(const __grid_constant__ BatchedProduct<Real> p) {
  constexpr int kSlice = 16, kAcross = kN / kColumns;
  static_assert(kM / kRows * kAcross == 256);
  __shared__ Real a_tile[kSlice][kM + 1], b_tile[kSlice][kN + 1];
  const int row_tiles = (p.M + kM - 1) / kM, column_tiles = (p.N + kN - 1) / kN;
  const int tile = static_cast<int>(blockIdx.x % (row_tiles * column_tiles));
  const int bh = static_cast<int>(blockIdx.x / (row_tiles * column_tiles)), b = bh / p.H, h = bh % p.H;
  const int r = blockIdx.y, m0 = tile / column_tiles * kM, n0 = tile % column_tiles * kN;
  const Real *a = p.a.at(r, b, h), *bm = p.b.at(r, b, h);
  const int tm = static_cast<int>(threadIdx.x) / kAcross, tn = static_cast<int>(threadIdx.x) % kAcross;
  Real sum[kRows][kColumns] = {};
  for (int k0 = 0; k0 < p.K; k0 += kSlice) {
    for (int e = threadIdx.x; e < kM * kSlice; e += 256) {  // neighbours of a warp along what lies together
      const int m = p.a.column == 1 ? e / kSlice : e % kM, k = p.a.column == 1 ? e % kSlice : e / kM;
      a_tile[k][m] = m0 + m < p.M && k0 + k < p.K ? a[(m0 + m) * p.a.row + (k0 + k) * p.a.column] : Real(0);
    }
    for (int e = threadIdx.x; e < kN * kSlice; e += 256) {
      const int n = p.b.row == 1 ? e / kSlice : e % kN, k = p.b.row == 1 ? e % kSlice : e / kN;
      b_tile[k][n] = n0 + n < p.N && k0 + k < p.K ? bm[(k0 + k) * p.b.row + (n0 + n) * p.b.column] : Real(0);
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kSlice; ++k) {
      Real x[kRows], y[kColumns];
#pragma unroll
      for (int i = 0; i < kRows; ++i) x[i] = a_tile[k][tm + i * (kM / kRows)];
#pragma unroll
      for (int j = 0; j < kColumns; ++j) y[j] = b_tile[k][tn + j * kAcross];
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
#pragma unroll
        for (int j = 0; j < kColumns; ++j) sum[i][j] += x[i] * y[j];
      }
    }
    __syncthreads();
  }
  Real* c = p.c.at(r, b, h);
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
#pragma unroll
    for (int j = 0; j < kColumns; ++j) {
      const int m = m0 + tm + i * (kM / kRows), n = n0 + tn + j * kAcross;
      if (m < p.M && n < p.N) put(p.mode, c + m * p.c.row + n * p.c.column, p.scale * sum[i][j]);
    }
  }
}

/// Which tile is taken follows from M and N alone.
template <class Real>
void batched_product(const Exec& exec, const char* op, BatchedProduct<Real> p) {
  if (p.M == 0 || p.N == 0 || p.B == 0 || p.H == 0 || p.R == 0) return;
  if (p.N <= 8 && p.M > 8) {  // the transposed product: few rows, many columns
    std::swap(p.M, p.N);
    const Matrices<Real> a = p.a;
    p.a = p.b.transposed(), p.b = a.transposed(), p.c = p.c.transposed();
  }
  const auto launch = [&](auto kernel, int rows, int columns) {
    const std::int64_t tiles = static_cast<std::int64_t>(blocks_for(p.M, rows)) * blocks_for(p.N, columns);
    kernel<<<dim3(static_cast<unsigned>(tiles * p.B * p.H), static_cast<unsigned>(p.R)), 256, 0,
             stream_of(exec)>>>(p);
    check_launch(op);
  };
  if (p.M <= 8) {
    launch(batched_product_kernel<Real, 8, 64, 1, 2>, 8, 64);
  } else {
    launch(batched_product_kernel<Real, 64, 64, 4, 4>, 64, 64);
  }
}

}  // namespace crosstalk::device
