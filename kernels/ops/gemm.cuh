// Tiled matrix products C = A B on the CUDA cores, for one matrix of each (replica, batch index).
//
// A block of 256 threads makes one tile of C: it walks K in steps of TK through two shared buffers (the next
// step is loaded while this one is multiplied), every thread holding 4 x 4 sums. With Groups > 1 the threads
// split each step along K and add their sums in the order of the groups: small results with a long K then
// have enough threads. Every entry of C is summed in an order that only the tile's sizes and K decide, and
// the tile is chosen by M and N alone, so a replica's bits do not depend on how many there are.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/base/cuda_launch.cuh"

namespace crosstalk::device {

/// What may be masked by the number of tokens that a query sees.
enum class Mask {
  none,
  c_columns,  ///< C[q,t] = 0 for t >= seen[q]
  a_columns,  ///< A[q,t] = 0 for t >= seen[q]
  a_rows,     ///< A[t,q] = 0 for t >= seen[q]
};

/// One matrix of each (replica, batch index).
template <class T>
struct Operand {
  T* data = nullptr;
  std::int64_t replica = 0, batch = 0;  ///< strides
  int ld = 0;                           ///< elements from row to row
  __device__ T* at(int r, int b) const { return data + r * replica + b * batch; }
};

/// C = scale A B + bias. kAlongA: neighbours in memory of A are neighbours along K (else along M); kAlongB
/// alike (else along N).
template <class Real, bool kAlongA_, bool kAlongB_, Mask kMask = Mask::none>
struct Product {
  static constexpr bool kAlongA = kAlongA_, kAlongB = kAlongB_;
  int M = 0, N = 0, K = 0;
  Operand<const Real> a, b;
  Operand<Real> c;
  Write mode = Write::overwrite;
  Real scale = 1;
  Operand<const Real> bias;          ///< data null: none
  Operand<const std::int32_t> seen;  ///< for kMask

  const Real *a_, *b_, *bias_;
  Real* c_;
  const std::int32_t* seen_;
  bool aligned_a, aligned_b, aligned_c;

  __device__ void bind(int r, int batch) {
    a_ = a.at(r, batch);
    b_ = b.at(r, batch);
    c_ = c.at(r, batch);
    bias_ = bias.data ? bias.at(r, batch) : nullptr;
    seen_ = seen.data ? seen.at(r, batch) : nullptr;
    aligned_a = is_aligned16(a_) && a.ld % 4 == 0;
    aligned_b = is_aligned16(b_) && b.ld % 4 == 0;
    aligned_c = is_aligned16(c_) && c.ld % 4 == 0;
  }
  __device__ void load_a(int row, int k, Real (&v)[4]) {
    if (row >= M || k >= K) {
      load4<Real>(a_, 0, false, v);
    } else if (kAlongA) {
      const int end = kMask == Mask::a_columns ? clamped(seen_[row], K) : K;
      load4(a_ + static_cast<std::int64_t>(row) * a.ld + k, end - k, aligned_a, v);
    } else {
      const int end = kMask == Mask::a_rows ? clamped(seen_[k], M) : M;
      load4(a_ + static_cast<std::int64_t>(k) * a.ld + row, end - row, aligned_a, v);
    }
  }
  __device__ void load_b(int column, int k, Real (&v)[4]) const {
    if (column >= N || k >= K) {
      load4<Real>(b_, 0, false, v);
    } else if (kAlongB) {
      load4(b_ + static_cast<std::int64_t>(column) * b.ld + k, K - k, aligned_b, v);
    } else {
      load4(b_ + static_cast<std::int64_t>(k) * b.ld + column, N - column, aligned_b, v);
    }
  }
  __device__ void fragment(const Real (&)[4]) {}
  __device__ void finish() {}
  /// Writes C[row, column .. column + 3].
  __device__ void store(int, int row, int column, Real (&v)[4]) const {
    if (row >= M || column >= N) return;
    const int end = kMask == Mask::c_columns ? clamped(seen_[row], N) : N;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      v[j] *= scale;
      if (bias_ && column + j < N) v[j] += bias_[column + j];
      if (kMask == Mask::c_columns && column + j >= end) v[j] = 0;
    }
    Real* target = c_ + static_cast<std::int64_t>(row) * c.ld + column;
    if (mode == Write::overwrite && aligned_c && column + 4 <= N) {
      *reinterpret_cast<Four<Real>*>(target) = {{v[0], v[1], v[2], v[3]}};
      return;
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if (column + j < N) put(mode, target + j, v[j]);
    }
  }
};

/// Multiplies one tile. An Op is a Product or has its members; fragment() sees the column of A that a thread
/// multiplies at each k, finish() comes before store().
template <class Real, class Op, int TM, int TN, int TK, int Groups>
__global__ void __launch_bounds__(256) gemm_kernel(Op op) {
  static_assert(TM * TN == 256 / Groups * 16 && (Groups == 1 || TM * TN == 1024) && TM * TK == 1024 &&
                TN * TK == 1024);
  constexpr int LM = TM + 4, LN = TN + 4;
  constexpr int kTile = TK * (LM + LN), kSums = Groups > 1 ? Groups * TM * TN : 0;
  __shared__ __align__(16) Real shared[2 * kTile > kSums ? 2 * kTile : kSums];
  op.bind(blockIdx.z, blockIdx.y);
  const int tiles = (op.N + TN - 1) / TN;
  const int row0 = static_cast<int>(blockIdx.x) / tiles * TM,
            column0 = static_cast<int>(blockIdx.x) % tiles * TN;
  const int thread = threadIdx.x, group = thread / (256 / Groups), lane = thread % (256 / Groups);
  const int tx = lane % (TN / 4), ty = lane / (TN / 4);
  // What this thread loads of each step: four neighbours of A and of B.
  const int a_row = Op::kAlongA ? thread / (TK / 4) : thread % (TM / 4) * 4;
  const int a_k = Op::kAlongA ? thread % (TK / 4) * 4 : thread / (TM / 4);
  const int b_column = Op::kAlongB ? thread / (TK / 4) : thread % (TN / 4) * 4;
  const int b_k = Op::kAlongB ? thread % (TK / 4) * 4 : thread / (TN / 4);
  Real a_next[4], b_next[4], sums[4][4] = {};

  const auto load = [&](int k) {
    op.load_a(row0 + a_row, k + a_k, a_next);
    op.load_b(column0 + b_column, k + b_k, b_next);
  };
  const auto keep = [&](int buffer) {
    Real* a = shared + buffer * kTile;
    Real* b = a + TK * LM;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if (Op::kAlongA) {
        a[(a_k + j) * LM + a_row] = a_next[j];
      } else {
        a[a_k * LM + a_row + j] = a_next[j];
      }
      if (Op::kAlongB) {
        b[(b_k + j) * LN + b_column] = b_next[j];
      } else {
        b[b_k * LN + b_column + j] = b_next[j];
      }
    }
  };

  load(0);
  keep(0);
  __syncthreads();
  int buffer = 0;
  for (int k = 0; k < op.K; k += TK, buffer ^= 1) {
    const bool more = k + TK < op.K;
    if (more) load(k + TK);
    const Real* a = shared + buffer * kTile + group * (TK / Groups) * LM + ty * 4;
    const Real* b = shared + buffer * kTile + TK * LM + group * (TK / Groups) * LN + tx * 4;
#pragma unroll
    for (int kk = 0; kk < TK / Groups; ++kk) {
      const Four<Real> x = *reinterpret_cast<const Four<Real>*>(a + kk * LM);
      const Four<Real> y = *reinterpret_cast<const Four<Real>*>(b + kk * LN);
      op.fragment(x.v);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) sums[i][j] += x.v[i] * y.v[j];
      }
    }
    if (more) keep(buffer ^ 1);
    __syncthreads();
  }
  op.finish();
  if constexpr (Groups == 1) {
#pragma unroll
    for (int i = 0; i < 4; ++i) op.store(i, row0 + ty * 4 + i, column0 + tx * 4, sums[i]);
  } else {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      *reinterpret_cast<Four<Real>*>(shared + (group * TM + ty * 4 + i) * TN +
                                     tx * 4) = {{sums[i][0], sums[i][1], sums[i][2], sums[i][3]}};
    }
    __syncthreads();
    const int row = thread / (TN / 4), column = thread % (TN / 4) * 4;
    Real total[4] = {};
#pragma unroll
    for (int g = 0; g < Groups; ++g) {
      const Four<Real> part = *reinterpret_cast<const Four<Real>*>(shared + (g * TM + row) * TN + column);
#pragma unroll
      for (int j = 0; j < 4; ++j) total[j] += part.v[j];
    }
    op.store(0, row0 + row, column0 + column, total);
  }
}

/// Runs a product for R replicas of B matrices. Only M and N choose the tile.
template <class Real, class Op>
void gemm(const Exec& exec, const char* name, const Op& op, int B, int R) {
  if (op.M <= 0 || op.N <= 0 || B <= 0 || R <= 0) return;
  if (static_cast<std::int64_t>(op.M) * op.N >= 128 * 64 * 64) {
    const unsigned tiles = blocks_for(op.M, 64) * blocks_for(op.N, 64);
    gemm_kernel<Real, Op, 64, 64, 16, 1>
        <<<dim3(tiles, static_cast<unsigned>(B), static_cast<unsigned>(R)), 256, 0, stream_of(exec)>>>(op);
  } else {
    const unsigned tiles = blocks_for(op.M, 32) * blocks_for(op.N, 32);
    gemm_kernel<Real, Op, 32, 32, 32, 4>
        <<<dim3(tiles, static_cast<unsigned>(B), static_cast<unsigned>(R)), 256, 0, stream_of(exec)>>>(op);
  }
  check_launch(name);
}

}  // namespace crosstalk::device
