// Whole files and folders in terms of FileSystem: read, write durably, make. Failures throw StoreError with
// the path and the system's reason.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "results/store/file_system.h"

namespace crosstalk {

/// "No space left on device (the disk is full)", ...
std::string reason_of(int error_number);

/// Owns an open file.
class File {
 public:
  File(FileSystem& system, int number) : system_(&system), number_(number) {}
  ~File() { close(); }
  File(File&& other) noexcept : system_(other.system_), number_(std::exchange(other.number_, -1)) {}
  File& operator=(File&& other) noexcept;
  int number() const { return number_; }
  bool is_open() const { return number_ >= 0; }
  int close();  ///< as close(2); 0 where it was closed before

 private:
  FileSystem* system_;
  int number_;
};

/// open(2), retried when a signal interrupts it. Look at errno where it is not open.
File open_file(FileSystem& system, const std::filesystem::path& path, int flags);

/// Appends up to `size` bytes from the file's present position on to `bytes`; false at the file's end.
bool read_some(FileSystem& system, const File& file, const std::filesystem::path& path, std::string& bytes,
               std::size_t size);
/// Everything from the file's present position on.
std::string read_all(FileSystem& system, const File& file, const std::filesystem::path& path);
/// A regular file, to be read. Throws StoreError for anything else (a pipe, a device, a folder), and never
/// waits.
File open_regular(FileSystem& system, const std::filesystem::path& path);
/// A regular file of at most so many bytes, whole; anything else (a pipe, a device, a folder) is refused, never waited for.
std::string read_file(FileSystem& system, const std::filesystem::path& path,
                      std::size_t most = std::numeric_limits<std::size_t>::max());

/// Writes all bytes, going on after short writes and signals. Returns 0 or the error's number.
int write_all(FileSystem& system, const File& file, std::string_view bytes);

/// Makes what was created, renamed or removed in a folder durable.
void sync_folder(FileSystem& system, const std::filesystem::path& folder);

/// Creates the folder and those above it that are missing.
void make_folders(FileSystem& system, const std::filesystem::path& folder);

/// What a store says of itself (the id of a record, say) as the name of a file in `folder`, with `ending`. Throws
/// StoreError where it is a path, so that nothing outside of the folder is read or written.
std::filesystem::path file_named(const std::filesystem::path& folder, const std::string& name,
                                 std::string_view ending);

/// Of the system, another one at each call. Throws std::runtime_error.
std::uint32_t random_number();
/// A name that no other process uses: "host-pid-chance".
std::string process_name();

/// Puts a file in place as a whole or not at all: temporary file, fsync, rename, fsync of the folder.
void write_whole(FileSystem& system, const std::filesystem::path& path, std::string_view bytes);

}  // namespace crosstalk
