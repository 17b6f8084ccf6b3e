// The files of a folder of compiled code: their names, their first lines, and whose they are.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/device/code_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "kernels/base/text/digest.h"

namespace crosstalk {
namespace {

/// As run ids are made.
std::string fingerprint(const std::string& text) {
  return digest_text(XXH3_128bits(text.data(), text.size()));
}
std::string head_of(const std::string& key, const std::string& code) {
  return fmt::format("crosstalk code 1 {} {} {}\n", fingerprint(key), fingerprint(code), code.size());
}

struct File {
  int descriptor = -1;
  ~File() {
    if (descriptor >= 0) close(descriptor);
  }
};

/// A file of this user's that nobody else may write.
std::optional<std::string> content_of(const std::string& path) {
  const File file{open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW)};
  struct stat about {};
  if (file.descriptor < 0 || fstat(file.descriptor, &about) != 0 || !S_ISREG(about.st_mode) ||
      about.st_uid != geteuid() || (about.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return std::nullopt;
  std::string all(static_cast<std::size_t>(about.st_size), '\0');
  for (std::size_t at = 0; at < all.size();) {
    const ssize_t n = read(file.descriptor, all.data() + at, all.size() - at);
    if (n <= 0) return std::nullopt;
    at += static_cast<std::size_t>(n);
  }
  return all;
}
std::optional<std::string> kept(const std::string& path, const std::string& key) {
  const std::optional<std::string> all = content_of(path);
  const std::size_t end = all ? all->find('\n') : std::string::npos;
  if (end == std::string::npos) return std::nullopt;
  std::string code = all->substr(end + 1);
  if (code.empty() || all->substr(0, end + 1) != head_of(key, code)) return std::nullopt;
  return code;
}

bool write_all(int descriptor, const std::string& text) {
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t n = write(descriptor, text.data() + at, text.size() - at);
    if (n <= 0) return false;
    at += static_cast<std::size_t>(n);
  }
  return true;
}
void keep(const std::string& folder, const std::string& path, const std::string& text) {
  std::error_code ignored;
  std::filesystem::create_directories(folder, ignored);
  static std::atomic<int> count{0};
  const std::string beside = fmt::format("{}.{}.{}", path, getpid(), count++);
  bool whole = false;
  {
    const File file{open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600)};
    if (file.descriptor < 0) return;
    whole = write_all(file.descriptor, text) && fsync(file.descriptor) == 0;
  }
  if (!whole || std::rename(beside.c_str(), path.c_str()) != 0) unlink(beside.c_str());
}

}  // namespace

CodeCache CodeCache::of_user() {
  const auto value = [](const char* name) {
    const char* text = std::getenv(name);
    return std::string(text ? text : "");
  };
  const std::string chosen = value("CROSSTALK_CODE_CACHE");
  if (chosen == "off") return CodeCache("");
  if (!chosen.empty()) return CodeCache(chosen);
  const std::string caches = value("XDG_CACHE_HOME"), home = value("HOME");
  if (!caches.empty() && caches[0] == '/') return CodeCache(caches + "/crosstalk");
  return CodeCache(home.empty() ? "" : home + "/.cache/crosstalk");
}

std::string CodeCache::path(const std::string& key) const {
  return fmt::format("{}/{}.code", folder_, fingerprint(key));
}

std::string CodeCache::get(const std::string& key, const std::function<std::string()>& make) const {
  if (folder_.empty()) return make();
  if (std::optional<std::string> code = kept(path(key), key)) return *std::move(code);
  return renew(key, make);
}

std::string CodeCache::renew(const std::string& key, const std::function<std::string()>& make) const {
  std::string code = make();
  if (!folder_.empty()) keep(folder_, path(key), head_of(key, code) + code);
  return code;
}

}  // namespace crosstalk
