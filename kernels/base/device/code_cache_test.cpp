// The cache gives back what is kept; what is broken, of something else or not the user's is made again.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/device/code_cache.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>

namespace crosstalk {
namespace {

namespace fs = std::filesystem;

class CodeCacheTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "code_cache_XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
  }
  void TearDown() override { fs::remove_all(root_); }

  std::string ask(const std::string& key = "key") {
    return cache().get(key, [&] { return ++made_, "code of " + key + std::string(3, '\0') + "\n"; });
  }
  static std::string expected(const std::string& key = "key") {
    return "code of " + key + std::string(3, '\0') + "\n";
  }
  CodeCache cache() const { return CodeCache(root_ + "/below/it"); }
  static std::string content(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static void write(const std::string& path, const std::string& text) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
  }
  std::string root_;
  int made_ = 0;
};

TEST_F(CodeCacheTest, IsMadeOnce) {
  EXPECT_EQ(ask(), expected());
  EXPECT_EQ(ask(), expected());
  EXPECT_EQ(made_, 1);
  EXPECT_EQ(ask("another"), expected("another"));
  EXPECT_EQ(made_, 2);
  int files = 0;
  for (const auto& entry : fs::directory_iterator(cache().folder())) files += entry.is_regular_file() ? 1 : 0;
  EXPECT_EQ(files, 2) << "nothing stays beside them";
}
TEST_F(CodeCacheTest, WhatIsBrokenIsMadeAgain) {
  ask();
  const std::string path = cache().path("key"), whole = content(path);
  for (std::size_t n = 0; n < whole.size(); ++n) {
    write(path, whole.substr(0, n));
    made_ = 0;
    ASSERT_EQ(ask(), expected()) << n;
    ASSERT_EQ(made_, 1) << "cut at " << n;
    std::string other = whole;
    other[n] = static_cast<char>(other[n] ^ 1);
    write(path, other);
    ASSERT_EQ(ask(), expected()) << n;
    ASSERT_EQ(made_, 2) << "changed at " << n;
  }
  EXPECT_EQ(content(path), whole);
}
TEST_F(CodeCacheTest, WhatIsOfAnotherKeyIsMadeAgain) {
  ask(), ask("another");
  fs::copy_file(cache().path("another"), cache().path("key"), fs::copy_options::overwrite_existing);
  EXPECT_EQ(ask(), expected());
  EXPECT_EQ(made_, 3);
}
TEST_F(CodeCacheTest, WhatOthersMayWriteIsMadeAgain) {
  ask();
  ASSERT_EQ(chmod(cache().path("key").c_str(), 0666), 0);
  ask();
  EXPECT_EQ(made_, 2);
  fs::rename(cache().path("key"), root_ + "/elsewhere");
  fs::create_symlink(root_ + "/elsewhere", cache().path("key"));
  ask();
  EXPECT_EQ(made_, 3);
  EXPECT_FALSE(fs::is_symlink(cache().path("key")));
}
TEST_F(CodeCacheTest, IsMadeWhereNothingCanBeKept) {
  write(root_ + "/file", "");
  const CodeCache nowhere(root_ + "/file/below");
  int made = 0;
  for (int i = 0; i < 2; ++i) EXPECT_EQ(nowhere.get("key", [&] { return ++made, "code"; }), "code");
  EXPECT_EQ(made, 2);
  const CodeCache off("");
  for (int i = 0; i < 2; ++i) EXPECT_EQ(off.get("key", [&] { return ++made, "code"; }), "code");
  EXPECT_EQ(made, 4);
}
TEST_F(CodeCacheTest, RenewingReplacesWhatIsKept) {
  ask();
  EXPECT_EQ(cache().renew("key", [] { return "newer"; }), "newer");
  EXPECT_EQ(ask(), "newer");
  EXPECT_EQ(made_, 1);
}

class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    value ? setenv(name, value, 1) : unsetenv(name);
  }
  ~Environment() { before_ ? setenv(name_, before_->c_str(), 1) : unsetenv(name_); }

 private:
  const char* name_;
  std::optional<std::string> before_;
};

TEST(CodeCacheFolder, IsTheUsers) {
  const Environment home("HOME", "/home/me"), caches("XDG_CACHE_HOME", nullptr),
      chosen("CROSSTALK_CODE_CACHE", nullptr);
  EXPECT_EQ(CodeCache::of_user().folder(), "/home/me/.cache/crosstalk");
  {
    const Environment xdg("XDG_CACHE_HOME", "/caches");
    EXPECT_EQ(CodeCache::of_user().folder(), "/caches/crosstalk");
    const Environment mine("CROSSTALK_CODE_CACHE", "/mine");
    EXPECT_EQ(CodeCache::of_user().folder(), "/mine");
    const Environment off("CROSSTALK_CODE_CACHE", "off");
    EXPECT_EQ(CodeCache::of_user().folder(), "");
  }
  const Environment relative("XDG_CACHE_HOME", "caches");
  EXPECT_EQ(CodeCache::of_user().folder(), "/home/me/.cache/crosstalk") << "relative ones do not count";
  const Environment nobody("HOME", nullptr);
  EXPECT_EQ(CodeCache::of_user().folder(), "");
}

}  // namespace
}  // namespace crosstalk
