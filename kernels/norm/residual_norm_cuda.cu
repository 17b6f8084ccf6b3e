// Sum and norm of rows: a warp a row, where they are no fours of floats. Backward, a block has a piece of the
// rows and adds up what they give gain and bias.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/reduce.cuh"
#include "kernels/norm/residual_norm_fours.cuh"

namespace crosstalk {
namespace {
using namespace device;

constexpr int kThreads = 256, kWarps = kThreads / 32;

// f(j, i) for every entry j of this lane, its i-th: N in registers, or (N = 0) any number.
template <int N, class F>
__device__ __forceinline__ void for_entries(int D, F&& f) {
  const int lane = threadIdx.x % 32;
  if constexpr (N > 0) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      if (lane + 32 * i < D) f(lane + 32 * i, i);
    }
  } else {
    for (int j = lane; j < D; j += 32) f(j, 0);
  }
}

template <class Real, int N>
__global__ void __launch_bounds__(kThreads) residual_norm(const __grid_constant__ ResidualNorm<Real> op) {
  const std::int64_t n = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  const int r = blockIdx.y, D = op.D();
  if (n >= op.rows()) return;
  const Real* x = op.x.value.at(r) + n * D;
  const Real* branch = op.branch ? op.branch.value.at(r) + n * D : nullptr;
  Real* sum = branch ? op.sum.value.at(r) + n * D : nullptr;
  Real held[N > 0 ? N : 1] = {};
  Real total = 0;
  // All loads before the first store, which the compiler may not move them over.
  for_entries<N>(D, [&](int j, int i) {
    if constexpr (N > 0) held[i] = branch ? x[j] + branch[j] : x[j];
  });
  for_entries<N>(D, [&](int j, int i) {
    const Real s = N > 0 ? held[i] : branch ? x[j] + branch[j] : x[j];
    if (branch) sum[j] = s;
    total += s;
  });
  const auto s = [&](int j, int i) { return N > 0 ? held[i] : branch ? x[j] + branch[j] : x[j]; };
  const Real mean = op.norm == RowNorm::layer ? warp_sum(total) / static_cast<Real>(D) : Real(0);
  Real square = 0;
  for_entries<N>(D, [&](int j, int i) { square += (s(j, i) - mean) * (s(j, i) - mean); });
  const Real inverse = 1 / sqrt(warp_sum(square) / static_cast<Real>(D) + static_cast<Real>(op.eps));
  const Real* gain = op.gain.value.at(r);
  const Real* bias = op.bias ? op.bias.value.at(r) : nullptr;
  Real* y = op.y.value.at(r) + n * D;
  for_entries<N>(D, [&](int j, int i) {
    const Real v = gain[j] * ((s(j, i) - mean) * inverse);
    y[j] = bias ? v + bias[j] : v;
  });
  if (op.inverse && threadIdx.x % 32 == 0) op.mean.value.at(r)[n] = mean, op.inverse.value.at(r)[n] = inverse;
}

/// Rows of piece blockIdx.x; with N > 0 also what they give gain and bias.
template <class Real, int N>
__global__ void __launch_bounds__(kThreads)
    residual_norm_backward(const __grid_constant__ ResidualNorm<Real> op, std::int64_t piece) {
  constexpr int kShared = N > 0 ? N * 32 : 1;
  __shared__ Real sums[2][kWarps][kShared];
  const int r = blockIdx.y, D = op.D(), warp = threadIdx.x / 32;
  const std::int64_t begin = blockIdx.x * piece, end = min(op.rows(), begin + piece);
  const Real* gain = op.gain.value.at(r);
  const Tensor<Real>& total = op.total();
  Real d_gain[N > 0 ? N : 1] = {}, d_bias[N > 0 ? N : 1] = {};
  for (std::int64_t n = begin + warp; n < end; n += kWarps) {
    const Real mean = op.mean.value.at(r)[n], inverse = op.inverse.value.at(r)[n];
    const Real *s = total.at(r) + n * D, *d_y = op.y.gradient.at(r) + n * D;
    const Real* d_sum = op.sum && op.sum.gradient.data ? op.sum.gradient.at(r) + n * D : nullptr;
    Real normed[N > 0 ? N : 1] = {}, flow[N > 0 ? N : 1] = {}, past[N > 0 ? N : 1] = {};
    Real shift = 0, along = 0;
    for_entries<N>(D, [&](int j, int i) {
      if constexpr (N > 0) normed[i] = s[j], flow[i] = d_y[j], past[i] = d_sum ? d_sum[j] : Real(0);
    });
    for_entries<N>(D, [&](int j, int i) {
      const Real d = N > 0 ? flow[i] : d_y[j], x = ((N > 0 ? normed[i] : s[j]) - mean) * inverse,
                 f = d * gain[j];
      if constexpr (N > 0) {
        normed[i] = x, flow[i] = f;
        d_gain[i] += d * x, d_bias[i] += d;
      }
      shift += f, along += f * x;
    });
    shift = op.norm == RowNorm::layer ? warp_sum(shift) / static_cast<Real>(D) : Real(0);
    along = warp_sum(along) / static_cast<Real>(D);
    for_entries<N>(D, [&](int j, int i) {
      const Real x = N > 0 ? normed[i] : (s[j] - mean) * inverse, f = N > 0 ? flow[i] : d_y[j] * gain[j];
      Real d = (f - shift - x * along) * inverse;
      if (d_sum) d += N > 0 ? past[i] : d_sum[j];
      if (op.x.wanted()) put(op.x.write, op.x.gradient.at(r) + n * D + j, d);
      if (op.branch.wanted()) put(op.branch.write, op.branch.gradient.at(r) + n * D + j, d);
    });
  }
  if constexpr (N > 0) {
    for_entries<N>(D, [&](int j, int i) { sums[0][warp][j] = d_gain[i], sums[1][warp][j] = d_bias[i]; });
    __syncthreads();
    Real* part = op.part.value.at(r) + static_cast<std::int64_t>(blockIdx.x) * 2 * D;
    for (int e = threadIdx.x; e < 2 * D; e += kThreads) {
      Real all = 0;
#pragma unroll
      for (int w = 0; w < kWarps; ++w) all += sums[e / D][w][e % D];
      part[e] = all;
    }
  }
}

/// The same of rows that do not fit registers: a thread a column.
template <class Real>
__global__ void __launch_bounds__(kThreads)
    wide_gains(const __grid_constant__ ResidualNorm<Real> op, std::int64_t piece) {
  const int r = blockIdx.z, D = op.D(), j = static_cast<int>(blockIdx.y * kThreads + threadIdx.x);
  if (j >= D) return;
  const std::int64_t begin = blockIdx.x * piece, end = min(op.rows(), begin + piece);
  Real d_gain = 0, d_bias = 0;
  for (std::int64_t n = begin; n < end; ++n) {
    const Real d = op.y.gradient.at(r)[n * D + j];
    d_gain += d * ((op.total().at(r)[n * D + j] - op.mean.value.at(r)[n]) * op.inverse.value.at(r)[n]);
    d_bias += d;
  }
  Real* part = op.part.value.at(r) + static_cast<std::int64_t>(blockIdx.x) * 2 * D;
  part[j] = d_gain, part[D + j] = d_bias;
}

}  // namespace

template <class Real>
void forward_cuda(const Exec& exec, const ResidualNorm<Real>& op) {
  if (op.rows() == 0 || op.x.value.R == 0) return;
  const int D = op.D();
  if constexpr (std::is_same_v<Real, float>) {
    if (in_fours(op)) {
      const int lanes = D <= 64 ? 16 : 32, rows = kFoursWarps * 4 * (32 / lanes);
      const dim3 grid(blocks_for(op.rows(), rows), static_cast<unsigned>(op.x.value.R));
      (lanes == 16 ? norm_fours<16> : norm_fours<32>)<<<grid, kFoursThreads, 0, stream_of(exec)>>>(op);
      check_launch("residual_norm");
      return;
    }
  }
  const auto kernel = D <= 128   ? residual_norm<Real, 4>
                      : D <= 512 ? residual_norm<Real, 16>
                                 : residual_norm<Real, 0>;
  kernel<<<dim3(blocks_for(op.rows(), kWarps), static_cast<unsigned>(op.x.value.R)), kThreads, 0,
           stream_of(exec)>>>(op);
  check_launch("residual_norm");
}

template <class Real>
void backward_cuda(const Exec& exec, const ResidualNorm<Real>& op) {
  if (op.rows() == 0 || op.x.value.R == 0) return;
  const int D = op.D(), pieces = ResidualNorm<Real>::pieces(op.rows());
  const std::int64_t piece = ResidualNorm<Real>::piece(op.rows());
  const unsigned P = static_cast<unsigned>(pieces), R = static_cast<unsigned>(op.x.value.R);
  // Doubles of 512 columns would not fit the shared memory of a block.
  const int most = sizeof(Real) == 4 ? 512 : 256;
  const auto kernel = D <= 128 ? residual_norm_backward<Real, 4> : D <= most ? residual_norm_backward < Real,
             sizeof(Real) == 4 ? 16 : 8 > : residual_norm_backward<Real, 0>;
  bool done = false;
  if constexpr (std::is_same_v<Real, float>) {
    if ((done = in_fours(op)))
      (D <= 64 ? norm_fours_backward<16>
               : norm_fours_backward<32>)<<<dim3(P, R), kFoursThreads, 0, stream_of(exec)>>>(op, piece);
  }
  if (!done) kernel<<<dim3(P, R), kThreads, 0, stream_of(exec)>>>(op, piece);
  check_launch("residual_norm backward");
  if (!op.gain.wanted() && !op.bias.wanted()) return;
  if (D > most) {
    wide_gains<<<dim3(P, blocks_for(D, kThreads), R), kThreads, 0, stream_of(exec)>>>(op, piece);
    check_launch("residual_norm backward (gains)");
  }
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
