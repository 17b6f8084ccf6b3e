// The few CUDA runtime calls that host code needs. cuda_runtime.cu implements them; a build without CUDA
// links no_cuda.cpp, whose versions throw DeviceError("built without CUDA"). SPDX-License-Identifier:
// Apache-2.0
#pragma once
#include <cstddef>
#include <string>

namespace crosstalk {

bool built_with_cuda();
/// Devices that this process may use; 0 without a driver.
int cuda_device_count();
/// nullptr when there is not enough memory.
void* cuda_allocate(std::size_t bytes);
void cuda_free(void* p);
void cuda_fill_zero(void* p, std::size_t bytes);
void cuda_fill_byte(void* p, unsigned char byte, std::size_t bytes);
void cuda_copy_to_device(void* target, const void* source, std::size_t bytes);
void cuda_copy_to_host(void* target, const void* source, std::size_t bytes);

}  // namespace crosstalk
