// The .npy files of task `tokens`: held in memory or read piece by piece, checked, hashed, and brought to each device once.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "kernels/base/buffer.h"
#include "kernels/base/text/npy.h"
#include "tasks/given_files.h"
#include "tasks/kinds/tokens_sequence.h"

namespace crosstalk {

/// An integer array of a file: held in memory, or left there and read piece by piece. It is never mapped: whoever cuts a file
/// short must not end the program.
class IntegerFile {
 public:
  /// Holds the array where it takes no more than `room` bytes, which become fewer, or is in Fortran order, whose sequences do not lie
  /// together. Throws std::runtime_error that says what the file holds instead.
  IntegerFile(const std::string& path, std::size_t& room);
  /// The same of numbers that stand in a file as `layout` says.
  IntegerFile(const std::string& path, const NpyLayout& layout, std::size_t& room);
  IntegerFile(const IntegerFile&) = delete;
  IntegerFile& operator=(const IntegerFile&) = delete;
  ~IntegerFile();

  const std::string& path() const { return path_; }
  const std::vector<std::int64_t>& shape() const { return shape_; }
  std::int64_t count() const { return count_; }
  bool is_held() const { return file_ < 0; }
  /// Of a held array.
  const TokenNumbers& numbers() const { return numbers_; }
  /// Numbers first .. first + n - 1, in `room` where they are not held. What cannot be read is 0, and the array broken.
  TokenNumbers read(std::int64_t first, std::int64_t n, std::vector<std::int64_t>& room) const;
  /// The same as signed integers of `width` bytes, each brought within least .. most: files may hold anything by now.
  void read_narrow(std::int64_t first, std::int64_t n, int width, std::int64_t least, std::int64_t most,
                   void* to) const;
  /// Whether something could not be read, or was larger than `most`.
  bool is_broken() const { return broken_; }

 private:
  std::string path_;
  std::vector<std::int64_t> shape_;
  std::int64_t count_ = 0, offset_ = 0;
  TokenNumbers numbers_;
  int file_ = -1;  ///< open where the array is not held
  std::vector<std::int64_t> held_;
  mutable std::atomic<bool> broken_ = false;
};

/// Bytes of a signed integer that holds -1 .. largest: 1, 2 or 4.
int width_for(std::int64_t largest);
/// Writes numbers 0 .. n - 1 to `to` as signed integers of `width` bytes, each brought within least .. most. Returns whether
/// none was larger.
bool write_narrow(const TokenNumbers& numbers, std::int64_t n, int width, std::int64_t least,
                  std::int64_t most, void* to);

class TokenData final : public GivenFiles {
 public:
  static constexpr const char* kTask = "tokens";
  static constexpr const char* kHolds =
      "train_inputs.npy and train_labels.npy and the same for eval and test, or what 'crosstalk sample --out' writes";
  /// Arrays of more bytes in all are not held.
  static constexpr std::size_t kHeld = std::size_t{1} << 30;

  /// Reads the files of `folder`; throws OptionError("task.folder", ...) that names the file, what it holds and what would
  /// be right.
  explicit TokenData(const std::string& folder, std::size_t most_held = kHeld);

  int tokens() const { return tokens_; }  ///< 1 + the largest token
  int labels() const { return labels_; }  ///< 1 + the largest answer
  int different_labels() const { return different_labels_; }
  int most_common_label() const { return most_common_label_; }  ///< of training
  bool is_held() const override { return is_held_; }
  /// Numbers in SPLIT_segment.npy of eval and test, rising; none without such files.
  const std::vector<std::int64_t>& segments() const { return segments_; }

  /// In the host's memory, arrays that are not held without a place; of a segment, its rows of eval and test only (number
  /// -1: of all).
  TokensSpec spec(int segment = -1) const;
  /// Row `row` of a split as a part of one row, which stays until the thread's next: of arrays that are not held.
  TokensPart row_of(Split split, std::int64_t row) const;
  /// In the memory of the calling thread's CUDA device, where numbers take as few bytes as they need: brought there by upload().
  TokensSpec uploaded(int segment = -1) const;
  void upload() const;

 private:
  struct Part {
    std::unique_ptr<IntegerFile> tokens, targets, positions, segment;
    std::unique_ptr<IntegerFile> document;  ///< until it was read
    std::int64_t N = 0, T = 0, slots = 0, Q = 0;
    std::vector<TokenDocument> documents;  ///< rows of sequences below, where there are such
    std::map<std::int64_t, std::vector<std::int32_t>> rows;  ///< of each segment
    std::vector<std::int32_t> asking;  ///< rows with a label, where some have none; else empty
    std::vector<std::int64_t> label_counts;
  };
  /// An array as it goes to a device: of a file, or 32-bit rows as they are.
  struct Piece {
    const void* key = nullptr;  ///< the file, or the place of the rows
    const IntegerFile* file = nullptr;
    std::size_t bytes = 0;  ///< there
    int width = 0;          ///< of each number, there
    std::int64_t least = 0, most = 0;
  };
  struct OnDevice {
    Buffer buffer;
    std::map<const void*, TokenNumbers> places;  ///< by Piece::key; of rows the place alone
  };
  bool is_broken() const override;
  std::string content_now() const override;
  std::vector<const IntegerFile*> files() const;
  void open(Part& part, const std::string& folder, int split, std::size_t& room);
  void leave_out_silent_rows(Part& part);
  void scan(Part& part, void* hash);
  /// The lengths of a row's documents, which are added to part.documents.
  static std::vector<std::int64_t> cut(Part& part, std::int64_t row);
  std::vector<Piece> pieces() const;
  /// `place`: of a file, or of rows.
  TokensSpec spec(int segment, const std::function<TokenNumbers(const void* key)>& place) const;

  std::array<Part, 3> parts_;
  bool is_held_ = false;
  int tokens_ = 0, labels_ = 0, different_labels_ = 0, most_common_label_ = 0;
  std::vector<std::int64_t> segments_;
  mutable std::mutex mutex_;
  mutable std::map<int, OnDevice> on_device_;
};

}  // namespace crosstalk
