// Exceptions that carry what a user needs to mend, one type per exit code of the program.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <stdexcept>
#include <string>

namespace crosstalk {

/// A device cannot be had, ran out of memory or was lost (exit code 4).
struct DeviceError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Memory of a device does not suffice: smaller packs may fit.
struct OutOfMemory : DeviceError {
  using DeviceError::DeviceError;
};

/// A device's kernels do not cover a shape: that run cannot be trained there, others can (exit code 4 of
/// commands that do nothing else).
struct ShapeError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// One option of a registered thing (task, memory, model) has a value that makes no sense.
/// `key` is the option's dotted name ("memory.nu"), so that whoever read the file can add file:line:col.
struct OptionError : std::invalid_argument {
  OptionError(std::string key_, const std::string& message)
      : std::invalid_argument(message), key(std::move(key_)) {}
  std::string key;
};

}  // namespace crosstalk
