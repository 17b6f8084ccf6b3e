// The emulator's own tests: of kernels with an error, it tells of each. build.sh always adds them, as suite Broken.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <array>

#include "kernels/base/async_copy.cuh"
#include "kernels/base/cuda_launch.cuh"

namespace crosstalk::device {
namespace {
constexpr int kThreads = 64;
using Numbers = std::array<float, kThreads>;

template <class... P>
Numbers result_of(void (*kernel)(const float*, float*, P...), P... rest) {
  Numbers in, out{};
  for (int i = 0; i < kThreads; ++i) in[i] = static_cast<float>(i);
  launch({}, "broken", kernel, dim3(1), kThreads, 0, in.data(), out.data(), rest...);
  return out;
}

__global__ void copied(const float* in, float* out, int waits) {
  __shared__ alignas(16) float first[kThreads], second[kThreads];
  const int i = static_cast<int>(threadIdx.x);
  copy_async<4>(first + i, in + i);
  copies_commit();
  copy_async<4>(second + i, in + i);
  copies_commit();
  if (waits == 1) copies_wait<1>();
  if (waits == 2) copies_wait<0>();
  out[i] = first[i] + second[i];
}
TEST(Broken, WaitsForCopies) {
  EXPECT_EQ(result_of(copied, 2)[5], 10);
  EXPECT_NE(result_of(copied, 1)[5], 10) << "a wait that is too weak";
  EXPECT_NE(result_of(copied, 0)[5], 10) << "no wait";
}

/// Its result is right in the order forward, whether there are barriers or not.
__global__ void passed_on(const float* in, float* out, bool barrier, bool late_wait) {
  __shared__ alignas(16) float kept[kThreads];
  const int i = static_cast<int>(threadIdx.x);
  copy_async<4>(kept + i, in + i);
  copies_commit();
  if (!late_wait) copies_wait<0>();
  if (barrier) __syncthreads();
  if (late_wait) copies_wait<0>();
  out[i] = i < 32 ? kept[i] : kept[i - 32];
}
__global__ void in_warp(const float* in, float* out, bool barrier) {
  __shared__ float kept[kThreads];
  const int i = static_cast<int>(threadIdx.x);
  kept[i] = in[i];
  if (barrier) __syncwarp();
  out[i] = kept[i / 2 * 2] + __shfl_xor_sync(kFullWarp, 0.0f, 1);  // a shuffle orders no memory
}
__global__ void all_to_one(const float* in, float* out) { out[0] = in[threadIdx.x]; }
__global__ void summed(const float* in, float* out) {
  __shared__ int all;
  if (threadIdx.x == 0) all = 0;
  __syncthreads();
  atomicAdd(&all, static_cast<int>(in[threadIdx.x]));
  __syncthreads();
  out[threadIdx.x] = static_cast<float>(all);
}
__global__ void named(const float* in, float* out, int count) {
  __shared__ float kept[kThreads];
  const int i = static_cast<int>(threadIdx.x);
  if (i < 32) {
    kept[i] = in[i];
    asm volatile("bar.arrive %0, %1;" ::"r"(1), "r"(count) : "memory");
  } else {
    if (count == 64) asm volatile("bar.sync %0, %1;" ::"r"(1), "r"(count) : "memory");
    out[i] = kept[i - 32];
  }
}

TEST(Broken, InOrderForwardTheResultDoesNotTell) {
  const char* const order = std::getenv("EMULATE_ORDER");
  if (order && std::string(order) != "forward") GTEST_SKIP();
  EXPECT_EQ(result_of(passed_on, true, false)[40], 8);
#ifndef __SANITIZE_THREAD__
  EXPECT_EQ(result_of(passed_on, false, false)[40], 8);
#endif
}
#ifdef __SANITIZE_THREAD__
#define EXPECT_RACE(...) EXPECT_NONFATAL_FAILURE(result_of(__VA_ARGS__), "races in ")
TEST(Broken, Races) {
  result_of(passed_on, true, false);
  result_of(in_warp, true);
  result_of(named, 64);
  EXPECT_EQ(result_of(summed)[3], 63 * 32);
  EXPECT_RACE(passed_on, false, false);  // no barrier
  EXPECT_RACE(passed_on, true, true);    // a wait behind the barrier
  EXPECT_RACE(in_warp, false);
  EXPECT_RACE(named, 32);
  EXPECT_RACE(all_to_one);
}
#endif
}  // namespace
}  // namespace crosstalk::device
