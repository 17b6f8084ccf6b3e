// CUDA source of a law that is a program: each of its operations as a call of rule_registers.cuh, its values in registers.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "kernels/rule/rule_program.h"

namespace crosstalk {

struct RuleSource {
  std::string forward, backward;  ///< translation units for NVRTC, each with a kernel rule_walk
  std::string refused;            ///< why there are none, where there are none
  int forward_threads = 0, backward_threads = 0;  ///< of a block
  int window = 0;  ///< tokens of a segment whose states a block holds in shared memory backward
  std::size_t window_bytes = 0;
};

/// `wide`: numbers are doubles. `positions`: queries stand where a tensor says; else query t at token t. `shared`: bytes of
/// shared memory that a block may ask for.
RuleSource rule_source(const RuleProgram& program, bool wide, bool positions,
                       std::size_t shared = 227 * 1024);

}  // namespace crosstalk
