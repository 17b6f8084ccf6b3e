// The pass map_chain: elementwise nodes over the same numbers that hang together become one MapChain.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "models/graph/graph.h"

namespace crosstalk {

/// Replaces one chain of two nodes or more; false: there is none left that CUDA kernels take.
template <class Real>
bool map_chain_once(Graph<Real>& graph);

}  // namespace crosstalk
