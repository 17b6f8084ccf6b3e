// A folder with three splits of somebody's arrays, for tests of the tasks that read them.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "tasks/golden.h"
#include "tasks/kinds/file_example.h"

namespace crosstalk::testing {

/// Data reads the folder; all splits begin as example(7, 20, 8).
template <class Data, class Arrays, Arrays (*example)(std::uint64_t, std::int64_t, std::int64_t)>
class FilesTest : public ::testing::Test {
 protected:
  void SetUp() override { put_all(); }
  void put(const std::string& split, const Arrays& files) const {
    write_example(folder_.path(), split, files);
  }
  void put_all() const {
    for (const char* split : {"train", "eval", "test"}) put(split, example(7, 20, 8));
  }
  std::string file(const std::string& name) const { return folder_.path() + "/" + name; }
  std::string refusal() const {
    const checks::Refused found = checks::refused([&] { Data data(folder_.path()); });
    if (found.key == "accepted") return "read";
    EXPECT_EQ(found.key, "task.folder");
    return found.why;
  }
  void expect_refused(const std::string& file_name, const std::string& why) const {
    const std::string message = refusal();
    EXPECT_THAT(message, HasSubstr(file(file_name)));
    EXPECT_THAT(message, HasSubstr(why));
    put_all();
    EXPECT_EQ(refusal(), "read");
  }
  ExampleFolder folder_;
};

}  // namespace crosstalk::testing
