// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/device/cuda_borrowed.h"

#include <cuda.h>
#include <cuda_runtime.h>

#include <string>

#include "kernels/base/error.h"

namespace crosstalk {
namespace {

void check(const char* what, cudaError_t code) {
  if (code == cudaSuccess) return;
  cudaGetLastError();
  throw DeviceError(std::string("[cuda] ") + what + " failed: " + cudaGetErrorString(code) + " (" +
                    cudaGetErrorName(code) + ")");
}

/// The driver's functions for the thread's context. Nothing links against the driver: machines without a GPU have none.
struct Driver {
  CUresult (*get)(CUcontext*) = nullptr;
  CUresult (*set)(CUcontext) = nullptr;
  Driver() {
    get = reinterpret_cast<decltype(get)>(found("cuCtxGetCurrent"));
    set = reinterpret_cast<decltype(set)>(found("cuCtxSetCurrent"));
  }
  static void* found(const char* name) {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
    check("looking for the driver",
          cudaGetDriverEntryPointByVersion(name, &function, 12000, cudaEnableDefault, &result));
#else
    check("looking for the driver", cudaGetDriverEntryPoint(name, &function, cudaEnableDefault, &result));
#endif
    if (result != cudaDriverEntryPointSuccess || function == nullptr)
      throw DeviceError(std::string("[cuda] the driver has no ") + name);
    return function;
  }
};
const Driver& driver() {
  static const Driver one;
  return one;
}

}  // namespace

CudaDeviceGuard::CudaDeviceGuard(int device) {
  CUcontext context = nullptr;
  if (driver().get(&context) != CUDA_SUCCESS) throw DeviceError("[cuda] asking for the context failed");
  before_ = context;
  check("choosing the device", cudaSetDevice(device));
}

CudaDeviceGuard::~CudaDeviceGuard() {
  if (before_ != nullptr) driver().set(static_cast<CUcontext>(before_));
}

void cuda_copy_in_order(void* stream, PitchedMemory target, PitchedMemory source, std::size_t bytes,
                        std::size_t rows) {
  auto* const order = static_cast<cudaStream_t>(stream);
  if (rows == 1)
    return check("copying on the device",
                 cudaMemcpyAsync(target.data, source.data, bytes, cudaMemcpyDeviceToDevice, order));
  check("copying on the device", cudaMemcpy2DAsync(target.data, target.pitch, source.data, source.pitch,
                                                   bytes, rows, cudaMemcpyDeviceToDevice, order));
}

void cuda_zero_in_order(void* stream, void* p, std::size_t bytes) {
  check("filling memory", cudaMemsetAsync(p, 0, bytes, static_cast<cudaStream_t>(stream)));
}

int cuda_device_of(const void* p) {
  cudaPointerAttributes attributes{};
  check("asking where memory lies", cudaPointerGetAttributes(&attributes, p));
  if (attributes.type != cudaMemoryTypeDevice && attributes.type != cudaMemoryTypeManaged)
    throw DeviceError("[cuda] memory that should be on a GPU is not");
  return attributes.device;
}

void cuda_wait_for_device() { check("work on the device", cudaDeviceSynchronize()); }

void cuda_wait_for(void* stream) {
  check("work on a stream", cudaStreamSynchronize(static_cast<cudaStream_t>(stream)));
}

}  // namespace crosstalk
