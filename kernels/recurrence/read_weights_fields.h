// Inputs of ReadWeights for one sequence and head, and which of them are x, y and e of the erase.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/base/functions.h"
#include "kernels/base/head_rows.h"
#include "kernels/recurrence/read_weights.h"

namespace crosstalk {

template <class Real>
struct ReadWeightsFields {
  HeadField<Real> q, k, w, g, x, y, e;  ///< x, y, e: those of k and w where the erase says so
  HeadField<Real> own_x, own_y, own_e;  ///< the fields of that name
  int T, N, K, channels;                ///< channels of the decay: 1 or K (0: no decay)
  bool erases, decayed;
  bool factors;  ///< g holds e^g itself
  bool x_is_k, y_is_k, e_is_w;

  CT_HD ReadWeightsFields(const ReadWeights<Real>& op, int r, int b, int h)
      : q(op.q, r, b, h, op.Q(), op.H(), op.K()),
        k(op.k, r, b, h, op.M(), op.H(), op.K()),
        w(op.write_gain, r, b, h, op.M(), op.H(), 1),
        g(op.decay ? HeadField<Real>(op.decay, r, b, h, op.T(), op.H(), 1)
                   : HeadField<Real>(op.log_decay, r, b, h, op.T(), op.H(),
                                     op.log_decay ? op.log_decay.value.dim(3) : 0)),
        own_x(op.erase_read, r, b, h, op.M(), op.H(), op.K()),
        own_y(op.erase_write, r, b, h, op.M(), op.H(), op.K()),
        own_e(op.erase_gain, r, b, h, op.M(), op.H(), 1),
        T(op.T()),
        N(op.writes),
        K(op.K()),
        channels(g.C),
        erases(op.erase != Erase::none),
        decayed(op.decayed),
        factors(op.decay),
        x_is_k(op.erase == Erase::delta || !op.erase_read),
        y_is_k(op.erase != Erase::free),
        e_is_w(op.erase == Erase::delta) {
    x = x_is_k ? k : own_x;
    y = y_is_k ? k : own_y;
    e = e_is_w ? w : own_e;
  }

  /// Tells whether the decay of a token comes before write m.
  CT_HD bool decays(int m) const { return channels > 0 && m % N == 0; }
  /// e^g of write m's token, channel j.
  CT_HD Real factor(int m, int j) const {
    const Real here = g.value(m / N)[j];
    return factors ? here : exp_(here);
  }
  CT_HD static Real gain(const HeadField<Real>& f, int m) { return f ? *f.value(m) : Real(1); }
};

/// Tokens that query i of sequence b sees.
template <class Real>
CT_HD int tokens_seen(const ReadWeights<Real>& op, int r, int b, int i) {
  int n = i + (op.before ? 0 : 1);
  if (op.position) n = op.position.value.at(r)[static_cast<std::int64_t>(b) * op.Q() + i];
  return n < 0 ? 0 : n > op.T() ? op.T() : n;
}

}  // namespace crosstalk
