// What the kernels share that walk the recurrence engine token after token: vectors cut over the lanes of a
// warp, and the queries of a token.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/base/cuda_launch.cuh"
#include "kernels/recurrence/state_read.h"

namespace crosstalk::device {

/// A vector of n numbers cut over neighbouring lanes: entry i of a lane is number lane + i lanes. It follows
/// from n alone.
struct Cut {
  int lanes = 1, entries = 1;
  CT_HD int width() const { return lanes * entries; }
};
inline Cut cut_over_lanes(int n, int most_entries) {
  Cut cut;
  while (cut.lanes < 32 && cut.lanes * most_entries < n) cut.lanes *= 2;
  cut.entries = (n + cut.lanes - 1) / cut.lanes;
  return cut;
}

/// A lane's entries: up to N in registers; N = 0: any number of them in shared memory, a column a thread.
template <class Real, int N>
struct Entries {
  Real x[N];
  __device__ explicit Entries(Real*) {}
  __device__ Real& operator[](int i) { return x[i]; }
};
template <class Real>
struct Entries<Real, 0> {
  Real* x;
  __device__ explicit Entries(Real* shared) : x(shared + threadIdx.x) {}
  __device__ Real& operator[](int i) { return x[i * blockDim.x]; }
};

/// f(i) for each of a lane's n entries.
template <int N, class F>
__device__ __forceinline__ void for_entries(int n, F&& f) {
  if constexpr (N > 0) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      if (i < n) f(i);
    }
  } else {
    for (int i = 0; i < n; ++i) f(i);
  }
}

/// Sum over the `lanes` lanes that hold a vector, the same bits in each of them.
template <class Real>
__device__ __forceinline__ Real lane_sum(Real x, int lanes) {
  for (int offset = lanes / 2; offset > 0; offset /= 2) x += __shfl_xor_sync(kFullWarp, x, offset);
  return x;
}

/// Replica, sequence and head of a block, and where their rows lie.
template <class Real>
struct Place {
  int r, b, h, B, T, N, M, Q, H, K, V;
  __device__ Place(const StateRead<Real>& op, int sequence)
      : r(static_cast<int>(blockIdx.y)),
        b(sequence / op.H()),
        h(sequence % op.H()),
        B(op.B()),
        T(op.T()),
        N(op.writes),
        M(op.M()),
        Q(op.Q()),
        H(op.H()),
        K(op.K()),
        V(op.V()) {}
  __device__ std::int64_t query(int i) const { return (static_cast<std::int64_t>(b) * Q + i) * H + h; }
  __device__ std::int64_t write(int m) const { return (static_cast<std::int64_t>(b) * M + m) * H + h; }
  __device__ std::int64_t token(int t) const { return (static_cast<std::int64_t>(b) * T + t) * H + h; }
  __device__ std::int64_t state() const { return (static_cast<std::int64_t>(b) * H + h) * V * K; }
};

/// The queries that see n tokens, for n that rises (or falls). All lanes of a warp must call it.
template <class Real>
class Queries {
 public:
  __device__ Queries(const StateRead<Real>& op, const Place<Real>& place, bool rising)
      : position_(op.position ? op.position.value.at(place.r) + static_cast<std::int64_t>(place.b) * place.Q
                              : nullptr),
        Q_(place.Q),
        T_(place.T),
        behind_(op.before ? 0 : 1),
        rising_(rising),
        next_(rising ? 0 : place.T) {}

  /// f(i) for every query i that sees n tokens.
  template <class F>
  __device__ void at(int n, F&& f) {
    if (!position_) {
      if (n >= behind_ && n - behind_ < Q_) f(n - behind_);
      return;
    }
    if (rising_ ? n < next_ : n > next_) return;  // nobody sees n tokens
    int next = rising_ ? T_ + 1 : -1;             // the next number that somebody sees
    const int lane = threadIdx.x % 32;
    for (int first = 0; first < Q_; first += 32) {
      const int p = first + lane < Q_ ? clamped(position_[first + lane], T_) : rising_ ? -1 : T_ + 1;
      if (rising_ ? p > n && p < next : p < n && p > next) next = p;
      for (unsigned found = __ballot_sync(kFullWarp, p == n); found; found &= found - 1)
        f(first + __ffs(static_cast<int>(found)) - 1);
    }
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) {
      const int other = __shfl_xor_sync(kFullWarp, next, offset);
      next = (rising_ ? other < next : other > next) ? other : next;
    }
    next_ = next;
  }

 private:
  const std::int32_t* position_;
  int Q_, T_, behind_;
  bool rising_;
  int next_;
};

CT_HD inline bool erases(Erase e) { return e != Erase::none; }
/// Whether an erase takes out along the write's own key.
CT_HD inline bool ties(Erase e) { return e == Erase::delta || e == Erase::tied; }

/// Memory of a backward pass (StateRead::work): what the gradient of the state says of each write, G k and
/// (free) G y, [B,M,H,V] each, and the gradient of a gate for all channels, channel after channel, [B,T,H,K].
template <class Real>
struct BackwardWork {
  Real *G_k, *G_y, *gates;
  __device__ BackwardWork(const StateRead<Real>& op, int r) {
    const std::int64_t size = static_cast<std::int64_t>(op.B()) * op.M() * op.H() * op.V();
    G_k = op.work.value.at(r);
    G_y = op.erase == Erase::free ? G_k + size : G_k;
    gates = G_y + size;
  }
};

}  // namespace crosstalk::device
