// AttendMix on the tensor cores, heads of up to 128, or in bf16 256 (of more than 64 by wgmma where there is such a thing): a block
// has 64 rows and walks the other side's tiles.
//
// Backward, rows are queries (d_x) and then keys (d_k, d_v, of transposed scores), with the same tiles: a
// block that has few of the one has many of the other. Sums have a fixed order, no two blocks add to one.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/attention/attend_mix_parts.cuh"
#include "kernels/matmul/row_tile.cuh"

namespace crosstalk::device {

/// Offsets of a block's tiles in its memory: swizzled ones at a multiple of their pieces.
template <class Tile>
constexpr int kTileAlign = Tile::kSwizzled ? 2 * Tile::kPiece : 0;
template <class Tile>
CT_DEVICE Tile first_tile(unsigned char* memory) {
  if constexpr (Tile::kSwizzled) memory += -__cvta_generic_to_shared(memory) & (kTileAlign<Tile> - 1);
  return {reinterpret_cast<typename Tile::Number*>(memory)};
}

template <class Tile>
constexpr int read_bytes() {
  return Tile::bytes(kTileRows + 2 * Tile::kReadColumns) +
         Tile::kReadColumns * static_cast<int>(sizeof(Phase)) + kTileAlign<Tile>;
}

/// Number: of x, k, v and o.
template <class Tile, class Number>
__global__ void __launch_bounds__(kTileThreads, Tile::kReadBlocks)
    read_tiles(const __grid_constant__ AttendMix<float> op) {
  constexpr int kColumns = Tile::kReadColumns, kCount = kColumns / 8;
  extern __shared__ __align__(16) unsigned char memory[];
  const Tile xs = first_tile<Tile>(memory), ks{xs.numbers + kTileRows * Tile::kStep},
             vs{ks.numbers + kColumns * Tile::kStep};
  auto* phases = reinterpret_cast<Phase*>(vs.numbers + kColumns * Tile::kStep);
  const int T = op.T(), Q = op.Q(), K = op.K(), V = op.V(), blocks = (Q + kTileRows - 1) / kTileRows;
  const int bh = static_cast<int>(blockIdx.x) / blocks, r = blockIdx.y;
  // The last queries see most: they begin.
  const int i0 = (blocks - 1 - static_cast<int>(blockIdx.x) % blocks) * kTileRows;
  const int lane = threadIdx.x % 32, r0 = CT_WARP * 16;
  const auto x = rows_of<Number>(op, op.x.value, r, bh), k = rows_of<Number>(op, op.k.value, r, bh),
             v = rows_of<Number>(op, op.v.value, r, bh);
  const Query query[2] = {query_of<false>(op, r, bh, i0 + r0 + lane / 4),
                          query_of<false>(op, r, bh, i0 + r0 + lane / 4 + 8)};
  const float scale = static_cast<float>(op.scale) * (op.linear ? 1 : kLog2E);
  const bool biased = op.biased();
  RunningRows<Tile::kD> rows(op.normalised ? static_cast<float>(op.beside(r, bh % op.H())) * kLog2E
                                           : -INFINITY);
  if constexpr (std::is_same_v<Number, float>) {
    constexpr int kEach = kTileRows / Tile::kStride, kBatch = kEach < 16 ? kEach : 16;
    CT_UNROLL(int i = 0; i < kEach; i += kBatch) {
      Four<float> some[kBatch];
      const int from = i * Tile::kStride;
      Tile::fetch(x, i0 + from, Q, K, some);
      xs.keep(from, i0 + from, Q, K, some);
    }
  } else {
    take_rows<kTileThreads>(threadIdx.x, xs, x, i0, kTileRows, Q, K);
  }
  for (int j0 = 0; j0 < T; j0 += kColumns) {
    if (!__syncthreads_or(query[0].sees_of(j0, j0 + kColumns) || query[1].sees_of(j0, j0 + kColumns)))
      continue;
    load<kColumns>(ks, k, K, vs, v, V, j0, T);
    if (biased && CT_THREAD < kColumns) phases[threadIdx.x] = phase_of(op, r, bh, j0 + CT_THREAD);
    tiles_filled<Tile>();
    float s[kCount][4];
    scores(xs, r0, ks, 0, s);
    const auto bias = [&](int half, int c) { return biased ? query[half].phase - phases[c] : 0.f; };
    if (Tile::kSwizzled && op.linear)
      weigh_linear(scale, query, j0, bias, s);
    else
      rows.weigh(op.normalised, scale, query, j0, bias, s);
    mix(s, vs, 0, rows.sums);
  }
  float factor[2];
  rows.finish(op.normalised, factor);
  store(Write::overwrite, rows_of<Number>(op, op.o.value, r, bh), i0 + r0, Q, V, rows.sums, factor);
  CT_FOR(half, 2)
    if (lane % 4 == 0)
      keep_row(op, r, bh, i0 + r0 + lane / 4 + 8 * half, rows.largest[half], rows.total[half]);
}

/// Shared memory of a block on every GPU that this code is compiled for.
constexpr int kLeastShared = 99 * 1024;

template <class Tile>
constexpr int gradient_bytes() {
  constexpr int kBytes =
      Tile::bytes(2 * kTileRows + 2 * Tile::kColumns) + kTileAlign<Tile> +
      (Tile::kSwizzled ? Tile::kColumns * static_cast<int>(sizeof(SeenBy) + sizeof(Phase)) : 0);
  static_assert(kBytes <= kLeastShared);
  return kBytes;
}

/// The padding of rows, 16 bytes each, holds what columns have besides their numbers: a query, or a phase. Where there is none,
/// they lie behind the tiles.
template <class Number, class Tile>
CT_DEVICE Number* beside_row(const Tile& tile, int row) {
  static_assert(sizeof(Number) <= Tile::bytes(1) - Tile::kD * sizeof(typename Tile::Number) &&
                Tile::bytes(1) % 16 == 0);
  return reinterpret_cast<Number*>(tile.numbers + row * Tile::kStep + Tile::kD);
}

/// Tiles of a block that goes back: its own rows, and those that it walks over with what these have besides.
template <class Tile>
struct GradientTiles {
  const Tile xs, us{xs.numbers + kTileRows * Tile::kStep}, ys{us.numbers + kTileRows * Tile::kStep},
      ws{ys.numbers + Tile::kColumns * Tile::kStep};
  SeenBy* const queries =
      reinterpret_cast<SeenBy*>(ws.numbers + Tile::kColumns * Tile::kStep);  // where swizzled

  CT_DEVICE SeenBy& query_at(int c) const {
    if constexpr (Tile::kSwizzled)
      return queries[c];
    else
      return *beside_row<SeenBy>(ys, c);
  }
  CT_DEVICE Phase& phase_at(int c) const {
    if constexpr (Tile::kSwizzled)
      return reinterpret_cast<Phase*>(queries + Tile::kColumns)[c];
    else
      return *beside_row<Phase>(ws, c);
  }
};

/// Sums along rows of what biases weigh, a thread's two of `rows` from `row` on, for the gradients of phases.
template <bool kKeys>
CT_DEVICE void keep_lines(const AttendMix<float>& op, int r, int bh, int row, int rows,
                          const float (&line)[2]) {
  CT_FOR(half, 2) {
    const float sum = row_sum(line[half]);
    const std::int64_t at = std::int64_t{bh} * rows + row + 8 * half;
    if (threadIdx.x % 4 != 0 || row + 8 * half >= rows) continue;
    if (kKeys)
      op.d_columns.value.at(r)[at] = sum;
    else
      op.d_rows.value.at(r)[2 * at + 1] = sum;
  }
}

/// Gradients of rows n0 .. n0 + 64 of one side.
template <Side kSide, class Tile, class Number>
CT_DEVICE void tile_gradients(const AttendMix<float>& op, int r, int bh, int n0, unsigned char* memory) {
  constexpr bool kKeys = kSide != Side::queries, kScores = kSide != Side::values,
                 kValues = kKeys && (Tile::kD <= 128 || !kScores);  // or registers hold one of both sums
  constexpr int kColumns = Tile::kColumns, kPart = Tile::kPart, kCount = kPart / 8;
  const GradientTiles<Tile> tiles{first_tile<Tile>(memory)};
  const Tile &xs = tiles.xs, &us = tiles.us, &ys = tiles.ys, &ws = tiles.ws;
  const int T = op.T(), Q = op.Q(), K = op.K(), V = op.V(), own_rows = kKeys ? T : Q, others = kKeys ? Q : T;
  const int thread = threadIdx.x, lane = thread % 32, r0 = thread / 32 * 16, row = n0 + r0 + lane / 4;
  const auto x = rows_of<Number>(op, op.x.value, r, bh), k = rows_of<Number>(op, op.k.value, r, bh),
             v = rows_of<Number>(op, op.v.value, r, bh), d_o = rows_of<Number>(op, op.o.gradient, r, bh);
  Query own[2];  // of keys: the phase alone
  CT_FOR(half, 2)
    if constexpr (kKeys)
      own[half].phase = phase_of(op, r, bh, row + 8 * half);
    else
      own[half] = query_of<true>(op, r, bh, row + 8 * half);
  const float scale = static_cast<float>(op.scale) * (op.linear ? 1 : kLog2E);
  const bool biased = op.biased();
  float sums[kScores ? Tile::kD / 8 : 1][4] = {}, value_sums[kValues ? Tile::kD / 8 : 1][4] = {},
                                      line[2] = {};
  __syncthreads();        // the memory may still be read
  if constexpr (kScores)  // else they are there, of keys
    load<kTileRows>(xs, kKeys ? k : x, K, us, kKeys ? v : d_o, V, n0, own_rows);
  for (int m0 = 0; m0 < others; m0 += kColumns) {
    Query column;
    if (kKeys && thread < kColumns) column = query_of<true>(op, r, bh, m0 + thread);
    const bool meets = kKeys ? column.sees_of(n0, n0 + kTileRows)
                             : own[0].sees_of(m0, m0 + kColumns) || own[1].sees_of(m0, m0 + kColumns);
    if (!__syncthreads_or(meets)) continue;
    load<kColumns>(ys, kKeys ? x : k, K, ws, kKeys ? d_o : v, V, m0, others);
    if (thread < kColumns) {
      if (kKeys) tiles.query_at(thread) = {column.first, column.last, column.row, column.along};
      if (biased) tiles.phase_at(thread) = kKeys ? column.phase : phase_of(op, r, bh, m0 + thread);
    }
    tiles_filled<Tile>();
    CT_ROLLED(int c0 = 0; c0 < kColumns; c0 += kPart) {
      bool meet;  // whether any pair of this warp is seen
      if constexpr (kKeys) {
        const SeenBy& q = tiles.query_at(c0 + lane % kPart);
        meet = q.last > n0 + r0 && q.first < n0 + r0 + 16;
      } else {
        meet = own[0].sees_of(m0 + c0, m0 + c0 + kPart) || own[1].sees_of(m0 + c0, m0 + c0 + kPart);
      }
      if (!Tile::kWgmma && !__any_sync(kFullWarp, meet)) continue;
      float a[kCount][4], d[kCount][4] = {};
      scores(xs, r0, ys, c0, a);
      if constexpr (kScores) scores(us, r0, ws, c0, d);
      CT_FOR2(n, kCount, e, 4) {
        const int c = c0 + n * 8 + 2 * (lane % 4) + e % 2;
        const SeenBy& q = kKeys ? tiles.query_at(c) : own[e / 2];
        float bias = 0;
        if (biased)
          bias = kKeys ? tiles.phase_at(c) - own[e / 2].phase : own[e / 2].phase - tiles.phase_at(c);
        const int j = kKeys ? row + e / 2 * 8 : m0 + c;
        if (Tile::kSwizzled && op.linear) {
          line[e / 2] += weigh_linear_back(q, j, scale, bias, a[n][e], d[n][e]);
        } else {
          weigh_back(q, j, scale, bias, a[n][e], d[n][e]);
          line[e / 2] += d[n][e];
        }
      }
      if constexpr (kScores) mix(d, ys, c0, sums);
      if constexpr (kValues) mix(a, ws, c0, value_sums);
    }
  }
  const float factor[2] = {static_cast<float>(op.scale), static_cast<float>(op.scale)}, one[2] = {1, 1};
  const In<float>& field = kKeys ? op.k : op.x;
  if constexpr (kScores) {
    if (field.wanted())
      store(field.write, rows_of<Number>(op, field.gradient, r, bh), n0 + r0, own_rows, K, sums, factor);
  }
  if constexpr (kValues) {
    if (op.v.wanted())
      store(op.v.write, rows_of<Number>(op, op.v.gradient, r, bh), n0 + r0, T, V, value_sums, one);
  }
  if (kScores && biased) keep_lines<kKeys>(op, r, bh, row, own_rows, line);
}

/// Queries and tokens n0 .. n0 + 64 by one block, in the order of fields(): they may be one variable.
template <class Tile, class Number>
__global__ void __launch_bounds__(kTileThreads, Tile::kGradientBlocks)
    gradient_tiles(const __grid_constant__ AttendMix<float> op) {
  extern __shared__ __align__(16) unsigned char memory[];
  const int count = op.Q() > op.T() ? op.Q() : op.T(), blocks = (count + kTileRows - 1) / kTileRows;
  const int bh = static_cast<int>(blockIdx.x) / blocks,
            n0 = static_cast<int>(blockIdx.x) % blocks * kTileRows;
  const int r = blockIdx.y;
  if (n0 < op.Q()) tile_gradients<Side::queries, Tile, Number>(op, r, bh, n0, memory);
  if (n0 < op.T()) tile_gradients<Side::keys, Tile, Number>(op, r, bh, n0, memory);
  if constexpr (Tile::kD > 128) {
    if (n0 < op.T() && op.v.wanted()) tile_gradients<Side::values, Tile, Number>(op, r, bh, n0, memory);
  }
}

}  // namespace crosstalk::device
