// Arenas give aligned places, guards see overruns, and limits hold.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/buffer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/base/error.h"

namespace crosstalk {
namespace {

TEST(Buffer, CopiesThereAndBack) {
  Buffer buffer(Device::cpu, 16);
  const int in[4] = {1, 2, 3, 4};
  int out[4] = {};
  buffer.fill_zero();
  buffer.copy_from_host(in, 8, 4);
  buffer.copy_to_host(out, 16);
  EXPECT_EQ(out[0], 0);
  EXPECT_EQ(out[1], 1);
  EXPECT_EQ(out[2], 2);
  EXPECT_EQ(out[3], 0);
  buffer.copy_to_host(out, 4, 8);
  EXPECT_EQ(out[0], 2);
}

TEST(Buffer, TooMuchMemorySaysHowMuch) {
  try {
    Buffer buffer(Device::cpu, std::size_t{1} << 60);
    FAIL() << "an exbibyte was allocated";
  } catch (const DeviceError& e) {
    EXPECT_NE(std::string(e.what()).find("1099511627776.0 MiB"), std::string::npos) << e.what();
  }
}

TEST(Buffer, LimitHoldsForAllTogether) {
  limit_memory(4096);
  {
    const Buffer first(Device::cpu, 4000);
    EXPECT_EQ(free_memory(Device::cpu), 4096u - 4032u);
    EXPECT_THROW(Buffer(Device::cpu, 65), OutOfMemory);
    const Buffer second(Device::cpu, 64);
    EXPECT_EQ(free_memory(Device::cpu), 0u);
  }
  EXPECT_EQ(free_memory(Device::cpu), 4096u);
  limit_memory(0);
  EXPECT_EQ(free_memory(Device::cpu), kEndlessMemory);
}

TEST(Buffer, MeasureCountsTheMostAtATimeAndTakesNothing) {
  const std::size_t large = std::size_t{1} << 50;
  const MemoryMeasure measure;
  EXPECT_THROW(MemoryMeasure(), std::logic_error);
  {
    Buffer planned = Buffer::planned(Device::cpu, large);
    EXPECT_NE(planned.data(), nullptr);
    EXPECT_FALSE(planned.has_memory());
    planned.fill_zero();
    planned.copy_from_host(nullptr, 8);
    const Buffer moved = std::move(planned);
    EXPECT_EQ(measure.bytes(), large);
  }
  const Buffer later = Buffer::planned(Device::cpu, 128);
  EXPECT_EQ(measure.bytes(), large);
  EXPECT_EQ(free_memory(Device::cpu), kEndlessMemory);
  Arena arena(Device::cpu);
  Tensor<double> tensor = shaped<double>(2, {1 << 20, 1 << 10});
  arena.reserve(&tensor);
  arena.allocate();
  EXPECT_NE(tensor.data, nullptr);
  arena.check_guards();
  const Buffer real(Device::cpu, 64);  // what tasks share is there as ever
  EXPECT_TRUE(real.has_memory());
}

class ArenaTest : public ::testing::Test {
 protected:
  ArenaTest() {
    arena.reserve(&x);
    arena.reserve(&ids);
    arena.reserve(&scalar);
    arena.allocate();
  }
  Tensor<float> x = shaped<float>(3, {5, 7});
  Tensor<std::int32_t> ids = shaped<std::int32_t>(3, {2});
  Tensor<double> scalar = shaped<double>(3, {});
  Arena arena{Device::cpu};
};

TEST_F(ArenaTest, ShapesStridesAndAlignment) {
  EXPECT_EQ(x.size(), 35);
  EXPECT_EQ(x.rows(), 5);
  EXPECT_EQ(x.columns(), 7);
  EXPECT_EQ(scalar.size(), 1);
  EXPECT_EQ(x.replica_stride, 48);  // 35 floats rounded up to whole 64-byte lines
  EXPECT_EQ(scalar.replica_stride, 8);
  for (int r = 0; r < 3; ++r) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(x.at(r)) % 64, 0u);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(ids.at(r)) % 64, 0u);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(scalar.at(r)) % 64, 0u);
  }
  EXPECT_EQ(x.at(2) - x.at(0), 96);
}

TEST_F(ArenaTest, FreshMemoryIsNanAndAbsent) {
  for (int r = 0; r < 3; ++r) {
    for (int i = 0; i < 35; ++i) EXPECT_TRUE(std::isnan(x.at(r)[i]));
    EXPECT_TRUE(std::isnan(scalar.at(r)[0]));
    for (int i = 0; i < 2; ++i) EXPECT_EQ(ids.at(r)[i], -1);
  }
}

TEST_F(ArenaTest, PiecesDoNotOverlap) {
  for (int r = 0; r < 3; ++r) {
    std::fill(x.at(r), x.at(r) + 35, 1.0f);
    std::fill(ids.at(r), ids.at(r) + 2, 2);
    scalar.at(r)[0] = 3;
  }
  for (int r = 0; r < 3; ++r) {
    for (int i = 0; i < 35; ++i) EXPECT_EQ(x.at(r)[i], 1.0f);
    for (int i = 0; i < 2; ++i) EXPECT_EQ(ids.at(r)[i], 2);
    EXPECT_EQ(scalar.at(r)[0], 3);
  }
  EXPECT_NO_THROW(arena.check_guards());
}

// Every byte of every guard counts, whatever is written there.
TEST_F(ArenaTest, OverrunIsCaught) {
  const auto overrun = [this](auto tensor, int byte) {
    auto* end = reinterpret_cast<unsigned char*>(tensor.at(2) + tensor.replica_stride);
    const unsigned char kept = end[byte];
    end[byte] = static_cast<unsigned char>(kept ^ 1);
    EXPECT_THROW(arena.check_guards(), std::logic_error) << byte;
    end[byte] = kept;
    EXPECT_NO_THROW(arena.check_guards());
  };
  for (int byte : {0, 1, 31, 63}) {
    overrun(x, byte);
    overrun(ids, byte);
    overrun(scalar, byte);
  }
  x.at(2)[x.replica_stride] = 0.0f;
  EXPECT_THROW(arena.check_guards(), std::logic_error);
}

TEST(Arena, MessageNamesThePiece) {
  Tensor<float> first = shaped<float>(1, {4}), second = shaped<float>(1, {16});
  Arena arena(Device::cpu);
  arena.reserve(&first);
  arena.reserve(&second);
  arena.allocate();
  second.data[16] = 0;
  try {
    arena.check_guards();
    FAIL() << "the overrun went unseen";
  } catch (const std::logic_error& e) {
    EXPECT_NE(std::string(e.what()).find("piece 1 (64 bytes)"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace crosstalk
