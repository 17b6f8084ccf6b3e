// Buffers, arenas and the count of their bytes.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/buffer.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "kernels/base/device/cuda_runtime.h"
#include "kernels/base/error.h"

namespace crosstalk {
namespace {
constexpr unsigned char kGuard = 0xA5;

struct Measured {
  bool active = false;
  std::size_t now = 0, most = 0;
};
thread_local Measured measured;

std::atomic<std::size_t> most_bytes = 0, others_bytes = 0, used_bytes = 0;

/// Bytes that the device takes for a buffer.
std::size_t given_out(Device device, std::size_t bytes) {
  const std::size_t rounded = std::max<std::size_t>(64, (bytes + 63) / 64 * 64);
  return device == Device::cuda ? cuda_pool_bytes(rounded) : rounded;
}

[[noreturn]] void none_left(std::size_t bytes) {
  throw OutOfMemory(
      fmt::format("out of memory: could not get {:.1f} MiB", static_cast<double>(bytes) / 1048576.0));
}

}  // namespace

MemoryMeasure::MemoryMeasure() {
  if (measured.active) throw std::logic_error("[buffer] one measure at a time");
  measured = {true, 0, 0};
}
MemoryMeasure::~MemoryMeasure() { measured.active = false; }
std::size_t MemoryMeasure::bytes() const { return measured.most; }
bool MemoryMeasure::active() { return measured.active; }

void limit_memory(std::size_t bytes, std::size_t others) { most_bytes = bytes, others_bytes = others; }

std::size_t free_memory(Device device) {
  const std::size_t free = device == Device::cuda ? cuda_memory().free : kEndlessMemory;
  const std::size_t most = most_bytes, used = used_bytes + others_bytes;
  return most == 0 ? free : std::min(free, most > used ? most - used : 0);
}

std::size_t whole_memory(Device device) {
  const std::size_t whole = device == Device::cuda ? cuda_memory().total : kEndlessMemory;
  const std::size_t most = most_bytes;
  return most == 0 ? whole : std::min(whole, most);
}

void give_memory_back(Device device) {
  if (device == Device::cuda) cuda_give_back();
}

void Buffer::Free::operator()(void* p) const {
  if (measured) {
    crosstalk::measured.now -= bytes;
    return;
  }
  used_bytes -= bytes;
  if (device == Device::cuda)
    cuda_free(p);
  else
    std::free(p);
}

Buffer::Buffer(Device device, std::size_t bytes) : device_(device), bytes_(bytes) {
  const std::size_t given = given_out(device, bytes), used = used_bytes += given;
  void* p = nullptr;
  if (const std::size_t most = most_bytes; most == 0 || used + others_bytes <= most)
    p = device == Device::cuda ? cuda_allocate(given) : std::aligned_alloc(64, given);
  if (!p) {
    used_bytes -= given;
    none_left(bytes);
  }
  data_ = std::unique_ptr<void, Free>(p, Free{device, given});
}

Buffer Buffer::planned(Device device, std::size_t bytes) {
  if (!measured.active) return Buffer(device, bytes);
  constexpr std::uintptr_t kNowhere = std::uintptr_t{1} << 60;  // no address of any process
  Buffer buffer;
  buffer.device_ = device;
  buffer.bytes_ = bytes;
  const std::size_t given = given_out(device, bytes);
  buffer.data_ = std::unique_ptr<void, Free>(reinterpret_cast<void*>(kNowhere), Free{device, given, true});
  measured.now += given;
  measured.most = std::max(measured.most, measured.now);
  return buffer;
}

void Buffer::fill_zero() {
  if (!has_memory()) return;
  if (device_ == Device::cuda)
    cuda_fill_zero(data(), bytes_);
  else
    std::memset(data(), 0, bytes_);
}

void Buffer::copy_from_host(const void* source, std::size_t bytes, std::size_t offset) {
  if (!has_memory()) return;
  auto* target = static_cast<unsigned char*>(data()) + offset;
  if (device_ == Device::cuda)
    cuda_copy_to_device(target, source, bytes);
  else
    std::memcpy(target, source, bytes);
}

void Buffer::copy_to_host(void* target, std::size_t bytes, std::size_t offset) const {
  crosstalk::copy_to_host(device_, target, static_cast<const unsigned char*>(data()) + offset, bytes);
}

void copy_to_host(Device device, void* target, const void* source, std::size_t bytes) {
  if (device == Device::cuda)
    cuda_copy_to_host(target, source, bytes);
  else
    std::memcpy(target, source, bytes);
}

void Arena::copy_from_host(void* target, const void* source, std::size_t bytes) const {
  if (!buffer_.has_memory()) return;
  if (device_ == Device::cuda)
    cuda_copy_to_device(target, source, bytes);
  else
    std::memcpy(target, source, bytes);
}

void Arena::allocate() {
  buffer_ = Buffer::planned(device_, shared_bytes_ + total_);
  auto* shared = static_cast<unsigned char*>(buffer_.data());
  for (const Piece& piece : shared_) piece.bind(piece.tensor, shared + piece.offset);
  auto* base = shared + shared_bytes_;
  for (const Piece& piece : pieces_) piece.bind(piece.tensor, base + piece.offset);
  if (!buffer_.has_memory()) return;
  if (device_ == Device::cuda) {
    cuda_fill_byte(shared, 0xFF, bytes());  // all ones is a NaN in both precisions and -1 in integers
    return;
  }
  std::memset(shared, 0xFF, bytes());
  for (const Piece& piece : pieces_) std::memset(base + piece.offset + piece.bytes, kGuard, kGuardBytes);
}

void Arena::check_guards() const {
  if (device_ == Device::cuda || !buffer_.has_memory()) return;
  const auto* base = static_cast<const unsigned char*>(buffer_.data()) + shared_bytes_;
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    const auto* guard = base + pieces_[i].offset + pieces_[i].bytes;
    if (std::any_of(guard, guard + kGuardBytes, [](unsigned char c) { return c != kGuard; })) {
      throw std::logic_error(
          fmt::format("[arena] piece {} ({} bytes) was written past its end", i, pieces_[i].bytes));
    }
  }
}

}  // namespace crosstalk
