// Work items are done once each, whatever the number of threads.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/parallel.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <cmath>
#include <mutex>
#include <set>
#include <thread>
#include <tuple>
#include <vector>

namespace crosstalk {
namespace {

Exec with_threads(int threads) {
  Exec exec;
  exec.threads = threads;
  return exec;
}

TEST(Parallel, EveryItemOnce) {
  for (int threads : {1, 2, 3}) {
    for (int items : {0, 1, 7}) {
      std::vector<std::atomic<int>> count(5 * 7);
      parallel_items(with_threads(threads), 5, items, [&](int r, std::int64_t i) { ++count[r * 7 + i]; });
      for (int r = 0; r < 5; ++r)
        for (int i = 0; i < 7; ++i) EXPECT_EQ(count[r * 7 + i], i < items) << r << " " << i;
    }
  }
}

TEST(Parallel, OnlyChosenReplicas) {
  const int ids[] = {4, 0};
  for (int threads : {1, 2}) {
    Exec exec = with_threads(threads);
    exec.replicas = ids;
    exec.replica_count = 2;
    std::vector<std::atomic<int>> count(5);
    parallel_items(exec, 5, 3, [&](int r, std::int64_t) { ++count[r]; });
    for (int r = 0; r < 5; ++r) EXPECT_EQ(count[r], r == 0 || r == 4 ? 3 : 0);
    exec.replica_count = 0;
    parallel_items(exec, 5, 3, [&](int, std::int64_t) { ADD_FAILURE() << "nothing was chosen"; });
  }
}

// The blocks are a function of n alone, not of threads or replicas, and tile it.
TEST(Parallel, BlocksTileTheRange) {
  using Block = std::tuple<int, std::int64_t, std::int64_t>;
  for (int n : {1, 4, 9, 12}) {
    std::set<Block> want;
    for (int r = 0; r < 3; ++r)
      for (int b = 0; b < n; b += 4) want.insert({r, b, std::min(n, b + 4)});
    for (int threads : {1, 2, 3}) {
      std::set<Block> got;
      std::mutex mutex;
      parallel_blocks(with_threads(threads), 3, n, 4, [&](int r, std::int64_t begin, std::int64_t end) {
        const std::lock_guard lock(mutex);
        EXPECT_TRUE(got.insert({r, begin, end}).second);
      });
      EXPECT_EQ(got, want) << n << " elements, " << threads << " threads";
    }
  }
}

// Small integers: sums are exact in any order, so every element must count exactly once.
TEST(Parallel, DotSumAndAxpyCountEveryElement) {
  for (int n = 0; n <= 70; ++n) {
    std::vector<float> x, y;
    float dot_want = 0, sum_want = 0;
    for (int i = 0; i < n; ++i) {
      x.push_back(static_cast<float>(i + 1));
      y.push_back(static_cast<float>(3 * i - 7));
      dot_want += x.back() * y.back();
      sum_want += x.back();
    }
    EXPECT_EQ(dot(x.data(), y.data(), n), dot_want) << n;
    EXPECT_EQ(sum(x.data(), n), sum_want) << n;
    std::vector<float> z = y;
    axpy(2.0f, x.data(), z.data(), n);
    for (std::size_t i = 0; i < z.size(); ++i) EXPECT_EQ(z[i], y[i] + 2 * x[i]) << n;
  }
}

// Results are the same bits wherever the data lie.
TEST(Parallel, AlignmentDoesNotMatter) {
  std::vector<double> memory(200), other(200);
  for (int n : {5, 16, 33, 64, 100}) {
    double first_dot = 0, first_sum = 0;
    for (int offset = 0; offset < 9; ++offset) {
      double* x = memory.data() + offset;
      double* y = other.data() + 9 - offset;
      for (int i = 0; i < n; ++i) x[i] = std::sin(i + 1), y[i] = std::cos(3 * i);
      if (offset == 0) first_dot = dot(x, y, n), first_sum = sum(x, n);
      EXPECT_EQ(dot(x, y, n), first_dot) << n;
      EXPECT_EQ(sum(x, n), first_sum) << n;
    }
  }
}

TEST(Parallel, CoresAreThoseThatTheProcessMayUse) {
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
  EXPECT_EQ(available_cores(), CPU_COUNT(&allowed));
  int cores = 0;
  std::thread([&] {  // whose affinity is its own
    cpu_set_t one;
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu)
      if (CPU_ISSET(cpu, &allowed)) CPU_SET(cpu, &one);
    if (sched_setaffinity(0, sizeof one, &one) == 0) cores = available_cores();
  })
      .join();
  EXPECT_EQ(cores, 1);
}

TEST(Parallel, PutStoresOrAdds) {
  float x = std::nanf("");
  put(Write::overwrite, &x, 2.0f);
  EXPECT_EQ(x, 2.0f);
  put(Write::add, &x, 3.0f);
  EXPECT_EQ(x, 5.0f);
}

}  // namespace
}  // namespace crosstalk
