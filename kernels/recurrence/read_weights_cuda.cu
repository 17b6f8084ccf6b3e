// Read weights: a team of threads walks a sequence backwards in time for one query, the vector r in its registers. Backward:
// one team a sequence and head takes query after query, so that every sum has one owner.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/team.cuh"
#include "kernels/recurrence/read_weights_fields.h"

namespace crosstalk {
namespace {
using namespace device;

/// One write as a team holds it.
template <class Real, class Team>
struct Step {
  static constexpr int E = Team::E;
  Real k[E], x[E], y[E], decay[E];
  Real w, e;
  bool decays;

  __device__ void load(const ReadWeightsFields<Real>& s, int m) {
    Team::load(s.k.value(m), s.K, k);
    w = s.gain(s.w, m), e = 0, decays = s.decays(m);
    if (s.erases) {
      Team::load(s.x.value(m), s.K, x);
      Team::load(s.y.value(m), s.K, y);
      e = s.gain(s.e, m);
    } else {
#pragma unroll
      for (int i = 0; i < E; ++i) x[i] = y[i] = 0;
    }
    if (!decays) return;
    const Real* g = s.g.value(m / s.N);
    const Real one = s.channels == 1 ? exp(*g) : Real(0);
#pragma unroll
    for (int i = 0; i < E; ++i)
      decay[i] = s.channels == 1 ? one : Team::entry(i) < s.K ? exp(g[Team::entry(i)]) : Real(0);
  }
  /// From r after this write to r before it. read = y.r
  __device__ void undo(bool decayed, Real read, Real (&r)[E]) const {
    const Real erased = e * read;
#pragma unroll
    for (int i = 0; i < E; ++i) {
      if (decays && decayed) {
        r[i] = decay[i] * (r[i] - erased * x[i]);
      } else {
        r[i] = (decays ? decay[i] * r[i] : r[i]) - erased * x[i];
      }
    }
  }
};

template <class Real, int W, int E>
__global__ void __launch_bounds__(32 * W) read_weights(const __grid_constant__ ReadWeights<Real> op) {
  using T = Team<Real, W, E>;
  __shared__ Real shared[W > 1 ? 8 * W : 1];
  T team{shared};
  const int Q = op.Q(), H = op.H(), M = op.M(), r = blockIdx.y;
  const int q = static_cast<int>(blockIdx.x % Q), h = static_cast<int>(blockIdx.x / Q % H);
  const int b = static_cast<int>(blockIdx.x / Q / H);
  const ReadWeightsFields<Real> s(op, r, b, h);
  Real* a = op.a.value.at(r) + static_cast<std::int64_t>(blockIdx.x) * M;
  const int writes = tokens_seen(op, r, b, q) * op.writes;
  for (int m = writes + static_cast<int>(threadIdx.x); m < M; m += 32 * W) a[m] = 0;
  Real state[E];
  T::load(s.q.value(q), s.K, state);
  Step<Real, T> next;
  if (writes > 0) next.load(s, writes - 1);
  for (int m = writes - 1; m >= 0; --m) {
    const Step<Real, T> step = next;
    if (m > 0) next.load(s, m - 1);  // on its way while the sums are taken
    Real sums[2] = {T::share(step.k, state), T::share(step.y, state)};
    team.sum(sums);
    if (threadIdx.x == 0) a[m] = step.w * sums[0];
    step.undo(s.decayed, sums[1], state);
  }
}

/// This thread's entries of a vector in memory, += scale x.
template <class T, class Real>
__device__ void add(Real* target, int K, Real scale, const Real (&x)[T::E]) {
#pragma unroll
  for (int i = 0; i < T::E; ++i) {
    if (T::entry(i) < K) target[T::entry(i)] += scale * x[i];
  }
}

// For the equations see read_weights_cpu.cpp. A thread owns the same entries of every vector throughout, thread 0 the scalars.
template <class Real, int W, int E>
__global__ void __launch_bounds__(32 * W)
    read_weights_backward(const __grid_constant__ ReadWeights<Real> op) {
  using T = Team<Real, W, E>;
  __shared__ Real shared[W > 1 ? 8 * W : 1];
  T team{shared};
  const int Q = op.Q(), H = op.H(), M = op.M(), K = op.K(), r = blockIdx.y, bh = blockIdx.x, b = bh / H;
  const ReadWeightsFields<Real> s(op, r, b, bh % H);
  for (const HeadField<Real>* f : {&s.q, &s.k, &s.w, &s.g, &s.own_x, &s.own_y, &s.own_e}) {
    if (f->write != Write::overwrite) continue;
    for (int n = 0; n < f->N; ++n) {
      for (int c = threadIdx.x; c < f->C; c += 32 * W) f->gradient(n)[c] = 0;
    }
  }
  Real* history = op.history.value.at(r) + static_cast<std::int64_t>(bh) * M * K;
  for (int q = 0; q < Q; ++q) {
    const int writes = tokens_seen(op, r, b, q) * op.writes;
    const Real* d_a = op.a.gradient.at(r) + (static_cast<std::int64_t>(bh) * Q + q) * M;
    Real state[E], rho[E];
    T::load(s.q.value(q), K, state);
    Step<Real, T> step;
    for (int m = writes - 1; m >= 0; --m) {
      step.load(s, m);
      T::store(history + static_cast<std::int64_t>(m) * K, K, state);
      Real read[1] = {T::share(step.y, state)};
      if (s.erases) team.sum(read);
      step.undo(s.decayed, read[0], state);
    }
#pragma unroll
    for (int i = 0; i < E; ++i) rho[i] = 0;
    for (int m = 0; m < writes; ++m) {
      step.load(s, m);
      T::load(history + static_cast<std::int64_t>(m) * K, K, state);
      if (step.decays && s.decayed) {
#pragma unroll
        for (int i = 0; i < E; ++i) rho[i] *= step.decay[i];
      }
      Real sums[4] = {T::share(step.k, state), T::share(step.y, state), T::share(step.x, rho),
                      T::share(rho, state)};
      team.sum(sums);
      const Real read = sums[1], along = sums[2], erased = step.e * read, pull = step.e * along;
      const Real d_c = step.w * d_a[m];
      if (threadIdx.x == 0) {
        if (s.w.gradient) *s.w.gradient(m) += sums[0] * d_a[m];
        if (s.erases && s.e.gradient) *s.e.gradient(m) -= read * along;
      }
      if (step.decays && s.g.gradient) {
        Real* d_g = s.g.gradient(m / s.N);
        if (s.channels == 1) {
          if (threadIdx.x == 0) *d_g += s.decayed ? sums[3] - erased * along : step.decay[0] * sums[3];
        } else {
#pragma unroll
          for (int i = 0; i < E; ++i) {
            if (T::entry(i) < K)
              d_g[T::entry(i)] +=
                  s.decayed ? rho[i] * (state[i] - erased * step.x[i]) : step.decay[i] * rho[i] * state[i];
          }
        }
      }
      if (s.k.gradient) add<T>(s.k.gradient(m), K, d_c, state);
      if (s.erases && s.x.gradient) add<T>(s.x.gradient(m), K, -erased, rho);
      if (s.erases && s.y.gradient) add<T>(s.y.gradient(m), K, -pull, state);
#pragma unroll
      for (int i = 0; i < E; ++i) {
        const Real kept = step.decays && !s.decayed ? step.decay[i] * rho[i] : rho[i];
        rho[i] = kept - pull * step.y[i] + d_c * step.k[i];
      }
    }
    if (s.q.gradient) add<T>(s.q.gradient(q), K, Real(1), rho);
  }
}

/// Calls f(warps, entries a thread) for keys of K numbers; few shapes, the last of them for what should be rare.
template <class F>
void with_key_team(int K, F&& f) {
  using std::integral_constant;
  if (K <= 32) {
    f(integral_constant<int, 1>(), integral_constant<int, 1>());
  } else if (K <= 128) {
    f(integral_constant<int, 1>(), integral_constant<int, 4>());
  } else if (K <= 1024) {
    f(integral_constant<int, 8>(), integral_constant<int, 4>());
  } else if (K <= 32768) {
    f(integral_constant<int, 32>(), integral_constant<int, 32>());
  } else {
    refuse_shape("read_weights", "K", K, 32768);
  }
}

}  // namespace

template <class Real>
void forward_cuda(const Exec& exec, const ReadWeights<Real>& op) {
  const unsigned blocks = static_cast<unsigned>(op.B() * op.H() * op.Q()),
                 R = static_cast<unsigned>(op.k.value.R);
  if (blocks == 0 || R == 0) return;
  with_key_team(op.K(), [&](auto w, auto e) {
    read_weights<Real, w(), e()><<<dim3(blocks, R), 32 * w(), 0, stream_of(exec)>>>(op);
  });
  check_launch("read_weights");
}

template <class Real>
void backward_cuda(const Exec& exec, const ReadWeights<Real>& op) {
  const unsigned blocks = static_cast<unsigned>(op.B() * op.H()), R = static_cast<unsigned>(op.k.value.R);
  if (blocks == 0 || R == 0) return;
  with_key_team(op.K(), [&](auto w, auto e) {
    read_weights_backward<Real, w(), e()><<<dim3(blocks, R), 32 * w(), 0, stream_of(exec)>>>(op);
  });
  check_launch("read_weights backward");
}

CROSSTALK_INSTANTIATE(cuda, ReadWeights)

}  // namespace crosstalk
