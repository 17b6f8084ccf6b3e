// Normalisation of rows: a warp a row.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/cuda_launch.cuh"
#include "kernels/ops/normalize.h"

namespace crosstalk {
namespace {
using namespace device;

constexpr int kThreads = 256, kWarps = kThreads / 32;

// A lane's entries of a row: in registers where N suffices (they are then read once, all at the same time),
// else read again.
template <class Real, int N>
struct Row {
  const Real* x;
  int d;
  Real held[N > 0 ? N : 1];
  __device__ Row(const Real* x_, int d_) : x(x_), d(d_) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const int j = static_cast<int>(threadIdx.x) % 32 + 32 * i;
      held[i] = j < d ? x[j] : Real(0);
    }
  }
};

// f(j, i) for every entry j of this lane, its i-th.
template <int N, class F>
__device__ __forceinline__ void for_entries(int d, F&& f) {
  const int lane = threadIdx.x % 32;
  if constexpr (N > 0) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      if (lane + 32 * i < d) f(lane + 32 * i, i);
    }
  } else {
    for (int j = lane; j < d; j += 32) f(j, 0);
  }
}

template <class Real, int N>
__global__ void __launch_bounds__(kThreads) normalize(const __grid_constant__ Normalize<Real> a) {
  const std::int64_t n = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  const int r = blockIdx.y, d = a.x.value.columns(), lane = threadIdx.x % 32;
  if (n >= a.x.value.rows()) return;
  const Row<Real, N> row(a.x.value.at(r) + n * d, d);
  const auto x = [&](int j, int i) { return N > 0 ? row.held[i] : row.x[j]; };
  const Real eps = static_cast<Real>(a.eps);
  Real shift = 0, total = 0;
  if (a.norm == RowNorm::sum || a.norm == RowNorm::layer) {
    for_entries<N>(d, [&](int j, int i) { total += x(j, i); });
    total = warp_sum(total);
  }
  Real inverse = 0;
  if (a.norm == RowNorm::sum) {
    inverse = 1 / (total + eps);
  } else {
    if (a.norm == RowNorm::layer) shift = total / static_cast<Real>(d);
    Real squares = 0;
    for_entries<N>(d, [&](int j, int i) { squares += (x(j, i) - shift) * (x(j, i) - shift); });
    squares = warp_sum(squares);
    inverse = 1 / sqrt((a.norm == RowNorm::l2 ? squares : squares / static_cast<Real>(d)) + eps);
  }
  Real* y = a.y.value.at(r) + n * d;
  for_entries<N>(d, [&](int j, int i) { y[j] = (x(j, i) - shift) * inverse; });
  if (lane == 0) a.inverse.value.at(r)[n] = inverse;
}

template <class Real, int N>
__global__ void __launch_bounds__(kThreads) normalize_backward(const __grid_constant__ Normalize<Real> a) {
  const std::int64_t n = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  const int r = blockIdx.y, d = a.y.value.columns();
  if (n >= a.y.value.rows()) return;
  const Real inverse = a.inverse.value.at(r)[n];
  const Row<Real, N> y_row(a.y.value.at(r) + n * d, d), d_y_row(a.y.gradient.at(r) + n * d, d);
  const auto y = [&](int j, int i) { return N > 0 ? y_row.held[i] : y_row.x[j]; };
  const auto d_y = [&](int j, int i) { return N > 0 ? d_y_row.held[i] : d_y_row.x[j]; };
  Real along = 0, mean = 0;  // d_x = inverse (d_y - mean - y along)
  for_entries<N>(d, [&](int j, int i) { along += d_y(j, i) * y(j, i); });
  along = warp_sum(along);
  if (a.norm == RowNorm::layer) {
    for_entries<N>(d, [&](int j, int i) { mean += d_y(j, i); });
    mean = warp_sum(mean) / static_cast<Real>(d);
  }
  if (a.norm == RowNorm::layer || a.norm == RowNorm::rms) along /= static_cast<Real>(d);
  Real* d_x = a.x.gradient.at(r) + n * d;
  for_entries<N>(d, [&](int j, int i) {
    const Real projected = a.norm == RowNorm::sum ? along : y(j, i) * along;
    put(a.x.write, d_x + j, inverse * (d_y(j, i) - mean - projected));
  });
}

}  // namespace

template <class Real>
void forward_cuda(const Exec& exec, const Normalize<Real>& a) {
  if (a.x.value.rows() == 0 || a.x.value.R == 0) return;
  const int d = a.x.value.columns();
  const auto kernel = d <= 128 ? normalize<Real, 4> : d <= 512 ? normalize<Real, 16> : normalize<Real, 0>;
  kernel<<<dim3(blocks_for(a.x.value.rows(), kWarps), static_cast<unsigned>(a.x.value.R)), kThreads, 0,
           stream_of(exec)>>>(a);
  check_launch("normalize");
}

template <class Real>
void backward_cuda(const Exec& exec, const Normalize<Real>& a) {
  if (a.x.write == Write::none || a.y.value.rows() == 0 || a.y.value.R == 0) return;
  const int d = a.y.value.columns();
  const auto kernel = d <= 128   ? normalize_backward<Real, 4>
                      : d <= 512 ? normalize_backward<Real, 16>
                                 : normalize_backward<Real, 0>;
  kernel<<<dim3(blocks_for(a.y.value.rows(), kWarps), static_cast<unsigned>(a.y.value.R)), kThreads, 0,
           stream_of(exec)>>>(a);
  check_launch("normalize backward");
}

CROSSTALK_INSTANTIATE(cuda, Normalize)

}  // namespace crosstalk
