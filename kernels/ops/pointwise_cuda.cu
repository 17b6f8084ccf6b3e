// Elementwise maps, and rows divided by their own denominator (a warp a row).
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/cuda_launch.cuh"
#include "kernels/ops/pointwise.h"

namespace crosstalk {
namespace {
using namespace device;

constexpr int kThreads = 256, kWarps = kThreads / 32;

__device__ std::int64_t element() { return static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; }
__device__ std::int64_t row() { return static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32; }

template <class Real>
__global__ void __launch_bounds__(kThreads) pointwise(const __grid_constant__ PointwiseForward<Real> a) {
  const std::int64_t i = element();
  if (i >= a.x.size()) return;
  const Real scale = static_cast<Real>(a.scale), shift = static_cast<Real>(a.shift),
             x = a.x.at(blockIdx.y)[i];
  a.y.at(blockIdx.y)[i] = a.map == PointMap::sigmoid ? scale / (1 + exp(-x)) : scale * x + shift;
}

template <class Real>
__global__ void __launch_bounds__(kThreads)
    pointwise_backward(const __grid_constant__ PointwiseBackward<Real> a) {
  const std::int64_t i = element();
  const int r = blockIdx.y;
  if (i >= a.d_y.size()) return;
  const Real scale = static_cast<Real>(a.scale);
  Real slope = scale;
  if (a.map == PointMap::sigmoid) {
    const Real y = a.y.at(r)[i];
    slope = y * (1 - y / scale);
  }
  put(a.write_x, a.d_x.at(r) + i, a.d_y.at(r)[i] * slope);
}

template <class Real>
__global__ void __launch_bounds__(kThreads) erase_ratio(const __grid_constant__ EraseRatioForward<Real> a) {
  const std::int64_t i = element();
  const int r = blockIdx.y;
  if (i >= a.y.size()) return;
  const Real b = a.b.at(r)[i];
  a.y.at(r)[i] = i % a.y.columns() == 0 || b == 0 ? Real(0) : a.a.at(r)[i] / b;
}

template <class Real>
__global__ void __launch_bounds__(kThreads)
    erase_ratio_backward(const __grid_constant__ EraseRatioBackward<Real> a) {
  const std::int64_t i = element();
  const int r = blockIdx.y;
  if (i >= a.y.size()) return;
  const Real b = a.b.at(r)[i];
  const Real d_a = i % a.y.columns() == 0 || b == 0 ? Real(0) : a.d_y.at(r)[i] / b;
  if (a.write_a != Write::none) put(a.write_a, a.d_a.at(r) + i, d_a);
  if (a.write_b != Write::none) put(a.write_b, a.d_b.at(r) + i, -d_a * a.y.at(r)[i]);
}

template <class Real>
__global__ void __launch_bounds__(kThreads) row_divide(const __grid_constant__ RowDivideForward<Real> a) {
  const std::int64_t n = row();
  const int r = blockIdx.y, d = a.y.columns();
  if (n >= a.y.rows()) return;
  const Real inverse = 1 / (a.b.at(r)[n] + static_cast<Real>(a.eps));
  for (int j = threadIdx.x % 32; j < d; j += 32) a.y.at(r)[n * d + j] = a.a.at(r)[n * d + j] * inverse;
}

template <class Real>
__global__ void __launch_bounds__(kThreads)
    row_divide_backward(const __grid_constant__ RowDivideBackward<Real> a) {
  const std::int64_t n = row();
  const int r = blockIdx.y, d = a.d_y.columns();
  if (n >= a.d_y.rows()) return;
  const Real inverse = 1 / (a.b.at(r)[n] + static_cast<Real>(a.eps));
  const Real* d_y = a.d_y.at(r) + n * d;
  if (a.write_b != Write::none) {
    const Real along = warp_dot(d_y, a.y.at(r) + n * d, d);
    if (threadIdx.x % 32 == 0) put(a.write_b, a.d_b.at(r) + n, -inverse * along);
  }
  if (a.write_a == Write::none) return;
  for (int j = threadIdx.x % 32; j < d; j += 32) put(a.write_a, a.d_a.at(r) + n * d + j, d_y[j] * inverse);
}

// Launches `kernel` over n elements or rows of R replicas.
template <class Args>
void over(const Exec& exec, const char* name, void (*kernel)(Args), const Args& a, std::int64_t n,
          int per_block, int R) {
  if (n == 0 || R == 0) return;
  kernel<<<dim3(blocks_for(n, per_block), static_cast<unsigned>(R)), kThreads, 0, stream_of(exec)>>>(a);
  check_launch(name);
}

}  // namespace

template <class Real>
void run_cuda(const Exec& exec, const PointwiseForward<Real>& a) {
  over(exec, "pointwise", pointwise<Real>, a, a.x.size(), kThreads, a.x.R);
}

template <class Real>
void run_cuda(const Exec& exec, const PointwiseBackward<Real>& a) {
  if (a.write_x == Write::none) return;
  over(exec, "pointwise backward", pointwise_backward<Real>, a, a.d_y.size(), kThreads, a.d_y.R);
}

template <class Real>
void run_cuda(const Exec& exec, const EraseRatioForward<Real>& a) {
  over(exec, "erase ratio", erase_ratio<Real>, a, a.y.size(), kThreads, a.y.R);
}

template <class Real>
void run_cuda(const Exec& exec, const EraseRatioBackward<Real>& a) {
  if (a.write_a == Write::none && a.write_b == Write::none) return;
  over(exec, "erase ratio backward", erase_ratio_backward<Real>, a, a.y.size(), kThreads, a.y.R);
}

template <class Real>
void run_cuda(const Exec& exec, const RowDivideForward<Real>& a) {
  over(exec, "row divide", row_divide<Real>, a, a.y.rows(), kWarps, a.y.R);
}

template <class Real>
void run_cuda(const Exec& exec, const RowDivideBackward<Real>& a) {
  if (a.write_a == Write::none && a.write_b == Write::none) return;
  over(exec, "row divide backward", row_divide_backward<Real>, a, a.d_y.rows(), kWarps, a.d_y.R);
}

CROSSTALK_CUDA_OP(PointwiseForward)
CROSSTALK_CUDA_OP(PointwiseBackward)
CROSSTALK_CUDA_OP(EraseRatioForward)
CROSSTALK_CUDA_OP(EraseRatioBackward)
CROSSTALK_CUDA_OP(RowDivideForward)
CROSSTALK_CUDA_OP(RowDivideBackward)

}  // namespace crosstalk
