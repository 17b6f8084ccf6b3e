// Memory of one device: an arena that a plan sizes once and that is then cut into tensors.
//
// Each piece starts at a multiple of 64 bytes and is followed by guard words. Fresh memory is all ones: NaN
// in both precisions, -1 in integers, so that reading what nobody wrote shows. check_guards() finds writes
// past the end.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/base/exec.h"
#include "kernels/base/size.h"
#include "kernels/base/tensor.h"

namespace crosstalk {

/// While one exists, what this thread plans (Arena, ParameterBlock) gets addresses and no memory, and is
/// counted: how much a pack would need is found by making it without running it. One at a time a thread.
class MemoryMeasure {
 public:
  MemoryMeasure();
  ~MemoryMeasure();
  MemoryMeasure(const MemoryMeasure&) = delete;
  MemoryMeasure& operator=(const MemoryMeasure&) = delete;
  /// The most that was there at a time, as the device would give it out.
  std::size_t bytes() const;
  static bool active();
};

/// Memory of a device that buffers may still get: free on the GPU; on the CPU as good as endless.
std::size_t free_memory(Device device);
constexpr std::size_t kEndlessMemory = std::size_t{1} << 62;
/// All memory of the device, whoever holds it; on the CPU as good as endless.
std::size_t whole_memory(Device device);
/// Gives what is kept for later buffers back to the GPU, for other programs to take.
void give_memory_back(Device device);
/// For tests: any device has so many bytes (0: no limit), of which other programs hold `others`.
void limit_memory(std::size_t bytes, std::size_t others = 0);

/// Untyped memory on a device, freed with the object.
class Buffer {
 public:
  Buffer() = default;
  /// Throws OutOfMemory (says how much was asked) when there is not enough memory.
  Buffer(Device device, std::size_t bytes);
  /// The same, but without memory while a MemoryMeasure exists: fills and copies then do nothing.
  static Buffer planned(Device device, std::size_t bytes);
  bool has_memory() const { return data_ && !data_.get_deleter().measured; }
  void* data() const { return data_.get(); }
  std::size_t bytes() const { return bytes_; }
  Device device() const { return device_; }
  void fill_zero();
  void copy_from_host(const void* source, std::size_t bytes, std::size_t offset = 0);
  void copy_to_host(void* target, std::size_t bytes, std::size_t offset = 0) const;

 private:
  struct Free {
    Device device;
    std::size_t bytes = 0;  ///< as given out
    bool measured = false;  ///< an address without memory
    void operator()(void* p) const;
  };
  Device device_ = Device::cpu;
  std::size_t bytes_ = 0;
  std::unique_ptr<void, Free> data_{nullptr, Free{Device::cpu}};
};

/// Copies from a device's memory; has happened when it returns.
void copy_to_host(Device device, void* target, const void* source, std::size_t bytes);

/// Cuts one Buffer into tensors: first reserve() all, then allocate() once, then bind.
class Arena {
 public:
  explicit Arena(Device device) : device_(device) {}
  /// Asks for R replicas of a tensor; `*tensor` gets its pointer in allocate(). Shape must be set already.
  /// `copies`: memory for so many tensors of this shape, one after the other within a replica.
  template <class T>
  void reserve(Tensor<T>* tensor, int copies = 1) {
    tensor->replica_stride = tensor->stride_for(copies);
    const std::size_t bytes = static_cast<std::size_t>(tensor->replica_stride) * tensor->R * sizeof(T);
    pieces_.push_back({bytes, total_,
                       [](void* t, void* data) { static_cast<Tensor<T>*>(t)->data = static_cast<T*>(data); },
                       tensor});
    total_ += bytes + kGuardBytes;
  }
  /// A tensor at a place of its owner's choice within the part that reserve_shared() asks for. Its
  /// replica_stride is set.
  template <class T>
  void reserve_at(Tensor<T>* tensor, std::size_t offset) {
    shared_.push_back({0, offset,
                       [](void* t, void* data) { static_cast<Tensor<T>*>(t)->data = static_cast<T*>(data); },
                       tensor});
  }
  void reserve_shared(std::size_t bytes) { shared_bytes_ = (bytes + 255) / 256 * 256; }
  /// Allocates and binds.
  void allocate();
  /// Throws std::logic_error if something wrote past the end of a piece (CPU only).
  void check_guards() const;
  std::size_t bytes() const { return total_ + shared_bytes_; }

  /// Copies between the host and memory of this arena; have happened when they return.
  void copy_from_host(void* target, const void* source, std::size_t bytes) const;
  template <class T>
  std::vector<T> copy_of(const Tensor<T>& tensor) const {
    std::vector<T> host(static_cast<std::size_t>(tensor.size()) * static_cast<std::size_t>(tensor.R));
    for (int r = 0; r < tensor.R; ++r) {
      copy_to_host(device_, host.data() + r * tensor.size(), tensor.at(r),
                   static_cast<std::size_t>(tensor.size()) * sizeof(T));
    }
    return host;
  }

 private:
  struct Piece {
    std::size_t bytes, offset;
    void (*bind)(void*, void*);
    void* tensor;
  };
  static constexpr std::size_t kGuardBytes = 64;
  Device device_;
  Buffer buffer_;
  std::vector<Piece> pieces_, shared_;
  std::size_t total_ = 0, shared_bytes_ = 0;
};

/// A tensor shape from a list of dimensions (at most Tensor::kMaxRank), without memory.
template <class T>
Tensor<T> shaped(int R, std::initializer_list<Dimension> dims, Format format = Format::native) {
  if (dims.size() > static_cast<std::size_t>(Tensor<T>::kMaxRank))
    throw std::logic_error("[tensor] too many dimensions");
  Tensor<T> t;
  t.R = R;
  t.format = format;
  for (int d : dims) t.dims[t.rank++] = d;
  return t;
}

}  // namespace crosstalk
