// What the delta rule writes, chunks of 64 tokens: a block takes a sequence and head. Products are of bf16; the triangle of a chunk is
// solved in fp32, a thread a column, whose 64 numbers it keeps in registers.
//   forward    chunk c: what earlier chunks hold, by pairs of chunks k_c k_j^T u_j, then its own triangle
//   backward   the last chunk first: z_c, and of each pair of chunks once k_i k_c^T and z_i u_c^T, of which all gradients are made
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/delta_values.h"
#include "kernels/base/device/async_copy.cuh"
#include "kernels/base/device/cuda_launch.cuh"
#include "kernels/base/head_rows.h"
#include "kernels/matmul/operand_pairs.cuh"

namespace crosstalk {
namespace {
using namespace device;

using DeltaOp = DeltaValues<float>;
using Bits = std::uint16_t;  // of a bf16
constexpr int kTokens = 64, kColumns = DeltaOp::kMost;
constexpr int kLong = kColumns + 8, kShort = kTokens + 8,
              kFlat = kTokens + 4;  // rows of 256, of 64, of 64 floats
constexpr int kRowsSize = kTokens * kLong, kSquareSize = kTokens * kShort,
              kTriangleBytes = kTokens * kFlat * 4;
constexpr int kForwardThreads = 256, kBackThreads = 512;
constexpr std::size_t kForwardBytes = 2 * kRowsSize * sizeof(Bits) + kTriangleBytes,
                      kBackBytes = (5 * kRowsSize + 2 * kSquareSize) * sizeof(Bits) + kTriangleBytes;

static_assert(kBackBytes == DeltaOp::kSharedBytes);

/// Rows of a field of this sequence and head, floats or bf16.
template <class Number>
CT_DEVICE HeadRows<Number> rows_of(const DeltaOp& op, const Tensor<float>& t, int r, int columns) {
  Tensor<Number> of;
  of.data = reinterpret_cast<Number*>(t.data);
  of.replica_stride = t.replica_stride * static_cast<int>(sizeof(float) / sizeof(Number));
  const int H = op.H(), bh = static_cast<int>(blockIdx.x);
  return HeadRows<Number>(of, r, bh / H, bh % H, op.T(), H, columns);
}
CT_DEVICE uint4 eight(const float* from) {
  const auto* fours = reinterpret_cast<const Four<float>*>(from);
  const uint2 low = pairs_of(fours[0]), high = pairs_of(fours[1]);
  return make_uint4(low.x, low.y, high.x, high.y);
}
CT_DEVICE float2 two(const float* from) { return *reinterpret_cast<const float2*>(from); }
CT_DEVICE float2 two(const Bits* from) { return two_of(*reinterpret_cast<const unsigned*>(from)); }
CT_DEVICE void put_two(float* to, float x, float y) { *reinterpret_cast<float2*>(to) = make_float2(x, y); }
CT_DEVICE void put_two(Bits* to, float x, float y) { *reinterpret_cast<unsigned*>(to) = bf16_pair(x, y); }
CT_DEVICE void put_one(float* to, float x) { *to = x; }
CT_DEVICE void put_one(Bits* to, float x) { *to = static_cast<Bits>(bf16_pair(x, 0)); }

/// 64 tokens from t0 on to shared memory, zeros beyond the sequence and its columns.
template <int kThreads, class Number>
CT_DEVICE void load_tokens(Bits* to, const HeadRows<Number>& from, int t0, int T, int columns) {
#pragma unroll 4
  for (int i = threadIdx.x; i < kTokens * kColumns / 8; i += kThreads) {
    const int row = i / (kColumns / 8), c = i % (kColumns / 8) * 8;
    const bool inside = t0 + row < T && c < columns;
    Bits* const place = to + row * kLong + c;
    if constexpr (std::is_same_v<Number, Bits>)
      copy_async_or_zero(place, inside ? from(t0 + row) + c : from.first, inside ? 16 : 0);
    else
      *reinterpret_cast<uint4*>(place) = inside ? eight(from(t0 + row) + c) : uint4{};
  }
}
/// All of them are there, for all threads.
CT_DEVICE void tokens_loaded() {
  copies_end();
  __syncthreads();
}

/// A factor in shared memory: [row][k], or, turned, [k][row].
template <bool kTurned_>
struct Factor {
  static constexpr bool kTurned = kTurned_;
  const Bits* first;
  int stride;
};
using Rows = Factor<false>;
using Turned = Factor<true>;
/// sums += a b^T of 16 rows from r0 on and 8 kTiles of the other's rows from n0 on.
template <int kTiles, class Left, class Right>
CT_DEVICE void multiply(float (&sums)[kTiles][4], const Left& a, int r0, const Right& b, int n0, int terms) {
  const int lane = CT_LANE;
#pragma unroll 2
  for (int k = 0; k < terms; k += 16) {
    unsigned x[4];
    load_matrices<Left::kTurned>(
        x, Left::kTurned ? a.first + (k + lane / 16 * 8 + lane % 8) * a.stride + r0 + lane / 8 % 2 * 8
                         : a.first + (r0 + lane % 16) * a.stride + k + lane / 16 * 8);
    CT_UNROLL(int n = 0; n < kTiles; n += 2) {
      unsigned y[4];
      load_matrices<Right::kTurned>(
          y, Right::kTurned
                 ? b.first + (k + lane % 16) * b.stride + n0 + n * 8 + lane / 16 * 8
                 : b.first + (n0 + n * 8 + lane % 8 + lane / 16 * 8) * b.stride + k + lane / 8 % 2 * 8);
      mma_bf16(sums[n], x, y[0], y[1]);
      mma_bf16(sums[n + 1], x, y[2], y[3]);
    }
  }
}
/// f(row, column, two numbers side by side) of a lane's sums.
template <int kTiles, class F>
CT_DEVICE void each_two(float (&sums)[kTiles][4], int r0, int n0, F&& f) {
  const int lane = CT_LANE;
  CT_FOR2(low, 2, n, kTiles)
    f(r0 + lane / 4 + 8 * low, n0 + n * 8 + 2 * (lane % 4), sums[n][2 * low], sums[n][2 * low + 1]);
}

/// x[i] -= sum of row i of the triangle times x, over j < i, or, kBack, over j > i from the last on.
template <bool kBack>
CT_DEVICE void solve_column(const float* triangle, float* column) {
  float x[kTokens];
  CT_FOR(i, kTokens) x[i] = column[i * kLong];
  CT_UNROLL(int from = 0; from < kTokens; from += 4) {
    const int j0 = kBack ? kTokens - 4 - from : from;
    CT_UNROLL(int n = 1; n < kTokens; ++n) {
      const int i = kBack ? kTokens - 1 - n : n;
      if (kBack ? i >= j0 + 3 : i <= j0) continue;
      const auto four = *reinterpret_cast<const Four<float>*>(triangle + i * kFlat + j0);
      CT_FOR(e, 4) {
        const int j = kBack ? j0 + 3 - e : j0 + e;
        if (kBack ? j > i : j < i) x[i] -= four.v[j - j0] * x[j];
      }
    }
  }
  CT_FOR(i, kTokens) column[i * kLong] = x[i];
}

template <class Number>
__global__ void __launch_bounds__(kForwardThreads, 2)
    delta_values_forward(const __grid_constant__ DeltaOp op) {
  extern __shared__ uint4 delta_memory[];
  auto* const own = reinterpret_cast<Bits*>(delta_memory);
  Bits *const other = own + kRowsSize, *const square = other + kRowsSize;
  auto* const solved = reinterpret_cast<float*>(own);  // in place of keys and what was written
  auto* const triangle = reinterpret_cast<float*>(square);
  const int T = op.T(), H = op.H(), K = op.K(), V = op.V(), bh = static_cast<int>(blockIdx.x), r = blockIdx.y;
  const HeadRows<Number> k = rows_of<Number>(op, op.k.value, r, K), v = rows_of<Number>(op, op.v.value, r, V),
                         u = rows_of<Number>(op, op.u.value, r, V);
  const HeadRows<float> gain(op.gain.value, r, bh / H, bh % H, T, H, 1);
  const int warp = CT_WARP, r0 = warp % 4 * 16, half = warp / 4, terms = (K + 15) / 16 * 16;
  CT_ROLLED(int c0 = 0; c0 < T; c0 += kTokens) {
    float sums[kColumns / 16][4] = {};
    load_tokens<kForwardThreads>(own, k, c0, T, K);
    CT_ROLLED(int j0 = 0; j0 < c0; j0 += kTokens) {
      load_tokens<kForwardThreads>(other, k, j0, T, K);
      tokens_loaded();
      float weights[4][4] = {};
      multiply(weights, Rows{own, kLong}, r0, Rows{other, kLong}, half * 32, terms);
      each_two(weights, r0, half * 32, [&](int i, int j, float x, float y) {
        *reinterpret_cast<unsigned*>(square + i * kShort + j) = bf16_pair(x, y);
      });
      __syncthreads();
      load_tokens<kForwardThreads>(other, u, j0, T, V);
      tokens_loaded();
      multiply(sums, Rows{square, kShort}, r0, Turned{other, kLong}, half * (kColumns / 2), kTokens);
      __syncthreads();
    }
    tokens_loaded();
    const auto gain_of = [&](int i) { return c0 + i < T ? *gain(c0 + i) : 0.0f; };
    float weights[4][4] = {};
    multiply(weights, Rows{own, kLong}, r0, Rows{own, kLong}, half * 32, terms);
    each_two(weights, r0, half * 32, [&](int i, int j, float x, float y) {
      const float by = gain_of(i);
      triangle[i * kFlat + j] = j < i ? by * x : 0.0f;
      triangle[i * kFlat + j + 1] = j + 1 < i ? by * y : 0.0f;
    });
    __syncthreads();
    each_two(sums, r0, half * (kColumns / 2), [&](int i, int c, float x, float y) {
      const bool inside = c0 + i < T && c < V;
      const float2 of = inside ? two(v(c0 + i) + c) : float2{};
      const float by = gain_of(i);
      *reinterpret_cast<float2*>(solved + i * kLong + c) = make_float2(by * (of.x - x), by * (of.y - y));
    });
    __syncthreads();
    const int column = CT_THREAD;
    solve_column<false>(triangle, solved + column);
    for (int i = 0; i < kTokens && c0 + i < T && column < V; ++i)
      put_one(u(c0 + i) + column, solved[i * kLong + column]);
    __syncthreads();
  }
}

/// The way back over one sequence and head. Four quarters of the warps share a product's columns, four warps of each its rows.
template <class Number>
struct DeltaBack {
  const DeltaOp& op;
  Bits* const keys;  ///< of chunk c; behind it what the chunk wrote, and z
  Bits *const wrote = keys + kRowsSize, *const own_z = wrote + kRowsSize,
              *const later_keys = own_z + kRowsSize, *const later_z = later_keys + kRowsSize,
              *const weights = later_z + kRowsSize, *const d_weights = weights + kSquareSize;
  float* const solved = reinterpret_cast<float*>(later_keys);  ///< in place of those of a later chunk
  float* const triangle = reinterpret_cast<float*>(d_weights + kSquareSize);
  const int T = op.T(), H = op.H(), K = op.K(), V = op.V(), b = static_cast<int>(blockIdx.x) / H,
            h = static_cast<int>(blockIdx.x) % H, r = blockIdx.y;
  const HeadRows<Number> k = rows_of<Number>(op, op.k.value, r, K), v = rows_of<Number>(op, op.v.value, r, V),
                         u = rows_of<Number>(op, op.u.value, r, V),
                         d_u = rows_of<Number>(op, op.u.gradient, r, V),
                         d_k = op.k.wanted() ? rows_of<Number>(op, op.k.gradient, r, K) : HeadRows<Number>(),
                         d_v = op.v.wanted() ? rows_of<Number>(op, op.v.gradient, r, V) : HeadRows<Number>();
  const HeadField<float> gain{op.gain, r, b, h, T, H, 1};
  const HeadRows<float> part{op.part.value, r, b, h, T, H, 4};
  const HeadRows<Bits> z = rows_of<Bits>(op, op.z.value, r, V);
  const int warp = CT_WARP, lane = CT_LANE, r0 = warp % 4 * 16, quarter = warp / 4,
            n0 = quarter * (kColumns / 4), of_keys = (K + 15) / 16 * 16, of_values = (V + 15) / 16 * 16;

  CT_DEVICE float gain_of(int t) const { return t < T ? *gain.value(t) : 0.0f; }

  /// Of l = k_i k_c^T and n = z_i u_c^T, i from t0 on: the gradient of l, times gain, to shared memory; its share of gain's.
  CT_DEVICE void take(float (&l)[2][4], float (&n)[2][4], int t0, bool diagonal) const {
    float shares[2] = {};
    CT_FOR(e, 8) {
      const int low = e % 4 / 2, i = r0 + lane / 4 + 8 * low,
                j = quarter * 16 + e / 4 * 8 + 2 * (lane % 4) + e % 2;
      if (diagonal && j >= i) n[e / 4][e % 4] = 0;
      shares[low] += l[e / 4][e % 4] * n[e / 4][e % 4];
    }
    each_two(n, r0, quarter * 16, [&](int i, int j, float x, float y) {
      const float by = -gain_of(t0 + i);
      *reinterpret_cast<unsigned*>(d_weights + i * kShort + j) = bf16_pair(by * x, by * y);
    });
    CT_FOR(low, 2) {
      shares[low] += __shfl_xor_sync(kFullWarp, shares[low], 1);
      shares[low] += __shfl_xor_sync(kFullWarp, shares[low], 2);
      const int t = t0 + r0 + lane / 4 + 8 * low;
      if (t < T && lane % 4 == 0) part(t)[quarter] -= shares[low];
    }
  }

  // Of 16 rows and 32 columns of the keys' gradient: what stands there, on its way before it is waited for, and with sums added.
  CT_DEVICE Number* place_of(int t0, int n, int i, bool& inside) const {
    const int t = t0 + r0 + lane / 4 + i / 4 * 8, c = n + i % 4 * 8 + 2 * (lane % 4);
    inside = t < T && c < K;
    return d_k(inside ? t : 0) + (inside ? c : 0);
  }
  CT_DEVICE void fetch_keys(float2 (&before)[8], int t0, int n, bool adds) const {
    CT_FOR(i, 8) {
      bool inside;
      const Number* const from = place_of(t0, n, i, inside);
      before[i] = adds && inside ? two(from) : float2{};
    }
  }
  CT_DEVICE void put_keys(const float (*sums)[4], const float2 (&before)[8], int t0, int n) const {
    CT_FOR(i, 8) {
      bool inside;
      Number* const to = place_of(t0, n, i, inside);
      const float* const sum = sums[i % 4] + i / 4 * 2;
      if (inside) put_two(to, before[i].x + sum[0], before[i].y + sum[1]);
    }
  }

  /// The pair of chunk c and a later one, from i0 on: what z_i gives z_c and k_c, and the gradient of k_i.
  CT_DEVICE void later(int i0, float (&of_z)[8][4], float (&of_k)[8][4]) const {
    load_tokens<kBackThreads>(later_keys, k, i0, T, K);
    load_tokens<kBackThreads>(later_z, z, i0, T, V);
    tokens_loaded();
    float l[2][4] = {}, n[2][4] = {};
    multiply(l, Rows{later_keys, kLong}, r0, Rows{keys, kLong}, quarter * 16, of_keys);
    multiply(n, Rows{later_z, kLong}, r0, Rows{wrote, kLong}, quarter * 16, of_values);
    each_two(l, r0, quarter * 16, [&](int i, int j, float x, float y) {
      const float by = gain_of(i0 + i);
      *reinterpret_cast<unsigned*>(weights + i * kShort + j) = bf16_pair(by * x, by * y);
    });
    take(l, n, i0, false);
    __syncthreads();
    multiply(of_z, Turned{weights, kShort}, r0, Turned{later_z, kLong}, n0, kTokens);
    multiply(of_k, Turned{d_weights, kShort}, r0, Turned{later_keys, kLong}, n0, kTokens);
    if (d_k) {
      CT_UNROLL(int n1 = n0; n1 < n0 + 64; n1 += 32) {
        float2 before[8];
        fetch_keys(before, i0, n1, true);
        float sums[4][4] = {};
        multiply(sums, Rows{d_weights, kShort}, r0, Turned{keys, kLong}, n1, kTokens);
        put_keys(sums, before, i0, n1);
      }
    }
    __syncthreads();
  }

  /// z_c of d_u less what later chunks took, by the chunk's triangle, which l = k_c k_c^T gives.
  CT_DEVICE void solve(int c0, float (&l)[2][4], float (&of_z)[8][4]) const {
    multiply(l, Rows{keys, kLong}, r0, Rows{keys, kLong}, quarter * 16, of_keys);
    each_two(l, r0, quarter * 16, [&](int i, int j, float x, float y) {
      const float by = gain_of(c0 + i);
      triangle[j * kFlat + i] = j < i ? by * x : 0.0f;
      triangle[(j + 1) * kFlat + i] = j + 1 < i ? by * y : 0.0f;
    });
    each_two(of_z, r0, n0, [&](int i, int c, float x, float y) {
      const bool inside = c0 + i < T && c < V;
      const float2 of = inside ? two(d_u(c0 + i) + c) : float2{};
      *reinterpret_cast<float2*>(solved + i * kLong + c) = make_float2(of.x - x, of.y - y);
    });
    __syncthreads();
    if (threadIdx.x < kColumns) solve_column<true>(triangle, solved + threadIdx.x);
    __syncthreads();
  }

  /// Row i of z, rounded, and of the values' gradient: eight numbers a lane; <z, v>, gain's first part.
  CT_DEVICE void put_row(int c0, int i) const {
    const int t = c0 + i, c = lane * 8;
    const bool inside = t < T && c < V;
    const float* const of = solved + i * kLong + c;
    const uint4 rounded = eight(of);
    *reinterpret_cast<uint4*>(own_z + i * kLong + c) = rounded;
    float along = 0;
    if (inside) {
      const bool adds = d_v && op.v.write == Write::add;
      float2 value[4], before[4];
      CT_FOR(e, 4) {
        value[e] = two(v(t) + c + 2 * e);
        before[e] = adds ? two(d_v(t) + c + 2 * e) : float2{};
      }
      const float by = gain_of(t);
      CT_FOR(e, 4) {
        const float x = of[2 * e], y = of[2 * e + 1];
        along += x * value[e].x + y * value[e].y;
        if (d_v) put_two(d_v(t) + c + 2 * e, before[e].x + by * x, before[e].y + by * y);
      }
      *reinterpret_cast<uint4*>(z(t) + c) = rounded;
    }
    along = warp_sum(along);
    if (t < T && lane < 4) part(t)[lane] = lane == 0 ? along : 0.0f;
  }

  /// What the chunk's own pairs add to the keys' gradient.
  CT_DEVICE void own_keys(int c0, float (&of_k)[8][4]) const {
    multiply(of_k, Turned{d_weights, kShort}, r0, Turned{keys, kLong}, n0, kTokens);
    multiply(of_k, Rows{d_weights, kShort}, r0, Turned{keys, kLong}, n0, kTokens);
    CT_FOR(half, 2) {
      float2 before[8];
      fetch_keys(before, c0, n0 + 32 * half, op.k.write == Write::add);
      put_keys(of_k + 4 * half, before, c0, n0 + 32 * half);
    }
  }

  CT_DEVICE void chunk(int c0) const {
    float of_z[8][4] = {}, of_k[8][4] = {};
    load_tokens<kBackThreads>(keys, k, c0, T, K);
    load_tokens<kBackThreads>(wrote, u, c0, T, V);
    CT_ROLLED(int i0 = c0 + kTokens; i0 < T; i0 += kTokens) later(i0, of_z, of_k);
    tokens_loaded();
    float l[2][4] = {}, n[2][4] = {};
    solve(c0, l, of_z);
    for (int i = warp; i < kTokens; i += kBackThreads / 32) put_row(c0, i);
    __syncthreads();
    multiply(n, Rows{own_z, kLong}, r0, Rows{wrote, kLong}, quarter * 16, of_values);
    take(l, n, c0, true);
    __syncthreads();
    if (d_k) own_keys(c0, of_k);
    __syncthreads();
  }
};

template <class Number>
__global__ void __launch_bounds__(kBackThreads) delta_values_backward(const __grid_constant__ DeltaOp op) {
  extern __shared__ uint4 delta_memory[];
  const DeltaBack<Number> back{op, reinterpret_cast<Bits*>(delta_memory)};
  CT_ROLLED(int c0 = (back.T - 1) / kTokens * kTokens; c0 >= 0; c0 -= kTokens) back.chunk(c0);
  for (int t = threadIdx.x; t < back.T && back.gain.gradient; t += kBackThreads) {
    const Four<float> of = *reinterpret_cast<const Four<float>*>(back.part(t));
    put(back.gain.write, back.gain.gradient(t), of.v[0] + of.v[1] + of.v[2] + of.v[3]);
  }
}

/// Refuses what kernels do not take; else launches that of this format.
template <bool kBack, class Real>
void run(const Exec& exec, const DeltaValues<Real>& op) {
  if constexpr (sizeof(Real) == sizeof(float)) {
    const auto floats = kBack ? delta_values_backward<float> : delta_values_forward<float>;
    const auto rounded = kBack ? delta_values_backward<Bits> : delta_values_forward<Bits>;
    if (DeltaOp::takes(op.K(), op.V()))
      return launch(exec, op.kName, op.k.value.is_bf16() ? rounded : floats,
                    per_replica(op.B() * op.H(), op.v.value.R), kBack ? kBackThreads : kForwardThreads,
                    kBack ? kBackBytes : kForwardBytes, op);
  }
  throw std::logic_error("[delta_values] a GPU takes floats, heads of up to 256 numbers, by eights");
}

}  // namespace

CROSSTALK_BOTH_WAYS(cuda, DeltaValues, run<kBack>)

}  // namespace crosstalk
