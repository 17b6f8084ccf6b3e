// Engines, of which a memory is a choice: a recurrence over a matrix state, or attention with an optional solve.
//
//   Recurrence   S' = S_{t-1} Diag(e^{g_t})
//                S_t = S' - e_t (S'' x_t) y_t^T + w_t v_t k_t^T     S'' = S' (decayed) or S_{t-1}
//                o = S_n q after n tokens
//                Diag(e^{d_t}) S_{t-1} Diag(p_t e^{g_t}) where rows fade too (d), or decays have signs (p)
//   attend       A_ij = N_i(kappa(scale x_i.k_j) e^{b_ij})
//   solve        A (I + Diag(gain) B)^{-1}, B strictly lower
//   mix          A V
//
// An engine has several forms of equal results; one is picked from shapes alone (engine_doors.h), and every graph can say which
// ran (forms()).
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "kernels/attention/attend.h"
#include "kernels/recurrence/state_read.h"
#include "models/mixers/mixer.h"

namespace crosstalk {

/// Forms of the recurrence.
enum class Form {
  automatic,  ///< whatever pays (engine_doors.cpp)
  query,      ///< weights over tokens from the query's side, no state: few reads, wide one-hot values
  parallel,   ///< weights as a T x T matrix, by a triangular solve where the memory erases
  chunk,      ///< states carried from chunk to chunk, products of matrices inside
  recurrent,  ///< token after token
};
const char* name_of(Form form);
/// "automatic", "query", "parallel", "chunk", "recurrent".
const std::vector<std::string>& form_names();
Form form_of(const std::string& name);

/// A state that only a part of a memory is: where it begins (absent: at 0), and where its end goes.
template <class Real>
struct PartOfState {
  Var<Real> start = {}, end = {};
};

template <class Real>
struct Recurrence {
  Var<Real> key;         ///< k [B,M,H,K]; with a multiple of H heads, q and gates have as many: states alone
  Var<Real> value = {};  ///< v [B,M,H,any]; absent: the model's values
  bool of_ones = false;  ///< v is 1 [B,M,H,1]
  Var<Real> gain = {};   ///< w [B,M,H,1], or with dimensions of 1; absent: 1
  Var<Real> log_decay = {};        ///< g, [B,T,H,1|K] or with dimensions of 1
  Var<Real> decay = {};            ///< e^g itself, [B,T,H,1] or with dimensions of 1, instead of log_decay
  Var<Real> value_log_decay = {};  ///< d [B,T,H,V], without an erase
  Var<Real> sign = {};  ///< p is 1 or -1, the sign of these numbers [B,T,H,1|K]; with decayed, not before
  Erase erase = Erase::none;
  Var<Real> erase_read = {}, erase_write = {};  ///< x, y [B,M,H,K], as `erase` wants
  Var<Real> erase_gain = {};  ///< e [B,M,H,1], or with dimensions of 1: tied, free; absent: 1
  bool decayed = true;
  bool before = false;       ///< a query at a token reads the state before that token
  bool contracting = false;  ///< erasing never makes anything longer (e |k|^2 <= 2): less need be kept
  const char* state = "S";   ///< what the state is called at the end
  PartOfState<Real>* part = nullptr;  ///< instead of a state with a name
  bool watched = true;                ///< whether the decay is one to look at (Mixer::watch_decay)
  int writes = 0;                     ///< a token (N); 0: as many as the model says (Mixer::N)
  bool between_tokens = false;        ///< q [B,T,H,K] stands at the tokens, wherever queries stand
};

/// Properties that decide which forms cover a recurrence:
///
///                                             recurrent   chunk   query   parallel
///   no decay, or one of a number                  x         x       x        x
///   a decay of every key channel                  x         x       x
///   an erase along any vectors (free)             x         x       x
///   several writes a token                        x         x       x
///   a decay of every value channel (no erase)     x         x
struct RecurrenceKind {
  bool channel_decay = false, value_decay = false, several_writes = false;
  Erase erase = Erase::none;
};
bool covers(Form form, const RecurrenceKind& kind);

/// Values read [B,Q,H,V]. With eps, divided by (z.q + eps), z the same recurrence with values of 1.
template <class Real>
Var<Real> read(Mixer<Real>& m, Var<Real> q, const Recurrence<Real>& r, std::optional<double> eps = {});
/// Values read, divided by max(|n.q|, 1), n the same recurrence with values of 1 and called `sum` at the end (mLSTM).
/// log_input [B,T,H,1] is the logarithm of the gain. State and sum are kept times e^{-m_t}, where m_t is the
/// logarithm of all gains that are left at t: whatever the gates are, numbers stay finite.
template <class Real>
Var<Real> stabilised_read(Mixer<Real>& m, Var<Real> q, const Recurrence<Real>& r, Var<Real> log_input,
                          const char* sum);
/// The weights that queries give to writes, [B,H,Q,M]: form query, or parallel where a GPU has many queries. With `gain`
/// they may come without the writes' gain w, which is left there then (Mixer::mix).
template <class Real>
Var<Real> read_weights(Mixer<Real>& m, Var<Real> q, const Recurrence<Real>& r, Var<Real>* gain = nullptr);

/// Rule by which scores become weights (kernels/attention/attend.h).
struct Attention {
  Kernel kernel = Kernel::exp;
  bool normalised = true;
  double eps = 0, scale = 1, offset = 0;
  bool cosine = false;  ///< x and k are divided by their lengths; a zero stays one
  bool strict = false, before = false;
  int window = 0, order = 2, digits = 0;
};
/// Terms of scores besides products, or nothing.
template <class Real>
struct Terms {
  Var<Real> log_decay = {};  ///< [B,T,H,1]
  Var<Real> slope = {};      ///< [1,1,H,1]
  Var<Real> sink = {};       ///< [1,1,H,1]: a logit that takes its share of a row and reads nothing
  Var<Real> extra = {};      ///< [B,H,Q,T], added to scale x.k
  bool between_tokens = false;
};
template <class Real>
Var<Real> attend(Mixer<Real>& m, Var<Real> x, Var<Real> k, const Attention& how, const Terms<Real>& terms);
/// x [B,Q,H,K] with keys k [B,T,H,K] -> [B,H,Q,T]. log_decay [B,T,H,1], slope [1,1,H,1]: biases, or absent.
/// between_tokens: x stands at the tokens (a T x T matrix), wherever queries stand.
template <class Real>
Var<Real> attend(Mixer<Real>& m, Var<Real> x, Var<Real> k, const Attention& how, Var<Real> log_decay = {},
                 Var<Real> slope = {}, bool between_tokens = false);
/// The delta rule in a state that is divided by max(1, |S|_F) after every step (kernels/law/fwm.h):
/// [B,Q,H,V].
template <class Real>
Var<Real> fwm_read(Mixer<Real>& m, Var<Real> q, Var<Real> k, Var<Real> beta);
/// a [B,H,Q,T] (I + Diag(gain) b)^{-1}, b [B,H,T,T] strictly lower, gain [B,T,H,1] or absent.
template <class Real>
Var<Real> solve(Var<Real> a, Var<Real> b, Var<Real> gain = {});
/// Values as they are written, (I + Diag(gain) b)^{-1} v of values v [B,T,H,V]: a read of them is one of v with the weights that solve() makes.
template <class Real>
Var<Real> solve_values(Var<Real> v, Var<Real> b, Var<Real> gain = {});

/// Weights a [B,H,Q,T] times rows x [B,T,H,C] -> [B,Q,H,C].
template <class Real>
Var<Real> weighted(Var<Real> a, Var<Real> x);
/// x [B,Q,H,K] turned by the position of the token at which each row stands (kernels/elementwise/rotate.h): that of the query,
/// or the row's own where x holds `keys`; counted modulo `period` where that is not 0, every pair by `angle` a token where
/// that is not 0.
template <class Real>
Var<Real> rotate(Mixer<Real>& m, Var<Real> x, double base, bool keys, int period = 0, double angle = 0);
/// x [B,N,H,K] with its pairs of channels turned by angles [B,N,H,A] (kernels/elementwise/turn.h).
template <class Real>
Var<Real> turned(Var<Real> x, Var<Real> angle);
/// x [B,T,H,n] of the token before, `start` [B,H,n] or 0 before the first.
template <class Real>
Var<Real> delayed(Var<Real> x, Var<Real> start = {});
/// The `count` largest of every row of the last dimension, and `otherwise` in place of the others (kernels/elementwise/largest.h).
template <class Real>
Var<Real> largest(Var<Real> x, int count, double otherwise);
/// x [B,N,H,n], the rows of a head one after the other for each of `times` heads in its place: [B,N,H times,n].
template <class Real>
Var<Real> repeated_heads(Var<Real> x, int times);
/// 1 where they are, 0 elsewhere; without a gradient.
template <class Real>
Var<Real> is_largest(Var<Real> x, int count);
/// Softmax weights [B,H,Q,T] of scale q_i H_i H_{i-1} .. H_{j+1} k_j and the sums of log_decay [B,T,H,1] between, with
/// H_t = I - beta_t w_t w_t^T (PaTH: Yang et al. 2025, arXiv 2505.16381).
template <class Real>
Var<Real> attend_reflected(Mixer<Real>& m, Var<Real> q, Var<Real> k, Var<Real> w, Var<Real> beta,
                           Var<Real> log_decay = {});

}  // namespace crosstalk
