// The team of a law that is interpreted on CUDA (rule_execute.h): a block. A thread takes four neighbours where a value has
// enough of them, and threads stand side by side along a row, so that wide accesses meet no bank twice.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/base/device/cuda_launch.cuh"
#include "kernels/rule/rule_walk.h"

namespace crosstalk {
namespace {

extern __shared__ __align__(16) unsigned char shared_memory[];

/// The exponent of the smallest power of two that is at least n, in [least, most]: threads divide by shifts.
CT_DEVICE int bits_above(int n, int least, int most) {
  const int bits = n <= 1 ? 0 : 32 - __clz(n - 1);
  return bits < least ? least : bits < most ? bits : most;
}

template <class Real>
CT_DEVICE Real added(const law::Four<Real>& x) {
  return (x.x[0] + x.x[1]) + (x.x[2] + x.x[3]);
}

/// A block. Where the program's memory is shared it begins with the dynamic part, which functions name themselves: the
/// compiler then knows that it is shared. A thread takes four neighbours where a value has enough of them.
template <class Real, int kThreads, bool kShared, bool kAhead_>
struct RuleBlock {
  using Four = law::Four<Real>;
  static constexpr int kWarps = kThreads / 32;
  Real* sums;   ///< shared, a number a warp
  int rows_at;  ///< bytes to the rows of inputs in the shared part

  __device__ static Real* memory(Real* m) {
    if constexpr (kShared) return reinterpret_cast<Real*>(shared_memory);
    return m;
  }
  /// An operation as it moves.
  struct Words {
    int4 first, second;
  };
  __device__ static RuleOperation decoded(const Words& x) {
    RuleOperation op;
    op.code = static_cast<RuleCode>(x.first.x & 0xff), op.map = static_cast<std::uint8_t>(x.first.x >> 8);
    op.flags = static_cast<std::uint16_t>(x.first.x >> 16);
    op.rows = x.first.y, op.columns = x.first.z, op.inner = x.first.w;
    op.a = x.second.x, op.b = x.second.y, op.c = x.second.z, op.y = x.second.w;
    return op;
  }
  static constexpr bool kAhead = kAhead_;
  __device__ static Words operation(const RuleOperation* from) {
    return {__ldg(reinterpret_cast<const int4*>(from)), __ldg(reinterpret_cast<const int4*>(from) + 1)};
  }

  __device__ law::RuleRows<Real>* table(law::RuleRows<Real>*) const {
    return reinterpret_cast<law::RuleRows<Real>*>(shared_memory + rows_at);
  }

  __device__ static void sync() {
    if constexpr (kWarps == 1)
      __syncwarp();
    else
      __syncthreads();
  }
  __device__ static int thread() { return CT_THREAD; }
  __device__ static int warp() { return static_cast<int>(threadIdx.x >> 5); }
  __device__ static int lane() { return static_cast<int>(threadIdx.x & 31u); }

  // --- between the program's memory and the device's

  /// Numbers on their way: fetched() waits for all of them.
  __device__ void fetch(int n, const Real* from, Real* to) const {
    if constexpr (kShared) {
      if (n >= 4 * 32 && n % 4 == 0 && device::is_aligned16(from)) {
        constexpr int kNumbers = 16 / sizeof(Real);
        for (int i = kNumbers * thread(); i < n; i += kNumbers * kThreads)
          asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\n" ::"r"(
                           static_cast<unsigned>(__cvta_generic_to_shared(to + i))),
                       "l"(from + i)
                       : "memory");
      } else {
        for (int i = thread(); i < n; i += kThreads)
          asm volatile("cp.async.ca.shared.global [%0], [%1], %2;\n" ::"r"(
                           static_cast<unsigned>(__cvta_generic_to_shared(to + i))),
                       "l"(from + i), "n"(static_cast<int>(sizeof(Real)))
                       : "memory");
      }
    } else {
      for (int i = thread(); i < n; i += kThreads) to[i] = from[i];
    }
  }
  __device__ void fetched() const {
    if constexpr (kShared) asm volatile("cp.async.wait_all;\n" ::: "memory");
    sync();
  }
  /// Not ended by a sync().
  __device__ void put(int n, Real* to, const Real* from, bool adds) const {
    for (int i = thread(); i < n; i += kThreads) to[i] = adds ? to[i] + from[i] : from[i];
  }

  // --- entry by entry

  __device__ void number(Real* y, Real x) const {
    if (thread() == 0) *y = x;
    sync();
  }
  /// Runs f by one thread, while nobody else may look.
  __device__ void alone(auto&& f) const {
    if (thread() == 0) f();
    sync();
  }
  __device__ void each(int n, auto&& f) const {
    for (int i = thread(); i < n; i += kThreads) f(i);
    sync();
  }
  __device__ static void store(Real* y, const Four& x) { *reinterpret_cast<Four*>(y) = x; }
  __device__ static void store(Real* y, Real x) { *reinterpret_cast<Four*>(y) = Four{{x, x, x, x}}; }
  // Several fours are worked out before the first is stored: their loads wait together. Other loops are not unrolled, since an
  // interpreter that does not fit the caches of instructions waits for these.
  __device__ void fill(int n, Real* y, auto&& f) const {
    if (n < 4 * 32 || n % 4 != 0) {
      CT_ROLLED(int i = thread(); i < n; i += kThreads) y[i] = f(i);
      sync();
      return;
    }
    constexpr int kStep = 4 * kThreads;
    int i = 4 * thread();
    CT_ROLLED(; i + 3 * kStep < n; i += 4 * kStep) {
      decltype(f(law::Quad{})) x[4];
      CT_FOR(u, 4) x[u] = f(law::Quad{i + u * kStep});
      CT_FOR(u, 4) store(y + i + u * kStep, x[u]);
    }
    CT_ROLLED(; i < n; i += kStep) store(y + i, f(law::Quad{i}));
    sync();
  }
  /// Threads stand side by side along a row: as many as its fours, up to the next power of two.
  __device__ void cells(int rows, int columns, Real* y, auto&& row) const {
    if (columns % 4 != 0) return entries(rows, columns, y, [&](int i, int j) { return row(i)(j); });
    constexpr int kBits = kThreads == 32 ? 5 : kThreads == 128 ? 7 : 8;
    static_assert(1 << kBits == kThreads);
    const int bits = bits_above(columns >> 2, 0, kBits), step = kThreads >> bits, from = thread() >> bits;
    const int wide = 1 << bits;
    CT_ROLLED(int j = 4 * (thread() & (wide - 1)); j < columns; j += 4 * wide) {
      int i = from;
      CT_ROLLED(; i + 3 * step < rows; i += 4 * step) {
        Four x[4];
        CT_FOR(u, 4) x[u] = row(i + u * step)(law::Quad{j});
        CT_FOR(u, 4) store(y + (i + u * step) * columns + j, x[u]);
      }
      CT_ROLLED(; i < rows; i += step) store(y + i * columns + j, row(i)(law::Quad{j}));
    }
    sync();
  }
  __device__ void entries(int rows, int columns, Real* y, auto&& f) const {
    CT_ROLLED(int j = lane(); j < columns; j += 32)
      CT_ROLLED(int i = warp(); i < rows; i += kWarps) y[i * columns + j] = f(i, j);
    sync();
  }
  __device__ int next_position(const std::int32_t* position, int Q, int T, int from, bool up) const {
    int next = up ? T + 1 : -1;
    CT_ROLLED(int i = lane(); i < Q; i += 32) {
      const int p = device::clamped(position[i], T);
      if (up ? p >= from && p < next : p <= from && p > next) next = p;
    }
    CT_UNROLL(int offset = 16; offset > 0; offset /= 2) {
      const int other = __shfl_xor_sync(device::kFullWarp, next, offset);
      next = (up ? other < next : other > next) ? other : next;
    }
    return next;
  }

  // --- sums

  /// Four sums over lanes at distances 2 `near` .. `far` (far >= 2 near); a lane ends with one of them: which, is returned.
  __device__ static int scatter(Four& x, int far, int near) {
    const bool first = lane() & far, second = lane() & (far >> 1);
    Real low = first ? x.x[2] : x.x[0], high = first ? x.x[3] : x.x[1];
    low += __shfl_xor_sync(device::kFullWarp, first ? x.x[0] : x.x[2], far);
    high += __shfl_xor_sync(device::kFullWarp, first ? x.x[1] : x.x[3], far);
    Real sum = second ? high : low;
    sum += __shfl_xor_sync(device::kFullWarp, second ? low : high, far >> 1);
    CT_ROLLED(int offset = far >> 2; offset >= near; offset >>= 1)
      sum += __shfl_xor_sync(device::kFullWarp, sum, offset);
    x.x[0] = sum;
    return (first ? 2 : 0) + (second ? 1 : 0);
  }
  /// Lanes side by side along a row, four numbers each; four rows a lane share exchanges.
  __device__ void rows(int rows, int n, auto&& term, auto&& put) const {
    const int bits = bits_above(n % 4 == 0 ? n >> 2 : n, 2, 5), wide = 1 << bits, together = 32 >> bits;
    const int at = lane() & (wide - 1);
    CT_ROLLED(int begin = 4 * together * warp(); begin < rows; begin += 4 * together * kWarps) {
      const int first = begin + (lane() >> bits);
      Four x{};
      if (n % 4 == 0 && first + 3 * together < rows) {
        CT_ROLLED(int j = 4 * at; j < n; j += 4 * wide) {
          Four terms[4];
          CT_FOR(u, 4) terms[u] = term(first + u * together, law::Quad{j});
          CT_FOR(u, 4) x.x[u] += added<Real>(terms[u]);
        }
      } else {
        CT_ROLLED(int j = at; j < n; j += wide) {
          CT_FOR(u, 4)
            if (first + u * together < rows) x.x[u] += term(first + u * together, j);
        }
      }
      const int mine = first + together * scatter(x, wide >> 1, 1);
      if ((at & ((wide >> 2) - 1)) == 0 && mine < rows) put(mine, x.x[0]);
    }
    sync();
  }
  /// Four columns a thread, and of these every several rows.
  __device__ void columns(int columns, int n, auto&& term, auto&& put) const {
    if (columns % 4 != 0) {
      CT_ROLLED(int i = thread(); i < columns; i += kThreads) {
        Real total = 0;
#pragma unroll 4
        for (int j = 0; j < n; ++j) total += term(i, j);
        put(i, total);
      }
      sync();
      return;
    }
    const int bits = bits_above(((columns >> 2) + kWarps - 1) / kWarps, 0, 3), wide = 1 << bits;
    const int apart = 32 >> bits;
    CT_ROLLED(int first = wide * warp(); 4 * first < columns; first += wide * kWarps) {
      const int i = 4 * (first + (lane() & (wide - 1)));
      Four x{};
      if (i < columns) {
        int j = lane() >> bits;
        CT_ROLLED(; j + 3 * apart < n; j += 4 * apart) {
          Four terms[4];
          CT_FOR(u, 4) terms[u] = term(law::Quad{i}, j + u * apart);
          CT_FOR(u, 4) x = x + terms[u];
        }
        CT_ROLLED(; j < n; j += apart) x = x + term(law::Quad{i}, j);
      }
      const int mine = i + scatter(x, 16, wide);
      if ((lane() & 7 & ~(wide - 1)) == 0 && i < columns) put(mine, x.x[0]);
    }
    sync();
  }
  __device__ Real sum(int n, auto&& term) const {
    Real total = 0;
    if (n < 4 * 32 || n % 4 != 0) {
      CT_ROLLED(int i = thread(); i < n; i += kThreads) total += term(i);
    } else {
      Four x{};
      int i = 4 * thread();
      CT_ROLLED(; i + 12 * kThreads < n; i += 16 * kThreads) {
        Four terms[4];
        CT_FOR(u, 4) terms[u] = term(law::Quad{i + 4 * u * kThreads});
        CT_FOR(u, 4) x = x + terms[u];
      }
      CT_ROLLED(; i < n; i += 4 * kThreads) x = x + term(law::Quad{i});
      total = added<Real>(x);
    }
    total = device::warp_sum(total);
    if constexpr (kWarps > 1) {
      if (lane() == 0) sums[warp()] = total;
      __syncthreads();
      total = 0;
      CT_ROLLED(int w = 0; w < kWarps; ++w) total += sums[w];
    }
    sync();
    return total;
  }
};

}  // namespace
}  // namespace crosstalk
