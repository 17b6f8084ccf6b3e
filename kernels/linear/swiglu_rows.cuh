// Rows of a gated MLP on the tensor cores: hidden units live in registers, 64 of them at a time.
//
// Four warps own 64 rows. Weights of 64 units, as operands in blocks [W / 8][64 units][8], come to shared memory one
// after the other, and the next while these are multiplied; a block serves x G^T and x U^T (sums along a row), and
// h D^T, d_g G and d_u U (sums over units). Who computes a row does not show in its bits.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/base/device/async_copy.cuh"
#include "kernels/linear/joined_linear_rows.cuh"
#include "kernels/linear/swiglu.h"

namespace crosstalk::device {

constexpr int kSwigluOwners = Swiglu<float>::kOwners, kSwigluThreads = 128 * kSwigluOwners;

template <int W>
struct SwigluBlocks {
  static constexpr int kBlock = W / 8 * kWgmmaLine, kSlab = 3 * kBlock;  ///< numbers: of a map, of 64 units
  static constexpr int kStep = W + 8, kTile = kWgmmaRows * kStep;
  static_assert(Swiglu<float>::kUnits == kWgmmaRows);

  /// Starts the copies of slab `at` of one replica's weights, by all threads.
  static __device__ void request_slab(const std::uint16_t* from, int at, std::uint16_t* to) {
    const auto* source = reinterpret_cast<const uint4*>(from + std::int64_t{at} * kSlab);
    for (int i = CT_THREAD; i < kSlab / 8; i += kSwigluThreads)
      copy_async(reinterpret_cast<uint4*>(to) + i, source + i);
  }
  /// Brings rows n0 .. n0 + 63 of N to a tile, by four warps: operands in the background, floats at once. Rows beyond N
  /// are unspecified.
  static __device__ void request_rows(const Tensor<float>& x, int r, int n0, int N, std::uint16_t* tile) {
    if (x.is_bf16()) return RowBlocks<W>::request(x.bf16_at(r), W, n0, N, tile);
    const int thread = CT_THREAD % 128;
#pragma unroll 4
    for (int i = 0; i < kWgmmaRows * (W / 4) / 128; ++i) {
      const int at = thread + i * 128, row = at / (W / 4), c = at % (W / 4) * 4;
      *reinterpret_cast<uint2*>(tile + row * kStep + c) = pairs_of(
          *reinterpret_cast<const Four<float>*>(x.at(r) + std::int64_t{min(n0 + row, N - 1)} * W + c));
    }
  }
};

/// Sums as operands of the next product: their columns are what it sums over.
CT_DEVICE void operands_of(const float (&x)[8][4], unsigned (&a)[4][4]) {
  CT_FOR2(k, 4, i, 4) a[k][i] = bf16_pair(x[2 * k + i / 2][i % 2 * 2], x[2 * k + i / 2][i % 2 * 2 + 1]);
}

/// Weights of 64 units of one of the maps, which blockIdx.x counts, as operands in their block.
template <int W>
__global__ void __launch_bounds__(256) pack_units(const __grid_constant__ Swiglu<float> a) {
  using Blocks = SwigluBlocks<W>;
  const int r = blockIdx.y, map = static_cast<int>(blockIdx.x) % 3,
            first = static_cast<int>(blockIdx.x) / 3 * kWgmmaRows, H = a.H();
  std::uint16_t* const to = a.blocks.value.bf16_at(r) + std::int64_t{blockIdx.x} * Blocks::kBlock;
  const float* const w = (map == 0 ? a.gate : map == 1 ? a.up : a.down).value.at(r);
  const std::int64_t of_unit = map == 2 ? 1 : W, of_column = map == 2 ? H : 1;
  for (int at = CT_THREAD; at < kWgmmaRows * (W / 8); at += 256) {
    const int unit = at % kWgmmaRows, c = at / kWgmmaRows * 8;
    const float* const from = w + (first + unit) * of_unit + c * of_column;
    unsigned v[4];
    CT_FOR(i, 4) v[i] = bf16_pair(from[2 * i * of_column], from[(2 * i + 1) * of_column]);
    *reinterpret_cast<uint4*>(to + c / 8 * kWgmmaLine + unit * 8) = make_uint4(v[0], v[1], v[2], v[3]);
  }
}

/// A block's walk over its rows, 64 for each owner at a time, and for each over slabs of weights, `depth` (1 or 2) of
/// which are in shared memory: begin(next) in front of the slabs, use(slab, n0, weights) of each, end(n0, next) behind them; rows n0 .., then next ..
template <int W, class Begin, class Use, class End>
CT_DEVICE void walk_slabs(const Swiglu<float>& a, int depth, int N, std::uint16_t* ws, const Begin& begin,
                          const Use& use, const End& end) {
  using Blocks = SwigluBlocks<W>;
  const std::uint16_t* const weights = a.blocks.value.bf16_at(static_cast<int>(blockIdx.y));
  constexpr int kRows = kSwigluOwners * kWgmmaRows;
  const int owner = CT_THREAD / 128, slabs = a.H() / kWgmmaRows, step = static_cast<int>(gridDim.x) * kRows;
  const auto request = [&](int slab, int place) {
    Blocks::request_slab(weights, slab, ws + place * Blocks::kSlab);
  };
  request(0, 0);
  int place = 0;
  for (int first = static_cast<int>(blockIdx.x) * kRows; first < N; first += step) {
    const int n0 = first + owner * kWgmmaRows;
    for (int slab = 0; slab < slabs; ++slab) {
      copies_end();
      fence_async();
      __syncthreads();  // this slab is there, and the one before is read
      if (slab == 0) begin(n0 + step);
      const bool last = slab + 1 == slabs, more = !last || first + step < N;
      if (depth > 1 && more) request(last ? 0 : slab + 1, place ^ 1);
      use(slab, n0, ws + place * Blocks::kSlab);
      if (depth > 1) {
        place ^= 1;
      } else if (more) {
        __syncthreads();
        request(last ? 0 : slab + 1, 0);
      }
    }
    end(n0, n0 + step);
  }
}

/// g += x G^T and u += x U^T of 64 units, whose weights are the first two blocks of a slab.
template <int W>
CT_DEVICE void gate_and_up(const unsigned (&rows)[W / 16][4], const std::uint16_t* w, float (&g)[8][4],
                           float (&u)[8][4]) {
  wgmma_begin_with(g);
  wgmma_begin_with(u);
  CT_FOR(k, W / 16) {
    multiply_block<false>(g, rows[k], w, 16 * k);
    multiply_block<false>(u, rows[k], w + SwigluBlocks<W>::kBlock, 16 * k);
  }
  wgmma_end(g);
  wgmma_end(u);
}

template <int W>
__global__ void __launch_bounds__(kSwigluThreads, 1)
    swiglu_forward(const __grid_constant__ Swiglu<float> a, int depth) {
  using Blocks = SwigluBlocks<W>;
  extern __shared__ __align__(16) unsigned char memory[];
  auto* const ws = reinterpret_cast<std::uint16_t*>(memory);
  const int r = blockIdx.y, N = static_cast<int>(a.x.value.rows()), owner = CT_THREAD / 128,
            r0 = CT_WARP % 4 * 16;
  std::uint16_t* const tile = ws + depth * Blocks::kSlab + owner * Blocks::kTile;
  unsigned rows[W / 16][4];
  float y[W / 8][4];
  Blocks::request_rows(a.x.value, r, (static_cast<int>(blockIdx.x) * kSwigluOwners + owner) * kWgmmaRows, N,
                       tile);
  walk_slabs<W>(
      a, depth, N, ws,
      [&](int next) {
        operands(OperandRows<W>{tile}, r0, rows);
        RowBlocks<W>::meet();
        if (next < N) Blocks::request_rows(a.x.value, r, next, N, tile);
        CT_FOR(n, W / 8) y[n][0] = y[n][1] = y[n][2] = y[n][3] = 0;
      },
      [&](int, int, const std::uint16_t* w) {
        float g[8][4] = {}, u[8][4] = {};
        gate_and_up<W>(rows, w, g, u);
        CT_FOR2(n, 8, e, 4) g[n][e] = __fdividef(g[n][e], 1 + __expf(-g[n][e])) * u[n][e];
        unsigned h[4][4];
        operands_of(g, h);
        wgmma_begin_with(y);
        CT_FOR(k, 4) multiply_block<true>(y, h[k], w + 2 * Blocks::kBlock, 16 * k);
        wgmma_end(y);
      },
      [&](int n0, int) { store_rows(Write::overwrite, a.y.value.at(r), false, W, 0, n0 + r0, N, y); });
}

/// d_x, and for gradients of weights h, d_g and d_u of all rows.
template <int W>
__global__ void __launch_bounds__(kSwigluThreads, 1)
    swiglu_backward(const __grid_constant__ Swiglu<float> a, int depth) {
  using Blocks = SwigluBlocks<W>;
  extern __shared__ __align__(16) unsigned char memory[];
  auto* const ws = reinterpret_cast<std::uint16_t*>(memory);
  const int r = blockIdx.y, N = static_cast<int>(a.x.value.rows()), H = a.H(), owner = CT_THREAD / 128,
            r0 = CT_WARP % 4 * 16;
  std::uint16_t *const x_tile = ws + depth * Blocks::kSlab + 2 * owner * Blocks::kTile, *const y_tile =
                                                                                            x_tile +
                                                                                            Blocks::kTile;
  float d_x[W / 8][4];
  const auto request = [&](int n0) {
    if (n0 >= N) return;
    Blocks::request_rows(a.x.value, r, n0, N, x_tile);
    Blocks::request_rows(a.y.gradient, r, n0, N, y_tile);
  };
  request((static_cast<int>(blockIdx.x) * kSwigluOwners + owner) * kWgmmaRows);
  walk_slabs<W>(
      a, depth, N, ws,
      [&](int) {
        CT_FOR(n, W / 8) d_x[n][0] = d_x[n][1] = d_x[n][2] = d_x[n][3] = 0;
      },
      [&](int slab, int n0, const std::uint16_t* w) {
        float g[8][4] = {}, u[8][4] = {}, d[8][4] = {};
        {
          unsigned rows[W / 16][4];
          operands(OperandRows<W>{x_tile}, r0, rows);
          gate_and_up<W>(rows, w, g, u);
        }
        {
          unsigned rows[W / 16][4];
          operands(OperandRows<W>{y_tile}, r0, rows);
          wgmma_begin_with(d);
          CT_FOR(k, W / 16) multiply_block<false>(d, rows[k], w + 2 * Blocks::kBlock, 16 * k);
          wgmma_end(d);
        }
        CT_FOR2(n, 8, e, 4) {
          const float x = g[n][e], v = u[n][e], d_h = d[n][e], s = __fdividef(1, 1 + __expf(-x)),
                      open = x * s;
          d[n][e] = open * v;                         // h
          g[n][e] = d_h * v * s * (1 + x * (1 - s));  // d_g
          u[n][e] = d_h * open;                       // d_u
        }
        const int at = slab * kWgmmaRows;
        store_rows(Write::overwrite, a.h.value.at(r), true, H, at, n0 + r0, N, d);
        store_rows(Write::overwrite, a.d_gate.value.at(r), true, H, at, n0 + r0, N, g);
        store_rows(Write::overwrite, a.d_up.value.at(r), true, H, at, n0 + r0, N, u);
        unsigned d_g[4][4], d_u[4][4];
        operands_of(g, d_g);
        operands_of(u, d_u);
        wgmma_begin_with(d_x);
        CT_FOR(k, 4) {
          multiply_block<true>(d_x, d_g[k], w, 16 * k);
          multiply_block<true>(d_x, d_u[k], w + Blocks::kBlock, 16 * k);
        }
        wgmma_end(d_x);
      },
      [&](int n0, int next) {
        if (a.x.wanted())
          store_rows(a.x.write, a.x.gradient.at(r), a.x.value.is_bf16(), W, 0, n0 + r0, N, d_x);
        RowBlocks<W>::meet();
        request(next);
      });
}

}  // namespace crosstalk::device
