// Read weights: a team of threads walks a sequence backwards in time for one query, r in its registers.
//
// A step is one product with a key, summed over the team, so a sequence is a chain of such sums (about 200
// cycles each in one warp); writes are fetched some steps early, and replicas and sequences fill the GPU.
// Backward: one team a sequence and head takes query after query, so that gradients meet in a fixed order.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/device/team.cuh"
#include "kernels/recurrence/read_weights_fields.h"

namespace crosstalk {
namespace {
using namespace device;

/// One write as a team holds it. kOwn: the key erases itself (x = y = k), and a decay is one number.
template <class Real, class Team, bool kOwn>
struct Step {
  static constexpr int E = Team::E, kRest = kOwn ? 1 : E;
  Real k[E], other_x[kRest], other_y[kRest], factor[kRest];
  Real w, e;
  bool decays;

  __device__ Real x(int i) const {
    if constexpr (kOwn)
      return k[i];
    else
      return other_x[i];
  }
  __device__ Real y(int i) const {
    if constexpr (kOwn)
      return k[i];
    else
      return other_y[i];
  }
  __device__ Real decay(int i) const { return factor[kOwn ? 0 : i]; }

  __device__ void load(const ReadWeightsFields<Real>& s, int m) {
    Team::load(s.k.value(m), s.K, k);
    w = s.gain(s.w, m), e = s.erases ? s.gain(s.e, m) : Real(0), decays = s.decays(m);
    if constexpr (!kOwn) {
      if (s.erases) {
        Team::load(s.x.value(m), s.K, other_x);
        Team::load(s.y.value(m), s.K, other_y);
      } else {
        CT_FOR(i, E) other_x[i] = other_y[i] = 0;
      }
    }
    if (!decays) return;
    if (s.channels == 1) {
      const Real one = s.factor(m, 0);
      CT_FOR(i, kRest) factor[i] = one;
    } else if constexpr (!kOwn) {
      CT_FOR(i, E) factor[i] = Team::entry(i) < s.K ? s.factor(m, Team::entry(i)) : Real(0);
    }
  }
  /// Takes r after this write to r before it. read = y.r
  __device__ void undo(bool decayed, Real read, Real (&r)[E]) const {
    const Real erased = e * read;
    CT_FOR(i, E)
      if (decays && decayed)
        r[i] = decay(i) * (r[i] - erased * x(i));
      else
        r[i] = (decays ? decay(i) * r[i] : r[i]) - erased * x(i);
  }
};

/// Walks writes - 1 .. 0 from r. states (or null) gets r after each write, products (or null) c of each, a
/// (or null) the weights.
template <bool kOwn, class Real, class Team>
__device__ void walk(Team& team, const ReadWeightsFields<Real>& s, int writes, Real (&r)[Team::E],
                     Real* states, Real* products, Real* a) {
  constexpr int kAhead = kOwn ? 4 : 2;
  Step<Real, Team, kOwn> steps[kAhead];
  CT_FOR(slot, kAhead)
    if (writes - 1 - slot >= 0) steps[slot].load(s, writes - 1 - slot);
  for (int first = writes - 1; first >= 0; first -= kAhead) {
    CT_FOR(slot, kAhead) {
      const int m = first - slot;
      if (m < 0) break;
      auto& step = steps[slot];
      if (states) Team::store(states + std::int64_t{m} * s.K, s.K, r);
      Real sums[kOwn ? 1 : 2] = {Team::share(step.k, r)};
      if constexpr (!kOwn) sums[1] = Team::share(step.other_y, r);
      if (a || s.erases) team.sum(sums);
      if (a && threadIdx.x == 0) a[m] = step.w * sums[0];
      if (products && threadIdx.x == 0) products[m] = sums[0];
      step.undo(s.decayed, sums[kOwn ? 0 : 1], r);
      if (m - kAhead >= 0) step.load(s, m - kAhead);
    }
  }
}

template <class Real, int W, int E, bool kOwn>
__global__ void __launch_bounds__(32 * W) read_weights(const __grid_constant__ ReadWeights<Real> op) {
  using T = Team<Real, W, E>;
  __shared__ Real shared[W > 1 ? 8 * W : 1];
  T team{shared};
  const int Q = op.Q(), H = op.H(), M = op.M(), r = blockIdx.y;
  const int q = static_cast<int>(blockIdx.x % Q), h = static_cast<int>(blockIdx.x / Q % H);
  const int b = static_cast<int>(blockIdx.x / Q / H);
  const ReadWeightsFields<Real> s(op, r, b, h);
  Real* a = op.a.value.at(r) + std::int64_t{blockIdx.x} * M;
  const int writes = tokens_seen(op, r, b, q) * op.writes;
  for (int m = writes + CT_THREAD; m < M; m += 32 * W) a[m] = 0;
  Real* kept = op.kept ? op.kept.value.at(r) + blockIdx.x * op.kept_numbers() : nullptr;  // Q = 1
  Real state[E];
  T::load(s.q.value(q), s.K, state);
  if (kept && op.by_trail()) {
    walk<kOwn>(team, s, writes, state, static_cast<Real*>(nullptr), kept + s.K, a);
    T::store(kept, s.K, state);
  } else {
    walk<kOwn>(team, s, writes, state, kept, static_cast<Real*>(nullptr), a);
  }
}

/// This thread's entries of a vector in memory, put as `mode` says.
template <class T, class Real>
__device__ void give(Write mode, Real* target, int K, const Real (&x)[T::E]) {
  CT_FOR(i, T::E)
    if (T::entry(i) < K) put(mode, target + T::entry(i), x[i]);
}

/// Zeros for what the first query does not see, or no erase uses.
template <int kThreads, class Real>
CT_DEVICE void clear_unseen(const ReadWeightsFields<Real>& s, int q, int writes) {
  const auto clear = [&](const HeadField<Real>& f, int from) {
    if (q > 0 || f.write != Write::overwrite) return;
    for (int n = from; n < f.N; ++n)
      for (int c = threadIdx.x; c < f.C; c += kThreads) f.gradient(n)[c] = 0;
  };
  clear(s.k, writes), clear(s.w, writes), clear(s.g, writes / s.N);
  clear(s.own_x, s.erases && !s.x_is_k ? writes : 0), clear(s.own_y, s.erases && !s.y_is_k ? writes : 0);
  clear(s.own_e, s.erases && !s.e_is_w ? writes : 0);
}

/// Numbers that the gradients of a write are made of: c = r k and its gradient, what the erase reads and its gradient, the decay.
template <class Real>
struct WriteBack {
  Write mode;  ///< not for the first query: added
  Real c, gradient, read, of_eta, erased, pull, d_c, factor;
  bool scalar;  ///< one factor decays all channels
  __device__ Write of(const HeadField<Real>& f) const { return mode == Write::add ? Write::add : f.write; }
};
/// Gradients of write m's gains, by one thread; `faded`: sum of rho times the state.
template <class Real>
CT_DEVICE void give_scalars(const ReadWeightsFields<Real>& s, const WriteBack<Real>& of, int m, Real along,
                            Real faded) {
  const Real d_w = of.c * of.gradient, d_e = -of.read * of.of_eta;
  if (s.w.gradient) put(of.of(s.w), s.w.gradient(m), s.erases && s.e_is_w ? d_w + d_e : d_w);
  if (of.scalar && s.g.gradient) {
    const Real d_factor = faded - (s.decayed ? of.erased * along : Real(0));
    put(of.of(s.g), s.g.gradient(m / s.N), s.factors ? d_factor : of.factor * d_factor);
  }
  if (s.erases && s.own_e.gradient && !s.e_is_w) put(of.of(s.own_e), s.own_e.gradient(m), d_e);
}
/// Gradients of write m's vectors, in the order of fields(): one variable may stand in several.
template <class T, bool kOwn, class Real, class Step, int E>
CT_DEVICE void give_vectors(const ReadWeightsFields<Real>& s, const WriteBack<Real>& of, int m, int K,
                            const Step& step, const Real (&rho)[E], const Real (&state)[E]) {
  Real d_k[E];
  if constexpr (kOwn) {
    CT_FOR(i, E) d_k[i] = (of.d_c - of.pull) * state[i] - of.erased * rho[i];
    if (s.k.gradient) give<T>(of.of(s.k), s.k.gradient(m), K, d_k);
  } else {
    Real d_x[E], d_y[E], d_g[E];
    CT_FOR(i, E) {
      d_x[i] = -of.erased * rho[i], d_y[i] = -of.pull * state[i];
      d_k[i] = of.d_c * state[i] + (s.x_is_k ? d_x[i] : Real(0)) + (s.y_is_k ? d_y[i] : Real(0));
      d_g[i] = s.decayed ? rho[i] * (state[i] - of.erased * step.x(i)) : step.decay(i) * rho[i] * state[i];
    }
    if (s.k.gradient) give<T>(of.of(s.k), s.k.gradient(m), K, d_k);
    if (step.decays && !of.scalar && s.g.gradient) give<T>(of.of(s.g), s.g.gradient(m / s.N), K, d_g);
    if (s.erases && !s.x_is_k && s.own_x.gradient) give<T>(of.of(s.own_x), s.own_x.gradient(m), K, d_x);
    if (s.erases && !s.y_is_k && s.own_y.gradient) give<T>(of.of(s.own_y), s.own_y.gradient(m), K, d_y);
  }
}

// For the equations see read_weights_cpu.cpp. A thread owns the same entries of every vector throughout,
// thread 0 the scalars. The first query stores what is to be overwritten, the others add to it.
template <class Real, int W, int E, bool kOwn>
__global__ void __launch_bounds__(32 * W)
    read_weights_backward(const __grid_constant__ ReadWeights<Real> op) {
  using T = Team<Real, W, E>;
  constexpr int kAhead = kOwn ? 2 : 1;
  __shared__ Real shared[W > 1 ? 8 * W : 1];
  T team{shared};
  const int Q = op.Q(), H = op.H(), M = op.M(), K = op.K(), r = blockIdx.y, bh = blockIdx.x, b = bh / H;
  const ReadWeightsFields<Real> s(op, r, b, bh % H);
  Real* kept = op.kept ? op.kept.value.at(r) + bh * op.kept_numbers() : nullptr;
  const Real* trail = op.by_trail() ? kept : nullptr;
  Real* states = kept ? kept : op.history.value.at(r) + std::int64_t{bh} * M * K;
  for (int q = 0; q < Q; ++q) {
    const int writes = tokens_seen(op, r, b, q) * op.writes;
    const Real* d_a = op.a.gradient.at(r) + (std::int64_t{bh} * Q + q) * M;
    clear_unseen<32 * W>(s, q, writes);
    Real rho[E], made[E];
    if (!kept) {
      T::load(s.q.value(q), K, rho);
      walk<kOwn>(team, s, writes, rho, states, static_cast<Real*>(nullptr), static_cast<Real*>(nullptr));
    }
    if (trail) T::load(trail, K, made);
    CT_FOR(i, E) rho[i] = 0;
    Step<Real, T, kOwn> steps[kAhead];
    Real kept_states[kAhead][E], gradients[kAhead];
    const auto fetch = [&](int slot, int m) {
      if (m >= writes) return;
      steps[slot].load(s, m);
      if (!trail) T::load(states + std::int64_t{m} * K, K, kept_states[slot]);
      gradients[slot] = d_a[m];
    };
    CT_FOR(slot, kAhead) fetch(slot, slot);
    for (int first = 0; first < writes; first += kAhead) {
      CT_FOR(slot, kAhead) {
        const int m = first + slot;
        if (m >= writes) break;
        const auto& step = steps[slot];
        Real(&state)[E] = kept_states[slot];
        const bool scalar = step.decays && (kOwn || s.channels == 1);
        const Real factor = scalar ? step.decay(0) : Real(1);
        Real c = 0;
        if (trail) {
          c = trail[K + m];
          CT_FOR(i, E) made[i] += step.e * c * step.x(i), state[i] = made[i];
        }
        if constexpr (!kOwn) {
          if (step.decays && s.decayed && !scalar)
            CT_FOR(i, E) rho[i] *= step.decay(i);
        }
        Real sums[kOwn ? 3 : 4] = {T::share(step.k, state), Real(0), T::share(rho, state)};
        if constexpr (kOwn)
          sums[1] = T::share(step.k, rho);
        else
          sums[1] = T::share(step.other_x, rho), sums[3] = T::share(step.other_y, state);
        team.sum(sums);
        if (!trail) c = sums[0];
        const Real read = kOwn || s.y_is_k ? c : sums[kOwn ? 0 : 3],
                   of_eta = s.decayed ? factor * sums[1] : sums[1];
        const Real pull = step.e * of_eta, d_c = step.w * gradients[slot];
        const WriteBack<Real> of{q > 0 ? Write::add : Write::overwrite,
                                 c,
                                 gradients[slot],
                                 read,
                                 of_eta,
                                 step.e * read,
                                 pull,
                                 d_c,
                                 factor,
                                 scalar};
        if (threadIdx.x == 0) give_scalars(s, of, m, sums[1], sums[2]);
        if (scalar && s.decayed)
          CT_FOR(i, E) rho[i] *= factor;
        give_vectors<T, kOwn>(s, of, m, K, step, rho, state);
        CT_FOR(i, E) {
          const Real rest = step.decays && !s.decayed ? step.decay(i) * rho[i] : rho[i];
          rho[i] = rest - pull * step.y(i) + d_c * step.k[i];
        }
        fetch(slot, m + kAhead);
      }
    }
    if (s.q.gradient) give<T>(s.q.write, s.q.gradient(q), K, rho);
  }
}

/// Calls f(warps, entries a thread, kOwn).
template <class Real, class F>
void with_read_team(const ReadWeights<Real>& op, F&& f) {
  const bool own =
      (op.erase == Erase::none || op.erase == Erase::delta || (op.erase == Erase::tied && !op.erase_read)) &&
      (!op.log_decay || op.log_decay.value.dim(3) == 1);
  if (own && op.K() <= kLargestTeam)
    with_team("read_weights", op.K(), [&](auto w, auto e) { f(w, e, std::true_type()); });
  else
    with_teams<1, 1, 1, 4, 8, 4, 32, 32>(  // the last for rare sizes
        "read_weights", "K", op.K(), [&](auto w, auto e) { f(w, e, std::false_type()); });
}

}  // namespace

template <class Real>
void forward_cuda(const Exec& exec, const ReadWeights<Real>& op) {
  if (op.form) return op.form->forward(exec, op);
  with_read_team(op, [&](auto w, auto e, auto own) {
    launch(exec, "read_weights", read_weights<Real, w(), e(), own()>,
           per_replica(op.B() * op.H() * op.Q(), op.k.value.R), 32 * w(), 0, op);
  });
}

template <class Real>
void backward_cuda(const Exec& exec, const ReadWeights<Real>& op) {
  if (op.form) return op.form->backward(exec, op);
  with_read_team(op, [&](auto w, auto e, auto own) {
    launch(exec, "read_weights backward", read_weights_backward<Real, w(), e(), own()>,
           per_replica(op.B() * op.H(), op.k.value.R), 32 * w(), 0, op);
  });
}

CROSSTALK_INSTANTIATE(cuda, ReadWeights)

}  // namespace crosstalk
