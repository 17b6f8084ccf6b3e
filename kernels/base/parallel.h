// CPU work sharing and the few inner loops that the CPU ops share.
//
// Results must not depend on the number of threads nor on the number of replicas: work is cut into fixed
// items whose shapes know neither, and each item is computed by one thread in a fixed order.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <sched.h>

#include <algorithm>
#include <cstdint>
#include <thread>

#include "kernels/base/exec.h"
#include "kernels/base/put.h"
#include "kernels/base/tensor.h"

namespace crosstalk {

/// Cores that this process may use, which may be fewer than are online.
inline int available_cores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

/// A function that has one copy in the program. Two copies of the same C++ may differ in their last bits, because the
/// compiler chooses anew in each which product a fused multiply-add takes in.
#if defined(__clang__)
#define CROSSTALK_COMPILED_ONCE __attribute__((noinline))
#else
#define CROSSTALK_COMPILED_ONCE __attribute__((noinline, noclone))
#endif

/// Calls f(r, item) for the pairs of replica and item in [begin, end).
CROSSTALK_COMPILED_ONCE void items_in_range(const Exec& exec, std::int64_t items, std::int64_t begin,
                                            std::int64_t end, auto& f) {
  for (std::int64_t i = begin; i < end; ++i) f(exec.replica(static_cast<int>(i / items)), i % items);
}

/// Calls f(r, item) for every replica to compute and every item in [0, items).
void parallel_items(const Exec& exec, int R, std::int64_t items, auto&& f) {
  const std::int64_t total = items * exec.count(R);
  if (exec.threads <= 1 || total <= 1) return items_in_range(exec, items, 0, total, f);
#pragma omp parallel for schedule(static) num_threads(exec.threads)
  for (int t = 0; t < exec.threads; ++t)
    items_in_range(exec, items, total * t / exec.threads, total * (t + 1) / exec.threads, f);
}

/// Calls f(r, begin, end) over fixed blocks of [0, n).
void parallel_blocks(const Exec& exec, int R, std::int64_t n, std::int64_t block, auto&& f) {
  parallel_items(exec, R, (n + block - 1) / block,
                 [&](int r, std::int64_t i) { f(r, i * block, std::min(n, (i + 1) * block)); });
}

/// f(r, i) for each i of [0, n), a fixed block after the other.
void parallel_each(const Exec& exec, int R, std::int64_t n, std::int64_t block, auto&& f) {
  parallel_blocks(exec, R, n, block, [&](int r, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) f(r, i);
  });
}

/// Sum of N numbers: of the two halves' sums, pair by pair.
template <int N, class Real>
Real halves(const Real* x) {
  if constexpr (N == 1) {
    return x[0];
  } else {
    Real half[N / 2];
    for (int j = 0; j < N / 2; ++j) half[j] = x[j] + x[j + N / 2];
    return halves<N / 2>(half);
  }
}

/// x . y with 16 partial sums in a fixed order (vectorised by the compiler, alignment does not matter).
template <class Real>
Real dot(const Real* x, const Real* y, int n) {
  constexpr int W = 16;
  Real partial[W] = {};
  int i = 0;
  for (; i + W <= n; i += W)
    for (int j = 0; j < W; ++j) partial[j] += x[i + j] * y[i + j];
  Real tail = 0;
  for (; i < n; ++i) tail += x[i] * y[i];
  return halves<W>(partial) + tail;
}

/// y += a x.
template <class Real>
void axpy(Real a, const Real* x, Real* y, int n) {
  for (int i = 0; i < n; ++i) y[i] += a * x[i];
}

/// Sum of x in the order of dot().
template <class Real>
Real sum(const Real* x, int n) {
  constexpr int W = 16;
  Real partial[W] = {};
  int i = 0;
  for (; i + W <= n; i += W)
    for (int j = 0; j < W; ++j) partial[j] += x[i + j];
  Real tail = 0;
  for (; i < n; ++i) tail += x[i];
  return halves<W>(partial) + tail;
}

}  // namespace crosstalk
