// The functions of CUDA's runtime that Crosstalk calls, for emulated kernels: memory is the computer's own, streams do their work at
// once, a graph repeats what was recorded. A kernel that is not emulated is an error of its launch.
// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime_api.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>

#include "kernels/testing/emulate/runtime.h"

namespace {
cudaError_t last = cudaSuccess;
struct Recorded {
  std::vector<std::function<void()>> steps;
};
thread_local Recorded* recording = nullptr;

cudaError_t failed(cudaError_t code) { return last = code; }
}  // namespace

namespace emulate {
void now_or_recorded(std::function<void()> step) {
  if (recording) {
    recording->steps.push_back(std::move(step));
  } else {
    step();
  }
}
}  // namespace emulate

using emulate::now_or_recorded;
#define OK(name, ...) \
  cudaError_t name(__VA_ARGS__) { return cudaSuccess; }
extern "C" {
OK(cudaDeviceSynchronize)
OK(cudaSetDevice, int)
OK(cudaInitDevice, int, unsigned, unsigned)
OK(cudaStreamSynchronize, cudaStream_t)
OK(cudaStreamQuery, cudaStream_t)
OK(cudaStreamDestroy, cudaStream_t)
OK(cudaStreamWaitEvent, cudaStream_t, cudaEvent_t, unsigned)
OK(cudaEventDestroy, cudaEvent_t)
OK(cudaEventRecord, cudaEvent_t, cudaStream_t)
OK(cudaEventSynchronize, cudaEvent_t)
OK(cudaFuncSetAttribute, const void*, cudaFuncAttribute, int)
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr what, int) {
  *value = what == cudaDevAttrMaxSharedMemoryPerBlockOptin       ? 227 * 1024
           : what == cudaDevAttrMultiProcessorCount              ? 132
           : what == cudaDevAttrComputeCapabilityMajor           ? 9
           : what == cudaDevAttrMaxSharedMemoryPerMultiprocessor ? 228 * 1024
                                                                 : 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = *greatest = 0;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) {
  *event = reinterpret_cast<cudaEvent_t>(1);
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* time, cudaEvent_t, cudaEvent_t) {
  *time = 1;
  return cudaSuccess;
}
cudaError_t cudaMalloc(void** p, std::size_t bytes) {
  *p = std::aligned_alloc(256, (bytes + 511) / 256 * 256);
  if (*p) std::memset(*p, 0xff, bytes);  // what reads before it writes finds no number
  return *p ? cudaSuccess : failed(cudaErrorMemoryAllocation);
}
cudaError_t cudaMallocHost(void** p, std::size_t bytes) { return cudaMalloc(p, bytes); }
cudaError_t cudaFree(void* p) {
  std::free(p);
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* p) { return cudaFree(p); }
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *free = *total = std::size_t{4} << 30;
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind, cudaStream_t) {
  now_or_recorded([=] { std::memmove(to, from, bytes); });
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* to, int byte, std::size_t bytes, cudaStream_t) {
  now_or_recorded([=] { std::memset(to, byte, bytes); });
  return cudaSuccess;
}
cudaError_t cudaMemcpy2DAsync(void* to, std::size_t pitch, const void* from, std::size_t from_pitch,
                              std::size_t width, std::size_t height, cudaMemcpyKind, cudaStream_t) {
  now_or_recorded([=] {
    for (std::size_t i = 0; i < height; ++i)
      std::memmove(static_cast<char*>(to) + i * pitch, static_cast<const char*>(from) + i * from_pitch,
                   width);
  });
  return cudaSuccess;
}
cudaError_t cudaMemset2DAsync(void* to, std::size_t pitch, int byte, std::size_t width, std::size_t height,
                              cudaStream_t) {
  now_or_recorded([=] {
    for (std::size_t i = 0; i < height; ++i) std::memset(static_cast<char*>(to) + i * pitch, byte, width);
  });
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* id) {
  *id = 0;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* to, int) {
  *to = {};
  std::strcpy(to->name, "emulated");
  to->multiProcessorCount = 132, to->sharedMemPerBlockOptin = 227 * 1024;
  return cudaSuccess;
}
const char* cudaGetErrorName(cudaError_t code) {
  return code == cudaErrorInvalidDeviceFunction ? "not emulated" : "error";
}
const char* cudaGetErrorString(cudaError_t code) { return cudaGetErrorName(code); }
cudaError_t cudaGetLastError() {
  const cudaError_t code = last;
  last = cudaSuccess;
  return code;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* to, const void*) {
  *to = {};
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
  *stream = reinterpret_cast<cudaStream_t>(8);
  return cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode) {
  recording = new Recorded;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t* graph) {
  *graph = reinterpret_cast<cudaGraph_t>(recording);
  recording = nullptr;
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* to, cudaGraph_t graph, unsigned long long) {
  *to = reinterpret_cast<cudaGraphExec_t>(new Recorded(*reinterpret_cast<Recorded*>(graph)));
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t) {
  for (const auto& step : reinterpret_cast<Recorded*>(graph)->steps) step();
  return cudaSuccess;
}
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t*, std::size_t* count) {
  *count = reinterpret_cast<Recorded*>(graph)->steps.size();
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete reinterpret_cast<Recorded*>(graph);
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  delete reinterpret_cast<Recorded*>(graph);
  return cudaSuccess;
}

// Of code that nvcc compiled: its kernels are none here.
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* to, const void*) {
  *to = {};
  to->binaryVersion = to->ptxVersion = 80, to->maxThreadsPerBlock = 1024, to->numRegs = 64;
  return cudaSuccess;
}
static cudaError_t none() {
  std::fprintf(stderr, "emulate: a kernel that is not emulated was launched\n");
  return failed(cudaErrorInvalidDeviceFunction);
}
cudaError_t cudaLaunchKernel(const void*, dim3, dim3, void**, std::size_t, cudaStream_t) { return none(); }
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t*, const void*, void**) { return none(); }
cudaError_t __cudaLaunchKernel(void*, dim3, dim3, void**, std::size_t, cudaStream_t) { return none(); }
cudaError_t cudaLibraryGetKernel(cudaKernel_t*, cudaLibrary_t, const char*) { return none(); }
cudaError_t cudaLibraryLoadData(cudaLibrary_t*, const void*, cudaJitOption*, void**, unsigned,
                                cudaLibraryOption*, void**, unsigned) {
  return none();
}
cudaError_t cudaGetDriverEntryPointByVersion(const char*, void** function, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult*) {
  *function = nullptr;
  return none();
}
int __cudaGetKernel(void**, const void*) { return 0; }
int __cudaPopCallConfiguration(dim3*, dim3*, std::size_t*, void*) { return 0; }
unsigned __cudaPushCallConfiguration(dim3, dim3, std::size_t, void*) { return 0; }
void** __cudaRegisterFatBinary(void*) { return nullptr; }
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
void __cudaRegisterFunction() {}
void __cudaRegisterVar() {}
}
