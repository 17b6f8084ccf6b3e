// What the warps of a chunked recurrence are made of: barriers between some of them, copies of four numbers,
// and the products of a chunk's keys with each other on the tensor cores.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/matmul/tensor_core.cuh"

namespace crosstalk::device {

/// Tokens a chunk: the rows of a tensor core's product.
template <class Real>
constexpr int kChunk = sizeof(Real) == 4 ? 16 : 8;

// Barriers between some warps of a block: number kFirst + i, i < N (barrier 0 is __syncthreads). Numbers that
// the compiler knows, since a kernel without them gets all 16 barriers, which limits blocks a multiprocessor.
template <int kFirst, int N = 1>
CT_DEVICE void barrier_wait(int threads, int i = 0) {
  if (N == 1 || i == 0)
    asm volatile("bar.sync %0, %1;" ::"n"(kFirst), "r"(threads) : "memory");
  else if constexpr (N > 1)
    barrier_wait<kFirst + 1, N - 1>(threads, i - 1);
}
template <int kFirst, int N = 1>
CT_DEVICE void barrier_arrive(int threads, int i = 0) {
  if (N == 1 || i == 0)
    asm volatile("bar.arrive %0, %1;" ::"n"(kFirst), "r"(threads) : "memory");
  else if constexpr (N > 1)
    barrier_arrive<kFirst + 1, N - 1>(threads, i - 1);
}

/// Those of W chain warps and N builders, each with a slot.
template <int W, int N>
struct ChunkBarriers {
  static constexpr int kChain = 1 + 2 * N;
  static_assert(kChain < 16, "a block has 16 barriers");
  // A slot's keys and M are there; its keys are no longer needed.
  __device__ static void wait_filled(int builder) { barrier_wait<1, N>(32 * (W + 1), builder); }
  __device__ static void arrive_filled(int builder) { barrier_arrive<1, N>(32 * (W + 1), builder); }
  __device__ static void wait_emptied(int builder) { barrier_wait<1 + N, N>(32 * (W + 1), builder); }
  __device__ static void arrive_emptied(int builder) { barrier_arrive<1 + N, N>(32 * (W + 1), builder); }
  /// Of the chain alone.
  __device__ static void wait_chain() { barrier_wait<kChain>(32 * W); }
};

/// Four aligned numbers from global to shared memory in the background; 0 unless `valid`.
template <class Real>
CT_DEVICE void copy4_async(Real* shared, const Real* global, bool valid) {
  const auto to = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  CT_UNROLL(int i = 0; i < static_cast<int>(4 * sizeof(Real)); i += 16) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" ::"r"(to + i),
                 "l"(reinterpret_cast<const char*>(global) + i), "r"(valid ? 16 : 0)
                 : "memory");
  }
}

/// Reads four aligned numbers; 0 unless `valid`.
template <class Real>
CT_DEVICE void take4(const Real* p, bool valid, Real (&v)[4]) {
  Four<Real> four = {};
  if (valid) four = *reinterpret_cast<const Four<Real>*>(p);
  CT_FOR(i, 4) v[i] = four.v[i];
}

template <class Real>
CT_DEVICE void put4(Real* p, bool valid, const Real (&v)[4]) {
  Four<Real> four;
  CT_FOR(i, 4) four.v[i] = v[i];
  if (valid) *reinterpret_cast<Four<Real>*>(p) = four;
}

// Products of 16 (float) or 8 (double) rows with each other on the tensor cores. Lane l holds four entries,
// from 4 (l % 4) on, of a stretch of 16 of rows l/4 (and l/4 + 8): as both factors take the same entries,
// their order does not matter. Floats are split in two TF32 halves and three of the four products summed in
// float: what is left out is about 2^-22 of a product.
struct Product16 {
  float sums[2][4] = {};
  __device__ static unsigned rounded(float x) {
    unsigned y;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "f"(x));
    return y;
  }
  __device__ void add(const float (&rows)[2][4]) {
    CT_UNROLL(int k = 0; k < 4; k += 2) {
      unsigned high[4], low[4];  // rows l/4, l/4 + 8 at k, then at k + 1
      CT_FOR(i, 4) {
        const float x = rows[i % 2][k + i / 2];
        high[i] = rounded(x);
        low[i] = rounded(x - __uint_as_float(high[i]));
      }
      CT_FOR(n, 2) {
        mma_tf32(sums[n], low, high[n], high[n + 2]);
        mma_tf32(sums[n], high, low[n], low[n + 2]);
        mma_tf32(sums[n], high, high[n], high[n + 2]);
      }
    }
  }
  /// Row i of the products to gram + i * stride, left of the diagonal.
  __device__ void store(float* gram, int stride, int lane) const {
    const int i = lane / 4, j = lane % 4 * 2;
    const auto put = [&](int row, int column, float x) { gram[row * stride + column] = x; };
    CT_FOR(x, 2) {
      put(i, j + x, sums[0][x]);
      put(i + 8, j + x, sums[0][2 + x]);
      put(i + 8, j + 8 + x, sums[1][2 + x]);
    }
  }
};

struct Product8 {
  double sums[2] = {};
  __device__ void add(const double (&rows)[1][4]) {
    CT_FOR(k, 4) {
      asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%2}, {%0, %1};"
          : "+d"(sums[0]), "+d"(sums[1])
          : "d"(rows[0][k]));
    }
  }
  __device__ void store(double* gram, int stride, int lane) const {
    const int i = lane / 4, j = lane % 4 * 2;
    CT_FOR(x, 2) gram[i * stride + j + x] = sums[x];
  }
};

}  // namespace crosstalk::device
