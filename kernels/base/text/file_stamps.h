// Whether files are still those that were read.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/base/error.h"

namespace crosstalk {

/// Device, inode, size and times of some files; of one that is not there, that it is not.
class FileStamps {
 public:
  FileStamps() = default;
  /// As the files stand. Clocks of file systems tick every few milliseconds: where a file was changed within the last tick, the
  /// next one is waited for, so that a later change has a later time.
  explicit FileStamps(std::vector<std::string> paths);
  /// The first file that is no longer as it was; "" if all are.
  std::string changed() const;

 private:
  using Stamp = std::array<std::int64_t, 7>;
  static Stamp stamp_of(const std::string& path);

  std::vector<std::string> paths_;
  std::vector<Stamp> stamps_;
};

/// Files that runs train on are not those that the study was read with. No run has failed: the same command trains what is
/// missing once they are back.
struct FilesChanged : OptionError {
  using OptionError::OptionError;
};

}  // namespace crosstalk
