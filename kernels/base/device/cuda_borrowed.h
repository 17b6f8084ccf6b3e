// Streams and memory of somebody else in this process, such as PyTorch: their work and ours in one order, without waiting.
//
// A CUDA runtime of ours and one of theirs share a device's primary context, so that each takes the other's pointers and streams.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>

namespace crosstalk {

/// Makes `device` the calling thread's device as long as it lives, and leaves the thread's context as it was. Unlike
/// cuda_set_device() it changes no flags of a process that belongs to somebody else.
class CudaDeviceGuard {
 public:
  explicit CudaDeviceGuard(int device);
  ~CudaDeviceGuard();
  CudaDeviceGuard(const CudaDeviceGuard&) = delete;
  CudaDeviceGuard& operator=(const CudaDeviceGuard&) = delete;

 private:
  void* before_ = nullptr;  ///< CUcontext
};

/// Rows of memory that lie `pitch` bytes apart.
struct PitchedMemory {
  void* data = nullptr;
  std::size_t pitch = 0;
};
/// A copy of rows of so many bytes on the device, in the order of a stream (cudaStream_t).
void cuda_copy_in_order(void* stream, PitchedMemory target, PitchedMemory source, std::size_t bytes,
                        std::size_t rows);
void cuda_zero_in_order(void* stream, void* p, std::size_t bytes);
/// The device on which memory lies. Throws DeviceError where it is on none.
int cuda_device_of(const void* p);
/// Waits until everything queued on the thread's device has run.
void cuda_wait_for_device();
/// Waits until everything queued on a stream has run, before memory that it uses goes to others.
void cuda_wait_for(void* stream);

}  // namespace crosstalk
