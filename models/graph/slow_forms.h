// Which ops of a graph run in their slow form on a GPU, and why.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "models/graph/graph.h"

namespace crosstalk {

/// A sentence each, without a full stop: "state_read walks token after token: 256 values a head are more than 128". Ops are
/// asked for the form that they take (form_name(), what records keep); the reason is read off the shapes that the form in
/// chunks or tiles covers. Of a graph for a GPU with its passes run; empty where every op has its fast form.
template <class Real>
std::vector<std::string> slow_forms(const Graph<Real>& graph);

}  // namespace crosstalk
