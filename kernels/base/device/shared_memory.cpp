// How much shared memory a block may have: the device's limit, or less where $CROSSTALK_SHARED_LIMIT says so.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string>
#include <string_view>

#include "kernels/base/device/cuda_runtime.h"
#include "kernels/base/error.h"

namespace crosstalk {

std::size_t shared_memory_limit() {
  constexpr std::size_t kKiB = 1024, kLargest = 227 * kKiB, kLeast = 99;
  const std::size_t there = device_shared_memory(), limit = there > 0 ? there : kLargest;
  const char* text = std::getenv("CROSSTALK_SHARED_LIMIT");
  if (text == nullptr || *text == '\0') return limit;
  const std::string_view given = text;
  std::size_t kib = 0;
  const auto [end, error] = std::from_chars(given.data(), given.data() + given.size(), kib);
  // No GPU that crosstalk has code for has less than 99.
  if (error != std::errc() || end != given.data() + given.size() || kib < kLeast || kib > 1024)
    throw DeviceError("CROSSTALK_SHARED_LIMIT is '" + std::string(given) +
                      "'; it must be a number of KiB from 99 to 1024, such as 99");
  return std::min(limit, kib * kKiB);
}

}  // namespace crosstalk
