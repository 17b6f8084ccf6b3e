// CUDA kernels on the CPU, to see that they are right: included before all else of a .cu file that prepare.py has prepared and a C++
// compiler compiles. Threads of a block are fibers, blocks run one after another; a lane waits where its warp works together. Copies
// (cp.async) land when they are waited for. Not covered: clusters, wgmma, TMA and mbarriers, blocks that wait for each other.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <type_traits>

#include "kernels/testing/emulate/runtime.h"

#undef __shared__
#undef __global__
#undef __device__
#undef __constant__
#undef __launch_bounds__
#undef __grid_constant__
#undef __forceinline__
#undef __noinline__
#undef __align__
#define __shared__ static
#define __global__
#define __device__
#define __constant__ static
#define __launch_bounds__(...)
#define __grid_constant__
#define __forceinline__ inline
#define __noinline__
#define __align__(n) alignas(n)
#define EMULATE_GIVEN __attribute__((section("emulate_given")))
extern EMULATE_GIVEN uint3 threadIdx, blockIdx;
extern EMULATE_GIVEN dim3 blockDim, gridDim;

namespace emulate {

extern unsigned char dynamic_memory[];  ///< of shared memory, all bits set before a block begins

[[noreturn]] void unsupported(const char* what);

/// Runs every thread of the grid, to its end.
void run(dim3 grid, dim3 block, std::size_t bytes, const std::function<void()>& thread);

template <class... Parameters, class... Args>
cudaError_t launch(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...), const Args&... args) {
  if (config->numAttrs && config->attrs[0].id == cudaLaunchAttributeClusterDimension &&
      config->attrs[0].val.clusterDim.x > 1)
    unsupported("clusters");
  const dim3 grid = config->gridDim, block = config->blockDim;
  const std::size_t bytes = config->dynamicSmemBytes;
  now_or_recorded([=] { run(grid, block, bytes, [&] { kernel(static_cast<Parameters>(args)...); }); });
  return cudaSuccess;
}

/// Barrier `id` of `count` threads (0: of all that have not ended); true if `vote` is so for one of them, or `all` of them.
bool barrier(int id, unsigned count, bool vote = false, bool all = false);
void arrive(int id, unsigned count);

extern volatile bool atomic;  ///< accesses are part of an atomic operation

constexpr int kSlot = 64;
struct Slots {
  alignas(16) unsigned char in[32][kSlot], out[32][kSlot];
};
/// All lanes of `mask` meet, each with `in`; the last runs `compute` on them. What they handed over stays until they meet twice more.
/// Only where they hand over nothing (__syncwarp) is memory ordered, as CUDA has it.
Slots& meet(unsigned mask, const char* what, const void* in, std::size_t bytes,
            void (*compute)(Slots&) = nullptr);

inline int lane() {
  return static_cast<int>((threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32);
}
template <class T>
[[gnu::noinline, gnu::no_sanitize_thread]] T taken(const unsigned char* slot) {
  T x;
  std::memcpy(&x, slot, sizeof x);
  return x;
}
template <class T>
T shuffle(unsigned mask, T x, int from) {
  static_assert(sizeof(T) <= kSlot);
  const Slots& slots = meet(mask, "shuffle", &x, sizeof x);
  return taken<T>(slots.in[from]);
}

}  // namespace emulate

#define cudaLaunchKernelEx(config, kernel, ...) ::emulate::launch(config, kernel, ##__VA_ARGS__)
template <class... P>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* to, void (*)(P...)) {
  *to = {};
  to->binaryVersion = to->ptxVersion = 80, to->maxThreadsPerBlock = 1024, to->numRegs = 64;
  return cudaSuccess;
}
template <class... P>
cudaError_t cudaFuncSetAttribute(void (*)(P...), cudaFuncAttribute, int) {
  return cudaSuccess;
}

inline void __syncthreads() { emulate::barrier(0, 0); }
inline int __syncthreads_or(int x) { return emulate::barrier(0, 0, x != 0); }
inline int __syncthreads_and(int x) { return emulate::barrier(0, 0, x != 0, true); }
inline void __syncwarp(unsigned mask = 0xffffffffu) { emulate::meet(mask, "syncwarp", nullptr, 0); }
inline void __threadfence() {}
inline void __threadfence_block() {}

template <class T>
T __shfl_sync(unsigned mask, T x, int from, int width = 32) {
  return emulate::shuffle(mask, x, emulate::lane() / width * width + (from & (width - 1)));
}
template <class T>
T __shfl_xor_sync(unsigned mask, T x, int by, int width = 32) {
  const int l = emulate::lane(), from = l ^ by;
  return emulate::shuffle(mask, x, from / width > l / width ? l : from);
}
template <class T>
T __shfl_up_sync(unsigned mask, T x, unsigned by, int width = 32) {
  const int l = emulate::lane(), from = l - static_cast<int>(by);
  return emulate::shuffle(mask, x, from < l / width * width ? l : from);
}
template <class T>
T __shfl_down_sync(unsigned mask, T x, unsigned by, int width = 32) {
  const int l = emulate::lane(), from = l + static_cast<int>(by);
  return emulate::shuffle(mask, x, from >= (l / width + 1) * width ? l : from);
}
inline unsigned __ballot_sync(unsigned mask, int x) {
  const bool vote = x != 0;
  const emulate::Slots& slots = emulate::meet(mask, "ballot", &vote, 1);
  unsigned all = 0;
  for (int l = 0; l < 32; ++l)
    if (mask >> l & 1 && slots.in[l][0]) all |= 1u << l;
  return all;
}
template <class T>
T __reduce_add_sync(unsigned mask, T x) {
  const emulate::Slots& slots = emulate::meet(mask, "sum", &x, sizeof(x));
  T sum = 0, one;
  for (int l = 0; l < 32; ++l)
    if (mask >> l & 1) std::memcpy(&one, slots.in[l], sizeof(one)), sum += one;
  return sum;
}
inline int __any_sync(unsigned mask, int x) { return __ballot_sync(mask, x) != 0; }
inline int __all_sync(unsigned mask, int x) { return __ballot_sync(mask, x) == mask; }

template <class T>
T __ldg(const T* p) {
  return *p;
}
template <class T>
T __ldcs(const T* p) {
  return *p;
}
template <class T>
T __ldcg(const T* p) {
  return *p;
}
template <class T>
void __stcs(T* p, const std::type_identity_t<T>& x) {
  *p = x;
}
#define EMULATE_LEAST_AND_MOST(T)                   \
  inline T min(T x, T y) { return std::min(x, y); } \
  inline T max(T x, T y) { return std::max(x, y); }
EMULATE_LEAST_AND_MOST(int)
EMULATE_LEAST_AND_MOST(unsigned)
EMULATE_LEAST_AND_MOST(long)
EMULATE_LEAST_AND_MOST(unsigned long)
EMULATE_LEAST_AND_MOST(float)
EMULATE_LEAST_AND_MOST(double)
#undef EMULATE_LEAST_AND_MOST
template <class T, class F>
T emulate_atomic(T* p, F&& change) {
  emulate::atomic = true;
  std::atomic_signal_fence(std::memory_order_seq_cst);  // of the compiler
  const T before = *p;
  *p = change(before);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  emulate::atomic = false;
  return before;
}
template <class T>
T atomicAdd(T* p, std::type_identity_t<T> x) {
  return emulate_atomic(p, [&](T before) { return before + x; });
}
template <class T>
T atomicMax(T* p, std::type_identity_t<T> x) {
  return emulate_atomic(p, [&](T before) { return std::max(before, x); });
}
template <class T>
T atomicMin(T* p, std::type_identity_t<T> x) {
  return emulate_atomic(p, [&](T before) { return std::min(before, x); });
}
template <class T>
T atomicExch(T* p, std::type_identity_t<T> x) {
  return emulate_atomic(p, [&](T) { return x; });
}
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned which) {
  const std::uint64_t both = static_cast<std::uint64_t>(y) << 32 | x;
  unsigned z = 0;
  for (int i = 0; i < 4; ++i) z |= static_cast<unsigned>(both >> 8 * (which >> 4 * i & 7) & 0xff) << 8 * i;
  return z;
}
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
using std::isfinite;
inline float __expf(float x) { return std::exp(x); }
inline float __logf(float x) { return std::log(x); }
inline float __fdividef(float x, float y) { return x / y; }
inline float __fmul_rn(float x, float y) { return x * y; }
inline float __fadd_rn(float x, float y) { return x + y; }
inline float __frcp_rn(float x) { return 1 / x; }
inline int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
inline int __popc(unsigned x) { return std::popcount(x); }
inline int __ffs(int x) { return x ? std::countr_zero(static_cast<unsigned>(x)) + 1 : 0; }
inline float rsqrtf(float x) { return 1 / std::sqrt(x); }
inline double rsqrt(double x) { return 1 / std::sqrt(x); }
/// An address of 32 bits: the program is linked where addresses are short.
inline std::size_t __cvta_generic_to_shared(const void* p) { return reinterpret_cast<std::size_t>(p); }

// What prepare.py makes of asm statements: first what they write, then what they read.
namespace emulate {

/// Of a copy that is not waited for, what it wrote is no number: it lands when its thread waits.
void copy(unsigned to, const void* from, int bytes, int valid);
void commit_copies();
/// Until all but so many of the groups have landed.
void wait_for_copies(int left);
inline void cp_async_cg_shared_global(unsigned to, const void* from, int valid = 16) {
  copy(to, from, 16, valid);
}
inline void cp_async_ca_shared_global(unsigned to, const void* from, int bytes, int valid = -1) {
  copy(to, from, bytes, valid < 0 ? bytes : valid);
}
inline void cp_async_commit_group() { commit_copies(); }
inline void cp_async_wait_group(int left) { wait_for_copies(left); }
inline void cp_async_wait_all() {
  commit_copies();
  wait_for_copies(0);
}
inline void prefetch_global_L2(const void*) {}
inline void bar_sync(int id, int count) { barrier(id, static_cast<unsigned>(count)); }
inline void bar_arrive(int id, int count) { arrive(id, static_cast<unsigned>(count)); }

inline void ex2_approx_ftz_f32(float& y, float x) {
  y = std::exp2(x);
  if (std::fabs(y) < 1.17549435e-38f) y = 0;
}
inline void rsqrt_approx_ftz_f32(float& y, float x) { y = 1 / std::sqrt(x); }
inline void rcp_approx_ftz_f32(float& y, float x) { y = 1 / x; }

inline unsigned bf16(float x) {
  const unsigned bits = std::bit_cast<unsigned>(x);
  if (x != x) return 0x7fff;
  return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}
inline void cvt_rn_bf16x2_f32(unsigned& y, float high, float low) { y = bf16(high) << 16 | bf16(low); }
inline void cvt_rna_tf32_f32(unsigned& y, float x) {
  y = (std::bit_cast<unsigned>(x) + (x - x == 0 ? 0x1000u : 0u)) & 0xffffe000u;
}
/// d += a b of a warp, of the registers of all lanes.
void multiply_tf32(float (&d)[4], const unsigned (&factors)[6]);
void multiply_bf16(float (&d)[4], const unsigned (&factors)[6]);
void multiply_bf16_of_8(float (&d)[4], const unsigned (&factors)[3]);
inline void mma_sync_aligned_m16n8k8_row_col_f32_tf32_tf32_f32(float& d0, float& d1, float& d2, float& d3,
                                                               unsigned a0, unsigned a1, unsigned a2,
                                                               unsigned a3, unsigned b0, unsigned b1) {
  float d[4] = {d0, d1, d2, d3};
  multiply_tf32(d, {a0, a1, a2, a3, b0, b1});
  d0 = d[0], d1 = d[1], d2 = d[2], d3 = d[3];
}
inline void mma_sync_aligned_m16n8k16_row_col_f32_bf16_bf16_f32(float& d0, float& d1, float& d2, float& d3,
                                                                unsigned a0, unsigned a1, unsigned a2,
                                                                unsigned a3, unsigned b0, unsigned b1) {
  float d[4] = {d0, d1, d2, d3};
  multiply_bf16(d, {a0, a1, a2, a3, b0, b1});
  d0 = d[0], d1 = d[1], d2 = d[2], d3 = d[3];
}
inline void mma_sync_aligned_m16n8k8_row_col_f32_bf16_bf16_f32(float& d0, float& d1, float& d2, float& d3,
                                                               unsigned a0, unsigned a1, unsigned b) {
  float d[4] = {d0, d1, d2, d3};
  multiply_bf16_of_8(d, {a0, a1, b});
  d0 = d[0], d1 = d[1], d2 = d[2], d3 = d[3];
}
/// Of the one user: both factors are the same register.
inline void mma_sync_aligned_m8n8k4_row_col_f64_f64_f64_f64(double& d0, double& d1, double a) {
  const Slots& slots = meet(0xffffffffu, "mma f64", &a, sizeof a);
  const int g = lane() / 4, t = lane() % 4;
  for (int k = 0; k < 4; ++k) {
    const double x = taken<double>(slots.in[g * 4 + k]);
    d0 += x * taken<double>(slots.in[2 * t * 4 + k]);
    d1 += x * taken<double>(slots.in[(2 * t + 1) * 4 + k]);
  }
}

/// Of the one user: from a register to itself.
inline void movmatrix_sync_aligned_m8n8_trans_b16(unsigned& x) {
  const Slots& slots = meet(0xffffffffu, "movmatrix", &x, sizeof x);
  const int column = lane() / 4, row = lane() % 4 * 2;
  const auto half = [&](int i) {
    return taken<unsigned>(slots.in[4 * i + column / 2]) >> 16 * (column % 2) & 0xffffu;
  };
  const unsigned low = half(row), high = half(row + 1);
  x = low | high << 16;
}

void ldmatrix(bool turned, unsigned (&x)[4], unsigned from);
inline void ldmatrix_sync_aligned_m8n8_x4_shared_b16(unsigned& x0, unsigned& x1, unsigned& x2, unsigned& x3,
                                                     unsigned from) {
  unsigned x[4];
  ldmatrix(false, x, from);
  x0 = x[0], x1 = x[1], x2 = x[2], x3 = x[3];
}
inline void ldmatrix_sync_aligned_m8n8_x4_trans_shared_b16(unsigned& x0, unsigned& x1, unsigned& x2,
                                                           unsigned& x3, unsigned from) {
  unsigned x[4];
  ldmatrix(true, x, from);
  x0 = x[0], x1 = x[1], x2 = x[2], x3 = x[3];
}

}  // namespace emulate
