// Short convolutions: a thread a token and channel; gradients of weights by pieces of the tokens, in order.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/cuda_launch.cuh"
#include "kernels/conv/short_conv.h"

namespace crosstalk {
namespace {
using namespace device;

constexpr int kThreads = 256, kWeightThreads = 64;

template <class Real, bool kBackward>
__global__ void __launch_bounds__(kThreads) convolve(const __grid_constant__ ShortConv<Real> op) {
  const std::int64_t n = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const int T = op.x.value.dim(1), C = op.x.value.dim(2), r = blockIdx.y;
  if (n >= static_cast<std::int64_t>(op.x.value.dim(0)) * T * C) return;
  const int c = static_cast<int>(n % C), t = static_cast<int>(n / C % T), b = static_cast<int>(n / C / T);
  const ConvChannel<Real> channel(op, r, b, c);
  if constexpr (kBackward) {
    put(op.x.write, op.x.gradient.at(r) + n, channel.d_x(t));
  } else {
    op.y.value.at(r)[n] = channel.y(t);
  }
}

/// d_w of one tap of one channel over one piece of the tokens.
template <class Real>
__global__ void __launch_bounds__(kWeightThreads)
    piece_weights(const __grid_constant__ ShortConv<Real> op, int piece) {
  const int T = op.x.value.dim(1), C = op.x.value.dim(2), W = op.w.value.dim(1), r = blockIdx.z;
  const int at = blockIdx.x * kWeightThreads + threadIdx.x;  // neighbours in a warp: channels of one tap
  if (at >= C * W) return;
  const int c = at % C, i = at / C;
  const int tokens = op.x.value.dim(0) * T, begin = blockIdx.y * piece;
  const int end = begin + piece < tokens ? begin + piece : tokens;
  Real sum = 0;
  for (int n = begin; n < end; ++n) {
    const int t = n % T;
    if (t < i) continue;
    const ConvChannel<Real> channel(op, r, n / T, c);
    sum += channel.d_u(t) * channel.x[channel.at(t - i)];
  }
  op.part.value.at(r)[(static_cast<std::int64_t>(blockIdx.y) * C + c) * W + W - 1 - i] = sum;
}

template <class Real>
__global__ void __launch_bounds__(kWeightThreads)
    add_pieces(const __grid_constant__ ShortConv<Real> op, int pieces) {
  const int size = op.w.value.dim(0) * op.w.value.dim(1), r = blockIdx.y;
  const int at = blockIdx.x * kWeightThreads + threadIdx.x;
  if (at >= size) return;
  Real sum = 0;
  for (int p = 0; p < pieces; ++p) sum += op.part.value.at(r)[static_cast<std::int64_t>(p) * size + at];
  put(op.w.write, op.w.gradient.at(r) + at, sum);
}

template <class Real, bool kBackward>
void launch(const Exec& exec, const ShortConv<Real>& op) {
  const Tensor<Real>& x = op.x.value;
  convolve<Real, kBackward>
      <<<dim3(blocks_for(x.size(), kThreads), static_cast<unsigned>(x.R)), kThreads, 0, stream_of(exec)>>>(
          op);
  check_launch("short_conv");
}

template <class Real>
bool empty(const ShortConv<Real>& op) {
  return op.x.value.size() == 0 || op.x.value.R == 0;
}

}  // namespace

template <class Real>
void forward_cuda(const Exec& exec, const ShortConv<Real>& op) {
  if (!empty(op)) launch<Real, false>(exec, op);
}

template <class Real>
void backward_cuda(const Exec& exec, const ShortConv<Real>& op) {
  if (empty(op)) return;
  if (op.x.wanted()) launch<Real, true>(exec, op);
  if (!op.w.wanted()) return;
  const int tokens = op.x.value.dim(0) * op.x.value.dim(1);
  const int piece = ShortConv<Real>::piece(tokens), pieces = ShortConv<Real>::pieces(tokens);
  const unsigned blocks = blocks_for(op.w.value.size(), kWeightThreads),
                 R = static_cast<unsigned>(op.x.value.R);
  piece_weights<Real>
      <<<dim3(blocks, static_cast<unsigned>(pieces), R), kWeightThreads, 0, stream_of(exec)>>>(op, piece);
  check_launch("short_conv backward (pieces)");
  add_pieces<Real><<<dim3(blocks, R), kWeightThreads, 0, stream_of(exec)>>>(op, pieces);
  check_launch("short_conv backward (weights)");
}

CROSSTALK_INSTANTIATE(cuda, ShortConv)

}  // namespace crosstalk
