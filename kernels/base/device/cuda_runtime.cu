// The host's side of CUDA: memory, streams, events, graphs, and the errors of launches.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/device/cuda_runtime.h"

#include <cmath>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <type_traits>
#include <vector>

#include "kernels/base/device/cuda_launch.cuh"
#include "kernels/base/error.h"

namespace crosstalk {
namespace {

[[noreturn]] void fail(const char* what, cudaError_t code) {
  const std::string message = std::string("[cuda] ") + what + " failed: " + cudaGetErrorString(code) + " (" +
                              cudaGetErrorName(code) + ")";
  // Graphs, modules and streams need memory of the device as tensors do: smaller packs may fit.
  if (code == cudaErrorMemoryAllocation) throw OutOfMemory(message);
  throw DeviceError(message);
}

void check(const char* what, cudaError_t code) {
  if (code == cudaSuccess) return;
  cudaGetLastError();  // a reported error must not be found again by the next launch's check
  fail(what, code);
}

cudaStream_t raw(const CudaStream& stream) { return static_cast<cudaStream_t>(stream.get()); }

}  // namespace

namespace device {

void check_launch(const char* op) {
  const cudaError_t code = cudaGetLastError();
  if (code != cudaSuccess) fail(op, code);
}

void refuse_shape(const char* op, const char* dimension, int size, int largest) {
  throw ShapeError(std::string("[") + op + "] " + dimension + " = " + std::to_string(size) +
                   " is more than the CUDA kernel covers; it must be at most " + std::to_string(largest) +
                   " (or use --device cpu)");
}

}  // namespace device

std::size_t device_shared_memory() {
  int id = 0, bytes = 0;
  if (cudaGetDevice(&id) == cudaSuccess &&
      cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, id) == cudaSuccess)
    return static_cast<std::size_t>(bytes);
  cudaGetLastError();
  return 0;
}

bool built_with_cuda() { return true; }

int cuda_device_count() {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  cudaGetLastError();
  return 0;
}

void cuda_prepare_process() {
  // 8 queues are the default: more streams than that would wait for each other. Must come before the first
  // CUDA call.
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
}

void cuda_set_device(int id) {
  // Waiting threads sleep: there are more of them than cores.
  const cudaError_t code = cudaInitDevice(id, cudaDeviceScheduleBlockingSync, cudaInitDeviceFlagsAreValid);
  if (code != cudaErrorSetOnActiveProcess) check("initialising the device", code);
  check("choosing the device", cudaSetDevice(id));
}

int cuda_current_device() {
  int id = 0;
  check("asking for the device", cudaGetDevice(&id));
  return id;
}

int cuda_capability(int id) {
  int major = 0, minor = 0;
  check("asking for the compute capability",
        cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, id));
  check("asking for the compute capability",
        cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, id));
  return 10 * major + minor;
}

namespace {

/// Tells whether the code that runs was compiled with Hopper's own instructions (kernels/matmul/gemm_wgmma.cuh).
__global__ void ask_for_wgmma(int* answer) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  *answer = 1;
#else
  *answer = 0;
#endif
}

}  // namespace

Gpu cuda_gpu(int id) {
  cuda_set_device(id);
  cudaDeviceProp properties;
  check("asking for the device's properties", cudaGetDeviceProperties(&properties, id));
  Gpu gpu;
  gpu.name = properties.name;
  gpu.capability = cuda_capability(id);
  gpu.multiprocessors = properties.multiProcessorCount;
  gpu.shared_memory = properties.sharedMemPerBlockOptin;
  cudaFuncAttributes code;
  if (cudaFuncGetAttributes(&code, ask_for_wgmma) != cudaSuccess) {
    cudaGetLastError();
    return gpu;  // no kernel image for this device
  }
  gpu.code = code.ptxVersion;
  gpu.by_driver = code.binaryVersion != code.ptxVersion;
  gpu.clusters = code.binaryVersion >= 90 && code.ptxVersion >= 90;
  void* const answer = cuda_allocate_pinned(sizeof(int));
  if (answer == nullptr) return gpu;
  ask_for_wgmma<<<1, 1, 0, cudaStreamPerThread>>>(static_cast<int*>(answer));
  const cudaError_t launched = cudaGetLastError(), ran = cudaStreamSynchronize(cudaStreamPerThread);
  gpu.wgmma = launched == cudaSuccess && ran == cudaSuccess && *static_cast<int*>(answer) != 0;
  cuda_free_pinned(answer);
  check("the first kernel", launched);
  check("the first kernel", ran);
  return gpu;
}

std::string cuda_device_name(int id) {
  cudaDeviceProp properties;
  check("asking for the device's name", cudaGetDeviceProperties(&properties, id));
  return properties.name;
}

namespace {

// Freed memory is kept for the next request of its size: cudaFree waits for the whole device, which would
// stall every pack whenever one ends.
class Pool {
 public:
  void* take(std::size_t bytes) {
    const Key key{device(), cuda_pool_bytes(bytes)};
    {
      const std::lock_guard lock(mutex_);
      auto& pieces = free_[key];
      if (!pieces.empty()) {
        void* p = pieces.back();
        pieces.pop_back();
        used_[p] = key;
        return p;
      }
    }
    void* p = allocate(key.bytes);
    if (!p) {
      release();
      p = allocate(key.bytes);
    }
    if (p) {
      const std::lock_guard lock(mutex_);
      used_[p] = key;
    }
    return p;
  }

  void give_back(void* p) {
    const std::lock_guard lock(mutex_);
    const auto it = used_.find(p);
    if (it == used_.end()) return;
    free_[it->second].push_back(p);
    used_.erase(it);
  }

  /// Bytes of the calling thread's device that nobody uses.
  std::size_t kept() {
    const int id = device();
    const std::lock_guard lock(mutex_);
    std::size_t bytes = 0;
    for (const auto& [key, pieces] : free_)
      if (key.device == id) bytes += key.bytes * pieces.size();
    return bytes;
  }

  /// Gives everything that nobody uses back to the device.
  void release() {
    const std::lock_guard lock(mutex_);
    for (auto& [key, pieces] : free_) {
      for (void* p : pieces) cudaFree(p);
      pieces.clear();
    }
  }

 private:
  struct Key {
    int device;
    std::size_t bytes;
    bool operator<(const Key& other) const {
      return device != other.device ? device < other.device : bytes < other.bytes;
    }
  };

  static int device() {
    int id = 0;
    check("asking for the device", cudaGetDevice(&id));
    return id;
  }

  // nullptr when there is not enough memory.
  static void* allocate(std::size_t bytes) {
    void* p = nullptr;
    const cudaError_t code = cudaMalloc(&p, bytes);
    if (code == cudaSuccess) return p;
    cudaGetLastError();
    if (code == cudaErrorMemoryAllocation) return nullptr;
    fail("allocating memory", code);
  }

  std::mutex mutex_;
  std::map<Key, std::vector<void*>> free_;
  std::map<void*, Key> used_;
};

// Never destroyed: memory is given back to the driver with the process, and the driver may be gone before
// statics are.
Pool& pool() {
  static Pool* const pool = new Pool;
  return *pool;
}

/// Gives memory that the pool keeps to whatever needs it beside tensors, if that is all there is.
void with_room(const char* what, const auto& make) {
  cudaError_t code = make();
  if (code == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    pool().release();
    code = make();
  }
  check(what, code);
}

// Fills and copies outside any CudaStream: on a stream of the calling thread, so that threads do not wait for
// each other; they have happened when the call returns.
cudaStream_t own_stream() { return cudaStreamPerThread; }
void finish(const char* what) { check(what, cudaStreamSynchronize(own_stream())); }

}  // namespace

CudaMemory cuda_memory() {
  CudaMemory memory;
  check("asking for free memory", cudaMemGetInfo(&memory.free, &memory.total));
  memory.free += pool().kept();
  return memory;
}

void* cuda_allocate(std::size_t bytes) { return pool().take(bytes); }
void cuda_free(void* p) { pool().give_back(p); }
void cuda_give_back() { pool().release(); }

void cuda_fill_zero(void* p, std::size_t bytes) { cuda_fill_byte(p, 0, bytes); }

void cuda_fill_byte(void* p, unsigned char byte, std::size_t bytes) {
  check("filling memory", cudaMemsetAsync(p, byte, bytes, own_stream()));
  finish("filling memory");
}

void cuda_copy_to_device(void* target, const void* source, std::size_t bytes) {
  check("copying to the device",
        cudaMemcpyAsync(target, source, bytes, cudaMemcpyHostToDevice, own_stream()));
  finish("copying to the device");
}

void cuda_copy_to_host(void* target, const void* source, std::size_t bytes) {
  check("copying to the host", cudaMemcpyAsync(target, source, bytes, cudaMemcpyDeviceToHost, own_stream()));
  finish("copying to the host");
}

void* cuda_allocate_pinned(std::size_t bytes) {
  void* p = nullptr;
  const cudaError_t code = cudaMallocHost(&p, bytes);
  if (code == cudaSuccess) return p;
  cudaGetLastError();
  if (code == cudaErrorMemoryAllocation) return nullptr;
  fail("allocating pinned memory", code);
}

void cuda_free_pinned(void* p) { cudaFreeHost(p); }

struct CudaStream::State {
  cudaStream_t stream = nullptr;
  ~State() {
    if (stream) cudaStreamDestroy(stream);
  }
};

CudaStream::CudaStream(double urgency) : state_(new State) {
  int least = 0, greatest = 0;
  check("priorities of streams", cudaDeviceGetStreamPriorityRange(&least, &greatest));
  const int priority = least + static_cast<int>(std::lround(urgency * (greatest - least)));
  with_room("making a stream",
            [&] { return cudaStreamCreateWithPriority(&state_->stream, cudaStreamNonBlocking, priority); });
}
void* CudaStream::get() const { return state_->stream; }
void CudaStream::synchronise() const { check("work on a stream", cudaStreamSynchronize(state_->stream)); }

bool CudaStream::idle() const {
  const cudaError_t code = cudaStreamQuery(state_->stream);
  if (code != cudaErrorNotReady) {
    check("work on a stream", code);
    return true;
  }
  cudaGetLastError();
  return false;
}

void CudaStream::copy_to_device(void* target, const void* source, std::size_t bytes) const {
  check("copying to the device",
        cudaMemcpyAsync(target, source, bytes, cudaMemcpyHostToDevice, state_->stream));
}

void CudaStream::copy_to_host(void* target, const void* source, std::size_t bytes) const {
  check("copying to the host",
        cudaMemcpyAsync(target, source, bytes, cudaMemcpyDeviceToHost, state_->stream));
}

void CudaStream::copy_on_device(void* target, const void* source, std::size_t bytes) const {
  check("copying on the device",
        cudaMemcpyAsync(target, source, bytes, cudaMemcpyDeviceToDevice, state_->stream));
}

void CudaStream::fill_zero(void* p, std::size_t bytes) const {
  check("filling memory", cudaMemsetAsync(p, 0, bytes, state_->stream));
}

struct CudaEvent::State {
  cudaEvent_t event = nullptr;
  ~State() {
    if (event) cudaEventDestroy(event);
  }
};

CudaEvent::CudaEvent() : state_(new State) { check("making an event", cudaEventCreate(&state_->event)); }

void CudaEvent::record(const CudaStream& stream) {
  check("recording an event", cudaEventRecord(state_->event, raw(stream)));
}
void CudaEvent::hold(const CudaStream& stream) const {
  check("waiting for an event", cudaStreamWaitEvent(raw(stream), state_->event, 0));
}
void CudaEvent::synchronise() const { check("work before an event", cudaEventSynchronize(state_->event)); }

double CudaEvent::seconds_since(const CudaEvent& earlier) const {
  synchronise();
  earlier.synchronise();
  float milliseconds = 0;
  check("measuring time", cudaEventElapsedTime(&milliseconds, earlier.state_->event, state_->event));
  return static_cast<double>(milliseconds) * 1e-3;
}

struct CudaGraph::State {
  cudaStream_t stream = nullptr;  // while recording
  cudaGraphExec_t graph = nullptr;
  std::size_t nodes = 0;
  /// Ends a recording and forgets it.
  void abandon() noexcept {
    if (!stream) return;
    cudaGraph_t recorded = nullptr;
    cudaStreamEndCapture(stream, &recorded);
    if (recorded) cudaGraphDestroy(recorded);
    stream = nullptr;
    cudaGetLastError();
  }
  ~State() {
    abandon();
    if (graph) cudaGraphExecDestroy(graph);
  }
};

CudaGraph::CudaGraph() : state_(new State) {}

void CudaGraph::begin(const CudaStream& stream) {
  // Thread-local: other threads may allocate and copy while this one records.
  check("recording a graph", cudaStreamBeginCapture(raw(stream), cudaStreamCaptureModeThreadLocal));
  state_->stream = raw(stream);
}

void CudaGraph::end() {
  cudaGraph_t recorded = nullptr;
  const cudaError_t code = cudaStreamEndCapture(state_->stream, &recorded);
  state_->stream = nullptr;
  check("recording a graph", code);
  if (state_->graph) cudaGraphExecDestroy(state_->graph);
  state_->graph = nullptr;
  cudaGraphGetNodes(recorded, nullptr, &state_->nodes);
  const std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, void (*)(cudaGraph_t)> owner(
      recorded, [](cudaGraph_t graph) { cudaGraphDestroy(graph); });
  with_room("making a graph", [&] { return cudaGraphInstantiate(&state_->graph, recorded, 0); });
}

void CudaGraph::abandon() noexcept { state_->abandon(); }

void CudaGraph::launch(const CudaStream& stream) const {
  check("launching a graph", cudaGraphLaunch(state_->graph, raw(stream)));
}

std::size_t CudaGraph::nodes() const { return state_->nodes; }
CudaGraph::operator bool() const { return state_->graph != nullptr; }

}  // namespace crosstalk
