// Of what tokens have, one token's.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/elementwise/pick.h"
#include "models/graph/graph.h"

namespace crosstalk {

/// x [B,T,H,n] of the last token: [B,1,H,n].
template <class Real>
Var<Real> last_token(Var<Real> x) {
  Pick<Real> op;
  op.x = in(x);
  return {x.graph, out(x.graph->add(op).y)};
}

}  // namespace crosstalk
