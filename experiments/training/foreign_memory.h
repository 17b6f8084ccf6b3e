// Memory `python`: somebody's own PyTorch model as a label of a study. The program knows its identity and its results; the Python
// package trains it (python -m crosstalk train STUDY).
//
// What decides its results is the text of its source: memory.digest, the XXH3-128 of the bytes of memory.source and
// memory.files one after the other, is part of the run's id; where the files lie is not.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "kernels/base/text/options.h"

namespace crosstalk {

inline constexpr const char* kForeignMemory = "python";

/// memory.source "FILE.py:CLASS", memory.files, memory.arguments and memory.digest.
const std::vector<OptionSpec>& foreign_options();

/// Reads the files and derives memory.digest; one that is given must agree. Throws OptionError. Without a source the digest stays as
/// it is: a class of a notebook has no file.
void resolve_foreign(Options& options);

/// Whether a run is trained by the Python package.
bool is_foreign(const Options& config);

/// XXH3-128 of the texts, each with its length: 32 hex digits.
std::string source_digest(const std::vector<std::string>& texts);

}  // namespace crosstalk
