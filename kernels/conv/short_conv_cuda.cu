// Short convolutions: of up to four taps by a walk (short_conv_walk.cuh), others a thread an element; gradients of
// weights by pieces of the tokens, added in their order.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/device/each.cuh"
#include "kernels/base/device/reduce.cuh"
#include "kernels/conv/short_conv.h"
#include "kernels/conv/short_conv_walk.cuh"

namespace crosstalk {
namespace {
using namespace device;

constexpr int kChannels = 32, kRows = 8, kWeights = 4;

/// kWeights weights of 32 channels over one piece of the tokens: a lane a channel, warps take tokens in turn.
template <class Real>
__global__ void __launch_bounds__(kChannels* kRows)
    piece_weights(const __grid_constant__ ShortConv<Real> op, int piece, int chunks) {
  __shared__ Real sums[kRows][kWeights][kChannels];
  const int r = blockIdx.z, C = op.C(), W = op.W(), lane = threadIdx.x % kChannels,
            warp = threadIdx.x / kChannels;
  const int c = static_cast<int>(blockIdx.y) / chunks * kChannels + lane,
            first = static_cast<int>(blockIdx.y) % chunks * kWeights;
  const int begin = static_cast<int>(blockIdx.x) * piece, end = min(op.tokens(), begin + piece);
  Real sum[kWeights] = {};
  if (c < C) {
    for (int token = begin + warp; token < end; token += kRows) {
      const std::int64_t n = std::int64_t{token} * C + c;
      const Real d_u = op.d_u(r, n);
      CT_FOR(e, kWeights)
        if (first + e <= W) sum[e] += d_u * op.factor(r, n, first + e);
    }
  }
  CT_FOR(e, kWeights) sums[warp][e][lane] = sum[e];
  __syncthreads();
  if (warp >= kWeights || c >= C || first + warp > W) return;
  Real total = 0;
  CT_FOR(i, kRows) total += sums[i][warp][lane];
  op.part.value.at(r)[(std::int64_t{blockIdx.x} * C + c) * (W + 1) + first + warp] = total;
}

template <class Real>
int piece_by_piece(const Exec& exec, const ShortConv<Real>& op) {
  const int tokens = op.tokens(), chunks = (op.W() + kWeights) / kWeights, pieces = op.pieces(tokens);
  const dim3 grid(static_cast<unsigned>(pieces),
                  blocks_for(op.C(), kChannels) * static_cast<unsigned>(chunks),
                  static_cast<unsigned>(op.x.value.R));
  launch(exec, "short_conv backward (pieces)", piece_weights<Real>, grid, kChannels * kRows, 0, op,
         op.piece(tokens), chunks);
  return pieces;
}

}  // namespace

template <class Real>
void forward_cuda(const Exec& exec, const ShortConv<Real>& op) {
  if (walks(op)) {
    walk<Real, false>(exec, op);
    return;
  }
  each(exec, "short_conv", op.x.value.R, op.x.value.size(),
       [=] __device__(int r, std::int64_t n) { op.y.value.at(r)[n] = op.output(r, n); });
}

template <class Real>
void backward_cuda(const Exec& exec, const ShortConv<Real>& op) {
  if (op.x.value.size() == 0 || op.x.value.R == 0) return;
  const bool walked = walks(op);
  int pieces = 0;
  if (walked) {
    if (op.x.wanted() || op.wants_weights()) pieces = walk<Real, true>(exec, op);
  } else if (op.x.wanted() || op.gate.wanted()) {
    each(exec, "short_conv backward", op.x.value.R, op.x.value.size(),
         [=] __device__(int r, std::int64_t n) { op.put_inputs(r, n); });
  }
  if (!op.wants_weights()) return;
  if (!walked) pieces = piece_by_piece(exec, op);
  const int entries = op.W() + 1;
  sum_pieces<Real, 32, 16>(
      exec, "short_conv backward (weights)", op.x.value.R, op.C() * entries, pieces, op.C() * entries,
      [=] __device__(int r, std::int64_t i) { return op.part.value.at(r) + i; },
      [=] __device__(int r, std::int64_t i, Real sum) {
        op.put_weight(r, static_cast<int>(i / entries), static_cast<int>(i % entries), sum);
      });
}

CROSSTALK_INSTANTIATE(cuda, ShortConv)

}  // namespace crosstalk
