// The reserve lets a handler of std::bad_alloc work.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/device/memory_reserve.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstddef>
#include <fstream>
#include <functional>
#include <new>

namespace crosstalk {
namespace {

/// Addresses that this process has in use, in pages.
long pages() {
  long n = 0;
  std::ifstream("/proc/self/statm") >> n;
  return n;
}

TEST(MemoryReserve, IsLetGoWhereAnAllocationFailsAndPutBackOnRequest) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "AddressSanitizer has an operator new of its own";
#endif
  keep_memory_reserve();
  const long kept = pages();
  volatile std::size_t too_much = std::size_t{1} << 62;
  EXPECT_THROW(::operator delete(::operator new(too_much)), std::bad_alloc);
  EXPECT_LE(pages(), kept - 900);  // 4 MiB are 1,024
  EXPECT_THROW(::operator delete(::operator new(too_much)), std::bad_alloc);
  keep_memory_reserve();
  keep_memory_reserve();
  EXPECT_NEAR(static_cast<double>(pages()), static_cast<double>(kept), 100);
}

TEST(MemoryReserveDeathTest, WhatNothingCatchesIsSaidAndEndsWithACode) {
  const auto lose = [](bool memory) {
    end_where_memory_is_lost("no memory is left\n", 4);
    const std::function<void()> fail = [memory] {
      if (memory) throw std::bad_alloc();
      throw 5;
    };
    [&]() noexcept { fail(); }();  // as in a destructor
  };
  EXPECT_EXIT(lose(true), ::testing::ExitedWithCode(4), "no memory is left");
  EXPECT_EXIT(lose(false), ::testing::KilledBySignal(SIGABRT), "");
}

}  // namespace
}  // namespace crosstalk
