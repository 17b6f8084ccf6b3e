// A team: the threads of one block that hold a vector of P numbers in registers and walk a sequence with it.
//
// W warps, E numbers a thread: number i of thread x is entry x + i * 32 W of the vector. Up to 256 numbers
// are one warp's, whose sums need no barrier. W and E follow from P alone.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <type_traits>

#include "kernels/base/device/cuda_launch.cuh"

namespace crosstalk::device {

template <class Real, int W_, int E_>
struct Team {
  static constexpr int W = W_, E = E_, kThreads = 32 * W;
  Real* shared = nullptr;  // [2][4][W], W > 1 only
  int phase = 0;

  __device__ static int entry(int i) { return static_cast<int>(threadIdx.x) + i * kThreads; }

  __device__ static void load(const Real* p, int P, Real (&x)[E]) {
#pragma unroll
    for (int i = 0; i < E; ++i) x[i] = entry(i) < P ? p[entry(i)] : Real(0);
  }
  __device__ static void store(Real* p, int P, const Real (&x)[E]) {
#pragma unroll
    for (int i = 0; i < E; ++i) {
      if (entry(i) < P) p[entry(i)] = x[i];
    }
  }
  /// This thread's share of x . y.
  __device__ static Real share(const Real (&x)[E], const Real (&y)[E]) {
    Real sum = 0;
#pragma unroll
    for (int i = 0; i < E; ++i) sum += x[i] * y[i];
    return sum;
  }
  /// Replaces each x[i] (i < N <= 4) by its sum over the team, the same bits in every thread.
  template <int N>
  __device__ void sum(Real (&x)[N]) {
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) {
#pragma unroll
      for (int i = 0; i < N; ++i) x[i] += __shfl_xor_sync(kFullWarp, x[i], offset);
    }
    if constexpr (W > 1) {  // two buffers in turn: one barrier a sum
      Real* buffer = shared + phase * 4 * W;
      phase ^= 1;
      if (threadIdx.x % 32 == 0) {
#pragma unroll
        for (int i = 0; i < N; ++i) buffer[i * W + threadIdx.x / 32] = x[i];
      }
      __syncthreads();
#pragma unroll
      for (int i = 0; i < N; ++i) {
        Real total = 0;
#pragma unroll
        for (int w = 0; w < W; ++w) total += buffer[i * W + w];
        x[i] = total;
      }
    }
  }
};

constexpr int kLargestTeam = 4096;

/// Calls f(warps, entries a thread), both std::integral_constant, for vectors of P numbers.
template <class F>
void with_team(const char* op, int P, F&& f) {
  using std::integral_constant;
  if (P <= 32) {
    f(integral_constant<int, 1>(), integral_constant<int, 1>());
  } else if (P <= 64) {
    f(integral_constant<int, 1>(), integral_constant<int, 2>());
  } else if (P <= 128) {
    f(integral_constant<int, 1>(), integral_constant<int, 4>());
  } else if (P <= 256) {
    f(integral_constant<int, 1>(), integral_constant<int, 8>());
  } else if (P <= 512) {
    f(integral_constant<int, 4>(), integral_constant<int, 4>());
  } else if (P <= 1024) {
    f(integral_constant<int, 4>(), integral_constant<int, 8>());
  } else if (P <= kLargestTeam) {
    f(integral_constant<int, 16>(), integral_constant<int, 8>());
  } else {
    refuse_shape(op, "d_dot", P, kLargestTeam);
  }
}

}  // namespace crosstalk::device
