// The few CUDA runtime calls that host code needs, without a CUDA header. cuda_runtime.cu implements them; a
// build without CUDA links no_cuda.cpp, whose versions throw DeviceError("built without CUDA").
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <memory>
#include <string>

namespace crosstalk {

bool built_with_cuda();
/// Call first of all, in main: sets what the driver reads from the environment.
void cuda_prepare_process();
/// Devices that this process may use; 0 without a driver.
int cuda_device_count();
/// Makes `device` the calling thread's device: for its allocations, streams and launches.
void cuda_set_device(int device);
/// The calling thread's device.
int cuda_current_device();
std::string cuda_device_name(int device);
/// Compute capability, 10 major + minor: 90 is an H100. Costs nothing: the device is not used for it.
int cuda_capability(int device);

/// A GPU, and what of this build runs on it.
struct Gpu {
  std::string name;
  int capability = 0;  ///< cuda_capability()
  int code = 0;        ///< the capability for which the code was compiled that it runs; 0: it can run none
  bool by_driver = false;  ///< the driver compiles that code when it is first used
  bool wgmma = false, clusters = false;
  int multiprocessors = 0;
  std::size_t shared_memory = 0;  ///< that one block may ask for
};
/// Makes `device` the calling thread's device, as cuda_set_device() does.
Gpu cuda_gpu(int device);

/// Shared memory in bytes that one block may ask for on the calling thread's device; where there is no GPU,
/// what the largest have (227 KiB). CROSSTALK_SHARED_LIMIT (KiB) lowers it, so that a large GPU takes the
/// paths of a small one: 163 as an A100, 99 as a 3060, 4090 or 5090. Which form of an op runs may depend on
/// it, so plans ask for it too.
std::size_t shared_memory_limit();
/// The same as the device says it; 0 without a GPU.
std::size_t device_shared_memory();

struct CudaMemory {
  std::size_t free = 0, total = 0;  ///< bytes; free: with what cuda_free() keeps for later
};
/// Memory of the calling thread's device.
CudaMemory cuda_memory();

/// Bytes that cuda_allocate() takes of the device for so many: pieces have few sizes, so that freed ones fit.
inline std::size_t cuda_pool_bytes(std::size_t bytes) {
  std::size_t power = 512;
  while (power * 2 <= bytes) power *= 2;
  const std::size_t step = power / 4;
  return (bytes + step - 1) / step * step;
}
/// nullptr when there is not enough memory.
void* cuda_allocate(std::size_t bytes);
void cuda_free(void* p);
/// Gives all that cuda_free() keeps back to the device.
void cuda_give_back();
// These four have happened when they return, for every stream.
void cuda_fill_zero(void* p, std::size_t bytes);
void cuda_fill_byte(void* p, unsigned char byte, std::size_t bytes);
void cuda_copy_to_device(void* target, const void* source, std::size_t bytes);
void cuda_copy_to_host(void* target, const void* source, std::size_t bytes);

/// Host memory that the GPU reads and writes directly: what asynchronous copies need. nullptr when there is
/// not enough.
void* cuda_allocate_pinned(std::size_t bytes);
void cuda_free_pinned(void* p);

/// A stream of its own: never waits for the default stream.
class CudaStream {
 public:
  /// urgency in [0, 1]: waiting blocks of more urgent streams go first.
  explicit CudaStream(double urgency = 0);
  CudaStream(CudaStream&&) noexcept = default;
  CudaStream& operator=(CudaStream&&) noexcept = default;
  /// The cudaStream_t, for Exec::stream.
  void* get() const;
  /// Waits until everything queued has run; throws DeviceError for what failed on the way.
  void synchronise() const;
  /// True when everything queued has run.
  bool idle() const;
  // Copies in the order of the stream. Host memory must be pinned, or the call waits.
  void copy_to_device(void* target, const void* source, std::size_t bytes) const;
  void copy_to_host(void* target, const void* source, std::size_t bytes) const;
  void copy_on_device(void* target, const void* source, std::size_t bytes) const;
  void fill_zero(void* p, std::size_t bytes) const;

 private:
  struct State;
  std::shared_ptr<State> state_;  ///< shared: it knows how to end what this header does not define
};

/// A point in a stream, to wait for and to measure between.
class CudaEvent {
 public:
  CudaEvent();
  CudaEvent(CudaEvent&&) noexcept = default;
  CudaEvent& operator=(CudaEvent&&) noexcept = default;
  void record(const CudaStream& stream);
  /// Makes later work of `stream` wait for the recorded point.
  void hold(const CudaStream& stream) const;
  void synchronise() const;
  /// Seconds from `earlier` to this; waits for both.
  double seconds_since(const CudaEvent& earlier) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

/// Work captured once and launched as a whole.
class CudaGraph {
 public:
  CudaGraph();
  CudaGraph(CudaGraph&&) noexcept = default;
  CudaGraph& operator=(CudaGraph&&) noexcept = default;
  /// Records what this thread queues on `stream` up to end(), instead of running it.
  void begin(const CudaStream& stream);
  /// Ends the recording and makes it launchable. If something threw in between, call abandon() instead.
  void end();
  /// Ends a recording that failed half-way and forgets it; never throws.
  void abandon() noexcept;
  void launch(const CudaStream& stream) const;
  /// Kernels, copies and fills in the graph.
  std::size_t nodes() const;
  explicit operator bool() const;  ///< true after end()

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace crosstalk
