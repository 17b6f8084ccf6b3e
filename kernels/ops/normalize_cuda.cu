// Normalisation of rows: a warp a row. SPDX-License-Identifier: Apache-2.0
#include "kernels/base/cuda_launch.cuh"
#include "kernels/ops/normalize.h"

namespace crosstalk {
namespace {
using namespace device;

constexpr int kThreads = 256, kWarps = kThreads / 32;

template <class Real>
__global__ void __launch_bounds__(kThreads) normalize(const __grid_constant__ NormalizeForward<Real> a) {
  const std::int64_t n = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  const int r = blockIdx.y, d = a.x.columns(), lane = threadIdx.x % 32;
  if (n >= a.x.rows()) return;
  const Real* x = a.x.at(r) + n * d;
  const Real eps = static_cast<Real>(a.eps);
  Real shift = 0, total = 0;
  if (a.norm != RowNorm::l2) {
    for (int j = lane; j < d; j += 32) total += x[j];
    total = warp_sum(total);
  }
  Real inverse = 0;
  if (a.norm == RowNorm::sum) {
    inverse = 1 / (total + eps);
  } else {
    if (a.norm == RowNorm::layer) shift = total / static_cast<Real>(d);
    Real squares = 0;
    for (int j = lane; j < d; j += 32) squares += (x[j] - shift) * (x[j] - shift);
    squares = warp_sum(squares);
    inverse = 1 / sqrt((a.norm == RowNorm::layer ? squares / static_cast<Real>(d) : squares) + eps);
  }
  for (int j = lane; j < d; j += 32) a.y.at(r)[n * d + j] = (x[j] - shift) * inverse;
  if (lane == 0) a.inverse.at(r)[n] = inverse;
}

template <class Real>
__global__ void __launch_bounds__(kThreads)
    normalize_backward(const __grid_constant__ NormalizeBackward<Real> a) {
  const std::int64_t n = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  const int r = blockIdx.y, d = a.y.columns(), lane = threadIdx.x % 32;
  if (n >= a.y.rows()) return;
  const Real* y = a.y.at(r) + n * d;
  const Real* d_y = a.d_y.at(r) + n * d;
  const Real inverse = a.inverse.at(r)[n];
  Real along = warp_dot(d_y, y, d), mean = 0;  // d_x = inverse (d_y - mean - y along)
  if (a.norm == RowNorm::layer) {
    for (int j = lane; j < d; j += 32) mean += d_y[j];
    mean = warp_sum(mean) / static_cast<Real>(d);
    along /= static_cast<Real>(d);
  }
  for (int j = lane; j < d; j += 32) {
    const Real projected = a.norm == RowNorm::sum ? along : y[j] * along;
    put(a.write_x, a.d_x.at(r) + n * d + j, inverse * (d_y[j] - mean - projected));
  }
}

}  // namespace

template <class Real>
void run_cuda(const Exec& exec, const NormalizeForward<Real>& a) {
  if (a.x.rows() == 0 || a.x.R == 0) return;
  normalize<<<dim3(blocks_for(a.x.rows(), kWarps), static_cast<unsigned>(a.x.R)), kThreads, 0,
              stream_of(exec)>>>(a);
  check_launch("normalize");
}

template <class Real>
void run_cuda(const Exec& exec, const NormalizeBackward<Real>& a) {
  if (a.write_x == Write::none || a.y.rows() == 0 || a.y.R == 0) return;
  normalize_backward<<<dim3(blocks_for(a.y.rows(), kWarps), static_cast<unsigned>(a.y.R)), kThreads, 0,
                       stream_of(exec)>>>(a);
  check_launch("normalize backward");
}

CROSSTALK_CUDA_OP(NormalizeForward)
CROSSTALK_CUDA_OP(NormalizeBackward)

}  // namespace crosstalk
