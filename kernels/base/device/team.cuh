// A team: the threads of one block that hold a vector of P numbers in registers and walk a sequence with it.
//
// W warps, E numbers a thread: number i of thread x is entry x + i * 32 W of the vector. Up to 256 numbers
// are one warp's, whose sums need no barrier. W and E follow from P alone.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/base/device/cuda_launch.cuh"

namespace crosstalk::device {

template <class Real, int W_, int E_>
struct Team {
  static constexpr int W = W_, E = E_, kThreads = 32 * W;
  Real* shared = nullptr;  // [2][4][W], W > 1 only
  int phase = 0;

  __device__ static int entry(int i) { return CT_THREAD + i * kThreads; }

  __device__ static void load(const Real* p, int P, Real (&x)[E]) {
    CT_FOR(i, E) x[i] = entry(i) < P ? p[entry(i)] : Real(0);
  }
  __device__ static void store(Real* p, int P, const Real (&x)[E]) {
    CT_FOR(i, E)
      if (entry(i) < P) p[entry(i)] = x[i];
  }
  /// This thread's share of x . y.
  __device__ static Real share(const Real (&x)[E], const Real (&y)[E]) {
    Real sum = 0;
    CT_FOR(i, E) sum += x[i] * y[i];
    return sum;
  }
  /// Replaces each x[i] (i < N <= 4) by its sum over the team, the same bits in every thread.
  template <int N>
  __device__ void sum(Real (&x)[N]) {
    CT_UNROLL(int offset = 16; offset > 0; offset /= 2)
      CT_FOR(i, N) x[i] += __shfl_xor_sync(kFullWarp, x[i], offset);
    if constexpr (W > 1) {  // two buffers in turn: one barrier a sum
      Real* buffer = shared + phase * 4 * W;
      phase ^= 1;
      if (threadIdx.x % 32 == 0)
        CT_FOR(i, N) buffer[i * W + threadIdx.x / 32] = x[i];
      __syncthreads();
      CT_FOR(i, N) {
        Real total = 0;
        CT_FOR(w, W) total += buffer[i * W + w];
        x[i] = total;
      }
    }
  }
};

/// Calls f(warps, entries a thread), both std::integral_constant, of the first of some teams that holds P numbers.
template <int W, int E, int... others>
void with_teams(const char* op, const char* dimension, int P, auto&& f) {
  if (P <= 32 * W * E) return f(std::integral_constant<int, W>(), std::integral_constant<int, E>());
  if constexpr (sizeof...(others) > 0) return with_teams<others...>(op, dimension, P, f);
  refuse_shape(op, dimension, P, 32 * W * E);
}
constexpr int kLargestTeam = 4096;
void with_team(const char* op, int P, auto&& f) {
  with_teams<1, 1, 1, 2, 1, 4, 1, 8, 4, 4, 4, 8, 16, 8>(op, "d_dot", P, f);
}

}  // namespace crosstalk::device
