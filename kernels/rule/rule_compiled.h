// A law compiled for the GPU at hand (rule_source.h, base/nvrtc.h): as fast as a kernel written for it.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <string>

#include "kernels/base/exec.h"

namespace crosstalk {

struct RuleProgram;
template <class Real>
struct RuleRead;

/// Kernels of one law at its sizes. Compiled once in a process for each source and kind of GPU.
class CompiledRule {
 public:
  virtual ~CompiledRule() = default;
  virtual void launch(bool forward, void* arguments, unsigned items, unsigned replicas,
                      void* stream) const = 0;
  /// Tokens of a segment whose states a block holds in shared memory; 0: they stand in RuleRead::work.
  virtual int window() const = 0;
};

/// Throws OptionError on memory.form where the law has no source, DeviceError where there is no NVRTC.
std::shared_ptr<const CompiledRule> compiled_rule(const RuleProgram& program, bool wide, bool positions);

}  // namespace crosstalk
