// What this binary was built from; the values are stamped in by cmake/CrosstalkVersion.cmake.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace crosstalk {

struct Version {
  const char* version;     ///< "0.2.0"
  const char* commit;      ///< 40 hex digits, or "unknown" where the source is not a git checkout
  bool dirty;              ///< tracked files differed from the commit
  const char* compiler;    ///< "GNU 12.2.0"
  const char* build_type;  ///< "Release"
  const char* flags;       ///< what the compiler was given
};

/// Version of this binary.
const Version& version();

}  // namespace crosstalk
