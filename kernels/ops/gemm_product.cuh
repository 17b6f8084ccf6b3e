// What a tiled product is given: where its matrices lie, how pieces of them are loaded and stored.
//
// An Op is a Product or has its members. Beside the product it may sum something along each row of A while it
// is loaded ("side", kSide): one number a row, handed to store(). SPDX-License-Identifier: Apache-2.0
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

/// One matrix of each (replica, batch index), of fewer than 2^31 elements.
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
  static constexpr bool kAlongA = kAlongA_, kAlongB = kAlongB_, kSide = false, kRounds = false;
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
  /// A[row, k .. k + 3] (kAlongA), else A[row .. row + 3, k]. What belongs beside the product is added to
  /// side[0], else to side[0 .. 3].
  __device__ void load_a(int row, int k, Real (&v)[4], Real*) const {
    if (row >= M || k >= K) {
      load4<Real>(a_, 0, false, v);
    } else if (kAlongA) {
      const int end = kMask == Mask::a_columns ? clamped(seen_[row], K) : K;
      load4(a_ + (row * a.ld + k), end - k, aligned_a, v);
    } else {
      const int end = kMask == Mask::a_rows ? clamped(seen_[k], M) : M;
      load4(a_ + (k * a.ld + row), end - row, aligned_a, v);
    }
  }
  __device__ void load_b(int column, int k, Real (&v)[4]) const {
    if (column >= N || k >= K) {
      load4<Real>(b_, 0, false, v);
    } else if (kAlongB) {
      load4(b_ + (column * b.ld + k), K - k, aligned_b, v);
    } else {
      load4(b_ + (k * b.ld + column), N - column, aligned_b, v);
    }
  }
  /// Writes C[row, column .. column + 3]; the last number is what the side of `row` sums to.
  __device__ void store(int row, int column, Real (&v)[4], Real) const {
    if (row >= M || column >= N) return;
    const int end = kMask == Mask::c_columns ? clamped(seen_[row], N) : N;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      v[j] *= scale;
      if (bias_ && column + j < N) v[j] += bias_[column + j];
      if (kMask == Mask::c_columns && column + j >= end) v[j] = 0;
    }
    Real* target = c_ + (static_cast<std::int64_t>(row) * c.ld + column);
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

/// The sides of a tile's rows, from what 256 threads gathered while they loaded A in pieces of four, TK wide:
/// into parts [kSideParts][TM], to be added up in order.
template <class Op>
constexpr int kSideParts = Op::kAlongA ? 1 : 8;

template <class Op, int TM, int TK, class Real>
__device__ __forceinline__ void put_sides(const Real* side, Real* parts) {
  const int thread = threadIdx.x;
  if constexpr (Op::kAlongA) {  // TK / 4 neighbours loaded a row
#pragma unroll
    for (int pass = 0; pass < TM * TK / 1024; ++pass) {
      Real sum = side[pass];
#pragma unroll
      for (int offset = 1; offset < TK / 4; offset *= 2) sum += __shfl_xor_sync(kFullWarp, sum, offset);
      if (thread % (TK / 4) == 0) parts[thread / (TK / 4) + pass * (1024 / TK)] = sum;
    }
  } else {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      Real sum = side[i];
#pragma unroll
      for (int offset = TM / 4; offset < 32; offset *= 2) sum += __shfl_xor_sync(kFullWarp, sum, offset);
      if (thread % 32 < TM / 4) parts[thread / 32 * TM + thread % 32 * 4 + i] = sum;
    }
  }
}

template <class Op, int TM, class Real>
__device__ __forceinline__ Real side_of(const Real* parts, int row) {
  Real sum = parts[row];
#pragma unroll
  for (int i = 1; i < kSideParts<Op>; ++i) sum += parts[i * TM + row];
  return sum;
}

}  // namespace crosstalk::device
