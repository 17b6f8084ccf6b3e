// A warp a row of weights.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/level_gain.h"
#include "kernels/base/device/cuda_launch.cuh"

namespace crosstalk {
namespace {
using namespace device;

constexpr int kGainThreads = 256;

/// A warp's row n, its token and gains.
template <class Real>
struct GainRow {
  std::int64_t n;
  int r, lane, token;
  const Real *a, *gains;

  __device__ explicit GainRow(const LevelGain<Real>& op)
      : n((std::int64_t{blockIdx.x} * kGainThreads + threadIdx.x) / 32),
        r(static_cast<int>(blockIdx.y)),
        lane(CT_LANE),
        token(n < op.rows() ? op.token_of_row(r, n) : -1),
        a(op.a.value.at(r) + n * op.T()),
        gains(op.lambda.value.at(r) + (n < op.rows() ? op.gains(n) : 0)) {}
  __device__ int level(int j) const { return 32 - __clz(token ^ j); }
  /// Gain of token j, 0 where it is not seen.
  __device__ Real gain(int j) const { return j > token ? Real(0) : gains[level(j)]; }
};

template <class Real>
__global__ void __launch_bounds__(kGainThreads)
    level_gain_kernel(const __grid_constant__ LevelGain<Real> op) {
  const GainRow<Real> row(op);
  if (row.n >= op.rows()) return;
  Real* y = op.y.value.at(row.r) + row.n * op.T();
  for (int j = row.lane; j < op.T(); j += 32) {
    const Real gain = row.gain(j);
    y[j] = gain == 0 ? Real(0) : gain * row.a[j];
  }
}

/// Tokens of another 32 than the query's own are of one level all together; lane l adds up level l.
template <class Real>
__global__ void __launch_bounds__(kGainThreads)
    level_gain_backward_kernel(const __grid_constant__ LevelGain<Real> op) {
  constexpr int kStrips = 4, kNear = 6;  // strips of 32 that are loaded at once; levels within one
  const GainRow<Real> row(op);
  if (row.n >= op.rows()) return;
  const Real* d_y = op.y.gradient.at(row.r) + row.n * op.T();
  Real* d_a = op.a.wanted() ? op.a.gradient.at(row.r) + row.n * op.T() : nullptr;
  Real of_level = 0;
  for (int first = 0; first < op.T(); first += 32 * kStrips) {
    Real gradient[kStrips], product[kStrips];
    CT_FOR(i, kStrips) {
      const int j = first + 32 * i + row.lane;
      const bool seen = j <= row.token;
      gradient[i] = seen ? d_y[j] : Real(0), product[i] = seen ? gradient[i] * row.a[j] : Real(0);
    }
    CT_FOR(i, kStrips) {
      const int strip = first + 32 * i, j = strip + row.lane;
      if (d_a && j < op.T()) put(op.a.write, d_a + j, row.gain(j) * gradient[i]);
      if (!op.lambda.wanted() || strip > row.token) continue;
      if (strip / 32 < row.token / 32) {
        const Real sum = warp_sum(product[i]);
        if (row.lane == row.level(strip)) of_level += sum;
        continue;
      }
      CT_FOR(l, kNear) {
        const Real sum = warp_sum(row.level(j) == l ? product[i] : Real(0));
        if (row.lane == l) of_level = sum;
      }
    }
  }
  if (!op.lambda.wanted()) return;
  for (int l = row.lane; l < op.L(); l += 32)
    put(op.lambda.write, op.lambda.gradient.at(row.r) + op.gains(row.n) + l, l < 32 ? of_level : Real(0));
}

template <bool kBack, class Real>
void run(const Exec& exec, const LevelGain<Real>& op) {
  const auto kernel = kBack ? level_gain_backward_kernel<Real> : level_gain_kernel<Real>;
  launch(exec, "level_gain", kernel, per_replica(blocks_for(op.rows(), kGainThreads / 32), op.a.value.R),
         kGainThreads, 0, op);
}

}  // namespace

CROSSTALK_BOTH_WAYS(cuda, LevelGain, run<kBack>)

}  // namespace crosstalk
