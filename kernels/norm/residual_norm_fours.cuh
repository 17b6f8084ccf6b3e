// Sum and norm of rows of up to 128 floats: a lane has four neighbours, a few lanes a row, and all of a
// warp's rows are on their way at once.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/base/cuda_launch.cuh"
#include "kernels/matmul/operand_pairs.cuh"
#include "kernels/norm/residual_norm.h"

namespace crosstalk::device {

constexpr int kFoursThreads = 256, kFoursWarps = kFoursThreads / 32,
              kFoursMost = ResidualNorm<float>::kMostInBf16;

/// Rows of kLanes lanes each, kTurns after one another, and what their lanes add up.
template <int kLanes, int kTurns>
struct RowsOfFours {
  static constexpr int kBeside = 32 / kLanes, kRows = kBeside * kTurns;
  std::int64_t first, end;  ///< of this lane; the last there is, and one
  int column;
  bool inside;
  __device__ RowsOfFours(std::int64_t n0, std::int64_t end_, int D)
      : first(n0 + threadIdx.x % 32 / kLanes),
        end(end_),
        column(static_cast<int>(threadIdx.x) % kLanes * 4),
        inside(column < D) {}
  __device__ std::int64_t row(int m) const { return first + m * kBeside; }
  __device__ bool has(int m) const { return inside && row(m) < end; }
  __device__ Four<float>& at(float* rows, int m, int D) const {
    return *reinterpret_cast<Four<float>*>(rows + min(row(m), end - 1) * D + (inside ? column : 0));
  }
  /// Where rows are operands.
  __device__ uint2& pairs_at(float* rows, int m, int D) const {
    return *reinterpret_cast<uint2*>(reinterpret_cast<std::uint16_t*>(rows) + min(row(m), end - 1) * D +
                                     (inside ? column : 0));
  }
  __device__ void add_up(float (&x)[kTurns]) const {
#pragma unroll
    for (int offset = kLanes / 2; offset > 0; offset /= 2) {
#pragma unroll
      for (int m = 0; m < kTurns; ++m) x[m] += __shfl_xor_sync(kFullWarp, x[m], offset);
    }
  }
};

__device__ __forceinline__ float sum_of(const Four<float>& x) {
  return (x.v[0] + x.v[1]) + (x.v[2] + x.v[3]);
}

template <int kLanes>
__global__ void __launch_bounds__(kFoursThreads) norm_fours(const __grid_constant__ ResidualNorm<float> op) {
  constexpr int M = 4;
  using Rows = RowsOfFours<kLanes, M>;
  const int r = blockIdx.y, D = op.D();
  const std::int64_t n0 =
      (static_cast<std::int64_t>(blockIdx.x) * kFoursWarps + threadIdx.x / 32) * Rows::kRows;
  if (n0 >= op.rows()) return;
  const Rows rows(n0, op.rows(), D);
  Four<float> s[M], b[M];
#pragma unroll
  for (int m = 0; m < M; ++m) s[m] = rows.at(op.x.value.at(r), m, D);
  if (op.branch) {
#pragma unroll
    for (int m = 0; m < M; ++m) b[m] = rows.at(op.branch.value.at(r), m, D);
#pragma unroll
    for (int m = 0; m < M; ++m) {
#pragma unroll
      for (int e = 0; e < 4; ++e) s[m].v[e] += b[m].v[e];
      if (rows.has(m)) rows.at(op.sum.value.at(r), m, D) = s[m];
    }
  }
  const bool layer = op.norm == RowNorm::layer;
  const float share = 1 / static_cast<float>(D);
  float mean[M] = {}, inverse[M];
#pragma unroll
  for (int m = 0; m < M; ++m) mean[m] = layer && rows.inside ? share * sum_of(s[m]) : 0;
  if (layer) rows.add_up(mean);
#pragma unroll
  for (int m = 0; m < M; ++m) {
    Four<float> square;
#pragma unroll
    for (int e = 0; e < 4; ++e) s[m].v[e] -= mean[m], square.v[e] = s[m].v[e] * s[m].v[e];
    inverse[m] = rows.inside ? sum_of(square) : 0;
  }
  rows.add_up(inverse);
  Four<float> gain, bias = {};
  gain = *reinterpret_cast<const Four<float>*>(op.gain.value.at(r) + (rows.inside ? rows.column : 0));
  if (op.bias)
    bias = *reinterpret_cast<const Four<float>*>(op.bias.value.at(r) + (rows.inside ? rows.column : 0));
#pragma unroll
  for (int m = 0; m < M; ++m) {
    if (!rows.has(m)) continue;
    inverse[m] = 1 / sqrtf(share * inverse[m] + static_cast<float>(op.eps));
    Four<float> y;
#pragma unroll
    for (int e = 0; e < 4; ++e) y.v[e] = fmaf(gain.v[e], s[m].v[e] * inverse[m], bias.v[e]);
    if (op.y.value.is_bf16()) {
      rows.pairs_at(op.y.value.at(r), m, D) = pairs_of(y);
    } else {
      rows.at(op.y.value.at(r), m, D) = y;
    }
    if (op.inverse && rows.column == 0)
      op.mean.value.at(r)[rows.row(m)] = mean[m], op.inverse.value.at(r)[rows.row(m)] = inverse[m];
  }
}

/// Rows of piece blockIdx.x, and what they give gain and bias.
template <int kLanes>
__global__ void __launch_bounds__(kFoursThreads)
    norm_fours_backward(const __grid_constant__ ResidualNorm<float> op, std::int64_t piece) {
  constexpr int M = 2;
  using Rows = RowsOfFours<kLanes, M>;
  __shared__ float sums[2][kFoursWarps][kFoursMost];
  const int r = blockIdx.y, D = op.D(), warp = threadIdx.x / 32;
  const std::int64_t begin = blockIdx.x * piece, end = min(op.rows(), begin + piece);
  const bool layer = op.norm == RowNorm::layer, past = op.sum && op.sum.gradient.data;
  const float share = 1 / static_cast<float>(D);
  const int column = static_cast<int>(threadIdx.x) % kLanes * 4;
  const Four<float> gain =
      *reinterpret_cast<const Four<float>*>(op.gain.value.at(r) + (column < D ? column : 0));
  Four<float> d_gain = {}, d_bias = {};
  for (std::int64_t n = begin + warp * Rows::kRows; n < end; n += kFoursWarps * Rows::kRows) {
    const Rows rows(n, end, D);
    Four<float> s[M], d[M], more[M] = {}, x_before[M] = {}, branch_before[M] = {};
    float mean[M], inverse[M], shift[M], along[M];
#pragma unroll
    for (int m = 0; m < M; ++m) {
      s[m] = rows.at(op.total().at(r), m, D), d[m] = op.y.gradient.is_bf16()
                                                         ? four_of(rows.pairs_at(op.y.gradient.at(r), m, D))
                                                         : rows.at(op.y.gradient.at(r), m, D);
      if (past) more[m] = rows.at(op.sum.gradient.at(r), m, D);
      if (op.x.write == Write::add) x_before[m] = rows.at(op.x.gradient.at(r), m, D);
      if (op.branch.write == Write::add) branch_before[m] = rows.at(op.branch.gradient.at(r), m, D);
      const std::int64_t row = min(rows.row(m), end - 1);
      mean[m] = op.mean.value.at(r)[row], inverse[m] = op.inverse.value.at(r)[row];
    }
#pragma unroll
    for (int m = 0; m < M; ++m) {
      shift[m] = along[m] = 0;
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        if (!rows.has(m)) s[m].v[e] = mean[m], d[m].v[e] = 0;
        s[m].v[e] = (s[m].v[e] - mean[m]) * inverse[m];
        d_gain.v[e] += d[m].v[e] * s[m].v[e], d_bias.v[e] += d[m].v[e];
        d[m].v[e] *= gain.v[e];
        shift[m] += d[m].v[e], along[m] += d[m].v[e] * s[m].v[e];
      }
    }
    rows.add_up(along);
    if (layer) rows.add_up(shift);
#pragma unroll
    for (int m = 0; m < M; ++m) {
      if (!rows.has(m)) continue;
      const float from = layer ? share * shift[m] : 0, times = share * along[m];
      Four<float> x, branch;
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float d_s = (d[m].v[e] - from - s[m].v[e] * times) * inverse[m] + more[m].v[e];
        x.v[e] = x_before[m].v[e] + d_s, branch.v[e] = branch_before[m].v[e] + d_s;
      }
      if (op.x.wanted()) rows.at(op.x.gradient.at(r), m, D) = x;
      if (!op.branch.wanted()) continue;
      if (op.branch.gradient.is_bf16()) {
        rows.pairs_at(op.branch.gradient.at(r), m, D) = pairs_of(branch);
      } else {
        rows.at(op.branch.gradient.at(r), m, D) = branch;
      }
    }
  }
#pragma unroll
  for (int e = 0; e < 4; ++e) {  // of the rows beside
    if (kLanes < 32) {
      d_gain.v[e] += __shfl_xor_sync(kFullWarp, d_gain.v[e], 16);
      d_bias.v[e] += __shfl_xor_sync(kFullWarp, d_bias.v[e], 16);
    }
  }
  *reinterpret_cast<Four<float>*>(&sums[0][warp][column]) = d_gain;
  *reinterpret_cast<Four<float>*>(&sums[1][warp][column]) = d_bias;
  __syncthreads();
  float* part = op.part.value.at(r) + static_cast<std::int64_t>(blockIdx.x) * 2 * D;
  for (int i = threadIdx.x; i < 2 * D; i += kFoursThreads) {
    float all = 0;
#pragma unroll
    for (int w = 0; w < kFoursWarps; ++w) all += sums[i / D][w][i % D];
    part[i] = all;
  }
}

/// Rows in fours: memory is aligned, and no gradient stands in two fields.
inline bool in_fours(const ResidualNorm<float>& op) {
  bool good = op.D() % 4 == 0 && op.D() <= kFoursMost &&
              !(op.branch.wanted() && op.branch.gradient.data == op.x.gradient.data) &&
              !(op.branch.gradient.is_bf16() && op.branch.write == Write::add);
  for (const Tensor<float>& t :
       {op.x.value, op.x.gradient, op.branch.value, op.branch.gradient, op.gain.value, op.bias.value,
        op.sum.value, op.sum.gradient, op.y.value, op.y.gradient})
    good = good &&
           (!t.data || (reinterpret_cast<std::uintptr_t>(t.data) % 16 == 0 && t.replica_stride % 4 == 0));
  if (!good && (op.y.value.is_bf16() || op.branch.gradient.is_bf16()))
    throw std::logic_error(
        "[residual_norm] gradients in bf16 are written, not added to, and memory is aligned");
  return good;
}

}  // namespace crosstalk::device
