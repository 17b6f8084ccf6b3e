// What the arrays of an inspection are: name, shape and meaning.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "models/memory.h"

namespace crosstalk {

struct KnownArray {
  const char *name, *shape, *meaning;
  const char *meaning_in_language = nullptr, *shape_in_language = nullptr;  ///< where they differ
};
const std::vector<KnownArray>& known_arrays();

/// Shape and meaning of an array in the letters of a model. A language model reads at every token, so that the Q of
/// arrays that the memory makes is T there.
struct ArrayMeaning {
  std::string shape, meaning;
};
ArrayMeaning meaning_of(const std::string& name, const Memory& memory, bool language);

/// Whether an array holds vectors, as keys are, and not numbers that tokens decide.
bool is_vector(const std::string& name);

}  // namespace crosstalk
