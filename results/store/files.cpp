// Whole files and folders in terms of FileSystem.
// SPDX-License-Identifier: Apache-2.0
#include "results/store/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "results/printable.h"
#include "results/store/store.h"

namespace crosstalk {
namespace {

template <typename Call>
auto retried(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

[[noreturn]] void fail(std::string_view what, const std::filesystem::path& path, int error_number) {
  throw StoreError(fmt::format("{}: cannot {}: {}", path.string(), what, reason_of(error_number)));
}

}  // namespace

std::string reason_of(int error_number) {
  const char* hint = error_number == ENOSPC   ? " (the disk is full)"
                     : error_number == EDQUOT ? " (the quota is used up)"
                                              : "";
  return std::strerror(error_number) + std::string(hint);
}

File& File::operator=(File&& other) noexcept {
  if (this != &other) {
    close();
    system_ = other.system_;
    number_ = std::exchange(other.number_, -1);
  }
  return *this;
}

int File::close() {
  // Not retried: Linux frees the number even where close() reports an interrupt.
  return number_ >= 0 ? system_->close(std::exchange(number_, -1)) : 0;
}

File open_file(FileSystem& system, const std::filesystem::path& path, int flags) {
  return {system, retried([&] { return system.open(path.string(), flags | O_CLOEXEC, 0666); })};
}

bool read_some(FileSystem& system, const File& file, const std::filesystem::path& path, std::string& bytes,
               std::size_t size) {
  const std::size_t before = bytes.size();
  bytes.resize(before + size);
  const ssize_t got = retried([&] { return system.read(file.number(), bytes.data() + before, size); });
  const int error_number = errno;
  bytes.resize(before + static_cast<std::size_t>(std::max<ssize_t>(0, got)));
  if (got < 0) fail("be read", path, error_number);
  return got > 0;
}

std::string read_all(FileSystem& system, const File& file, const std::filesystem::path& path) {
  std::string bytes;
  while (read_some(system, file, path, bytes, std::size_t{1} << 20)) {
  }
  return bytes;
}

File open_regular(FileSystem& system, const std::filesystem::path& path) {
  // A named pipe would let open() wait for a writer, and a device may never end.
  File file = open_file(system, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
  if (!file.is_open()) fail("be opened", path, errno);
  struct stat now {};
  if (::fstat(file.number(), &now) != 0) fail("be read", path, errno);
  if (!S_ISREG(now.st_mode))
    throw StoreError(fmt::format("{}: cannot be read: it is no regular file", path.string()));
  return file;
}

std::string read_file(FileSystem& system, const std::filesystem::path& path, std::size_t most) {
  const File file = open_regular(system, path);
  std::string bytes;
  while (bytes.size() <= most && read_some(system, file, path, bytes, std::size_t{1} << 20)) {
  }
  if (bytes.size() > most)
    throw StoreError(
        fmt::format("{}: is larger than the {} bytes that such a file can have", path.string(), most));
  return bytes;
}

int write_all(FileSystem& system, const File& file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t got = retried([&] { return system.write(file.number(), bytes.data(), bytes.size()); });
    if (got < 0) return errno;
    if (got == 0) return ENOSPC;  // a file that takes nothing and gives no reason
    bytes.remove_prefix(static_cast<std::size_t>(got));
  }
  return 0;
}

void sync_folder(FileSystem& system, const std::filesystem::path& folder) {
  const File file = open_file(system, folder, O_RDONLY | O_DIRECTORY);
  if (!file.is_open()) fail("be opened", folder, errno);
  const int result = retried([&] { return system.fsync(file.number()); });
  // Some file systems cannot sync a folder; there is nothing more to be done on them.
  if (result < 0 && errno != EINVAL) fail("be made durable", folder, errno);
}

void make_folders(FileSystem& system, const std::filesystem::path& folder) {
  std::error_code ignored;
  if (folder.empty() || std::filesystem::is_directory(folder, ignored)) return;
  const std::filesystem::path above = folder.parent_path();
  if (above != folder) make_folders(system, above);
  if (retried([&] { return system.mkdir(folder.string(), 0777); }) < 0) {
    const int error_number = errno;
    // Another process may have made it in the meantime.
    if (error_number == EEXIST && std::filesystem::is_directory(folder, ignored)) return;
    fail("be made", folder, error_number);
  }
  sync_folder(system, above.empty() ? std::filesystem::path(".") : above);
}

std::filesystem::path file_named(const std::filesystem::path& folder, const std::string& name,
                                 std::string_view ending) {
  if (name.empty() || name.front() == '.' ||
      name.find_first_of(std::string_view("/\0", 2)) != std::string::npos)
    throw StoreError(
        fmt::format("{}: '{}' cannot be the name of a file", folder.string(), shortened(name, 200)));
  return folder / (name + std::string(ending));
}

std::uint32_t random_number() {
  // Not std::random_device: of GCC 12 it asks for a C library of 2022, which clusters have not.
  std::uint32_t number = 0;
  if (::getentropy(&number, sizeof number) != 0)
    throw std::runtime_error(fmt::format("no random number from the system: {}", std::strerror(errno)));
  return number;
}

std::string process_name() {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0 || host[0] == '\0') std::strcpy(host.data(), "host");
  std::string name = host.data();
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '-' && c != '.') c = '_';
  }
  if (name.front() == '.') name.front() = '_';
  // Containers often have equal names and pids.
  static const std::uint32_t chance = random_number();
  return fmt::format("{}-{}-{:08x}", name, ::getpid(), chance);
}

void write_whole(FileSystem& system, const std::filesystem::path& path, std::string_view bytes) {
  std::filesystem::path temporary;
  const auto open_new = [&] {
    for (int n = 0;; ++n) {
      temporary =
          path.parent_path() / fmt::format(".{}.{}-{}.tmp", path.filename().string(), process_name(), n);
      File file = open_file(system, temporary, O_WRONLY | O_CREAT | O_EXCL);
      if (file.is_open() || errno != EEXIST) return file;
    }
  };
  File file = open_new();
  if (!file.is_open()) fail("be created", temporary, errno);
  int error_number = write_all(system, file, bytes);
  if (error_number == 0 && retried([&] { return system.fsync(file.number()); }) < 0) error_number = errno;
  file.close();
  if (error_number == 0 && retried([&] { return system.rename(temporary.string(), path.string()); }) < 0) {
    error_number = errno;
  }
  if (error_number != 0) {
    system.unlink(temporary.string());
    fail("be written", path, error_number);
  }
  sync_folder(system, path.parent_path());
}

}  // namespace crosstalk
