// What device code says in every file.
// CT_HD marks functions that the CPU and the CUDA compiler both compile: the same arithmetic on both;
// CT_DEVICE those of a GPU that are always inlined. CT_THREAD is a thread's number in its block, CT_LANE and CT_WARP are its lane and warp.
// CT_FOR(i, n) is a loop over i = 0 .. n - 1 that is unrolled whole, CT_FOR2(i, n, j, m) such a loop in another,
// CT_UNROLL(int i = 1; i < n; i *= 2) any other that is, and CT_ROLLED(int i = 0; i < n; ++i) one that is not at all.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#if defined(__CUDACC__)
#define CT_HD __host__ __device__
#define CT_DEVICE __device__ __forceinline__
#define CT_THREAD static_cast<int>(threadIdx.x)
#define CT_LANE (CT_THREAD % 32)
#define CT_WARP (CT_THREAD / 32)
#define CT_UNROLL(...) _Pragma("unroll") for (__VA_ARGS__)
#define CT_ROLLED(...) _Pragma("unroll 1") for (__VA_ARGS__)
#define CT_FOR(i, ...) CT_UNROLL(int i = 0; i < (__VA_ARGS__); ++i)
#define CT_FOR2(i, n, j, m) \
  CT_FOR(i, n)              \
    CT_FOR(j, m)
#else
#define CT_HD
#endif
