// NumPy files come back as they were written; damaged ones are refused.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/text/npy.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <stdexcept>

namespace crosstalk {
namespace {

namespace fs = std::filesystem;

class Npy : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "crosstalk_npy_XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string file(const std::string& name = "a.npy") const { return (folder_ / name).string(); }
  std::string bytes() const {
    std::ostringstream text;
    text << std::ifstream(file(), std::ios::binary).rdbuf();
    return text.str();
  }
  void overwrite(const std::string& content) const { std::ofstream(file(), std::ios::binary) << content; }

  template <typename T>
  void round_trip(const NpyArray<T>& array) const {
    write_npy(file(), array);
    const NpyArray<T> read = read_npy<T>(file());
    EXPECT_EQ(read.shape, array.shape);
    EXPECT_EQ(read.data, array.data);
  }

  template <typename T>
  std::string error() const {
    try {
      read_npy<T>(file());
    } catch (const std::runtime_error& caught) {
      return caught.what();
    }
    return "read";
  }

 private:
  fs::path folder_;
};

TEST_F(Npy, BytesAreThoseOfTheFormat) {
  write_npy<std::int32_t>(file(), {{2, 3}, {1, 2, 3, 4, 5, -1}});
  const std::string all = bytes();
  ASSERT_EQ(all.size(), 128u + 24u);
  EXPECT_EQ(all.substr(0, 10), std::string("\x93NUMPY\x01\x00\x76\x00", 10));
  EXPECT_EQ(all.substr(10, 60), "{'descr': '<i4', 'fortran_order': False, 'shape': (2,3), }  ");
  EXPECT_EQ(all[127], '\n');
  EXPECT_EQ(all.substr(128, 4), std::string("\x01\0\0\0", 4));
  EXPECT_EQ(all.substr(148, 4), "\xff\xff\xff\xff");
}

TEST_F(Npy, RoundTripsTypesAndShapes) {
  round_trip<std::int32_t>({{4}, {0, -1, std::numeric_limits<std::int32_t>::min(), 7}});
  round_trip<std::int64_t>({{2, 1, 2}, {0, -1, std::numeric_limits<std::int64_t>::max(), 7}});
  round_trip<float>({{3}, {0.1f, -1e-45f, std::numeric_limits<float>::infinity()}});
  round_trip<double>({{1, 2}, {0.1, -5e-324}});
  round_trip<double>({{}, {2.5}});   // scalar
  round_trip<double>({{0, 3}, {}});  // empty
}

TEST_F(Npy, SaysWhatAFileHoldsInstead) {
  EXPECT_NE(error<float>().find("cannot be read"), std::string::npos);
  write_npy<double>(file(), {{2}, {1, 2}});
  EXPECT_NE(error<float>().find("holds elements of type '<f8', not '<f4'"), std::string::npos);
  const std::string good = bytes();
  overwrite(good.substr(0, good.size() - 1));
  EXPECT_NE(error<double>().find("holds 15 bytes of data where its shape says 16"), std::string::npos);
  std::string huge = good;
  huge.replace(huge.find("(2,), }                "), 23, "(9999999999999999999), ");
  overwrite(huge);
  EXPECT_NE(error<double>().find("shape"), std::string::npos);
  overwrite(good.substr(0, 40));
  EXPECT_NE(error<double>().find("ends within its .npy header"), std::string::npos);
  overwrite("PK\x03\x04 something else");
  EXPECT_NE(error<double>().find("is not an .npy file"), std::string::npos);
}

TEST_F(Npy, BringsFortranOrderIntoCOrder) {
  write_npy<std::int32_t>(file(),
                          {{2, 3, 2}, {0, 6, 2, 8, 4, 10, 1, 7, 3, 9, 5, 11}});  // 2 (c + 2 b) .. of [a,b,c]
  std::string fortran = bytes();
  fortran.replace(fortran.find("False, "), 7, "True,  ");
  overwrite(fortran);
  const NpyArray<std::int32_t> read = read_npy<std::int32_t>(file());
  EXPECT_EQ(read.shape, (std::vector<std::int64_t>{2, 3, 2}));
  // Element [a,b,c] stands at a + 2 b + 6 c.
  EXPECT_EQ(read.data, (std::vector<std::int32_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}));
  EXPECT_EQ(read_npy_integers(file()).data[1], 1);
  EXPECT_TRUE(npy_layout(file()).fortran);
}

TEST_F(Npy, ReadsWholeNumbersOfEveryWidth) {
  write_npy<std::int64_t>(file(), {{2}, {-3, 1}});
  EXPECT_EQ(read_npy_integers(file()).data, (std::vector<std::int64_t>{-3, 1}));
  const std::string wide = bytes();
  const auto as = [&](const std::string& type, const std::string& data) {
    std::string all = wide.substr(0, 128) + data;
    overwrite(all.replace(all.find("<i8"), 3, type));
    return read_npy_integers(file()).data;
  };
  EXPECT_EQ(as("|i1", "\xfe\x05"), (std::vector<std::int64_t>{-2, 5}));
  EXPECT_EQ(as("|u1", "\xfe\x05"), (std::vector<std::int64_t>{254, 5}));
  EXPECT_EQ(as("<u2", std::string("\xfe\xff\x01\x00", 4)), (std::vector<std::int64_t>{65534, 1}));
  EXPECT_EQ(as("<i2", std::string("\xfe\xff\x01\x00", 4)), (std::vector<std::int64_t>{-2, 1}));
  EXPECT_THROW(as("<u8", std::string(16, '\xff')), std::runtime_error);
  EXPECT_THROW(as(">i8", std::string(16, '\0')), std::runtime_error);
  write_npy<double>(file(), {{1}, {1}});
  try {
    read_npy_integers(file());
    FAIL() << "real numbers were taken for whole ones";
  } catch (const std::runtime_error& caught) {
    EXPECT_NE(std::string(caught.what()).find("'<f8', not whole numbers; save array.astype('int64')"),
              std::string::npos)
        << caught.what();
  }
}

TEST_F(Npy, ReadsRegularFilesOnly) {
  ASSERT_EQ(mkfifo(file("pipe").c_str(), 0600), 0);
  for (const std::string& path : {file("pipe"), file("")}) {
    EXPECT_THROW(read_npy<double>(path), std::runtime_error) << path;
    EXPECT_THROW(read_npy_integers(path), std::runtime_error) << path;
  }
}

TEST_F(Npy, RefusesWhatCannotBeWritten) {
  EXPECT_THROW(write_npy<double>(file("no/such/folder.npy"), {{1}, {1}}), std::runtime_error);
  EXPECT_THROW(write_npy<double>(file(), {{3}, {1}}), std::logic_error);
}

}  // namespace
}  // namespace crosstalk
