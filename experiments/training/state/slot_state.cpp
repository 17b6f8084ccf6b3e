// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/state/slot_state.h"

namespace crosstalk {

template <class Real>
RunState state_of(const Slot& slot, Replicas<Real>& replicas, int r) {
  RunState state;
  state.id = slot.run->id;
  state.steps = replicas.copy_of(replicas.step, r, 1)[0];
  state.evaluations = replicas.copy_of(replicas.evaluations, r, 1)[0];
  state.strikes = slot.strikes;
  state.device_s = slot.device_s;
  state.best = slot.best;
  state.promotions = slot.promotions;
  state.curves = slot.curves;
  state.report = replicas.copy_of(replicas.report, r, static_cast<std::size_t>(replicas.report.size()));
  state.parameters = replicas.model().parameters().snapshot(r);
  return state;
}

template <class Real>
void restore(const RunState& state, Slot& slot, Replicas<Real>& replicas, int r) {
  ParameterBlock<Real>& parameters = replicas.model().parameters();
  if (state.parameters.size() != parameters.snapshot(r).size())
    throw MisfitState(state.id, "it has parameters of another model");
  slot.steps = state.steps;
  slot.strikes = state.strikes;
  slot.device_s = state.device_s;
  slot.best = state.best;
  slot.curves = state.curves;
  slot.promotions = state.promotions;
  replicas.put(replicas.step, r, {static_cast<std::int32_t>(state.steps)});
  replicas.put(replicas.evaluations, r, {static_cast<std::int32_t>(state.evaluations)});
  replicas.put(replicas.report, r, state.report);
  parameters.restore(r, state.parameters);
}

template RunState state_of(const Slot&, Replicas<float>&, int);
template RunState state_of(const Slot&, Replicas<double>&, int);
template void restore(const RunState&, Slot&, Replicas<float>&, int);
template void restore(const RunState&, Slot&, Replicas<double>&, int);

}  // namespace crosstalk
