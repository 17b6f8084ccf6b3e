// Builds a memory into a graph, and says what its file did wrong where that fails: a memory is the one part of the
// program that users write, so what they got wrong is told as theirs.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <stdexcept>
#include <string>

#include "models/memories/memory_file.h"

namespace crosstalk {

/// The file of a memory is wrong: which, what it did, and what would be right.
struct MemoryError : std::logic_error {
  MemoryError(const std::string& memory, const std::string& message);
};

/// memory.build(m), which must give [B,Q,H,V] and ask for its inputs as they are declared. Throws MemoryError;
/// what options or devices refuse stays as it is.
template <class Real>
Var<Real> build_memory(const Memory& memory, Mixer<Real>& m);

/// Throws the exception that is being handled as a MemoryError, where it is the memory's: `what` threw it.
[[noreturn]] void rethrow_of(const std::string& memory, const std::string& what);

}  // namespace crosstalk
