// Memories with a law of their own, that no choice of engines.h comes to: each an op that walks through the
// tokens.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "kernels/law/cell_read.h"
#include "models/mixers/mixer.h"

namespace crosstalk {

/// MesaNet's read of the ridge regression of values on keys (kernels/law/ridge_read.h), [B,Q,H,V]: gain and
/// log_decay [B,T,H,1], ridge [1,1,H,K]. States S and H.
template <class Real>
Var<Real> ridge_read(Mixer<Real>& m, Var<Real> q, Var<Real> k, Var<Real> gain, Var<Real> log_decay,
                     Var<Real> ridge, int iterations);

/// A state whose entries fade on their own (kernels/law/diagonal_read.h), [B,Q,H,V]: step [B,T,H,V] and log_rate
/// [1,1,H,V*K] or with dimensions of 1. With angle, read and read_imag, like log_rate, it is complex, and step is
/// that of all tokens, [1,1,H,V]. either_sign: factors 2 a - 1 in place of a; of_keys: 1 - step k^2, without log_rate. States
/// S and S_imag.
template <class Real>
struct DiagonalLaw {
  Var<Real> step, log_rate = {};
  Var<Real> angle = {}, read = {}, read_imag = {};
  bool either_sign = false, of_keys = false;
};
template <class Real>
Var<Real> diagonal_read(Mixer<Real>& m, Var<Real> q, Var<Real> k, const DiagonalLaw<Real>& law);

/// RWKV-4's average of values for every channel (kernels/law/wkv_read.h), [B,Q,H,V]: k [B,T,H,V], log_decay
/// and bonus [1,1,H,V] or with dimensions of 1; bonus counts where queries stand at tokens. States y and L.
template <class Real>
Var<Real> wkv_read(Mixer<Real>& m, Var<Real> k, Var<Real> log_decay, Var<Real> bonus);

/// A nonlinear recurrence over the values' channels (kernels/law/cell_read.h), its hidden state read, [B,Q,H,V]: what the
/// gates are made of x[g] [B,T,H,V], weights of what was held u[g] [1,1,H,V*V]. States h, and c or y and L.
template <class Real>
Var<Real> cell_read(Mixer<Real>& m, Cell cell, const std::vector<Var<Real>>& x,
                    const std::vector<Var<Real>>& u);

/// y_t = sum_{s <= t} h_s x_{t-s}, channel by channel (kernels/conv/long_conv.h): x [B,T,H,n], h [1,T,H,n].
template <class Real>
Var<Real> long_conv(Var<Real> x, Var<Real> h);

/// A network that is trained while it reads (kernels/law/network_read.h), [B,Q,H,V].
template <class Real>
struct NetworkLaw {
  int hidden = 0;  ///< 0: linear
  bool biases = false, residual = false;
  int mini_batch = 1;
  Var<Real> rate;                        ///< [B,T,H,1]
  Var<Real> momentum = {}, forget = {};  ///< [B,T,H,1]
  Var<Real> gain = {}, bias = {};        ///< [1,1,H,V]: LayerNorm
  /// Names of W1, b1, W2, b2 and their momenta as states; null: not there.
  const char* states[8] = {};
  /// Start of a sequence where no state is given, [1,1,H,size]: the same order; absent: 0.
  Var<Real> begin[8] = {};
};
template <class Real>
Var<Real> network_read(Mixer<Real>& m, Var<Real> q, Var<Real> k, const NetworkLaw<Real>& law);

}  // namespace crosstalk
