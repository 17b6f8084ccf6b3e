// Normalisation of rows: a warp a row, or a few short ones.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/device/cuda_launch.cuh"
#include "kernels/norm/normalize.h"

namespace crosstalk {
namespace {
using namespace device;

constexpr int kThreads = 256, kWarps = kThreads / 32;

// A lane's entries of M rows from x on: in registers where N suffices (all are then under way at the same
// time), else read again.
template <class Real, int N, int M>
struct Rows {
  const Real* x;
  int d;
  Real held[M][N > 0 ? N : 1];
  __device__ Rows(const Real* x_, int d_, int rows) : x(x_), d(d_) {
    CT_FOR2(m, M, i, N) {
      const int j = CT_LANE + 32 * i;
      held[m][i] = m < rows && j < d ? x[m * d + j] : Real(0);
    }
  }
  __device__ Real at(int m, int j, int i) const { return N > 0 ? held[m][i] : x[m * d + j]; }
};

// f(j, i) for every entry j of this lane, its i-th.
template <int N, class F>
CT_DEVICE void for_entries(int d, F&& f) {
  const int lane = threadIdx.x % 32;
  if constexpr (N > 0) {
    CT_FOR(i, N)
      if (lane + 32 * i < d) f(lane + 32 * i, i);
  } else {
    for (int j = lane; j < d; j += 32) f(j, 0);
  }
}

// Rows of a warp: short ones go together, so that their loads and sums overlap.
template <int N>
constexpr int kRowsOf = N > 0 && N <= 4 ? 4 : 1;

// Row `row` of replica r, which a warp holds as its m-th.
template <int N, class Real, class X>
__device__ void softmax_row(const Normalize<Real>& a, const X& x, int m, bool there, int r,
                            std::int64_t row) {
  const int d = a.x.value.columns();
  Real top = -INFINITY, total = 0;
  for_entries<N>(d, [&](int j, int i) { top = max(top, x.at(m, j, i)); });
  top = warp_max(top);
  for_entries<N>(d, [&](int j, int i) { total += exp(x.at(m, j, i) - top); });
  const Real inverse = 1 / (warp_sum(total) + static_cast<Real>(a.eps));
  if (!there) return;
  Real* y = a.y.value.at(r) + row * d;
  for_entries<N>(d, [&](int j, int i) { y[j] = exp(x.at(m, j, i) - top) * inverse; });
  if (threadIdx.x % 32 == 0) a.inverse.value.at(r)[row] = inverse;
}

template <class Real, int N>
__global__ void __launch_bounds__(kThreads) normalize(const __grid_constant__ Normalize<Real> a) {
  constexpr int M = kRowsOf<N>;
  const std::int64_t n = (std::int64_t{blockIdx.x} * kWarps + threadIdx.x / 32) * M;
  const int r = blockIdx.y, d = a.x.value.columns(), lane = threadIdx.x % 32;
  const int rows = static_cast<int>(min(std::int64_t{M}, a.x.value.rows() - n));
  if (rows <= 0) return;
  const Rows<Real, N, M> x(a.x.value.at(r) + n * d, d, rows);
  const Real eps = static_cast<Real>(a.eps);
  CT_FOR(m, M) {
    if (a.norm == RowNorm::softmax) {
      softmax_row<N>(a, x, m, m < rows, r, n + m);
      continue;
    }
    Real shift = 0, total = 0;
    if (a.norm == RowNorm::sum || a.norm == RowNorm::layer) {
      for_entries<N>(d, [&](int j, int i) { total += x.at(m, j, i); });
      total = warp_sum(total);
    }
    Real inverse = 0;
    if (a.norm == RowNorm::sum) {
      inverse = 1 / (total + eps);
    } else {
      if (a.norm == RowNorm::layer) shift = total / static_cast<Real>(d);
      Real squares = 0;
      for_entries<N>(d, [&](int j, int i) { squares += (x.at(m, j, i) - shift) * (x.at(m, j, i) - shift); });
      squares = warp_sum(squares);
      squares = (a.norm == RowNorm::l2 ? squares : squares / static_cast<Real>(d)) + eps;
      inverse = a.norm == RowNorm::l2 && squares == 0 ? Real(0) : 1 / sqrt(squares);
    }
    if (m >= rows) break;
    Real* y = a.y.value.at(r) + (n + m) * d;
    for_entries<N>(d, [&](int j, int i) { y[j] = (x.at(m, j, i) - shift) * inverse; });
    if (lane == 0) a.inverse.value.at(r)[n + m] = inverse;
  }
}

template <class Real, int N>
__global__ void __launch_bounds__(kThreads) normalize_backward(const __grid_constant__ Normalize<Real> a) {
  constexpr int M = kRowsOf<N>;
  const std::int64_t n = (std::int64_t{blockIdx.x} * kWarps + threadIdx.x / 32) * M;
  const int r = blockIdx.y, d = a.y.value.columns();
  const int rows = static_cast<int>(min(std::int64_t{M}, a.y.value.rows() - n));
  if (rows <= 0) return;
  const Rows<Real, N, M> y(a.y.value.at(r) + n * d, d, rows), d_y(a.y.gradient.at(r) + n * d, d, rows);
  CT_FOR(m, M) {
    if (m >= rows) break;
    const Real inverse = a.inverse.value.at(r)[n + m];
    Real along = 0, mean = 0;  // d_x = inverse (d_y - mean - y along)
    for_entries<N>(d, [&](int j, int i) { along += d_y.at(m, j, i) * y.at(m, j, i); });
    along = warp_sum(along);
    if (a.norm == RowNorm::layer) {
      for_entries<N>(d, [&](int j, int i) { mean += d_y.at(m, j, i); });
      mean = warp_sum(mean) / static_cast<Real>(d);
    }
    if (a.norm == RowNorm::layer || a.norm == RowNorm::rms) along /= static_cast<Real>(d);
    Real* d_x = a.x.gradient.at(r) + (n + m) * d;
    for_entries<N>(d, [&](int j, int i) {
      const bool along_ones = a.norm == RowNorm::sum || a.norm == RowNorm::softmax;
      const Real projected = along_ones ? along : y.at(m, j, i) * along;
      const Real factor = a.norm == RowNorm::softmax ? y.at(m, j, i) : inverse;
      put(a.x.write, d_x + j, factor * (d_y.at(m, j, i) - mean - projected));
    });
  }
}

}  // namespace

template <class Real>
void forward_cuda(const Exec& exec, const Normalize<Real>& a) {
  const int d = a.x.value.columns();
  const auto kernel = d <= 128 ? normalize<Real, 4> : d <= 512 ? normalize<Real, 16> : normalize<Real, 0>;
  launch(exec, "normalize", kernel,
         per_replica(blocks_for(a.x.value.rows(), kWarps * (d <= 128 ? kRowsOf<4> : 1)), a.x.value.R),
         kThreads, 0, a);
}

template <class Real>
void backward_cuda(const Exec& exec, const Normalize<Real>& a) {
  if (a.x.write == Write::none) return;
  const int d = a.y.value.columns();
  const auto kernel = d <= 128   ? normalize_backward<Real, 4>
                      : d <= 512 ? normalize_backward<Real, 16>
                                 : normalize_backward<Real, 0>;
  launch(exec, "normalize backward", kernel,
         per_replica(blocks_for(a.y.value.rows(), kWarps * (d <= 128 ? kRowsOf<4> : 1)), a.y.value.R),
         kThreads, 0, a);
}

CROSSTALK_INSTANTIATE(cuda, Normalize)

}  // namespace crosstalk
