// What generators read besides their options, once in the memory of every CUDA device that draws.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <map>
#include <mutex>
#include <stdexcept>
#include <vector>

#include "kernels/base/buffer.h"
#include "kernels/base/device/cuda_runtime.h"

namespace crosstalk {

template <class T>
class PerDevice {
 public:
  /// What fill(T&) makes of an empty one for the calling thread's CUDA device, by the first call for it.
  template <class Fill>
  const T& upload(const Fill& fill) const {
    const std::lock_guard lock(mutex_);
    const auto [entry, fresh] = all_.try_emplace(cuda_current_device());
    if (!fresh) return entry->second;
    try {
      fill(entry->second);
    } catch (...) {
      all_.erase(entry);
      throw;
    }
    return entry->second;
  }
  /// The same; a bug if upload() was not called for this device.
  const T& uploaded() const {
    const std::lock_guard lock(mutex_);
    const auto entry = all_.find(cuda_current_device());
    if (entry == all_.end()) throw std::logic_error("[tasks] data were read on a device that lacks them");
    return entry->second;
  }

 private:
  mutable std::mutex mutex_;
  mutable std::map<int, T> all_;
};

/// A constant list of integers.
class DeviceTable {
 public:
  explicit DeviceTable(std::vector<std::int32_t> numbers) : numbers_(std::move(numbers)) {}
  const std::int32_t* host() const { return numbers_.data(); }
  void upload() const {
    on_device_.upload([&](Buffer& there) {
      const std::size_t bytes = numbers_.size() * sizeof(std::int32_t);
      there = Buffer(Device::cuda, bytes);
      there.copy_from_host(numbers_.data(), bytes);
    });
  }
  const std::int32_t* uploaded() const {
    return static_cast<const std::int32_t*>(on_device_.uploaded().data());
  }

 private:
  std::vector<std::int32_t> numbers_;
  PerDevice<Buffer> on_device_;
};

}  // namespace crosstalk
