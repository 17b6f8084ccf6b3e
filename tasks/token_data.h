// The .npy files of task `tokens`: mapped into memory, checked, hashed, and brought to each device once.
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
#include "tasks/tokens_sequence.h"

namespace crosstalk {

/// An integer array of a file; its pages are read when they are touched, and need no memory of their own.
class MappedIntegers {
 public:
  /// Throws std::runtime_error that says what the file holds instead.
  explicit MappedIntegers(const std::string& path);
  MappedIntegers(const MappedIntegers&) = delete;
  MappedIntegers& operator=(const MappedIntegers&) = delete;
  ~MappedIntegers();

  const std::string& path() const { return path_; }
  const std::vector<std::int64_t>& shape() const { return shape_; }
  const TokenNumbers& numbers() const { return numbers_; }
  std::size_t bytes() const { return bytes_; }
  /// Pages that were read need not be kept; they are read again when they are touched.
  void let_go() const;

 private:
  std::string path_;
  std::vector<std::int64_t> shape_;
  TokenNumbers numbers_;
  std::size_t bytes_ = 0, mapped_ = 0;
  void* base_ = nullptr;
  std::vector<std::int64_t> copy_;  // of elements that stand at odd places
};

/// Bytes of a signed integer that holds -1 .. largest: 1, 2 or 4.
int width_for(std::int64_t largest);
/// Writes numbers first .. first + count - 1 to `to` as signed integers of `width` bytes; what is below 0 becomes -1.
void write_narrow(const TokenNumbers& numbers, std::int64_t first, std::int64_t count, int width, void* to);

class TokenData {
 public:
  /// Reads the files of `folder`; throws OptionError("task.folder", ...) that names the file, what it holds and what would
  /// be right.
  explicit TokenData(const std::string& folder);
  /// The same, read once a process as long as the files stay as they are.
  static std::shared_ptr<const TokenData> of(const std::string& folder);

  /// XXH3-128 of what the sequences are, in hexadecimal: the same for either layout and any width of integers.
  const std::string& content() const { return content_; }
  int tokens() const { return tokens_; }  ///< 1 + the largest token
  int labels() const { return labels_; }  ///< 1 + the largest answer
  int different_labels() const { return different_labels_; }
  int most_common_label() const { return most_common_label_; }  ///< of training
  /// Numbers in SPLIT_segment.npy of eval and test, rising; none without such files.
  const std::vector<std::int64_t>& segments() const { return segments_; }

  /// In the host's memory; of a segment, its rows of eval and test only (number -1: of all).
  TokensSpec spec(int segment = -1) const;
  /// In the memory of the calling thread's CUDA device, where numbers take as few bytes as they need: brought there by upload().
  TokensSpec uploaded(int segment = -1) const;
  void upload() const;

 private:
  struct Part {
    std::unique_ptr<MappedIntegers> tokens, targets, positions, segment;
    std::int64_t N = 0, T = 0, slots = 0, Q = 0;
    std::map<std::int64_t, std::vector<std::int32_t>> rows;  ///< of each segment
    std::vector<std::int32_t> asking;  ///< rows with a label, where some have none; else empty
    std::vector<std::int64_t> label_counts;
  };
  /// An array as it goes to a device.
  struct Piece {
    const void* at = nullptr;
    std::size_t bytes = 0;   ///< there
    TokenNumbers numbers;    ///< of a file; without a place: 32-bit rows, as they are
    std::int64_t count = 0;  ///< of numbers
    std::int32_t width = 0;  ///< bytes of each, there
  };
  struct OnDevice {
    Buffer buffer;
    std::map<const void*, TokenNumbers> places;  ///< of rows the place alone
  };
  void open(Part& part, const std::string& folder, int split);
  static void leave_out_silent_rows(Part& part);
  void scan(Part& part, void* hash);
  std::vector<Piece> pieces() const;

  std::array<Part, 3> parts_;
  std::string content_;
  int tokens_ = 0, labels_ = 0, different_labels_ = 0, most_common_label_ = 0;
  std::vector<std::int64_t> segments_;
  mutable std::mutex mutex_;
  mutable std::map<int, OnDevice> on_device_;
};

}  // namespace crosstalk
