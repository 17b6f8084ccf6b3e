// The system calls of the store behind one small interface, so that a test can let the n-th of them fail.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <sys/types.h>

#include <cstddef>
#include <string>

namespace crosstalk {

/// Each function is the system call of its name: -1 and errno on failure. Retrying is the caller's work.
class FileSystem {
 public:
  virtual ~FileSystem() = default;
  virtual int open(const std::string& path, int flags, mode_t mode);
  virtual ssize_t read(int file, char* bytes, std::size_t size);
  virtual ssize_t write(int file, const char* bytes, std::size_t size);
  virtual int fdatasync(int file);
  virtual int fsync(int file);
  virtual int ftruncate(int file, off_t size);
  virtual int flock(int file, int operation);
  virtual int close(int file);
  virtual int rename(const std::string& from, const std::string& to);
  virtual int unlink(const std::string& path);
  virtual int mkdir(const std::string& path, mode_t mode);

  /// The operating system's own.
  static FileSystem& real();
};

}  // namespace crosstalk
