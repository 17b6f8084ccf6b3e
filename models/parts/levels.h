// Log-linear attention: a state for every level of a Fenwick tree over the tokens, and a gain of the query for each
// (Guo et al. 2025, arXiv 2506.04761). The states are never formed: what a query gives to a token depends on their level
// alone (kernels/attention/level_gain.h), so that the weights of any recurrence are multiplied by it.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/attention/level_gain.h"
#include "kernels/base/error.h"
#include "models/engines.h"

namespace crosstalk {

/// Levels that have a gate, and the tokens for which they are enough.
inline constexpr int kLevels = 16, kLevelTokens = 1 << (kLevels - 1);

inline void check_levels(const Options& options, std::int64_t T) {
  if (T > kLevelTokens)
    throw OptionError("memory.name", options.get_string("memory.name") + " reads at most " +
                                         std::to_string(kLevelTokens) + " tokens, and here are " +
                                         std::to_string(T) + "; give shorter sequences or another memory");
}

/// Floats of the states after T tokens.
inline std::int64_t level_states(const Options& options, std::int64_t K, std::int64_t V, std::int64_t T) {
  check_levels(options, T);
  return levels_of(static_cast<int>(T)) * K * V;
}

/// lambda [B,T,H,kLevels] = softplus(L_h * (W token + b)), an input.
template <class Real>
Var<Real> level_gates(Mixer<Real>& m) {
  return m.input("level_gate", [&] {
    return softplus(m.parameter("level_scale", {m.H, kLevels}, Init::constant(1)) *
                    m.token("levels", kLevels));
  });
}

/// Values read [B,Q,H,V]: the recurrence's, level by level, times the gates of the last token that a query sees.
template <class Real>
Var<Real> read_by_levels(Mixer<Real>& m, Var<Real> q, const Recurrence<Real>& r, Var<Real> gates) {
  if (m.strict())
    throw OptionError("memory.strict",
                      "memory.strict: a token sees itself here, as level 0; its gate can shut it out");
  check_levels(m.options, m.T);
  m.watch_decay(r.log_decay, true);
  LevelGain<Real> op;
  Var<Real> gain;
  op.a = in(read_weights(m, m.learned() ? q : m.scale() * q, r, &gain));
  op.lambda = in(m.at_queries(gates));
  op.position = ids(m.position());
  return m.mix({&m.graph, out(m.graph.add(op).y)}, {}, gain);
}

}  // namespace crosstalk
