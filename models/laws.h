// Memories with a law of their own, that no choice of engines.h comes to: each an op that walks through the
// tokens. SPDX-License-Identifier: Apache-2.0
#pragma once
#include "models/mixer.h"

namespace crosstalk {

/// MesaNet's read of the ridge regression of values on keys (kernels/ops/ridge_read.h), [B,Q,H,V]: gain and
/// log_decay [B,T,H,1], ridge [1,1,H,K]. States S and H.
template <class Real>
Var<Real> ridge_read(Mixer<Real>& m, Var<Real> q, Var<Real> k, Var<Real> gain, Var<Real> log_decay,
                     Var<Real> ridge, int iterations);

}  // namespace crosstalk
