// Archives of arrays: our own, NumPy's, and damaged ones. SPDX-License-Identifier: Apache-2.0
#include "kernels/base/npz.h"

#include "kernels/base/npy_text.h"

#include <gtest/gtest.h>

#include <cmath>
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

TEST(NpyInMemory, GivesBackFloatsAndDoubles) {
  for (const bool is_double : {false, true}) {
    for (const std::vector<std::int64_t>& shape : {std::vector<std::int64_t>{}, {3}, {2, 1, 2}, {0, 4}}) {
      FloatArray array{shape, {}, is_double};
      std::int64_t n = 1;
      for (const std::int64_t size : shape) n *= size;
      for (std::int64_t i = 0; i < n; ++i) array.data.push_back(i == 0 ? -INFINITY : 0.5 * double(i));
      const std::string bytes = npy_of(array);
      EXPECT_EQ((bytes.size() - array.data.size() * (is_double ? 8 : 4)) % 64, 0u);
      const FloatArray back = floats_of_npy(bytes, "a");
      EXPECT_EQ(back.shape, array.shape);
      EXPECT_EQ(back.data, array.data);
      EXPECT_EQ(back.is_double, is_double);
    }
  }
}

TEST(NpyInMemory, SaysWhatIsWrong) {
  const auto error = [](std::string bytes, const std::string& from, const std::string& to) {
    bytes.replace(bytes.find(from), from.size(), to);
    try {
      floats_of_npy(bytes, "a");
    } catch (const std::runtime_error& caught) {
      return std::string(caught.what());
    }
    return std::string();
  };
  const std::string bytes = npy_of({{2, 3}, std::vector<double>(6), true});
  EXPECT_EQ(error(bytes, "NUMPY", "NUMBY"), "a: is no .npy array");
  EXPECT_EQ(error(bytes, "<f8", "<i8"), "a: holds elements of type '<i8', not float32 or float64");
  EXPECT_EQ(error(bytes, "False", "True "), "a: has a header of another form");
  EXPECT_EQ(error(bytes, "(2,3)", "(2,4)"), "a: holds less data than its shape says");
  EXPECT_EQ(error(bytes, "(2,3)", "(2,2)"), "a: holds more or less data than its shape says");
  EXPECT_EQ(error(bytes, "(2,3), }    ", "(99999,9999)}"), "a: holds less data than its shape says");
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
