// Description of a tiled product: where its matrices lie, how pieces of them are loaded and stored.
//
// An Op is a Product or has its members. Beside the product it may sum something along each row of A
// ("side", kSide): one number a row, handed to store(). kAsync: A can be copied to shared memory as it is; an
// Op without this makes A in load_a().
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/base/device/async_copy.cuh"
#include "kernels/base/device/cluster.cuh"
#include "kernels/base/device/cuda_launch.cuh"

namespace crosstalk::device {

/// The matrix that is masked by the number of tokens that a query sees.
enum class Mask {
  none,
  c_columns,  ///< C[q,t] = 0 for t >= seen[q]
  a_columns,  ///< A[q,t] = 0 for t >= seen[q]
  a_rows,     ///< A[t,q] = 0 for t >= seen[q]
};

/// One matrix of each (replica, batch index), of fewer than 2^31 elements. Where a batch has `heads` matrices,
/// the index counts them: head after head of a sequence, then the next sequence.
template <class T>
struct Operand {
  T* data = nullptr;
  std::int64_t replica = 0, batch = 0;  ///< strides
  int ld = 0;                           ///< elements from row to row
  int heads = 1;
  std::int64_t head = 0;  ///< stride
  __device__ T* at(int r, int b) const {
    T* const all = data + r * replica;
    return heads == 1 ? all + b * batch : all + (b / heads * batch + b % heads * head);
  }
  template <class Const>
  requires std::is_same_v<Const, const T>
  operator Operand<Const>() const { return {data, replica, batch, ld, heads, head}; }
};

/// Rows of tokens, a matrix of each sequence and head: [R,B,N,H,C].
template <class Real>
Operand<Real> token_rows(const Tensor<Real>& t) {
  const std::int64_t H = t.dim(2), C = t.dim(3);
  return {t.data, t.replica_stride, t.dim(1) * H * C, static_cast<int>(H * C), static_cast<int>(H), C};
}

/// A matrix of each sequence and head: [R,B,H,N,C].
template <class Real>
Operand<Real> head_matrices(const Tensor<Real>& t) {
  const std::int64_t N = t.dim(2), C = t.dim(3);
  return {t.data, t.replica_stride, N * C, static_cast<int>(C)};
}

/// W neighbours at an address that is aligned for all of them.
template <class Real, int W>
CT_DEVICE void put_all(Real* target, const Real (&v)[W]) {
  struct alignas(sizeof(Real) * W < 16 ? sizeof(Real) * W : 16) Several {
    Real v[W];
  } several;
  CT_FOR(j, W) several.v[j] = v[j];
  *reinterpret_cast<Several*>(target) = several;
}

/// Copies p[0..3] to shared memory in the background; entries at or beyond `valid` are 0. `aligned`: p, where
/// anything is valid, is at a multiple of 16 bytes.
CT_DEVICE void copy4_async(float* shared, const float* p, int valid, bool aligned) {
  if (aligned) return copy_async_or_zero(shared, p, 4 * clamped(valid, 4));
  CT_FOR(i, 4) copy_async_or_zero<4>(shared + i, i < valid ? p + i : p, i < valid ? 4 : 0);
}

/// C = scale A B + bias. kAlongA: neighbours in memory of A are neighbours along K (else along M); kAlongB
/// alike (else along N).
template <class Real, bool kAlongA_, bool kAlongB_, Mask kMask = Mask::none, bool kAsync_ = true>
struct Product {
  static constexpr bool kAlongA = kAlongA_, kAlongB = kAlongB_, kAsync = kAsync_, kSide = false,
                        kRounds = false;
  static constexpr bool kStraight = kAsync_ && (kMask == Mask::none || kMask == Mask::c_columns);
  int M = 0, N = 0, K = 0;
  Operand<const Real> a, b;
  Operand<Real> c;
  Write mode = Write::overwrite;
  Real scale = 1;
  Operand<const Real> bias;          ///< data null: none
  Operand<const std::int32_t> seen;  ///< for kMask
  int first = 0;                     ///< batch index of a launch's first matrix

  const Real *a_, *b_, *bias_;
  Real* c_;
  const std::int32_t* seen_;
  bool aligned_a, aligned_b, aligned_c;

  __device__ void bind(int r, int batch) {
    batch += first;
    a_ = a.at(r, batch);
    b_ = b.at(r, batch);
    c_ = c.at(r, batch);
    bias_ = bias.data ? bias.at(r, batch) : nullptr;
    seen_ = seen.data ? seen.at(r, batch) : nullptr;
    aligned_a = is_aligned16(a_) && a.ld % 4 == 0;
    aligned_b = is_aligned16(b_) && b.ld % 4 == 0;
    aligned_c = is_aligned16(c_) && c.ld % 4 == 0;
  }
  /// A[row, k .. k + 3] (kAlongA), else A[row .. row + 3, k]. Sums beside the product go to side[0], else to
  /// side[0 .. 3].
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
    if (column >= N || k >= K)
      load4<Real>(b_, 0, false, v);
    else if (kAlongB)
      load4(b_ + (column * b.ld + k), K - k, aligned_b, v);
    else
      load4(b_ + (k * b.ld + column), N - column, aligned_b, v);
  }
  /// The same, to shared memory in the background.
  __device__ void copy_a(int row, int k, Real* to) const {
    int valid = 0, at = 0;
    if (row < M && k < K) {
      at = kAlongA ? row * a.ld + k : k * a.ld + row;
      valid = kAlongA ? (kMask == Mask::a_columns ? clamped(seen_[row], K) : K) - k
                      : (kMask == Mask::a_rows ? clamped(seen_[k], M) : M) - row;
    }
    copy4_async(to, a_ + at, valid, aligned_a);
  }
  __device__ void copy_b(int column, int k, Real* to) const {
    const bool inside = column < N && k < K;
    const int at = kAlongB ? column * b.ld + k : k * b.ld + column, valid = kAlongB ? K - k : N - column;
    copy4_async(to, b_ + (inside ? at : 0), inside ? valid : 0, aligned_b);
  }
  /// Says whether the tile that starts at this column is asked for sides, and what four numbers of A add to them.
  __device__ bool wants_side(int) const { return false; }
  template <int W>
  __device__ static void add_side(const Real (&)[W], Real*) {}
  /// Writes C[row, column .. column + W - 1], W neighbours that start at a multiple of W; the last number is
  /// what the side of `row` sums to.
  template <int W>
  __device__ void store(int row, int column, Real (&v)[W], Real) const {
    if (row >= M || column >= N) return;
    const int end = kMask == Mask::c_columns ? clamped(seen_[row], N) : N;
    CT_FOR(j, W) {
      v[j] *= scale;
      if (bias_ && column + j < N) v[j] += bias_[column + j];
      if (kMask == Mask::c_columns && column + j >= end) v[j] = 0;
    }
    Real* target = c_ + (std::int64_t{row} * c.ld + column);
    if (mode == Write::overwrite && aligned_c && column + W <= N) return put_all(target, v);
    CT_FOR(j, W)
      if (column + j < N) put(mode, target + j, v[j]);
  }
};

/// The sides of a tile's rows, from what kThreads threads gathered while they loaded A in pieces of four, TK
/// wide: into parts [kSideParts][TM], to be added up in order.
template <class Op, int kWarps>
constexpr int kSideParts = Op::kAlongA ? 1 : kWarps;

template <class Op, int TM, int TK, int kThreads, class Real>
CT_DEVICE void put_sides(const Real* side, Real* parts) {
  const int thread = threadIdx.x;
  if constexpr (Op::kAlongA) {  // TK / 4 neighbours loaded a row
    CT_FOR(pass, TM * TK / 4 / kThreads) {
      Real sum = side[pass];
      CT_UNROLL(int offset = 1; offset < TK / 4; offset *= 2) sum += __shfl_xor_sync(kFullWarp, sum, offset);
      if (thread % (TK / 4) == 0) parts[thread / (TK / 4) + pass * (4 * kThreads / TK)] = sum;
    }
  } else {
    CT_FOR(i, 4) {
      Real sum = side[i];
      CT_UNROLL(int offset = TM / 4; offset < 32; offset *= 2) sum += __shfl_xor_sync(kFullWarp, sum, offset);
      if (thread % 32 < TM / 4) parts[thread / 32 * TM + thread % 32 * 4 + i] = sum;
    }
  }
}

template <int kParts, int TM, class Real>
CT_DEVICE Real side_of(const Real* parts, int row) {
  Real sum = parts[row];
  CT_UNROLL(int i = 1; i < kParts; ++i) sum += parts[i * TM + row];
  return sum;
}

/// The end of a tile whose sums lie in shared memory, [kGroups][TM][kLd] in each block of a cluster of
/// `slices` (sides behind them, at `sides`): every block adds up and stores its part of the tile.
template <class Op, int TM, int TN, int kThreads, int kGroups, int kLd, int kParts>
CT_DEVICE void finish_tile(const Op& op, int row0, int column0, float* sums, float* sides, bool wants_side,
                           int slice, int slices) {
  cluster_barrier(slices);
  const int positions = TM * TN / 4 / slices;
  for (int i = CT_THREAD; i < positions; i += kThreads) {
    const int p = slice * positions + i, row = p / (TN / 4), column = p % (TN / 4) * 4;
    float total[4] = {}, beside = 0;
#pragma unroll 4
    for (int s = 0; s < slices; ++s) {
      const float* theirs = slices > 1 ? shared_of(s, sums) : sums;
      CT_FOR(n, kGroups) {
        const Four<float> part =
            *reinterpret_cast<const Four<float>*>(theirs + (n * TM + row) * kLd + column);
        CT_FOR(j, 4) total[j] += part.v[j];
      }
      if (Op::kSide && wants_side)
        beside += side_of<kParts, TM>(slices > 1 ? shared_of(s, sides) : sides, row);
    }
    op.store(row0 + row, column0 + column, total, beside);
  }
  cluster_leave(slices);  // not while its sums are read
}

}  // namespace crosstalk::device
