// Products with running sums of keys. Forward: a team of threads a sequence, the running sum in registers.
// Backward: columns are independent, so a thread walks a column, forwards and then backwards in time.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/team.cuh"
#include "kernels/recurrence/prefix_dot.h"

namespace crosstalk {
namespace {
using namespace device;

template <class Real, int W, int E>
__global__ void __launch_bounds__(32 * W) prefix_dot(const __grid_constant__ PrefixDot<Real> a) {
  __shared__ Real shared[W > 1 ? 8 * W : 1];
  Team<Real, W, E> team{shared};
  constexpr int kAhead = 4;
  const int b = blockIdx.x, r = blockIdx.y, T = a.k.value.dim(1), P = a.k.value.dim(2), Q = a.q.value.dim(1);
  const Real* k = a.k.value.at(r) + static_cast<std::int64_t>(b) * T * P;
  const std::int32_t* position = a.position.value.at(r) + static_cast<std::int64_t>(b) * Q;
  Real keys[kAhead][E], z[E] = {};
  const auto fetch = [&](int slot, int t) {
    if (t < T) team.load(k + static_cast<std::int64_t>(t) * P, P, keys[slot]);
  };
#pragma unroll
  for (int slot = 0; slot < kAhead; ++slot) fetch(slot, slot);
  int next = next_position(position, Q, 0);
  // Queries that see t tokens, z being the sum of the first t keys.
  const auto answer = [&](int t) {
    for (int i = 0; i < Q; ++i) {
      if (position[i] != t) continue;
      Real query[E];
      team.load(a.q.value.at(r) + (static_cast<std::int64_t>(b) * Q + i) * P, P, query);
      Real sums[1] = {team.share(z, query)};
      team.sum(sums);
      if (threadIdx.x == 0) a.zq.value.at(r)[static_cast<std::int64_t>(b) * Q + i] = sums[0];
    }
    next = next_position(position, Q, t + 1);
  };
  for (int t0 = 0; t0 < T; t0 += kAhead) {
#pragma unroll
    for (int slot = 0; slot < kAhead; ++slot) {
      const int t = t0 + slot;
      if (t >= T) break;
      if (t == next) answer(t);
      Real sums[1] = {team.share(z, keys[slot])};
      team.sum(sums);
      if (threadIdx.x == 0) a.zk.value.at(r)[static_cast<std::int64_t>(b) * T + t] = sums[0];
#pragma unroll
      for (int i = 0; i < E; ++i) z[i] += keys[slot][i];
      fetch(slot, t + kAhead);
    }
  }
  if (next == T) answer(T);
}

constexpr int kColumns = 64;

template <class Real>
__global__ void __launch_bounds__(kColumns) prefix_dot_backward(const __grid_constant__ PrefixDot<Real> a) {
  constexpr int kAhead = 8;
  const int b = blockIdx.y, r = blockIdx.z, T = a.k.value.dim(1), P = a.k.value.dim(2), Q = a.q.value.dim(1);
  const int j = static_cast<int>(blockIdx.x * kColumns + threadIdx.x);
  const bool mine = j < P;  // the others only help to look for queries
  const std::int64_t sequence = static_cast<std::int64_t>(b) * T, queries = static_cast<std::int64_t>(b) * Q;
  const Real* k = a.k.value.at(r) + sequence * P + (mine ? j : 0);
  const Real* q = a.q.value.at(r) + queries * P + (mine ? j : 0);
  const Real* d_zk = a.zk.gradient.at(r) + sequence;
  const Real* d_zq = a.zq.gradient.at(r) + queries;
  Real* d_k = a.k.write == Write::none || !mine ? nullptr : a.k.gradient.at(r) + sequence * P + j;
  Real* d_q = a.q.write == Write::none || !mine ? nullptr : a.q.gradient.at(r) + queries * P + j;
  const std::int32_t* position = a.position.value.at(r) + queries;

  Real sum = 0;  // forwards in time: the sum of the first t keys
  int next = next_position(position, Q, 0);
  const auto answer = [&](int t) {
    for (int i = 0; i < Q && d_q; ++i) {
      if (position[i] == t) put(a.q.write, d_q + static_cast<std::int64_t>(i) * P, d_zq[i] * sum);
    }
    __syncwarp();
    next = next_position(position, Q, t + 1);
  };
  for (int t0 = 0; t0 < T; t0 += kAhead) {
    Real keys[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i)
      keys[i] = t0 + i < T ? k[static_cast<std::int64_t>(t0 + i) * P] : Real(0);
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const int t = t0 + i;
      if (t >= T) break;
      if (t == next) answer(t);
      if (d_k) put(a.k.write, d_k + static_cast<std::int64_t>(t) * P, d_zk[t] * sum);
      sum += keys[i];
    }
  }
  if (next == T) answer(T);
  if (a.k.write == Write::none) return;

  sum = 0;  // backwards in time: what later products want of z_t
  int previous = previous_position(position, Q, T);
  for (int t0 = T - 1; t0 >= 0; t0 -= kAhead) {
    Real keys[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i)
      keys[i] = t0 - i >= 0 ? k[static_cast<std::int64_t>(t0 - i) * P] : Real(0);
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const int t = t0 - i;
      if (t < 0) break;
      if (t + 1 == previous) {
        for (int n = 0; n < Q; ++n) {
          if (position[n] == t + 1) sum += d_zq[n] * q[static_cast<std::int64_t>(n) * P];
        }
        __syncwarp();
        previous = previous_position(position, Q, t);
      }
      if (d_k) d_k[static_cast<std::int64_t>(t) * P] += sum;
      sum += d_zk[t] * keys[i];
    }
  }
}

}  // namespace

template <class Real>
void forward_cuda(const Exec& exec, const PrefixDot<Real>& a) {
  const unsigned B = static_cast<unsigned>(a.k.value.dim(0)), R = static_cast<unsigned>(a.k.value.R);
  if (B == 0 || R == 0) return;
  with_team("prefix dot", a.k.value.dim(2), [&](auto warps, auto entries) {
    constexpr int W = decltype(warps)::value, E = decltype(entries)::value;
    prefix_dot<Real, W, E><<<dim3(B, R), 32 * W, 0, stream_of(exec)>>>(a);
  });
  check_launch("prefix dot");
}

template <class Real>
void backward_cuda(const Exec& exec, const PrefixDot<Real>& a) {
  const int B = a.k.value.dim(0), P = a.k.value.dim(2), R = a.k.value.R;
  if (B == 0 || P == 0 || R == 0 || (a.k.write == Write::none && a.q.write == Write::none)) return;
  prefix_dot_backward<<<dim3(blocks_for(P, kColumns), static_cast<unsigned>(B), static_cast<unsigned>(R)),
                        kColumns, 0, stream_of(exec)>>>(a);
  check_launch("prefix dot backward");
}

CROSSTALK_INSTANTIATE(cuda, PrefixDot)

}  // namespace crosstalk
