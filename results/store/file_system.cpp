// The operating system's own calls.
// SPDX-License-Identifier: Apache-2.0
#include "results/store/file_system.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace crosstalk {

int FileSystem::open(const std::string& path, int flags, mode_t mode) {
  return ::open(path.c_str(), flags, mode);
}
ssize_t FileSystem::read(int file, char* bytes, std::size_t size) { return ::read(file, bytes, size); }
ssize_t FileSystem::write(int file, const char* bytes, std::size_t size) {
  return ::write(file, bytes, size);
}
int FileSystem::fdatasync(int file) { return ::fdatasync(file); }
int FileSystem::fsync(int file) { return ::fsync(file); }
int FileSystem::ftruncate(int file, off_t size) { return ::ftruncate(file, size); }
int FileSystem::flock(int file, int operation) { return ::flock(file, operation); }
int FileSystem::close(int file) { return ::close(file); }
int FileSystem::rename(const std::string& from, const std::string& to) {
  return ::rename(from.c_str(), to.c_str());
}
int FileSystem::unlink(const std::string& path) { return ::unlink(path.c_str()); }
int FileSystem::mkdir(const std::string& path, mode_t mode) { return ::mkdir(path.c_str(), mode); }

FileSystem& FileSystem::real() {
  static FileSystem system;
  return system;
}

}  // namespace crosstalk
