// Learning curves as TensorBoard reads them: TFRecords of tensorflow.Event (github.com/tensorflow/tensorboard,
// compat/proto/event.proto), scalars only.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "results/store/files.h"
#include "results/store/record.h"

namespace crosstalk {

/// A record of such a file: length, masked CRC-32C of it, `data`, masked CRC-32C of that.
std::string tf_record(const std::string& data);
/// A point of a curve as an Event; `seconds` since 1970.
std::string scalar_event(const std::string& tag, std::int64_t step, double value, double seconds);

/// The event file of one run in a folder of its own, written anew.
class EventFile {
 public:
  /// Throws StoreError.
  EventFile(const std::filesystem::path& folder, double seconds);
  /// Those points of `curves` that lie beyond what was written before, curve by curve. Throws StoreError.
  void add(const std::map<std::string, Series>& curves, double seconds);

 private:
  void write(const std::string& bytes);

  std::filesystem::path path_;
  File file_;
  std::map<std::string, double> written_;  ///< curve -> last step
};

}  // namespace crosstalk
