// Elementwise maps, and rows divided by their own denominator (a warp a row).
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/cuda_launch.cuh"
#include "kernels/elementwise/pointwise.h"

namespace crosstalk {
namespace {
using namespace device;

constexpr int kThreads = 256, kWarps = kThreads / 32;

__device__ std::int64_t element() { return static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; }
__device__ std::int64_t row() { return static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32; }

template <class Real>
__global__ void __launch_bounds__(kThreads) pointwise(const __grid_constant__ Pointwise<Real> a) {
  const std::int64_t i = element();
  if (i >= a.x.value.size()) return;
  const Real scale = static_cast<Real>(a.scale), shift = static_cast<Real>(a.shift),
             x = a.x.value.at(blockIdx.y)[i];
  a.y.value.at(blockIdx.y)[i] = a.map == PointMap::sigmoid ? scale / (1 + exp(-x)) : scale * x + shift;
}

template <class Real>
__global__ void __launch_bounds__(kThreads) pointwise_backward(const __grid_constant__ Pointwise<Real> a) {
  const std::int64_t i = element();
  const int r = blockIdx.y;
  if (i >= a.y.gradient.size()) return;
  const Real scale = static_cast<Real>(a.scale);
  Real slope = scale;
  if (a.map == PointMap::sigmoid) {
    const Real y = a.y.value.at(r)[i];
    slope = y * (1 - y / scale);
  }
  put(a.x.write, a.x.gradient.at(r) + i, a.y.gradient.at(r)[i] * slope);
}

template <class Real>
__global__ void __launch_bounds__(kThreads) erase_ratio(const __grid_constant__ EraseRatio<Real> a) {
  const std::int64_t i = element();
  const int r = blockIdx.y;
  if (i >= a.y.value.size()) return;
  const Real b = a.b.value.at(r)[i];
  a.y.value.at(r)[i] = i % a.y.value.columns() == 0 || b == 0 ? Real(0) : a.a.value.at(r)[i] / b;
}

template <class Real>
__global__ void __launch_bounds__(kThreads) erase_ratio_backward(const __grid_constant__ EraseRatio<Real> a) {
  const std::int64_t i = element();
  const int r = blockIdx.y;
  if (i >= a.y.value.size()) return;
  const Real b = a.b.value.at(r)[i];
  const Real d_a = i % a.y.value.columns() == 0 || b == 0 ? Real(0) : a.y.gradient.at(r)[i] / b;
  if (a.a.write != Write::none) put(a.a.write, a.a.gradient.at(r) + i, d_a);
  if (a.b.write != Write::none) put(a.b.write, a.b.gradient.at(r) + i, -d_a * a.y.value.at(r)[i]);
}

template <class Real>
__global__ void __launch_bounds__(kThreads) row_divide(const __grid_constant__ RowDivide<Real> a) {
  const std::int64_t n = row();
  const int r = blockIdx.y, d = a.y.value.columns();
  if (n >= a.y.value.rows()) return;
  const Real inverse = 1 / (a.b.value.at(r)[n] + static_cast<Real>(a.eps));
  for (int j = threadIdx.x % 32; j < d; j += 32)
    a.y.value.at(r)[n * d + j] = a.a.value.at(r)[n * d + j] * inverse;
}

template <class Real>
__global__ void __launch_bounds__(kThreads) row_divide_backward(const __grid_constant__ RowDivide<Real> a) {
  const std::int64_t n = row();
  const int r = blockIdx.y, d = a.y.gradient.columns();
  if (n >= a.y.gradient.rows()) return;
  const Real inverse = 1 / (a.b.value.at(r)[n] + static_cast<Real>(a.eps));
  const Real* d_y = a.y.gradient.at(r) + n * d;
  if (a.b.write != Write::none) {
    const Real along = warp_dot(d_y, a.y.value.at(r) + n * d, d);
    if (threadIdx.x % 32 == 0) put(a.b.write, a.b.gradient.at(r) + n, -inverse * along);
  }
  if (a.a.write == Write::none) return;
  for (int j = threadIdx.x % 32; j < d; j += 32)
    put(a.a.write, a.a.gradient.at(r) + n * d + j, d_y[j] * inverse);
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
void forward_cuda(const Exec& exec, const Pointwise<Real>& a) {
  over(exec, "pointwise", pointwise<Real>, a, a.x.value.size(), kThreads, a.x.value.R);
}

template <class Real>
void backward_cuda(const Exec& exec, const Pointwise<Real>& a) {
  if (a.x.write == Write::none) return;
  over(exec, "pointwise backward", pointwise_backward<Real>, a, a.y.gradient.size(), kThreads,
       a.y.gradient.R);
}

template <class Real>
void forward_cuda(const Exec& exec, const EraseRatio<Real>& a) {
  over(exec, "erase ratio", erase_ratio<Real>, a, a.y.value.size(), kThreads, a.y.value.R);
}

template <class Real>
void backward_cuda(const Exec& exec, const EraseRatio<Real>& a) {
  if (a.a.write == Write::none && a.b.write == Write::none) return;
  over(exec, "erase ratio backward", erase_ratio_backward<Real>, a, a.y.value.size(), kThreads, a.y.value.R);
}

template <class Real>
void forward_cuda(const Exec& exec, const RowDivide<Real>& a) {
  over(exec, "row divide", row_divide<Real>, a, a.y.value.rows(), kWarps, a.y.value.R);
}

template <class Real>
void backward_cuda(const Exec& exec, const RowDivide<Real>& a) {
  if (a.a.write == Write::none && a.b.write == Write::none) return;
  over(exec, "row divide backward", row_divide_backward<Real>, a, a.y.gradient.rows(), kWarps,
       a.y.gradient.R);
}

CROSSTALK_INSTANTIATE(cuda, Pointwise)
CROSSTALK_INSTANTIATE(cuda, EraseRatio)
CROSSTALK_INSTANTIATE(cuda, RowDivide)

}  // namespace crosstalk
