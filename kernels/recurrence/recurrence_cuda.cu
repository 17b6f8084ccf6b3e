// The scalar-gated recurrence read backwards in time: a team of threads a query, r in registers.
//
// A step is one product with a key, summed over the team, so a sequence is a chain of T such sums (about 200
// cycles each in one warp); keys are fetched kAhead steps early, and replicas and sequences fill the GPU. The
// backward pass of several queries walks them one after the other in one team, so that what they add to d_k
// meets in a fixed order.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/team.cuh"
#include "kernels/recurrence/recurrence.h"
#include "kernels/recurrence/recurrence_chunked.cuh"

namespace crosstalk {
namespace {
using namespace device;

// The coefficients of one sequence; null where they are constant.
template <class Real>
struct Coefficients {
  const Real *write, *erase, *decay;
  __device__ Coefficients(const Tensor<Real>& w, const Tensor<Real>& e, const Tensor<Real>& d, int r,
                          std::int64_t offset)
      : write(w ? w.at(r) + offset : nullptr),
        erase(e ? e.at(r) + offset : nullptr),
        decay(d ? d.at(r) + offset : nullptr) {}
};

// Walks t = seen-1 .. 0. history (or null) keeps r_t in row t, products (or null) c_t, a (or null) gets the
// weights.
template <class Real, class Team>
__device__ void scan(Team& team, const Real* k, const Coefficients<Real>& coefficient, Real (&r)[Team::E],
                     Real* history, Real* products, Real* a, int seen, int P) {
  constexpr int kAhead = 4, E = Team::E;
  Real keys[kAhead][E], write[kAhead], erase[kAhead], decay[kAhead];
  const auto fetch = [&](int slot, int t) {
    if (t < 0) return;
    Team::load(k + static_cast<std::int64_t>(t) * P, P, keys[slot]);
    write[slot] = a && coefficient.write ? coefficient.write[t] : Real(1);
    erase[slot] = coefficient.erase ? coefficient.erase[t] : Real(0);
    decay[slot] = coefficient.decay ? coefficient.decay[t] : Real(1);
  };
#pragma unroll
  for (int slot = 0; slot < kAhead; ++slot) fetch(slot, seen - 1 - slot);
  for (int t0 = seen - 1; t0 >= 0; t0 -= kAhead) {
#pragma unroll
    for (int slot = 0; slot < kAhead; ++slot) {
      const int t = t0 - slot;
      if (t < 0) break;
      if (history) Team::store(history + static_cast<std::int64_t>(t) * P, P, r);
      Real c[1] = {Team::share(keys[slot], r)};
      team.sum(c);
      if (a && threadIdx.x == 0) a[t] = write[slot] * c[0];
      if (products && threadIdx.x == 0) products[t] = c[0];
      const Real step = erase[slot] * c[0];
#pragma unroll
      for (int i = 0; i < E; ++i) r[i] = decay[slot] * r[i] - step * keys[slot][i];
      fetch(slot, t - kAhead);
    }
  }
}

template <class Real, int W, int E>
__global__ void __launch_bounds__(32 * W) read_forward(const RecurrentRead<Real> a) {
  __shared__ Real shared[W > 1 ? 8 * W : 1];
  Team<Real, W, E> team{shared};
  const int i = blockIdx.x, b = blockIdx.y, r = blockIdx.z;
  const int T = a.k.value.dim(1), P = a.k.value.dim(2), Q = a.q.value.dim(1);
  const std::int64_t query = static_cast<std::int64_t>(b) * Q + i,
                     sequence = static_cast<std::int64_t>(b) * T;
  const int seen = clamped(a.position.value.at(r)[query], T);
  Real* out = a.a.value.at(r) + query * T;
  for (int t = seen + static_cast<int>(threadIdx.x); t < T; t += 32 * W) out[t] = 0;
  Real state[E];
  team.load(a.q.value.at(r) + query * P, P, state);
  scan(team, a.k.value.at(r) + sequence * P,
       Coefficients<Real>(a.write.value, a.erase.value, a.decay.value, r, sequence), state,
       Q == 1 && a.history.value ? a.history.value.at(r) + sequence * P : nullptr,
       a.trail.value ? a.trail.value.at(r) + b * a.trail.value.columns() + P : nullptr, out, seen, P);
  if (a.trail.value) team.store(a.trail.value.at(r) + b * a.trail.value.columns(), P, state);
}

template <class Real, int W, int E>
__global__ void __launch_bounds__(32 * W) read_backward(const RecurrentRead<Real> a) {
  __shared__ Real shared[W > 1 ? 8 * W : 1];
  Team<Real, W, E> team{shared};
  constexpr int kAhead = 2;
  const int b = blockIdx.x, r = blockIdx.y, T = a.k.value.dim(1), P = a.k.value.dim(2), Q = a.q.value.dim(1);
  const std::int64_t sequence = static_cast<std::int64_t>(b) * T;
  const Real* k = a.k.value.at(r) + sequence * P;
  const Coefficients<Real> coefficient(a.write.value, a.erase.value, a.decay.value, r, sequence);
  Real* history = a.history.value ? a.history.value.at(r) + sequence * P : nullptr;
  const Real* trail = a.trail.value ? a.trail.value.at(r) + b * a.trail.value.columns() : nullptr;
  Real* d_k = a.k.write == Write::none ? nullptr : a.k.gradient.at(r) + sequence * P;
  Real* d_write = a.write.write == Write::none ? nullptr : a.write.gradient.at(r) + sequence;
  Real* d_erase = a.erase.write == Write::none ? nullptr : a.erase.gradient.at(r) + sequence;
  Real* d_decay = a.decay.write == Write::none ? nullptr : a.decay.gradient.at(r) + sequence;
  for (int i = 0; i < Q; ++i) {
    const std::int64_t query = static_cast<std::int64_t>(b) * Q + i;
    const int seen = clamped(a.position.value.at(r)[query], T);
    if (Q > 1) {  // the history of one query does not fit beside all others: scan again
      Real state[E];
      team.load(a.q.value.at(r) + query * P, P, state);
      scan(team, k, coefficient, state, history, static_cast<Real*>(nullptr), static_cast<Real*>(nullptr),
           seen, P);
    }
    // The first query stores what is to be overwritten, the others add to it.
    const auto mode = [&](Write wanted) { return i > 0 ? Write::add : wanted; };
    Real keys[kAhead][E], states[kAhead][E], d_a[kAhead], rho[E] = {}, now[E] = {};
    if (trail) team.load(trail, P, now);
    const auto fetch = [&](int slot, int t) {
      if (t >= seen) return;
      team.load(k + static_cast<std::int64_t>(t) * P, P, keys[slot]);
      if (!trail) team.load(history + static_cast<std::int64_t>(t) * P, P, states[slot]);
      d_a[slot] = a.a.gradient.at(r)[query * T + t];
    };
#pragma unroll
    for (int slot = 0; slot < kAhead; ++slot) fetch(slot, slot);
    for (int t0 = 0; t0 < seen; t0 += kAhead) {
#pragma unroll
      for (int slot = 0; slot < kAhead; ++slot) {
        const int t = t0 + slot;
        if (t >= seen) break;
        const Real write = coefficient.write ? coefficient.write[t] : Real(1);
        const Real erase = coefficient.erase ? coefficient.erase[t] : Real(0);
        const Real decay = coefficient.decay ? coefficient.decay[t] : Real(1);
        if (trail) {  // r_t from r_{t-1}
#pragma unroll
          for (int j = 0; j < E; ++j) states[slot][j] = now[j] += erase * trail[P + t] * keys[slot][j];
        }
        Real sums[2] = {team.share(keys[slot], states[slot]), team.share(keys[slot], rho)};
        team.sum(sums);
        const Real c = trail ? trail[P + t] : sums[0], key_rho = sums[1];
        const Real d_c = write * d_a[slot] - erase * key_rho;
        if (d_decay) {
          Real along[1] = {team.share(states[slot], rho)};
          team.sum(along);
          if (threadIdx.x == 0) put(mode(a.decay.write), d_decay + t, along[0]);
        }
        if (threadIdx.x == 0) {
          if (d_write) put(mode(a.write.write), d_write + t, c * d_a[slot]);
          if (d_erase) put(mode(a.erase.write), d_erase + t, -c * key_rho);
        }
        const Real step = erase * c;
#pragma unroll
        for (int j = 0; j < E; ++j) {
          if (d_k && team.entry(j) < P) {
            put(mode(a.k.write), d_k + static_cast<std::int64_t>(t) * P + team.entry(j),
                d_c * states[slot][j] - step * rho[j]);
          }
          rho[j] = decay * rho[j] + d_c * keys[slot][j];
        }
        fetch(slot, t + kAhead);
      }
    }
    for (int t = seen; t < T && i == 0; ++t) {  // tokens that the first query does not see
      if (d_k && a.k.write == Write::overwrite) {
#pragma unroll
        for (int j = 0; j < E; ++j) {
          if (team.entry(j) < P) d_k[static_cast<std::int64_t>(t) * P + team.entry(j)] = 0;
        }
      }
      if (threadIdx.x > 0) continue;
      if (d_write && a.write.write == Write::overwrite) d_write[t] = 0;
      if (d_erase && a.erase.write == Write::overwrite) d_erase[t] = 0;
      if (d_decay && a.decay.write == Write::overwrite) d_decay[t] = 0;
    }
    if (a.q.write == Write::none) continue;
#pragma unroll
    for (int j = 0; j < E; ++j) {
      if (team.entry(j) < P) put(a.q.write, a.q.gradient.at(r) + query * P + team.entry(j), rho[j]);
    }
  }
}

// Replicas are multiples of 64 bytes apart: all are aligned where the first is.
template <class Real>
bool aligned(const Tensor<Real>& x) {
  return reinterpret_cast<std::uintptr_t>(x.data) % 16 == 0;
}

template <class Real>
bool by_chunks(const RecurrentRead<Real>& a) {
  const int P = a.k.value.dim(2);
  const Tensor<Real>& trail = a.trail.value;
  return a.erase.value && !a.decay.value && a.q.value.dim(1) == 1 && P <= kLargestChunked && P % 4 == 0 &&
         aligned(a.k.value) && aligned(a.q.value) && aligned(a.history.value) &&
         (!trail || (aligned(trail) && trail.columns() % 4 == 0));
}

/// Calls f(chain warps) for keys of P <= kLargestChunked numbers.
template <class F>
void with_warps(int P, F&& f) {
  if (P <= 128) {
    f(std::integral_constant<int, 1>());
  } else if (P <= 256) {
    f(std::integral_constant<int, 2>());
  } else {
    f(std::integral_constant<int, 4>());
  }
}

}  // namespace

template <class Real>
void forward_cuda(const Exec& exec, const RecurrentRead<Real>& a) {
  const unsigned B = static_cast<unsigned>(a.k.value.dim(0)), Q = static_cast<unsigned>(a.q.value.dim(1)),
                 R = static_cast<unsigned>(a.k.value.R);
  if (B == 0 || Q == 0 || R == 0) return;
  if (by_chunks(a)) {
    with_warps(a.k.value.dim(2), [&](auto warps) { launch_chunks<false, decltype(warps)::value>(exec, a); });
    return check_launch("recurrent read");
  }
  with_team("recurrent read", a.k.value.dim(2), [&](auto warps, auto entries) {
    constexpr int W = decltype(warps)::value, E = decltype(entries)::value;
    read_forward<Real, W, E><<<dim3(Q, B, R), 32 * W, 0, stream_of(exec)>>>(a);
  });
  check_launch("recurrent read");
}

template <class Real>
void backward_cuda(const Exec& exec, const RecurrentRead<Real>& a) {
  const unsigned B = static_cast<unsigned>(a.k.value.dim(0)), R = static_cast<unsigned>(a.k.value.R);
  if (B == 0 || R == 0) return;
  if (by_chunks(a) && a.trail.value && aligned(a.k.gradient)) {
    with_warps(a.k.value.dim(2), [&](auto warps) { launch_chunks<true, decltype(warps)::value>(exec, a); });
    return check_launch("recurrent read backward");
  }
  with_team("recurrent read backward", a.k.value.dim(2), [&](auto warps, auto entries) {
    constexpr int W = decltype(warps)::value, E = decltype(entries)::value;
    read_backward<Real, W, E><<<dim3(B, R), 32 * W, 0, stream_of(exec)>>>(a);
  });
  check_launch("recurrent read backward");
}

CROSSTALK_INSTANTIATE(cuda, RecurrentRead)

}  // namespace crosstalk
