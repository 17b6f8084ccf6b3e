// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/threads.h"

#include <fmt/format.h>

#include <atomic>
#include <system_error>
#include <thread>
#include <vector>

#include "kernels/base/error.h"

namespace crosstalk {

void require_threads(int count) {
  std::atomic<bool> over{false};
  const auto release = [&] {
    over = true;
    over.notify_all();
  };
  std::vector<std::jthread> threads;  // joins
  threads.reserve(static_cast<std::size_t>(count));
  try {
    for (int i = 0; i < count; ++i) threads.emplace_back([&] { over.wait(false); });
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
