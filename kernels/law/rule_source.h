// CUDA source of a law that is a program: each of its operations as a call of rule_registers.cuh, its values in registers.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "kernels/law/rule_program.h"

namespace crosstalk {

struct RuleSource {
  std::string forward, backward;  ///< translation units for NVRTC, each with a kernel rule_walk
  std::string refused;            ///< why there are none, where there are none
  int forward_threads = 0, backward_threads = 0;  ///< of a block
};

/// `wide`: numbers are doubles. `positions`: queries stand where a tensor says; else query t at token t.
RuleSource rule_source(const RuleProgram& program, bool wide, bool positions);

}  // namespace crosstalk
