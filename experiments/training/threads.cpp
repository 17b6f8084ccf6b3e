// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/threads.h"

#include <fmt/format.h>

#include <atomic>
#include <cstdlib>
#include <system_error>
#include <thread>
#include <vector>

#include "kernels/base/error.h"

namespace crosstalk {

void require_threads(int count) {
  std::atomic<bool> over{false};
  std::atomic<int> ready{0};
  const auto release = [&] {
    over = true;
    over.notify_all();
  };
  std::vector<std::jthread> threads;  // joins
  threads.reserve(static_cast<std::size_t>(count));
  try {
    // Each takes memory too, as it will in training: the heap of its own that it gets may leave no room for the
    // stacks of further threads, which OpenMP would end the program for.
    for (int i = 0; i < count; ++i) {
      threads.emplace_back([&] {
        void* volatile own = std::malloc(64);
        std::free(own);
        ++ready;
        ready.notify_all();
        over.wait(false);
      });
      for (int seen = ready; seen <= i; seen = ready) ready.wait(seen);
    }
  } catch (const std::system_error& error) {
    release();
    throw DeviceError(
        fmt::format("only {} of {} threads could be started: {}; use fewer --threads, or raise the limits on "
                    "processes and memory (ulimit -u, ulimit -v)",
                    threads.size(), count, error.code().message()));
  }
  release();
}

}  // namespace crosstalk
