// Tests that need a GPU: skipped where there is none, failures with CROSSTALK_REQUIRE_CUDA=1.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "kernels/base/device/cuda_runtime.h"

namespace crosstalk::checks {

inline bool cuda_required() {
  const char* required = std::getenv("CROSSTALK_REQUIRE_CUDA");
  return required && std::string(required) == "1";
}

/// CROSSTALK_FEW_REPLICAS=1: two at most and small shapes, for tools that make the GPU slow.
inline bool few_replicas() { return std::getenv("CROSSTALK_FEW_REPLICAS") != nullptr; }

/// For SetUp() or the start of a test, which returns where this skipped or failed.
inline void want_cuda() {
  if (built_with_cuda() && cuda_device_count() > 0) return;
  if (cuda_required()) {
    FAIL() << "no CUDA device, and CROSSTALK_REQUIRE_CUDA is 1";
  }
  GTEST_SKIP() << "no CUDA device";
}

class CudaTest : public ::testing::Test {
 protected:
  void SetUp() override { want_cuda(); }
};

}  // namespace crosstalk::checks
