// Sum and norm of rows: in fours of floats, else a warp a row. Backward, a block has a piece of the rows, and what they
// give gain and bias is added up by pieces.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/device/reduce.cuh"
#include "kernels/norm/residual_norm_fours.cuh"

namespace crosstalk {
namespace {
using namespace device;

constexpr int kThreads = 256, kWarps = kThreads / 32;

template <class Real>
__global__ void __launch_bounds__(kThreads) residual_norm(const __grid_constant__ ResidualNorm<Real> op) {
  wait_for_earlier();
  const std::int64_t n = std::int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;
  const int r = blockIdx.y, D = op.D(), lane = threadIdx.x % 32;
  if (n >= op.rows()) return;
  const Real* x = op.x.value.at(r) + n * D;
  const Real* branch = op.branch ? op.branch.value.at(r) + n * D : nullptr;
  const auto s = [&](int j) { return branch ? x[j] + branch[j] : x[j]; };
  Real total = 0, square = 0;
  for (int j = lane; j < D; j += 32) {
    if (branch) op.sum.value.at(r)[n * D + j] = s(j);
    total += s(j);
  }
  const Real mean = op.norm == RowNorm::layer ? warp_sum(total) / static_cast<Real>(D) : Real(0);
  for (int j = lane; j < D; j += 32) square += (s(j) - mean) * (s(j) - mean);
  const Real inverse = 1 / sqrt(warp_sum(square) / static_cast<Real>(D) + static_cast<Real>(op.eps));
  for (int j = lane; j < D; j += 32) {
    Real v = op.gain.value.at(r)[j] * ((s(j) - mean) * inverse);
    if (op.bias) v += op.bias.value.at(r)[j];
    op.y.value.at(r)[n * D + j] = op.gate ? v * op.opened(op.gate.value.at(r)[n * D + j]) : v;
  }
  if (op.inverse && lane == 0) op.mean.value.at(r)[n] = mean, op.inverse.value.at(r)[n] = inverse;
}

/// Entries of row n, normed, and the gradients that reach them.
template <class Real>
struct NormedRow {
  const ResidualNorm<Real>& op;
  const Real *s, *d_y, *gain, *gate;
  Real mean, inverse;
  __device__ NormedRow(const ResidualNorm<Real>& op_, int r, std::int64_t n)
      : op(op_),
        s(op.total().at(r) + n * op.D()),
        d_y(op.y.gradient.at(r) + n * op.D()),
        gain(op.gain.value.at(r)),
        gate(op.gate ? op.gate.value.at(r) + n * op.D() : nullptr),
        mean(op.mean.value.at(r)[n]),
        inverse(op.inverse.value.at(r)[n]) {}
  __device__ Real normed(int j) const { return (s[j] - mean) * inverse; }
  /// In front of the gate, and of the gain.
  __device__ Real ungated(int j) const { return gate ? d_y[j] * op.opened(gate[j]) : d_y[j]; }
  __device__ Real flow(int j) const { return ungated(j) * gain[j]; }
};

/// A warp a row.
template <class Real>
__global__ void __launch_bounds__(kThreads)
    residual_norm_backward(const __grid_constant__ ResidualNorm<Real> op) {
  const std::int64_t n = std::int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;
  const int r = blockIdx.y, D = op.D(), lane = threadIdx.x % 32;
  if (n >= op.rows()) return;
  const NormedRow<Real> row(op, r, n);
  Real shift = 0, along = 0;
  for (int j = lane; j < D; j += 32) shift += row.flow(j), along += row.flow(j) * row.normed(j);
  shift = op.norm == RowNorm::layer ? warp_sum(shift) / static_cast<Real>(D) : Real(0);
  along = warp_sum(along) / static_cast<Real>(D);
  for (int j = lane; j < D; j += 32) {
    Real d = (row.flow(j) - shift - row.normed(j) * along) * row.inverse;
    if (op.sum && op.sum.gradient.data) d += op.sum.gradient.at(r)[n * D + j];
    if (op.x.wanted()) put(op.x.write, op.x.gradient.at(r) + n * D + j, d);
    if (op.branch.wanted()) put(op.branch.write, op.branch.gradient.at(r) + n * D + j, d);
    if (!op.gate.wanted()) continue;
    const Real v = row.gain[j] * row.normed(j) + (op.bias ? op.bias.value.at(r)[j] : Real(0));
    put(op.gate.write, op.gate.gradient.at(r) + n * D + j, row.d_y[j] * v * op.gate_slope(row.gate[j]));
  }
}

/// Gradients of gain and bias by pieces of the rows: a thread a column.
template <class Real>
__global__ void __launch_bounds__(kThreads)
    gain_pieces(const __grid_constant__ ResidualNorm<Real> op, std::int64_t piece) {
  const int r = blockIdx.z, D = op.D(), j = static_cast<int>(blockIdx.y * kThreads + threadIdx.x);
  if (j >= D) return;
  const std::int64_t begin = blockIdx.x * piece, end = min(op.rows(), begin + piece);
  Real d_gain = 0, d_bias = 0;
  for (std::int64_t n = begin; n < end; ++n) {
    const NormedRow<Real> row(op, r, n);
    d_gain += row.ungated(j) * row.normed(j), d_bias += row.ungated(j);
  }
  Real* part = op.part.value.at(r) + std::int64_t{blockIdx.x} * 2 * D;
  part[j] = d_gain, part[D + j] = d_bias;
}

}  // namespace

template <class Real>
void forward_cuda(const Exec& exec, const ResidualNorm<Real>& op) {
  const auto run = [&](auto* kernel, int rows, int threads) {
    launch_early(exec, "residual_norm", kernel, per_replica(blocks_for(op.rows(), rows), op.x.value.R),
                 threads, 0, op);
  };
  if constexpr (std::is_same_v<Real, float>) {
    if (in_fours(op))
      return with_fours(op, [&]<int kLanes, int kFours, bool kGated>() {
        run(norm_fours<kLanes, kFours, kGated>, kFoursWarps * kRowTurns<kFours> * (32 / kLanes),
            kFoursThreads);
      });
  }
  run(residual_norm<Real>, kWarps, kThreads);
}

template <class Real>
void backward_cuda(const Exec& exec, const ResidualNorm<Real>& op) {
  if (op.rows() == 0 || op.x.value.R == 0) return;
  const int D = op.D(), R = op.x.value.R, pieces = ResidualNorm<Real>::pieces(op.rows());
  const std::int64_t piece = ResidualNorm<Real>::piece(op.rows());
  const char* const name = "residual_norm backward";
  const bool gains = op.gain.wanted() || op.bias.wanted();
  bool done = false;
  if constexpr (std::is_same_v<Real, float>) {
    if ((done = in_fours(op)))
      with_fours(op, [&]<int kLanes, int kFours, bool kGated>() {
        launch_early(exec, name, norm_fours_backward<kLanes, kFours, kGated>, per_replica(pieces, R),
                     kFoursThreads, 0, op, piece);
      });
  }
  if (!done) {
    const dim3 parts(static_cast<unsigned>(pieces), blocks_for(D, kThreads), static_cast<unsigned>(R));
    if (gains) launch(exec, name, gain_pieces<Real>, parts, kThreads, 0, op, piece);
    launch(exec, name, residual_norm_backward<Real>, per_replica(blocks_for(op.rows(), kWarps), R), kThreads,
           0, op);
  }
  if (!gains) return;
  sum_pieces<Real, 8, 64>(
      exec, "residual_norm backward (pieces)", op.x.value.R, 2 * D, pieces, 2 * D,
      [=] __device__(int r, std::int64_t i) { return op.part.value.at(r) + i; },
      [=] __device__(int r, std::int64_t i, Real sum) {
        const In<Real>& target = i < D ? op.gain : op.bias;
        if (target.wanted()) put(target.write, target.gradient.at(r) + i % D, sum);
      });
}

CROSSTALK_INSTANTIATE(cuda, ResidualNorm)

}  // namespace crosstalk
