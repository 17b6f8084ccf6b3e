// How parameters start, as the text of model.init.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <string>

#include "models/graph/parameters.h"

namespace crosstalk {

/// "gate.bias = 0; key_embedding = N(0, 0.1^2)": the law of each parameter. Throws std::invalid_argument that
/// says what is wrong.
std::map<std::string, Init> inits_of(const std::string& text);

/// Without blanks around it.
std::string trimmed(const std::string& text);

}  // namespace crosstalk
