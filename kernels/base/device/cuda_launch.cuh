// Shared by the CUDA ops: launch checks, sums in a fixed order, guarded loads.
//
// A sum's order may depend on the shape of one replica, never on R, on the grid or on the GPU: a replica has
// the same bits whoever its neighbours are.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/base/device/cuda_runtime.h"
#include "kernels/base/exec.h"
#include "kernels/base/put.h"
#include "kernels/base/tensor.h"

namespace crosstalk::device {

constexpr unsigned kFullWarp = 0xffffffffu;

/// Throws DeviceError, naming the op, if its launch failed. Does not wait for the kernel.
void check_launch(const char* op);
/// Throws ShapeError for a shape that a kernel does not cover.
[[noreturn]] void refuse_shape(const char* op, const char* dimension, int size, int largest);

/// Lets `kernel` use more than 48 KiB of dynamic shared memory. Always up to the device's limit: the
/// permission belongs to the kernel, not to a launch, and a smaller one asked for elsewhere would take this
/// one back.
void allow_shared_memory(auto kernel, std::size_t bytes) {
  if (bytes > 48 * 1024) {
    cudaFuncAttributes attributes;
    if (cudaFuncGetAttributes(&attributes, kernel) != cudaSuccess) return;  // the launch will say so
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                         static_cast<int>(shared_memory_limit() - attributes.sharedSizeBytes));
  }
}

inline cudaStream_t stream_of(const Exec& exec) { return static_cast<cudaStream_t>(exec.stream); }

inline unsigned blocks_for(std::int64_t n, std::int64_t per_block) {
  return static_cast<unsigned>((n + per_block - 1) / per_block);
}
/// A grid of so many blocks for each of R replicas, which stand along y.
inline dim3 per_replica(std::int64_t blocks, int R) {
  return {static_cast<unsigned>(blocks), static_cast<unsigned>(R)};
}

/// Launches kernel<<<grid, threads, bytes of shared memory>>>(args...) with an attribute or, {}, none; an empty grid not at all.
/// Throws DeviceError, naming the op, if that fails.
template <class... Parameters, class... Args>
void launch_with(cudaLaunchAttribute attribute, const Exec& exec, const char* op,
                 void (*kernel)(Parameters...), dim3 grid, int threads, std::size_t bytes,
                 const Args&... args) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  allow_shared_memory(kernel, bytes);
  cudaLaunchConfig_t config{};
  config.gridDim = grid, config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = bytes, config.stream = stream_of(exec);
  config.attrs = &attribute, config.numAttrs = attribute.id == cudaLaunchAttributeIgnore ? 0 : 1;
  cudaLaunchKernelEx(&config, kernel, args...);
  check_launch(op);
}
template <class... Parameters, class... Args>
void launch(const Exec& exec, const char* op, void (*kernel)(Parameters...), dim3 grid, int threads,
            std::size_t bytes, const Args&... args) {
  launch_with({}, exec, op, kernel, grid, threads, bytes, args...);
}

/// f of the first of some numbers that n is not beyond, or else of the last, as a std::integral_constant.
template <auto first, auto... others>
auto with_least(auto n, auto&& f) {
  if constexpr (sizeof...(others) > 0)
    if (n > first) return with_least<others...>(n, f);
  return f(std::integral_constant<decltype(first), first>());
}
/// f of x, which is one of some values, as a std::integral_constant.
template <auto first, auto... others>
auto with_value(auto x, auto&& f) {
  if constexpr (sizeof...(others) > 0)
    if (x != first) return with_value<others...>(x, f);
  return f(std::integral_constant<decltype(first), first>());
}

/// Sum over the warp, the same bits in every lane (a butterfly adds equal pairs).
template <class Real>
CT_DEVICE Real warp_sum(Real x) {
  CT_UNROLL(int offset = 16; offset > 0; offset /= 2) x += __shfl_xor_sync(kFullWarp, x, offset);
  return x;
}

/// Reduce-scatter of N (a power of two) numbers over lanes at distances kOffset, kOffset/2, .. kLast, the whole warp by
/// default: lane l of L such lanes ends with its N/L sums in x[0 .. N/L), or, if N < L, with sum l N/L in x[0]. Fewer
/// exchanges than N butterflies: each step halves the numbers of a lane.
template <int N, int kOffset = 16, int kLast = 1, class Real>
CT_DEVICE void scatter_sum(Real* x) {
  if constexpr (kOffset >= kLast && N > 1) {
    const bool upper = threadIdx.x & kOffset;
    CT_FOR(i, N / 2) {
      const Real send = upper ? x[i] : x[i + N / 2], keep = upper ? x[i + N / 2] : x[i];
      x[i] = keep + __shfl_xor_sync(kFullWarp, send, kOffset);
    }
    scatter_sum<N / 2, kOffset / 2, kLast>(x);
  } else if constexpr (kOffset >= kLast) {
    x[0] += __shfl_xor_sync(kFullWarp, x[0], kOffset);
    scatter_sum<1, kOffset / 2, kLast>(x);
  }
}

template <class Real>
CT_DEVICE Real warp_max(Real x) {
  CT_UNROLL(int offset = 16; offset > 0; offset /= 2) {
    const Real other = __shfl_xor_sync(kFullWarp, x, offset);
    x = other > x ? other : x;
  }
  return x;
}

/// x . y over one warp, 32 partial sums.
template <class Real>
CT_DEVICE Real warp_dot(const Real* x, const Real* y, int n) {
  Real sum = 0;
  for (int i = threadIdx.x % 32; i < n; i += 32) sum += x[i] * y[i];
  return warp_sum(sum);
}

/// Four neighbours, moved as one access where alignment allows.
template <class Real>
struct alignas(16) Four {
  Real v[4];
};

CT_DEVICE bool is_aligned16(const auto* p) { return reinterpret_cast<std::uintptr_t>(p) % 16 == 0; }

/// Reads p[0..3]; entries at or beyond `valid` are 0.
template <class Real>
CT_DEVICE void load4(const Real* p, int valid, bool aligned, Real (&v)[4]) {
  if (valid >= 4 && aligned) {
    const Four<Real> four = *reinterpret_cast<const Four<Real>*>(p);
    CT_FOR(i, 4) v[i] = four.v[i];
  } else {
    CT_FOR(i, 4) v[i] = i < valid ? p[i] : Real(0);
  }
}

CT_DEVICE int clamped(int x, int largest) { return x < 0 ? 0 : x > largest ? largest : x; }

/// The smallest of position[0..Q) that is at least `from` (INT_MAX: none). All lanes of a warp must call it.
CT_DEVICE int next_position(const std::int32_t* position, int Q, int from) {
  int next = 0x7fffffff;
  for (int i = threadIdx.x % 32; i < Q; i += 32) {
    const int p = position[i];
    if (p >= from && p < next) next = p;
  }
  CT_UNROLL(int offset = 16; offset > 0; offset /= 2) {
    const int other = __shfl_xor_sync(kFullWarp, next, offset);
    next = other < next ? other : next;
  }
  return next;
}

}  // namespace crosstalk::device
