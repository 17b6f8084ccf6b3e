// LongConv with sixteen outputs of a channel in the registers of a thread: of 16 numbers of one side and a window of 31 of the other
// come 256 products.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/device/reduce.cuh"
#include "kernels/conv/long_conv.h"

namespace crosstalk {
namespace {
using namespace device;

constexpr int kTile = 16, kConvThreads = 128;

/// Sums 16 outputs: sum[i] += a_j w_{i-j}, w the window from -15 to 15 around a place.
template <class Real>
struct ConvTile {
  Real sum[kTile] = {}, low[kTile], high[kTile];  ///< w_{-15} .. w_0, w_1 .. w_16
  __device__ void fill(Real (&half)[kTile], auto&& w, int from) {
    CT_FOR(k, kTile) half[k] = w(from + k);
  }
  __device__ void add(auto&& a) {
    CT_FOR(j, kTile) {
      const Real x = a(j);
      CT_FOR(i, kTile) {
        const int k = i - j + kTile - 1;
        sum[i] += x * (k < kTile ? low[k] : high[k - kTile]);
      }
    }
  }
};

/// y_t = sum_s h_s x_{t-s}; kBack: of the reversed sequence, x the gradient of y and y that of x.
template <bool kBack, class Real>
__global__ void __launch_bounds__(kConvThreads) convolve_kernel(const __grid_constant__ LongConv<Real> op) {
  const int T = op.T(), C = op.C(), tiles = (T + kTile - 1) / kTile, r = static_cast<int>(blockIdx.y);
  const std::int64_t i = std::int64_t{blockIdx.x} * kConvThreads + threadIdx.x;
  if (i >= std::int64_t{op.B()} * tiles * C) return;
  const int c = static_cast<int>(i % C), first = static_cast<int>(i / C % tiles) * kTile;
  const std::int64_t start = i / C / tiles * T * C + c;
  const Real *x = (kBack ? op.y.gradient : op.x.value).at(r) + start, *h = op.h.value.at(r) + c;
  Real* y = (kBack ? op.x.gradient : op.y.value).at(r) + start;
  const auto place = [&](int t) { return std::int64_t{kBack ? T - 1 - t : t} * C; };
  const auto filter = [&](int s) { return s >= 0 && s < T ? h[std::int64_t{s} * C] : Real(0); };
  ConvTile<Real> tile;
  tile.fill(tile.high, filter, first + 1);
  for (int from = 0; from <= first; from += kTile) {
    tile.fill(tile.low, filter, first - from - kTile + 1);
    tile.add([&](int j) { return from + j < T ? x[place(from + j)] : Real(0); });
    CT_FOR(k, kTile) tile.high[k] = tile.low[k];
  }
  CT_FOR(k, kTile)
    if (first + k < T) put(kBack ? op.x.write : Write::overwrite, y + place(first + k), tile.sum[k]);
}

/// The gradient of h by the sequences of a part: that of h_s is the sum of dy_t x_{t-s}, s from the tile's last to its first.
template <class Real>
__global__ void __launch_bounds__(kConvThreads)
    filter_kernel(const __grid_constant__ LongConv<Real> op, int parts) {
  const int T = op.T(), C = op.C(), L = op.L(), tiles = (L + kTile - 1) / kTile,
            r = static_cast<int>(blockIdx.y);
  const std::int64_t i = std::int64_t{blockIdx.x} * kConvThreads + threadIdx.x;
  if (i >= std::int64_t{parts} * tiles * C) return;
  const int c = static_cast<int>(i % C), first = static_cast<int>(i / C % tiles) * kTile;
  const int part = static_cast<int>(i / C / tiles);
  ConvTile<Real> tile;
  for (int b = part; b < op.B(); b += parts) {
    const std::int64_t start = std::int64_t{b} * T * C + c;
    const Real *x = op.x.value.at(r) + start, *d_y = op.y.gradient.at(r) + start;
    const auto input = [&](int t) { return t >= 0 && t < T ? x[std::int64_t{t} * C] : Real(0); };
    tile.fill(tile.low, input, 1 - kTile);
    for (int from = first; from < T; from += kTile) {
      tile.fill(tile.high, input, from - first + 1);
      tile.add([&](int j) {
        const int t = from + kTile - 1 - j;
        return t < T ? d_y[std::int64_t{t} * C] : Real(0);
      });
      CT_FOR(k, kTile) tile.low[k] = tile.high[k];
    }
  }
  Real* to = op.parts.value.at(r) + std::int64_t{part} * L * C + c;
  CT_FOR(k, kTile) {
    const int s = first + kTile - 1 - k;
    if (s < L) to[std::int64_t{s} * C] = tile.sum[k];
  }
}

template <class Real>
void run(const Exec& exec, const LongConv<Real>& op, void (*kernel)(const LongConv<Real>)) {
  const std::int64_t threads = std::int64_t{op.B()} * ((op.T() + kTile - 1) / kTile) * op.C();
  launch(exec, "long_conv", kernel, per_replica(blocks_for(threads, kConvThreads), op.x.value.R),
         kConvThreads, 0, op);
}

}  // namespace

template <class Real>
void forward_cuda(const Exec& exec, const LongConv<Real>& op) {
  run(exec, op, convolve_kernel<false, Real>);
}
template <class Real>
void backward_cuda(const Exec& exec, const LongConv<Real>& op) {
  if (op.x.wanted()) run(exec, op, convolve_kernel<true, Real>);
  if (!op.h.wanted()) return;
  const int parts = op.parts.value.dim(0), R = op.x.value.R;
  const std::int64_t n = std::int64_t{op.L()} * op.C(), tiles = (op.L() + kTile - 1) / kTile;
  launch(exec, "long_conv backward", filter_kernel<Real>,
         per_replica(blocks_for(parts * tiles * op.C(), kConvThreads), R), kConvThreads, 0, op, parts);
  const Tensor<Real> from = op.parts.value;
  const In<Real> h = op.h;
  sum_pieces<Real, 128, 1>(
      exec, "long_conv backward", R, n, parts, n,
      [=] __device__(int r, std::int64_t i) { return from.at(r) + i; },
      [=] __device__(int r, std::int64_t i, Real sum) { put(h.write, h.gradient.at(r) + i, sum); });
}

CROSSTALK_INSTANTIATE(cuda, LongConv)

}  // namespace crosstalk
