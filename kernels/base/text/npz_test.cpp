// Archives of arrays: our own, NumPy's, and damaged ones.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/text/npz.h"

#include "kernels/base/text/npy.h"

#include <gtest/gtest.h>

#include <random>
#include <stdexcept>

namespace crosstalk {
namespace {

const NpzMembers kTwo = {{"first", "some bytes"}, {"memory.A_log", std::string("\0\1\2\xff", 4)}};

std::string error_of(const std::string& bytes) {
  try {
    npz_members(bytes, "a.npz");
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

TEST(Npz, GivesBackWhatWasPutIn) {
  EXPECT_EQ(npz_members(npz_bytes(kTwo), "a.npz"), kTwo);
  EXPECT_EQ(npz_members(npz_bytes({}), "a.npz"), NpzMembers());
  EXPECT_EQ(npz_bytes(kTwo), npz_bytes(kTwo));
}

TEST(Npz, ReadsTheEndBehindAComment) {
  std::string bytes = npz_bytes(kTwo);
  bytes[bytes.size() - 2] = 5;
  EXPECT_EQ(npz_members(bytes + "hello", "a.npz"), kTwo);
  EXPECT_EQ(npz_comment(bytes + "hello", "a.npz"), "hello");
  EXPECT_EQ(npz_comment(npz_bytes(kTwo), "a.npz"), "");
}

TEST(Npz, SaysWhatIsWrong) {
  EXPECT_EQ(error_of("no archive at all, but long enough to be one"), "a.npz: is not an .npz file");
  EXPECT_EQ(error_of(""), "a.npz: is not an .npz file");
  std::string bytes = npz_bytes(kTwo);
  EXPECT_NE(error_of(bytes.substr(0, bytes.size() - 30)).find("cut short"), std::string::npos);
  bytes[30 + 9 + 2] ^= 1;  // in the first content
  EXPECT_EQ(error_of(bytes), "a.npz: the checksum of first.npy does not match");
  bytes = npz_bytes(kTwo);
  bytes[bytes.find(std::string("PK\1\2")) + 10] = 8;  // deflate
  EXPECT_EQ(error_of(bytes),
            "a.npz: first.npy is compressed; save it with numpy.savez, not savez_compressed");
}

TEST(NpyInMemory, IsWhatAFileHolds) {
  const NpyArray<float> array{{2, 2}, {1, 2, 3, -4.5F}};
  const std::string bytes = npy_bytes(array, "a");
  EXPECT_EQ(npy_type(bytes, "a"), "<f4");
  EXPECT_EQ(npy_array<float>(bytes, "a").shape, array.shape);
  EXPECT_EQ(npy_array<float>(bytes, "a").data, array.data);
  EXPECT_THROW(npy_array<double>(bytes, "a"), std::runtime_error);
  EXPECT_THROW(npy_array<float>(bytes.substr(0, bytes.size() - 1), "a"), std::runtime_error);
  EXPECT_THROW(npy_type("something else", "a"), std::runtime_error);
}

/// Whatever the damage: an error or other members, never a crash or an endless loop.
TEST(Npz, SurvivesDamage) {
  std::mt19937 random(1);
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = npz_bytes(kTwo);
    for (unsigned n = random() % 4 + 1; n > 0; --n)
      bytes[random() % bytes.size()] = static_cast<char>(random() % 3 == 0 ? 255 : random());
    if (round % 3 == 0) bytes.resize(random() % bytes.size());
    error_of(bytes);
  }
}

}  // namespace
}  // namespace crosstalk
