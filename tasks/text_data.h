// The files of task `text`: bytes, or token ids in a row; hashed, watched, and brought to each device once.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "kernels/base/buffer.h"
#include "tasks/kinds/text_sequence.h"
#include "tasks/token_data.h"

namespace crosstalk {

class TextData final : public GivenFiles {
 public:
  static constexpr const char* kTask = "text";
  static constexpr const char* kHolds = "one file of text or ids, or train, eval and test";
  /// Texts of more bytes in all are not held, but read window by window.
  static constexpr std::size_t kHeld = std::size_t{1} << 26;

  /// Reads the files of `folder` once; throws OptionError("task.folder", ...) that names the file, what it holds and what
  /// would be right.
  explicit TextData(const std::string& folder, std::size_t most_held = kHeld);

  int tokens() const { return tokens_; }  ///< 1 + the largest id; of bytes 256
  bool is_bytes() const { return is_bytes_; }
  bool is_one_file() const { return files_.size() == 1; }
  bool is_held() const override;

  /// In the host's memory; ids that are not held have no place. A single file is cut into train, eval and test in this order;
  /// where no test file is there, it is the second half of eval. Throws OptionError for parts without a window.
  TextSpec spec(std::int32_t length, double eval_share, double test_share) const;
  /// `spec` in the memory of the calling thread's CUDA device, where upload() brought it.
  TextSpec uploaded(TextSpec spec) const;
  void upload() const;
  /// Ids first .. first + n - 1 of a split's file, which stay until the thread's next: of texts that are not held.
  TokenNumbers read(Split split, std::int64_t first, std::int64_t n) const;
  /// Of the first ids of training, 2^22 at most; counted when they are first asked for.
  struct Unigrams {
    double entropy = 0;   ///< of their shares, in nats
    int most_common = 0;  ///< the id
  };
  Unigrams unigrams(const TextSpec& spec) const;

 private:
  const IntegerFile& file_of(std::size_t split) const {
    return *files_[is_one_file() ? 0 : std::min(split, files_.size() - 1)];
  }
  bool is_broken() const override;
  std::string content_now() const override;
  void scan(const IntegerFile& file, void* hash);

  std::vector<std::unique_ptr<IntegerFile>> files_;  ///< one; train and eval; or all three
  bool is_bytes_ = true;
  int tokens_ = 0;
  mutable std::mutex mutex_;
  mutable std::map<int, std::vector<Buffer>> on_device_;  ///< a buffer a file
  mutable std::map<std::int64_t, Unigrams> unigrams_;     ///< by how many ids were counted
};

}  // namespace crosstalk
