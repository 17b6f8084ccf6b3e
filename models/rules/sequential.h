// A law that no other engine takes, token after token: its program (program.h) in a model's graph.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "models/mixers/mixer.h"
#include "models/rules/hoist.h"
#include "models/rules/law.h"

namespace crosstalk::rules {

/// Adds the law to the graph and gives what is read, [B,Q,H,V]. It adds nodes to the law's own graph.
template <class Real>
Var<Real> read_sequentially(Mixer<Real>& m, Law& law);

/// A vector that is walked alone (recognise.h) at every token, [B,T,H,n]. `hoist` makes what its steps look at.
template <class Real>
Var<Real> walk_state(Mixer<Real>& m, Hoist<Real>& hoist, const LawState& state);

}  // namespace crosstalk::rules
