// Tiled matrix products C = A B for one matrix of each (replica, batch index): floats on the tensor cores
// (gemm_tensor.cuh), doubles on the CUDA cores, here.
//
// Doubles: a block of 256 threads makes 64 x 64 of C. It walks K in steps of 16 through two shared buffers (the next
// step is loaded while this one is multiplied), every thread holding 4 x 4 sums. Every entry of C is summed in an order
// that M, N and K alone decide, so a replica's bits do not depend on how many there are.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/matmul/gemm_product.cuh"
#include "kernels/matmul/gemm_tensor.cuh"

namespace crosstalk::device {

constexpr int kDoubleTile = 64;
/// Multiplies one tile.
template <class Real, class Op>
__global__ void __launch_bounds__(256) gemm_kernel(const __grid_constant__ Op args) {
  constexpr int TM = kDoubleTile, TN = kDoubleTile, TK = 16, LM = TM + 4, LN = TN + 4, kTile = TK * (LM + LN);
  __shared__ __align__(16) Real shared[2 * kTile + (Op::kSide ? kSideParts<Op, 8> * TM : 0)];
  Op op = args;
  op.bind(blockIdx.z, blockIdx.y);
  const int tiles = (op.N + TN - 1) / TN;
  const int row0 = static_cast<int>(blockIdx.x) / tiles * TM,
            column0 = static_cast<int>(blockIdx.x) % tiles * TN;
  const int thread = threadIdx.x, tx = thread % (TN / 4), ty = thread / (TN / 4);
  // The part of a step that this thread loads: four neighbours of A and of B.
  const int a_row = Op::kAlongA ? thread / (TK / 4) : thread % (TM / 4) * 4;
  const int a_k = Op::kAlongA ? thread % (TK / 4) * 4 : thread / (TM / 4);
  const int b_column = Op::kAlongB ? thread / (TK / 4) : thread % (TN / 4) * 4;
  const int b_k = Op::kAlongB ? thread % (TK / 4) * 4 : thread / (TN / 4);
  Real a_next[4], b_next[4], sums[4][4] = {}, side[4] = {};

  const auto load = [&](int k) {
    op.load_a(row0 + a_row, k + a_k, a_next, side);
    op.load_b(column0 + b_column, k + b_k, b_next);
  };
  const auto keep = [&](int buffer) {
    Real* a = shared + buffer * kTile;
    Real* b = a + TK * LM;
    CT_FOR(j, 4) {
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
    const Real* a = shared + buffer * kTile + ty * 4;
    const Real* b = shared + buffer * kTile + TK * LM + tx * 4;
    CT_FOR(kk, TK) {
      const Four<Real> x = *reinterpret_cast<const Four<Real>*>(a + kk * LM);
      const Four<Real> y = *reinterpret_cast<const Four<Real>*>(b + kk * LN);
      CT_FOR2(i, 4, j, 4) sums[i][j] += x.v[i] * y.v[j];
    }
    if (more) keep(buffer ^ 1);
    __syncthreads();
  }
  Real* const sides = shared + 2 * kTile;
  if (Op::kSide) {
    put_sides<Op, TM, TK, 256>(side, sides);
    __syncthreads();
  }
  CT_FOR(i, 4)
    op.store(row0 + ty * 4 + i, column0 + tx * 4, sums[i],
             Op::kSide ? side_of<kSideParts<Op, 8>, TM>(sides, ty * 4 + i) : Real(0));
}

/// Offsets within a matrix are of 31 bits.
template <class Op>
void check_sizes(const char* name, const Op& op) {
  const auto check = [&](int rows, int ld) {
    if (std::int64_t{rows} * ld > INT32_MAX) refuse_shape(name, "rows of a matrix", rows, INT32_MAX / ld);
  };
  check(Op::kAlongA ? op.M : op.K, op.a.ld);
  check(Op::kAlongB ? op.N : op.K, op.b.ld);
}

/// Runs a product for R replicas of B matrices. Only M, N and K choose how. `precision`: operands of floats are rounded; of a
/// product that says it may be (kRounds).
template <class Real, class Op>
void gemm(const Exec& exec, const char* name, const Op& op, int B, int R,
          Precision precision = Precision::full) {
  if (op.M <= 0 || op.N <= 0 || B <= 0 || R <= 0) return;
  check_sizes(name, op);
  if constexpr (requires(Op part) { part.first; }) {
    if (B > kMostGridRows) {
      Op part = op;
      for (; part.first < B; part.first += kMostGridRows)
        gemm<Real>(exec, name, part, std::min(B - part.first, kMostGridRows), R, precision);
      return;
    }
  }
  if constexpr (Op::kRounds && std::is_same_v<Real, float>) {
    if (precision == Precision::tf32) return tensor_gemm<Precision::tf32>(exec, name, op, B, R);
    if (precision == Precision::bf16) return tensor_gemm<Precision::bf16>(exec, name, op, B, R);
  }
  if constexpr (std::is_same_v<Real, float>) {
    tensor_gemm<Precision::full>(exec, name, op, B, R);
  } else {
    const unsigned tiles = blocks_for(op.M, kDoubleTile) * blocks_for(op.N, kDoubleTile);
    launch(exec, name, gemm_kernel<Real, Op>, dim3(tiles, static_cast<unsigned>(B), static_cast<unsigned>(R)),
           256, 0, op);
  }
}

}  // namespace crosstalk::device
