// Whatever is done to a file, its stamp tells.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/text/file_stamps.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace crosstalk {
namespace {

namespace fs = std::filesystem;

TEST(FileStamps, EveryChangeIsNoticedAlsoRightAfterTheStamp) {
  std::string folder = (fs::temp_directory_path() / "crosstalk_stamps_XXXXXX").string();
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::string path = folder + "/a", absent = folder + "/b";
  const auto write = [](const std::string& to, const std::string& text) { std::ofstream(to) << text; };
  for (int round = 0; round < 20; ++round) {
    for (int change = 0; change < 5; ++change) {
      write(path, "one");
      fs::remove(absent);
      const FileStamps stamps({path, absent});
      ASSERT_EQ(stamps.changed(), "");
      const fs::file_time_type time = fs::last_write_time(path);
      if (change == 0) write(path, "two");  // of the same length, within a tick of the file system's clock
      if (change == 1) write(path, "two"), fs::last_write_time(path, time);
      if (change == 2) write(folder + "/c", "one"), fs::rename(folder + "/c", path);
      if (change == 3) fs::remove(path);
      if (change == 4) write(absent, "new");
      EXPECT_EQ(stamps.changed(), change == 4 ? absent : path) << change;
    }
  }
  fs::remove_all(folder);
}

}  // namespace
}  // namespace crosstalk
