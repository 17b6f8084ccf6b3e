// Sum and norm of rows of up to 512 floats: a lane has four neighbours, or several fours 128 apart; 16 or 32 lanes a row,
// and all of a warp's rows are on their way at once.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/base/device/early_launch.cuh"
#include "kernels/matmul/operand_pairs.cuh"
#include "kernels/norm/residual_norm.h"

namespace crosstalk::device {

constexpr int kFoursThreads = 256, kFoursWarps = kFoursThreads / 32, kFoursMost = 512;

/// Rows of kLanes lanes each, of kFours fours a lane, kTurns after one another, and what their lanes add up.
template <int kLanes, int kFours, int kTurns>
struct RowsOfFours {
  static constexpr int kBeside = 32 / kLanes, kRows = kBeside * kTurns;
  using Row = Four<float>[kFours];
  std::int64_t first, end;  ///< of this lane; the last there is, and one
  int column, D;
  __device__ RowsOfFours(std::int64_t n0, std::int64_t end_, int D_)
      : first(n0 + threadIdx.x % 32 / kLanes), end(end_), column(CT_THREAD % kLanes * 4), D(D_) {}
  __device__ std::int64_t row(int m) const { return first + m * kBeside; }
  __device__ bool inside(int q) const { return column + 4 * kLanes * q < D; }
  __device__ bool has(int m) const { return row(m) < end; }
  /// Calls f(q, e) for every number of a row.
  static CT_DEVICE void each(auto&& f) {
    CT_FOR2(q, kFours, e, 4) f(q, e);
  }
  /// Index of four numbers of a row; of some other row or column where these do not exist.
  __device__ std::int64_t place(int m, int q) const {
    return min(row(m), end - 1) * D + (inside(q) ? column + 4 * kLanes * q : 0);
  }
  __device__ void load(const Tensor<float>& t, int r, int m, Row& x) const {
    CT_FOR(q, kFours) {
      const std::int64_t at = place(m, q);
      x[q] =
          t.is_bf16()
              ? four_of(*reinterpret_cast<const uint2*>(reinterpret_cast<const std::uint16_t*>(t.at(r)) + at))
              : *reinterpret_cast<const Four<float>*>(t.at(r) + at);
    }
  }
  /// Loads the row's columns of the gain or the bias.
  __device__ void load_columns(const float* from, Row& x) const {
    CT_FOR(q, kFours)
      x[q] = *reinterpret_cast<const Four<float>*>(from + (inside(q) ? column + 4 * kLanes * q : 0));
  }
  __device__ void store(const Tensor<float>& t, int r, int m, const Row& x) const {
    CT_FOR(q, kFours) {
      if (!has(m) || !inside(q)) continue;
      const std::int64_t at = place(m, q);
      if (t.is_bf16())
        *reinterpret_cast<uint2*>(reinterpret_cast<std::uint16_t*>(t.at(r)) + at) = pairs_of(x[q]);
      else
        *reinterpret_cast<Four<float>*>(t.at(r) + at) = x[q];
    }
  }
  /// Sum of f(q, e) over this lane's part of a row.
  CT_DEVICE float sum(auto&& f) const {
    float all = 0;
    CT_FOR(q, kFours)
      if (inside(q)) all += (f(q, 0) + f(q, 1)) + (f(q, 2) + f(q, 3));
    return all;
  }
  __device__ void add_up(float (&x)[kTurns]) const {
    CT_UNROLL(int offset = kLanes / 2; offset > 0; offset /= 2)
      CT_FOR(m, kTurns) x[m] += __shfl_xor_sync(kFullWarp, x[m], offset);
  }
};

/// Rows that a warp has at once, forward and backward.
template <int kFours>
constexpr int kRowTurns = 4 / kFours;
template <int kFours>
constexpr int kGradientTurns = kFours > 1 ? 1 : 2;

/// Norms of rows, in their places.
template <class Rows, int M>
CT_DEVICE void norm_rows(const ResidualNorm<float>& op, const Rows& rows, typename Rows::Row (&s)[M],
                         float (&mean)[M], float (&inverse)[M]) {
  const bool layer = op.norm == RowNorm::layer;
  const float share = 1 / static_cast<float>(rows.D);
  CT_FOR(m, M) mean[m] = layer ? share * rows.sum([&](int q, int e) { return s[m][q].v[e]; }) : 0;
  if (layer) rows.add_up(mean);
  CT_FOR(m, M) {
    Rows::each([&](int q, int e) { s[m][q].v[e] -= mean[m]; });
    inverse[m] = rows.sum([&](int q, int e) { return s[m][q].v[e] * s[m][q].v[e]; });
  }
  rows.add_up(inverse);
  typename Rows::Row gain, bias = {};
  const int r = blockIdx.y;
  rows.load_columns(op.gain.value.at(r), gain);
  if (op.bias) rows.load_columns(op.bias.value.at(r), bias);
  CT_FOR(m, M) {
    inverse[m] = 1 / sqrtf(share * inverse[m] + static_cast<float>(op.eps));
    Rows::each(
        [&](int q, int e) { s[m][q].v[e] = fmaf(gain[q].v[e], s[m][q].v[e] * inverse[m], bias[q].v[e]); });
  }
}

template <int kLanes, int kFours, bool kGated>
__global__ void __launch_bounds__(kFoursThreads) norm_fours(const __grid_constant__ ResidualNorm<float> op) {
  wait_for_earlier();
  constexpr int M = kRowTurns<kFours>;
  using Rows = RowsOfFours<kLanes, kFours, M>;
  const int r = blockIdx.y, D = op.D();
  const std::int64_t n0 = (std::int64_t{blockIdx.x} * kFoursWarps + threadIdx.x / 32) * Rows::kRows;
  if (n0 >= op.rows()) return;
  const Rows rows(n0, op.rows(), D);
  typename Rows::Row s[M], b[M];
  CT_FOR(m, M) rows.load(op.x.value, r, m, s[m]);
  if (op.branch) {
    CT_FOR(m, M) rows.load(op.branch.value, r, m, b[m]);
    CT_FOR(m, M) {
      Rows::each([&](int q, int e) { s[m][q].v[e] += b[m][q].v[e]; });
      rows.store(op.sum.value, r, m, s[m]);
    }
  }
  float mean[M], inverse[M];
  norm_rows(op, rows, s, mean, inverse);
  CT_FOR(m, M) {
    if (op.inverse && rows.has(m) && rows.column == 0)
      op.mean.value.at(r)[rows.row(m)] = mean[m], op.inverse.value.at(r)[rows.row(m)] = inverse[m];
    if constexpr (kGated) {
      rows.load(op.gate.value, r, m, b[m]);
      Rows::each([&](int q, int e) { s[m][q].v[e] *= op.opened(b[m][q].v[e]); });
    }
    rows.store(op.y.value, r, m, s[m]);
  }
}

/// Gain and bias of a lane's columns, and what rows give them.
template <class Rows>
struct GainsOfRows {
  typename Rows::Row gain, bias = {}, d_gain = {}, d_bias = {};
  /// d_y of normed rows to d_s.
  template <int M>
  CT_DEVICE void backward(const Rows& rows, bool layer, const typename Rows::Row (&normed)[M],
                          const float (&inverse)[M], typename Rows::Row (&d)[M]) {
    float shift[M], along[M];
    CT_FOR(m, M) {
      shift[m] = along[m] = 0;
      Rows::each([&](int q, int e) {
        const float x = normed[m][q].v[e];
        float& f = d[m][q].v[e];
        d_gain[q].v[e] += f * x, d_bias[q].v[e] += f;
        f *= gain[q].v[e];
        shift[m] += f, along[m] += f * x;
      });
    }
    rows.add_up(along);
    if (layer) rows.add_up(shift);
    const float share = 1 / static_cast<float>(rows.D);
    CT_FOR(m, M) {
      const float from = layer ? share * shift[m] : 0, times = share * along[m];
      Rows::each([&](int q, int e) {
        d[m][q].v[e] = (d[m][q].v[e] - from - normed[m][q].v[e] * times) * inverse[m];
      });
    }
  }
};

/// What the warps' rows give gain and bias, added up, to the piece's part of them.
template <int kLanes, int kFours, class Gains, class Sums>
CT_DEVICE void add_up_gains(Gains& gains, Sums& sums, float* part, int D) {
  const int warp = threadIdx.x / 32;
  const int column = CT_THREAD % kLanes * 4;
  CT_FOR(q, kFours) {
    CT_UNROLL(int e = 0; e < 4 && kLanes < 32; ++e) {  // of the rows beside
      gains.d_gain[q].v[e] += __shfl_xor_sync(kFullWarp, gains.d_gain[q].v[e], 16);
      gains.d_bias[q].v[e] += __shfl_xor_sync(kFullWarp, gains.d_bias[q].v[e], 16);
    }
    *reinterpret_cast<Four<float>*>(&sums[0][warp][column + 4 * kLanes * q]) = gains.d_gain[q];
    *reinterpret_cast<Four<float>*>(&sums[1][warp][column + 4 * kLanes * q]) = gains.d_bias[q];
  }
  __syncthreads();
  for (int i = threadIdx.x; i < 2 * D; i += kFoursThreads) {
    float all = 0;
    CT_FOR(w, kFoursWarps) all += sums[i / D][w][i % D];
    part[i] = all;
  }
}

/// Rows of piece blockIdx.x, and what they give gain and bias.
template <int kLanes, int kFours, bool kGated>
__global__ void __launch_bounds__(kFoursThreads)
    norm_fours_backward(const __grid_constant__ ResidualNorm<float> op, std::int64_t piece) {
  wait_for_earlier();
  constexpr int M = kGradientTurns<kFours>;
  using Rows = RowsOfFours<kLanes, kFours, M>;
  using Row = typename Rows::Row;
  __shared__ __align__(16) float sums[2][kFoursWarps][128 * kFours];
  const int r = blockIdx.y, D = op.D(), warp = threadIdx.x / 32;
  const std::int64_t begin = blockIdx.x * piece, end = min(op.rows(), begin + piece);
  const bool layer = op.norm == RowNorm::layer, past = op.sum && op.sum.gradient.data;
  GainsOfRows<Rows> gains;
  Rows(begin, end, D).load_columns(op.gain.value.at(r), gains.gain);
  if (kGated && op.bias) Rows(begin, end, D).load_columns(op.bias.value.at(r), gains.bias);
  for (std::int64_t n = begin + warp * Rows::kRows; n < end; n += kFoursWarps * Rows::kRows) {
    const Rows rows(n, end, D);
    Row s[M], d[M], gate[M], more[M] = {}, x_before[M] = {}, branch_before[M] = {};
    float mean[M], inverse[M];
    CT_FOR(m, M) {
      rows.load(op.total(), r, m, s[m]), rows.load(op.y.gradient, r, m, d[m]);
      if (past) rows.load(op.sum.gradient, r, m, more[m]);
      if constexpr (kGated) rows.load(op.gate.value, r, m, gate[m]);
      if (op.x.write == Write::add) rows.load(op.x.gradient, r, m, x_before[m]);
      if (op.branch.write == Write::add) rows.load(op.branch.gradient, r, m, branch_before[m]);
      const std::int64_t row = min(rows.row(m), end - 1);
      mean[m] = op.mean.value.at(r)[row], inverse[m] = op.inverse.value.at(r)[row];
    }
    CT_FOR(m, M) {
      Rows::each([&](int q, int e) {
        float &x = s[m][q].v[e], &f = d[m][q].v[e];
        if (!rows.has(m) || !rows.inside(q)) x = mean[m], f = more[m][q].v[e] = 0;
        x = (x - mean[m]) * inverse[m];
        if constexpr (kGated) {
          float& g = gate[m][q].v[e];
          const float d_y = f, slope = op.gate_slope(g);
          f *= op.opened(g), g = d_y * fmaf(gains.gain[q].v[e], x, gains.bias[q].v[e]) * slope;
        }
      });
    }
    gains.backward(rows, layer, s, inverse, d);
    CT_FOR(m, M) {
      Rows::each([&](int q, int e) {
        const float d_s = d[m][q].v[e] + more[m][q].v[e];
        x_before[m][q].v[e] += d_s, branch_before[m][q].v[e] += d_s;
      });
      if (op.x.wanted()) rows.store(op.x.gradient, r, m, x_before[m]);
      if (kGated && op.gate.wanted()) {
        Row before = {};
        if (op.gate.write == Write::add) rows.load(op.gate.gradient, r, m, before);
        Rows::each([&](int q, int e) { before[q].v[e] += gate[m][q].v[e]; });
        rows.store(op.gate.gradient, r, m, before);
      }
      if (op.branch.wanted()) rows.store(op.branch.gradient, r, m, branch_before[m]);
    }
  }
  add_up_gains<kLanes, kFours>(gains, sums, op.part.value.at(r) + std::int64_t{blockIdx.x} * 2 * D, D);
}

/// Calls f with how many lanes a row of D floats has, fours a lane, and whether a gate stands behind the norm.
void with_fours(const ResidualNorm<float>& op, auto&& f) {
  const int D = op.D();
  const auto sized = [&]<bool kGated>() {
    if (D <= 64) return f.template operator()<16, 1, kGated>();
    if (D <= 128) return f.template operator()<32, 1, kGated>();
    if (D <= 256) return f.template operator()<32, 2, kGated>();
    f.template operator()<32, 4, kGated>();
  };
  op.gate ? sized.template operator()<true>() : sized.template operator()<false>();
}

/// Rows in fours: memory is aligned, and no gradient stands in two fields.
inline bool in_fours(const ResidualNorm<float>& op) {
  op.check_writes();
  bool good = op.D() % 4 == 0 && op.D() <= kFoursMost &&
              !(op.branch.wanted() && op.branch.gradient.data == op.x.gradient.data);
  for (const Tensor<float>& t :
       {op.x.value, op.x.gradient, op.branch.value, op.branch.gradient, op.gain.value, op.bias.value,
        op.sum.value, op.sum.gradient, op.y.value, op.y.gradient, op.gate.value, op.gate.gradient})
    good = good &&
           (!t.data || (reinterpret_cast<std::uintptr_t>(t.data) % 16 == 0 && t.replica_stride % 4 == 0));
  if (!good && (op.y.value.is_bf16() || op.branch.gradient.is_bf16()))
    throw std::logic_error("[residual_norm] bf16 wants memory at multiples of 16 bytes");
  return good;
}

}  // namespace crosstalk::device
