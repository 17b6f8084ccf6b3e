// Short convolutions of up to four taps without a gate: a thread walks 32 tokens of a channel and keeps the last
// inputs, and backward the last d_u, in registers, so that every number is read once and sigmoid(u) made once.
//
// d_u_t is wanted by d_x of the tokens t - 3 .. t: a thread walks three tokens more than are its own, and those
// of the next thread add nothing to its gradients of weights.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/base/device/cuda_launch.cuh"
#include "kernels/conv/short_conv.h"

namespace crosstalk::device {
namespace {

constexpr int kWalkTokens = 32, kWalkChannels = 32, kWalkWarps = 8, kMostTaps = 4;
constexpr int kAhead =
    7;  // tokens whose loads are on their way at once; five times that are 32 tokens and three

/// Cut of the tokens of all sequences: a unit is up to 32 tokens of a sequence, a piece so many units that the
/// op's `part` has room for all pieces.
struct WalkCut {
  int chunks, units, per_piece, pieces;
  template <class Real>
  explicit WalkCut(const ShortConv<Real>& op) {
    chunks = (op.T() + kWalkTokens - 1) / kWalkTokens, units = op.x.value.dim(0) * chunks;
    const int warps = kWalkWarps * op.pieces(op.tokens());
    per_piece = (units + warps - 1) / warps * kWalkWarps, pieces = (units + per_piece - 1) / per_piece;
  }
};

template <class Real, int kTaps, bool kBackward>
__global__ void __launch_bounds__(kWalkChannels* kWalkWarps)
    walk_tokens(const __grid_constant__ ShortConv<Real> op, const WalkCut cut) {
  const int lane = CT_THREAD % kWalkChannels, warp = CT_THREAD / kWalkChannels;
  const int T = op.T(), C = op.C(), r = static_cast<int>(blockIdx.z);
  const int c = static_cast<int>(blockIdx.y) * kWalkChannels + lane;
  Real own[kTaps] = {}, d_w[kTaps + 1] = {};  // own[i] is for the input i tokens ago
  Real bias = 0;
  if (c < C) {
    CT_FOR(i, kTaps) own[i] = op.w.value.at(r)[c * kTaps + kTaps - 1 - i];
    if (op.bias) bias = op.bias.value.at(r)[c];
  }
  const int first = static_cast<int>(blockIdx.x) * cut.per_piece,
            last = min(cut.units, first + cut.per_piece);
  for (int unit = first + warp; unit < last && c < C; unit += kWalkWarps) {
    const int begin = unit % cut.chunks * kWalkTokens, end = min(T, begin + kWalkTokens);
    const std::int64_t at = std::int64_t{unit / cut.chunks} * T * C + c;
    const Real* const x = op.x.value.at(r) + at;
    Real seen[kTaps], d[kTaps] = {};  // x_{t-i}, d_u_{t-i}
    CT_FOR(i, kTaps) seen[i] = begin > i ? x[std::int64_t{begin - 1 - i} * C] : Real(0);
    for (int t0 = begin; t0 < end + (kBackward ? kTaps - 1 : 0); t0 += kAhead) {
      Real next[kAhead], d_y[kAhead];
      CT_FOR(n, kAhead) {
        const bool there = t0 + n < (kBackward ? min(T, end + kTaps - 1) : end);
        next[n] = there ? x[std::int64_t{t0 + n} * C] : Real(0);
        if (kBackward) d_y[n] = there ? op.y.gradient.at(r)[at + std::int64_t{t0 + n} * C] : Real(0);
      }
      CT_FOR(n, kAhead) {
        const int t = t0 + n;
        CT_UNROLL(int i = kTaps - 1; i > 0; --i) seen[i] = seen[i - 1], d[i] = d[i - 1];
        seen[0] = next[n];
        Real u = bias;
        if (!kBackward || op.silu)
          CT_FOR(i, kTaps) u += own[i] * seen[i];
        if constexpr (!kBackward) {
          if (t < end) op.y.value.at(r)[at + std::int64_t{t} * C] = op.activated(u);
        } else {
          d[0] = op.silu ? d_y[n] * op.slope(u) : d_y[n];
          if (t < end) {
            CT_FOR(i, kTaps) d_w[kTaps - 1 - i] += d[0] * seen[i];
            d_w[kTaps] += d[0];
          }
          const int s = t - (kTaps - 1);
          if (op.x.wanted() && s >= begin && s < end) {
            Real d_x = 0;
            CT_FOR(i, kTaps) d_x += own[i] * d[kTaps - 1 - i];
            put(op.x.write, op.x.gradient.at(r) + at + std::int64_t{s} * C, d_x);
          }
        }
      }
    }
  }
  if constexpr (kBackward) {
    __shared__ Real sums[kWalkWarps][kTaps + 1][kWalkChannels];
    CT_UNROLL(int e = 0; e <= kTaps; ++e) sums[warp][e][lane] = d_w[e];
    __syncthreads();
    if (warp > kTaps || c >= C) return;
    Real total = 0;
    CT_FOR(i, kWalkWarps) total += sums[i][warp][lane];
    op.part.value.at(r)[(std::int64_t{blockIdx.x} * C + c) * (kTaps + 1) + warp] = total;
  }
}

/// Tells whether walk() takes this shape.
template <class Real>
bool walks(const ShortConv<Real>& op) {
  return op.W() <= kMostTaps && !op.gate;
}

/// Forward, or d_x and the pieces of d_w and d_bias, of which it returns the number.
template <class Real, bool kBackward>
int walk(const Exec& exec, const ShortConv<Real>& op) {
  const WalkCut cut(op);
  const dim3 grid(static_cast<unsigned>(cut.pieces), blocks_for(op.C(), kWalkChannels),
                  static_cast<unsigned>(op.x.value.R));
  using Kernel = void (*)(ShortConv<Real>, WalkCut);
  constexpr Kernel kKernels[kMostTaps] = {walk_tokens<Real, 1, kBackward>, walk_tokens<Real, 2, kBackward>,
                                          walk_tokens<Real, 3, kBackward>, walk_tokens<Real, 4, kBackward>};
  launch(exec, "short_conv", kKernels[op.W() - 1], grid, kWalkChannels * kWalkWarps, 0, op, cut);
  return cut.pieces;
}

}  // namespace
}  // namespace crosstalk::device
