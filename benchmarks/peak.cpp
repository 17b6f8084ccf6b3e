// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/peak.h"

#include <Eigen/Dense>
#include <algorithm>
#include <barrier>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

namespace crosstalk::benchmarks {

double measured_peak(int threads) {
  constexpr int n = 1024, products = 4, tries = 5;
  using Clock = std::chrono::steady_clock;
  std::barrier<> barrier(threads);
  Clock::time_point start;
  double best = 0;
  std::vector<float> results(static_cast<std::size_t>(threads));
  const auto work = [&](int thread) {
    const Eigen::MatrixXf a = Eigen::MatrixXf::Constant(n, n, 0.5f), b = Eigen::MatrixXf::Identity(n, n);
    Eigen::MatrixXf c = a * b;  // warm-up
    for (int i = 0; i < tries; ++i) {
      barrier.arrive_and_wait();
      if (thread == 0) start = Clock::now();
      barrier.arrive_and_wait();
      for (int j = 0; j < products; ++j) c.noalias() = a * b;
      barrier.arrive_and_wait();
      if (thread == 0) {
        const std::chrono::duration<double> seconds = Clock::now() - start;
        best = std::max(best, 2.0 * n * n * n * products * threads / seconds.count());
      }
    }
    results[static_cast<std::size_t>(thread)] = c(n - 1, n - 1);  // so that nothing can be optimised away
  };
  std::vector<std::thread> pool;
  for (int thread = 1; thread < threads; ++thread) pool.emplace_back(work, thread);
  work(0);
  for (auto& thread : pool) thread.join();
  for (const float result : results) {
    if (result != 0.5f) throw std::logic_error("[benchmarks] a matrix product is wrong");
  }
  return best;
}

}  // namespace crosstalk::benchmarks
