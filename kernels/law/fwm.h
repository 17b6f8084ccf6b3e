// The fast weight memory of Schlag, Munkhdalai, Schmidhuber (2021), as the synthetic code of Schlag et al.
// (2021) has it:
//   S_1 = beta_1 v_1 k_1^T
//   S'  = S_{t-1} + beta_t (v_t - S_{t-1} k_t) k_t^T
//   S_t = S' / (relu(|S'|_F - 1) + 1)
// The rescaling makes it non-linear in S, so the state itself is formed. Values are one-hot (value ids).
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/base/buffer.h"
#include "kernels/base/op.h"

namespace crosstalk {

/// Steps between two kept states.
constexpr int kFwmSegment = 16;
constexpr int fwm_segments(int T) { return (T + kFwmSegment - 1) / kFwmSegment; }

/// Whether the chunked CUDA version (fwm_chunk.cuh) covers a shape; it wants `kept`, the generic CUDA version
/// (rescaled_walk.cuh) `workspace`, the CPU neither.
template <class Real>
constexpr bool fwm_chunked(Device device, int Q, int P, int V) {
  return device == Device::cuda && sizeof(Real) == sizeof(float) && Q == 1 && P % 4 == 0 && P <= 128 &&
         V <= 256;
}
/// States in `checkpoints`: the chunked version may walk few tokens at a time, the generic one has the state
/// that it works on behind the others.
constexpr int kFwmFew = 4;
template <class Real>
constexpr int fwm_states(Device device, int T, int Q, int P, int V) {
  return fwm_chunked<Real>(device, Q, P, V) ? (T + kFwmFew - 1) / kFwmFew
                                            : fwm_segments(T) + (device == Device::cuda ? 1 : 0);
}
/// Columns of `kept`.
template <class Real>
constexpr int fwm_kept(Device device, int Q, int P, int V) {
  return fwm_chunked<Real>(device, Q, P, V) ? (V + 3) / 4 * 4 + 4 : 0;
}
/// States in `workspace`.
template <class Real>
constexpr int fwm_workspace(Device device, int Q, int P, int V) {
  return device == Device::cpu || fwm_chunked<Real>(device, Q, P, V) ? 0 : kFwmSegment + 4;
}

template <class Real>
struct FwmRead {
  Device device = Device::cpu;  ///< what keeps what depends on it
  int values = 0;               ///< V
  In<Real> k;                   ///< [R,B,T,P]
  In<Real> q;                   ///< [R,B,Q,P]
  In<Real> beta;                ///< [R,B,T]
  Ids tokens;                   ///< int32 [R,B,T,C], value ids in channel 1; -1: zero value
  Ids position;                 ///< int32 [R,B,Q]
  Out<Real> y;                  ///< [R,B,Q,V]
  /// [R,B,fwm_states,V*P]: states before each segment that a query sees; never differentiated, like `kept`.
  Out<Real> checkpoints;
  /// [R,B,T,fwm_kept], which only CUDA fills: v - S k of each step and the inverse of its divisor, and how many tokens
  /// make a segment.
  Out<Real> kept;
  /// [R,B,fwm_workspace,V*P], for CUDA's backward pass: the states around the tokens of one segment, the gradient of
  /// the state, and two columns of it.
  Saved<Real> workspace;

  static constexpr const char* kName = "fwm_read";
  template <class F>
  void fields(F&& f) {
    f("k", k), f("q", q), f("beta", beta), f("tokens", tokens), f("position", position), f("y", y);
    f("checkpoints", checkpoints), f("kept", kept), f("workspace", workspace);
  }
  void plan() {
    const int B = k.value.dim(0), T = k.value.dim(1), P = k.value.columns(), Q = q.value.dim(1),
              R = k.value.R;
    y.value = shaped<Real>(R, {B, Q, values});
    checkpoints.value = shaped<Real>(R, {B, fwm_states<Real>(device, T, Q, P, values), values * P});
    kept.value = shaped<Real>(R, {B, T, fwm_kept<Real>(device, Q, P, values)});
    workspace.value = shaped<Real>(R, {B, fwm_workspace<Real>(device, Q, P, values), values * P});
  }
};
CROSSTALK_OP(FwmRead)

}  // namespace crosstalk
