// The pass rounded: variables whose readers round them to operands in bf16 anyway are kept in bf16.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "models/graph/graph.h"

namespace crosstalk {

/// Returns how many variables, or groups that change together, it changed.
template <class Real>
int round_variables(Graph<Real>& graph);

}  // namespace crosstalk
