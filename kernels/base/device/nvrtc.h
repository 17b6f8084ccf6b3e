// CUDA source compiled at run time by NVRTC, a library of the CUDA toolkit that is looked for when first asked for and that
// nothing else needs.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

namespace crosstalk {

/// NVRTC as this machine has it.
struct Nvrtc {
  bool found = false;
  std::string version;  ///< "13.0"
  std::string path;     ///< of the library, where it was found
  std::string missing;  ///< a sentence: what was looked for, and how to get it
};
const Nvrtc& nvrtc();

/// Its options beside the architecture.
inline constexpr const char* kNvrtcOptions[] = {"-std=c++17", "-w"};

/// Machine code for one compute capability (90: Hopper) from a translation unit in C++17. Throws DeviceError with the
/// compiler's first lines, and with nvrtc().missing where there is no NVRTC. `name` says in messages what it is.
std::string compile_cuda(const std::string& source, int capability, const std::string& name);

}  // namespace crosstalk
