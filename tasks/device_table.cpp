// SPDX-License-Identifier: Apache-2.0
#include "tasks/device_table.h"

#include <stdexcept>

#include "kernels/base/device/cuda_runtime.h"

namespace crosstalk {

void DeviceTable::upload() const {
  const std::lock_guard lock(mutex_);
  const int device = cuda_current_device();
  if (on_device_.count(device) != 0) return;
  const std::size_t bytes = numbers_.size() * sizeof(std::int32_t);
  Buffer buffer(Device::cuda, bytes);
  buffer.copy_from_host(numbers_.data(), bytes, 0);
  on_device_.emplace(device, std::move(buffer));
}

const std::int32_t* DeviceTable::uploaded() const {
  const std::lock_guard lock(mutex_);
  const auto found = on_device_.find(cuda_current_device());
  if (found == on_device_.end()) throw std::logic_error("[tasks] a table was read on a device that lacks it");
  return static_cast<const std::int32_t*>(found->second.data());
}

}  // namespace crosstalk
