// A GPU with less shared memory, for a test.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdlib>
#include <optional>
#include <string>

namespace crosstalk::checks {

/// Sets CROSSTALK_SHARED_LIMIT, and puts back what was there.
class SharedLimit {
 public:
  explicit SharedLimit(int kib) {
    if (const char* value = std::getenv(kName)) before_ = value;
    ::setenv(kName, std::to_string(kib).c_str(), 1);
  }
  ~SharedLimit() { before_ ? ::setenv(kName, before_->c_str(), 1) : ::unsetenv(kName); }
  SharedLimit(const SharedLimit&) = delete;
  SharedLimit& operator=(const SharedLimit&) = delete;

 private:
  static constexpr const char* kName = "CROSSTALK_SHARED_LIMIT";
  std::optional<std::string> before_;
};

}  // namespace crosstalk::checks
