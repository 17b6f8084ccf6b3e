// A constant list of integers that generators read, on the host and on every device that draws.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "kernels/base/buffer.h"

namespace crosstalk {

class DeviceTable {
 public:
  explicit DeviceTable(std::vector<std::int32_t> numbers) : numbers_(std::move(numbers)) {}
  const std::int32_t* host() const { return numbers_.data(); }
  /// Copies it to the calling thread's CUDA device, once.
  void upload() const;
  /// Where it lies there; a bug if upload() was not called for this device.
  const std::int32_t* uploaded() const;

 private:
  std::vector<std::int32_t> numbers_;
  mutable std::mutex mutex_;
  mutable std::map<int, Buffer> on_device_;
};

}  // namespace crosstalk
