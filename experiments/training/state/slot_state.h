// A replica's slot as a saved state, and back.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "experiments/training/replicas.h"
#include "experiments/training/slot.h"
#include "experiments/training/state/run_state.h"

namespace crosstalk {

/// The state of replica r, with its slot.
template <class Real>
RunState state_of(const Slot& slot, Replicas<Real>& replicas, int r);

/// Puts `state` into replica r and its slot. Throws MisfitState if it has parameters of another model.
template <class Real>
void restore(const RunState& state, Slot& slot, Replicas<Real>& replicas, int r);

}  // namespace crosstalk
