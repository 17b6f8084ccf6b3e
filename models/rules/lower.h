// A law in a graph: what needs no state is made for all tokens at once, and states become calls of the
// engines.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "models/engines.h"
#include "models/rules/recognise.h"

namespace crosstalk::rules {

/// Adds the law to the graph of a model and gives what is read, [B,Q,H,V]. The plan has no reason against it.
template <class Real>
Var<Real> read_law(Mixer<Real>& m, const Law& law, const Plan& plan);

/// Start of a learned quantity of H heads of n numbers in a layer at `depth`; nothing: as the model's weights.
std::optional<Init> init_of(const Learned& one, int H, int n, double depth);

}  // namespace crosstalk::rules
