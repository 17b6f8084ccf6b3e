// The .npy files of task `file`: read, checked, hashed, and brought to each device once.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "kernels/base/buffer.h"
#include "tasks/given_files.h"
#include "tasks/kinds/file_sequence.h"

namespace crosstalk {

class FileData final : public GivenFiles {
 public:
  static constexpr const char* kTask = "file";
  static constexpr const char* kHolds =
      "train_tokens.npy, train_query.npy, train_position.npy, train_target.npy and the same for eval and test";
  /// Reads SPLIT_tokens.npy, SPLIT_query.npy, SPLIT_position.npy and SPLIT_target.npy of `folder` for train, eval and
  /// test, or of real numbers SPLIT_x.npy, SPLIT_y.npy, SPLIT_asked_x.npy and SPLIT_asked_y.npy. Throws
  /// OptionError("task.folder", ...) that names the file, what it holds and what would be right.
  explicit FileData(const std::string& folder);

  int channels() const { return channels_; }
  /// Real inputs of an example where the files hold examples of real numbers; else 0.
  int numbers() const { return channels_ > 3 ? channels_ / 2 - 1 : 0; }
  int keys() const { return keys_; }      ///< 1 + the largest key in tokens and queries; of real numbers 0
  int values() const { return values_; }  ///< 1 + the largest value in tokens and targets; of real numbers 1
  /// In the host's memory.
  const FileSpec& spec() const { return spec_; }

  /// In the memory of the calling thread's CUDA device; copied there by the first call for it.
  const FileSpec& upload() const;
  /// The same; a bug if upload() was not called for this device.
  const FileSpec& uploaded() const;

 private:
  struct Part {
    std::vector<std::int32_t> tokens, query, position, target;
    std::int64_t N = 0, T = 0, C = 0, Q = 0;
  };
  struct OnDevice {
    Buffer buffer;
    FileSpec spec;
  };
  std::string content_now() const override { return FileData(folder()).content(); }
  static Part read_part(const std::string& folder, const std::string& split);
  static Part read_examples(const std::string& folder, const std::string& split);

  std::array<Part, 3> parts_;
  int channels_ = 0, keys_ = 0, values_ = 0;
  FileSpec spec_;
  mutable std::mutex mutex_;
  mutable std::map<int, OnDevice> on_device_;
};

}  // namespace crosstalk
