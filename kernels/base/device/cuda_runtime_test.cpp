// Copies between the host and a GPU.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/device/cuda_runtime.h"

#include "kernels/base/buffer.h"
#include "kernels/testing/cuda_test.h"

namespace crosstalk::checks {
namespace {

class CudaRuntime : public CudaTest {};

TEST_F(CudaRuntime, Copies) {
  EXPECT_FALSE(cuda_device_name(0).empty());
  const CudaMemory memory = cuda_memory();
  EXPECT_GT(memory.free, 0u);
  EXPECT_GE(memory.total, memory.free);
  const CudaStream stream;
  Buffer device(Device::cuda, 4000), other(Device::cuda, 4000);
  auto* pinned = static_cast<int*>(cuda_allocate_pinned(4000));
  ASSERT_NE(pinned, nullptr);
  for (int i = 0; i < 1000; ++i) pinned[i] = i;
  stream.copy_to_device(device.data(), pinned, 4000);
  stream.copy_on_device(other.data(), device.data(), 4000);
  stream.fill_zero(other.data(), 400);
  stream.synchronise();
  for (int i = 0; i < 1000; ++i) pinned[i] = -1;
  stream.copy_to_host(pinned, other.data(), 4000);
  stream.synchronise();
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(pinned[i], i < 100 ? 0 : i);
  cuda_free_pinned(pinned);
}

}  // namespace
}  // namespace crosstalk::checks
