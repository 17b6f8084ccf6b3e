// A thread a number; gradients of weights by pieces of the tokens, which are added up in their order.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/cuda_launch.cuh"
#include "kernels/conv/gated_conv.h"

namespace crosstalk {
namespace {
using namespace device;

constexpr int kThreads = 256, kChannels = 32, kRows = 8, kWeights = 4, kAddRows = 16;

template <class Real, bool kBackward>
__global__ void __launch_bounds__(kThreads) convolve(const __grid_constant__ GatedConv<Real> op) {
  const std::int64_t n = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const int r = blockIdx.y;
  if (n >= op.y.value.size()) return;
  if constexpr (kBackward) {
    if (op.x.wanted()) put(op.x.write, op.x.gradient.at(r) + n, op.d_x(r, n));
    if (op.gate.wanted())
      put(op.gate.write, op.gate.gradient.at(r) + n, op.y.gradient.at(r)[n] * op.conv(r, n));
  } else {
    op.y.value.at(r)[n] = op.conv(r, n) * op.gate.value.at(r)[n] + op.x.value.at(r)[n];
  }
}

/// kWeights weights of 32 channels over one piece of the tokens: a lane a channel, warps take tokens in turn.
template <class Real>
__global__ void __launch_bounds__(kChannels* kRows)
    piece_weights(const __grid_constant__ GatedConv<Real> op, int piece, int chunks) {
  __shared__ Real sums[kRows][kWeights][kChannels];
  const int r = blockIdx.z, C = op.C(), W = op.W(), lane = threadIdx.x % kChannels,
            warp = threadIdx.x / kChannels;
  const int c = static_cast<int>(blockIdx.y) / chunks * kChannels + lane,
            first = static_cast<int>(blockIdx.y) % chunks * kWeights;
  const int tokens = op.y.value.dim(0) * op.T(), begin = static_cast<int>(blockIdx.x) * piece,
            end = min(tokens, begin + piece);
  Real sum[kWeights] = {};
  if (c < C) {
    for (int token = begin + warp; token < end; token += kRows) {
#pragma unroll
      for (int e = 0; e < kWeights; ++e) {
        if (first + e <= W) sum[e] += op.d_weight(r, static_cast<std::int64_t>(token) * C + c, first + e);
      }
    }
  }
#pragma unroll
  for (int e = 0; e < kWeights; ++e) sums[warp][e][lane] = sum[e];
  __syncthreads();
  if (warp >= kWeights || c >= C || first + warp > W) return;
  Real total = 0;
#pragma unroll
  for (int i = 0; i < kRows; ++i) total += sums[i][warp][lane];
  op.part.value.at(r)[(static_cast<std::int64_t>(blockIdx.x) * C + c) * (W + 1) + first + warp] = total;
}

template <class Real>
__global__ void __launch_bounds__(kChannels* kAddRows)
    add_pieces(const __grid_constant__ GatedConv<Real> op, int pieces) {
  __shared__ Real sums[kAddRows][kChannels];
  const int r = blockIdx.y, W = op.W(), size = op.C() * (W + 1), row = threadIdx.x / kChannels,
            column = threadIdx.x % kChannels, at = static_cast<int>(blockIdx.x) * kChannels + column;
  Real sum = 0;
  if (at < size) {
    for (int p = row; p < pieces; p += kAddRows)
      sum += op.part.value.at(r)[static_cast<std::int64_t>(p) * size + at];
  }
  sums[row][column] = sum;
  __syncthreads();
  if (row > 0 || at >= size) return;
  for (int i = 1; i < kAddRows; ++i) sum += sums[i][column];
  const int c = at / (W + 1), e = at % (W + 1);
  if (e < W && op.w.wanted()) put(op.w.write, op.w.gradient.at(r) + c * W + e, sum);
  if (e == W && op.bias.wanted()) put(op.bias.write, op.bias.gradient.at(r) + c, sum);
}

template <class Real, bool kBackward>
void launch(const Exec& exec, const GatedConv<Real>& op) {
  convolve<Real, kBackward>
      <<<dim3(blocks_for(op.y.value.size(), kThreads), static_cast<unsigned>(op.y.value.R)), kThreads, 0,
         stream_of(exec)>>>(op);
  check_launch("gated_conv");
}

template <class Real>
bool empty(const GatedConv<Real>& op) {
  return op.y.value.size() == 0 || op.y.value.R == 0;
}

}  // namespace

template <class Real>
void forward_cuda(const Exec& exec, const GatedConv<Real>& op) {
  if (!empty(op)) launch<Real, false>(exec, op);
}

template <class Real>
void backward_cuda(const Exec& exec, const GatedConv<Real>& op) {
  if (empty(op)) return;
  if (op.x.wanted() || op.gate.wanted()) launch<Real, true>(exec, op);
  if (!op.w.wanted() && !op.bias.wanted()) return;
  const int tokens = op.y.value.dim(0) * op.T(), piece = GatedConv<Real>::piece(tokens),
            pieces = GatedConv<Real>::pieces(tokens), chunks = (op.W() + kWeights) / kWeights;
  const unsigned R = static_cast<unsigned>(op.y.value.R);
  piece_weights<Real><<<dim3(static_cast<unsigned>(pieces),
                             blocks_for(op.C(), kChannels) * static_cast<unsigned>(chunks), R),
                        kChannels * kRows, 0, stream_of(exec)>>>(op, piece, chunks);
  check_launch("gated_conv backward (pieces)");
  add_pieces<Real>
      <<<dim3(blocks_for(op.C() * (op.W() + 1), kChannels), R), kChannels * kAddRows, 0, stream_of(exec)>>>(
          op, pieces);
  check_launch("gated_conv backward (weights)");
}

CROSSTALK_INSTANTIATE(cuda, GatedConv)

}  // namespace crosstalk
