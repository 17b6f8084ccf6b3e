// Affine maps of one input of more than 128 numbers: products in tiles of 128 x 128, or, but for weights, 256 x 128, whose operands
// come in steps of 64, in bf16, by wgmma where there is such a thing, else by mma.
//
//   forward   y = x W^T + b    rows of x by outputs,            summed over inputs
//   inputs    d_x = d_y W      rows of d_y by inputs,           summed over outputs
//   weights   d_W = d_y^T x    outputs by inputs, and d_b,      summed over a part of the rows, into a piece
//
// Columns of all outputs stand in blocks of 64, of which a step or half a tile is one; what is outside a matrix is zero.
// Two blocks a multiprocessor hide each other's waiting. One of 256 rows, which takes tile after tile, reads a quarter less from the
// cache, which is what limits. Weights are rounded once a call.
//
// Pieces of 64 x 64 lie in shared memory as wgmma's swizzle of 128 bytes wants them: a row is 128 bytes, whose chunks of 16 are
// swapped about by the row, so that copies, which come by rows, and reads of either direction use all banks.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/base/device/async_copy.cuh"
#include "kernels/base/device/cuda_launch.cuh"
#include "kernels/linear/joined_linear.h"
#include "kernels/matmul/operand_pairs.cuh"
#include "kernels/matmul/row_tile.cuh"
#include "kernels/matmul/wgmma_bf16.cuh"

namespace crosstalk::device {

enum class WideRole { forward, inputs, weights };
constexpr int kWideThreads = 256, kWideStages = 3;
constexpr int kWideBlock = LinearSlabs::kBlock, kWidePiece = kWideBlock * kWideBlock, kWideAlign = 1024;
constexpr std::size_t kWideBytes = kWideStages * 4 * kWidePiece * sizeof(std::uint16_t) + kWideAlign;
static_assert(kWideBytes == LinearSlabs::kWideBytes && kWideBlock == 64);
/// Of a block of so many groups of four warps, each of which has 64 rows of a tile.
template <int kGroups>
constexpr int kStagesOf = kGroups == 4 ? 4 : kWideStages;
template <int kGroups>
constexpr std::size_t kWideBytesOf =
    kStagesOf<kGroups>*(kGroups + 2) * kWidePiece * sizeof(std::uint16_t) + kWideAlign;
static_assert(kWideBytesOf<2> == kWideBytes);

/// Place of eight columns from 8 chunk of a row in a piece, or in pieces whose rows follow each other.
CT_DEVICE int wide_place(int row, int chunk) { return row * kWideBlock + (chunk ^ row % 8) * 8; }

/// d += a b: 16 numbers of a sum from k on, and 128 columns: rows of two pieces, or (kTurned) columns.
template <bool kTurned>
CT_DEVICE void multiply_wide(float (&d)[16][4], const unsigned (&a)[4], const std::uint16_t* pieces, int k) {
#if CROSSTALK_WGMMA
  const std::uint64_t address = __cvta_generic_to_shared(pieces + (kTurned ? k * kWideBlock : k));
  constexpr std::uint64_t kPieces = kTurned ? kWidePiece * 2 / 16 : 1, kEightRows = 8 * kWideBlock * 2 / 16,
                          kSwizzled = std::uint64_t{1} << 62;
  wgmma_bf16<kTurned>(d, a, (address >> 4 & 0x3fff) | kPieces << 16 | kEightRows << 32 | kSwizzled, true);
#else
  const int lane = threadIdx.x % 32;
  CT_UNROLL(int n = 0; n < 16; n += 2) {
    unsigned b[4];
    if (kTurned) {
      load_matrices<true>(
          b, pieces + (n + lane / 16) / 8 * kWidePiece + wide_place(k + lane % 16, (n + lane / 16) % 8));
    } else {
      load_matrices<false>(b, pieces + wide_place(n * 8 + lane % 8 + lane / 16 * 8, k / 8 + lane / 8 % 2));
    }
    mma_bf16(d[n], d[n + 1], a, b);
  }
#endif
}

/// Of a block: its output and first column.
CT_DEVICE int2 output_of(const JoinedLinear<float>& a, const LinearSlabs& s, int block) {
  int of = 0;
  while (of + 1 < a.outputs && s.first_block[of + 1] <= block) ++of;
  return make_int2(of, (block - s.first_block[of]) * kWideBlock);
}

/// A matrix, as floats or bf16 (whose columns are a multiple of 8).
struct WideMatrix {
  const float* data;
  bool is_bf16;
  int rows, columns;
};

/// 64 rows and columns of a matrix on their way to shared memory, eight neighbours a thread at a time.
template <int kThreads>
struct WidePart {
  __device__ static int column() { return CT_THREAD % 8 * 8; }
  __device__ static int row(int i) { return CT_THREAD / 8 + i * (kThreads / 8); }
  static constexpr int kTurns = kWideBlock * kWideBlock / 8 / kThreads;
  __device__ static std::uint16_t* place(std::uint16_t* tile, int i) {
    return tile + wide_place(row(i), column() / 8);
  }
  CT_DEVICE static void request(const WideMatrix& m, int n0, int c0, std::uint16_t* tile) {
    const int c = c0 + column();
    CT_FOR(i, kTurns) {
      const int n = n0 + row(i);
      const bool there = n < m.rows && c < m.columns;
      const std::int64_t at = there ? std::int64_t{n} * m.columns + c : 0;
      if (m.is_bf16) {
        copy_async_or_zero(place(tile, i), reinterpret_cast<const std::uint16_t*>(m.data) + at,
                           there ? 16 : 0);
      } else {
        float v[2][4];
        const bool aligned = m.columns % 4 == 0 && is_aligned16(m.data);
        load4(m.data + at, there ? m.columns - c : 0, aligned, v[0]);
        load4(m.data + at + 4, there ? m.columns - c - 4 : 0, aligned, v[1]);
        *reinterpret_cast<uint4*>(place(tile, i)) =
            make_uint4(bf16_pair(v[0][0], v[0][1]), bf16_pair(v[0][2], v[0][3]), bf16_pair(v[1][0], v[1][1]),
                       bf16_pair(v[1][2], v[1][3]));
      }
    }
  }
  /// Adds up the columns of what request() has brought as bf16.
  CT_DEVICE static void add_columns(std::uint16_t* tile, float (&side)[8]) {
    CT_FOR(i, kTurns) {
      const uint4 x = *reinterpret_cast<const uint4*>(place(tile, i));
      const Four<float> low = four_of(make_uint2(x.x, x.y)), high = four_of(make_uint2(x.z, x.w));
      CT_FOR(e, 4) side[e] += low.v[e], side[4 + e] += high.v[e];
    }
  }
};

/// The same of floats, rounded when they are multiplied: they come in the background, where fours are whole in chunks of four,
/// swapped about by the row such that reads of eight columns of rows 2 t use all banks. Columns outside are zero before.
struct WideRaw {
  using Part = WidePart<kWideThreads>;
  __device__ static int place(int row, int c) {
    return row * kWideBlock + (c / 4 ^ row / 2 % 4 * 2) * 4 + c % 4;
  }
  CT_DEVICE static void request(const WideMatrix& m, int n0, int c0, float* tile) {
    const auto copy = [&]<int kEach>(std::integral_constant<int, kEach>, int valid) {
      for (int i = threadIdx.x; i < kWideBlock * valid / kEach; i += kWideThreads) {
        const int row = i * kEach / valid, c = i * kEach % valid;
        const bool there = n0 + row < m.rows;
        const std::int64_t at = there ? std::int64_t{n0 + row} * m.columns + c0 + c : 0;
        copy_async_or_zero<4 * kEach>(tile + place(row, c), m.data + at, there ? 4 * kEach : 0);
      }
    };
    const int valid = min(m.columns - c0, kWideBlock);
    if (m.columns % 4 != 0 || !is_aligned16(m.data)) return copy(std::integral_constant<int, 1>{}, valid);
    constexpr std::integral_constant<int, 4> kFours;
    valid == kWideBlock ? copy(kFours, kWideBlock) : copy(kFours, valid);
  }
  CT_DEVICE static void add_columns(const float* tile, float (&side)[8]) {
    CT_FOR2(i, Part::kTurns, e, 8) side[e] += tile[place(Part::row(i), Part::column() + e)];
  }
  /// 16 rows from k on of the columns r0 .. r0 + 15, turned, as mma takes them on its left.
  CT_DEVICE static void read(unsigned (&a)[4], const float* tile, int k, int r0) {
    const int row = k + 2 * (CT_THREAD % 4), c = r0 + CT_LANE / 4;
    CT_FOR(i, 4)
      a[i] = bf16_pair(tile[place(row + i / 2 * 8, c + i % 2 * 8)],
                       tile[place(row + i / 2 * 8 + 1, c + i % 2 * 8)]);
  }
};

/// Weights of all outputs in bf16, [blocks * 64][whole inputs], zeros where there are none; eight numbers a thread.
template <int kThreads>
__global__ void __launch_bounds__(kThreads)
    round_weights(const __grid_constant__ JoinedLinear<float> a, const __grid_constant__ LinearSlabs s) {
  const int across = s.whole_inputs() / 8, i = static_cast<int>(blockIdx.x) * kThreads + threadIdx.x,
            row = i / across, c = i % across * 8, r = blockIdx.y;
  if (row >= s.count * kWideBlock) return;
  const int2 block = output_of(a, s, row / kWideBlock);
  const int of = block.x, o = block.y + row % kWideBlock;
  Four<float> low = {}, high = {};
  if (o < a.w[of].value.dim(0) && c < s.inputs) {
    const auto* from =
        reinterpret_cast<const Four<float>*>(a.w[of].value.at(r) + std::int64_t{o} * s.inputs + c);
    low = from[0], high = from[1];
  }
  const uint2 x = pairs_of(low), y = pairs_of(high);
  reinterpret_cast<uint4*>(a.operands.value.at(r))[i] = make_uint4(x.x, x.y, y.x, y.y);
}

/// This lane's sums into columns c0 .. of rows n0 .. of a tensor of N rows of C numbers.
CT_DEVICE void put_block(Write mode, float* rows, bool is_bf16, int C, int c0, int n0, int N,
                         const float (&sums)[8][4]) {
  if (is_bf16 && mode == Write::overwrite) {
    const float one[2] = {1, 1};
    const HeadRows<std::uint16_t> to(reinterpret_cast<std::uint16_t*>(rows) + c0, C);
    return store(mode, to, n0, N, min(C - c0, kWideBlock), sums, one);
  }
  const int lane = threadIdx.x % 32;
  const bool pairs = C % 2 == 0 && is_aligned16(rows);
  CT_FOR(half, 2) {
    const int n = n0 + lane / 4 + 8 * half;
    if (n >= N) continue;
    CT_FOR(j, 8) {
      const int c = c0 + j * 8 + 2 * (lane % 4);
      if (c >= C) continue;
      const std::int64_t at = std::int64_t{n} * C + c;
      float x = sums[j][2 * half], y = sums[j][2 * half + 1];
      if (is_bf16) {
        auto* const to = reinterpret_cast<unsigned*>(reinterpret_cast<std::uint16_t*>(rows) + at);
        *to = bf16_pair(x + __uint_as_float(*to << 16), y + __uint_as_float(*to & 0xffff0000));
      } else if (pairs) {
        auto* const to = reinterpret_cast<float2*>(rows + at);
        if (mode == Write::add) x += to->x, y += to->y;
        *to = make_float2(x, y);
      } else {
        put(mode, rows + at, x);
        if (c + 1 < C) put(mode, rows + at + 1, y);
      }
    }
  }
}

/// A block of outputs whose gradient is a tile's left factor: floats or not, and whether its biases are summed here.
struct WideOutputs {
  WideMatrix matrix;
  int column;
  bool raw, side;
};

/// A tile after another and its part of the sum; has no arrays, so that all of it is in registers.
template <WideRole kRole, int kGroups>
struct WideMap {
  static constexpr bool kForward = kRole == WideRole::forward, kWeights = kRole == WideRole::weights;
  static_assert(kGroups == 2 || !kWeights);
  using Part = WidePart<128 * kGroups>;
  using Sums = float[16][4];
  using Outputs = WideOutputs[2];  ///< weights: of the tile's rows
  using Sides = float[2][8];
  const JoinedLinear<float>& a;
  const LinearSlabs& s;
  std::uint16_t* const tiles;
  const int r = blockIdx.y, N = static_cast<int>(a.x.value.rows()), across = s.whole_inputs() / kWideBlock,
            input_pairs = (across + 1) / 2, output_pairs = (s.count + 1) / 2,
            pairs = kForward ? output_pairs : input_pairs, above = static_cast<int>(blockIdx.x) / pairs;
  const int lane = threadIdx.x % 32, group = CT_THREAD / 128, r0 = CT_WARP % 4 * 16;
  /// Of a weights' tile: which part of the rows it sums over.
  const int piece = kWeights ? above / output_pairs : 0;
  const int begin = kWeights ? share(piece) : 0, end = kWeights   ? share(piece + 1)  ///< steps of the sum
                                                       : kForward ? across
                                                                  : s.count;
  /// Tiles of this block: one of weights.
  const int tiles_here =
      kWeights ? 1 : (tiles_in_all() - 1 - static_cast<int>(blockIdx.x)) / static_cast<int>(gridDim.x) + 1;
  int pair = 0, first_row = 0;  ///< of the tile at hand: columns, and row or block of outputs
  int asked = 0, asked_step = begin, asked_tile = 0;  ///< copies so far, and what comes next
  const WideMatrix x = {a.x.value.at(r), a.x.value.is_bf16(), N, s.inputs},
                   w = {kWeights ? nullptr : a.operands.value.at(r), true, s.count*kWideBlock,
                        s.whole_inputs()};
  // A stage: two pieces of the left factor, of floats where one is, and two of the right one. Two stages of floats are as large as
  // three of bf16.
  bool raw = false;
  int stages = kStagesOf<kGroups>, left_size = kWidePiece, stage_size = (kGroups + 2) * kWidePiece;

  __device__ int tiles_in_all() const {
    return (N + kGroups * kWideBlock - 1) / (kGroups * kWideBlock) * pairs;
  }
  __device__ int tile(int n) const { return static_cast<int>(blockIdx.x) + n * static_cast<int>(gridDim.x); }
  __device__ int row_of(int tile) const {
    return kWeights ? above % output_pairs * 2 : tile / pairs * kGroups * kWideBlock;
  }
  CT_DEVICE void begin_tile(int n) { pair = tile(n) % pairs, first_row = row_of(tile(n)); }

  __device__ int share(int part) const {
    const int all = (N + kWideBlock - 1) / kWideBlock;
    return static_cast<int>(std::int64_t{all} * part / s.pieces);
  }
  CT_DEVICE WideMatrix d_y(int block, int& column) const {
    const int2 of = output_of(a, s, block);
    if (block >= s.count || !a.y[of.x].gradient.data) return {a.x.value.at(r), true, 0, 0};  // zeros
    const Tensor<float>& t = a.y[of.x].gradient;
    column = of.y;
    return {t.at(r), t.is_bf16(), N, t.columns()};
  }
  CT_DEVICE void find(Outputs& own) {
    CT_FOR(h, 2) {
      WideOutputs& of = own[h];
      of.column = 0, of.matrix = d_y(first_row + h, of.column);
      of.raw = !of.matrix.is_bf16;
      of.side = pair == 0 && of.matrix.rows > 0 && a.b[output_of(a, s, first_row + h).x].wanted();
    }
    static_assert(kWideStages == 3);
    raw = own[0].raw || own[1].raw;
    if (raw) stages = 2, left_size = 2 * kWidePiece, stage_size = 6 * kWidePiece;
  }
  CT_DEVICE std::uint16_t* stage(int n) const { return tiles + n % stages * stage_size; }
  /// The next step's copies, also those of the next tile while this one is written.
  CT_DEVICE void request(const Outputs& own) {
    std::uint16_t* const to = stage(asked++);
    const bool some = asked_tile < tiles_here && asked_step < end;
    const int at = asked_step * kWideBlock, next = tile(asked_tile), row0 = row_of(next);
    CT_UNROLL(int h = 0; h < kGroups && some; ++h) {
      std::uint16_t* const left = to + h * left_size;
      const int row = row0 + h * kWideBlock;
      if constexpr (kForward) {
        Part::request(x, row, at, left);
      } else if constexpr (kWeights) {
        if (own[h].raw)
          WideRaw::request(own[h].matrix, at, own[h].column, reinterpret_cast<float*>(left));
        else
          Part::request(own[h].matrix, at, own[h].column, left);
      } else {
        int from = 0;
        const WideMatrix y = d_y(asked_step, from);
        Part::request(y, row, from, left);
      }
    }
    CT_UNROLL(int h = 0; h < 2 && some; ++h) {
      const int column = (next % pairs * 2 + h) * kWideBlock;
      std::uint16_t* const right = to + kGroups * left_size + h * kWidePiece;
      kForward ? Part::request(w, column, at, right) : Part::request(kWeights ? x : w, at, column, right);
    }
    copies_commit();
    if (++asked_step >= end) asked_step = begin, ++asked_tile;
  }
  /// Sums begin as biases.
  CT_DEVICE void add_biases(Sums& sums) const {
    CT_FOR(h, 2) {
      const int2 of = output_of(a, s, 2 * pair + h);
      if (2 * pair + h >= s.count || !a.b[of.x].value) continue;
      const float* const b = a.b[of.x].value.at(r);
      const int width = a.w[of.x].value.dim(0);
      CT_FOR2(n, 8, e, 2) {
        const int o = of.y + n * 8 + 2 * (lane % 4) + e;
        sums[8 * h + n][e] = sums[8 * h + n][2 + e] = o < width ? b[o] : 0;
      }
    }
  }
  /// Zeroes what floats outside a matrix are read from.
  CT_DEVICE void clear() const {
    auto* const all = reinterpret_cast<uint4*>(tiles);
    for (int i = threadIdx.x; i < kWideStages * 4 * kWidePiece / 8; i += kWideThreads) all[i] = {};
    __syncthreads();
  }
  /// This warp's rows of the left factor of a step.
  CT_DEVICE void read(const std::uint16_t* left, bool floats, unsigned (&rows)[kWideBlock / 16][4]) const {
    CT_FOR(k, kWideBlock / 16) {
      if (floats) {
        WideRaw::read(rows[k], reinterpret_cast<const float*>(left), 16 * k, r0);
      } else if constexpr (kWeights) {
        load_matrices<true>(rows[k],
                            left + wide_place(16 * k + lane / 16 * 8 + lane % 8, r0 / 8 + lane / 8 % 2));
      } else {
        load_matrices<false>(rows[k], left + wide_place(r0 + lane % 16, 2 * k + lane / 16));
      }
    }
  }
  CT_DEVICE void add_sides(std::uint16_t* left, const Outputs& own, Sides& side) const {
    CT_FOR(h, 2)
      if (own[h].side && own[h].raw)
        WideRaw::add_columns(reinterpret_cast<const float*>(left + h * left_size), side[h]);
      else if (own[h].side)
        Part::add_columns(left + h * left_size, side[h]);
  }
  CT_DEVICE void put(const Sums& sums) const {
    CT_FOR(h, 2) {
      const auto& half = reinterpret_cast<const float(&)[8][4]>(sums[8 * h]);
      const int column = (2 * pair + h) * kWideBlock, row = first_row + group * kWideBlock + r0;
      if constexpr (kForward) {
        if (2 * pair + h >= s.count) break;
        const int2 of = output_of(a, s, 2 * pair + h);
        const Tensor<float>& y = a.y[of.x].value;
        put_block(Write::overwrite, y.at(r), y.is_bf16(), a.w[of.x].value.dim(0), of.y, row, N, half);
      } else if (column < s.inputs) {
        if constexpr (kWeights) {
          if (first_row + group >= s.count) break;
          const int2 of = output_of(a, s, first_row + group);
          put_block(Write::overwrite, out() + s.weight_at[of.x], false, s.inputs, column, of.y + r0,
                    a.w[of.x].value.dim(0), half);
        } else {
          put_block(a.x.write, a.x.gradient.at(r), a.x.gradient.is_bf16(), s.inputs, column, row, N, half);
        }
      }
    }
  }
  __device__ float* out() const { return a.pieces.value.at(r) + std::int64_t{piece} * s.piece_size; }
  CT_DEVICE void put_sides(float* all,
                           Sides& side) const {  // all: [warp][block][64 columns]
    __syncthreads();                             // tiles are read
    const int warp = CT_WARP;
    CT_FOR2(h, 2, e, 8) {
      side[h][e] += __shfl_xor_sync(kFullWarp, side[h][e], 8);
      side[h][e] += __shfl_xor_sync(kFullWarp, side[h][e], 16);
      if (lane < 8) all[(warp * 2 + h) * kWideBlock + lane * 8 + e] = side[h][e];
    }
    __syncthreads();
    const int h = CT_THREAD / kWideBlock, c = threadIdx.x % kWideBlock;
    if (h > 1 || first_row + h >= s.count) return;
    const int2 of = output_of(a, s, first_row + h);
    if (of.y + c >= a.w[of.x].value.dim(0) || !a.b[of.x].wanted()) return;
    float sum = 0;
    CT_FOR(i, kWideThreads / 32) sum += all[(i * 2 + h) * kWideBlock + c];
    out()[s.bias_at[of.x] + of.y + c] = sum;
  }
};

template <WideRole kRole, int kGroups>
__global__ void __launch_bounds__(128 * kGroups, 4 / kGroups)
    wide_maps(const __grid_constant__ JoinedLinear<float> a, const __grid_constant__ LinearSlabs s) {
  extern __shared__ __align__(128) unsigned char memory[];
  using Tile = WideMap<kRole, kGroups>;
  constexpr bool kForward = Tile::kForward, kWeights = Tile::kWeights;
  Tile tile{
      a, s,
      reinterpret_cast<std::uint16_t*>(memory + (-__cvta_generic_to_shared(memory) & (kWideAlign - 1)))};
  typename Tile::Sides side = {};
  typename Tile::Outputs own = {};
  tile.begin_tile(0);
  if constexpr (kWeights) tile.find(own);
  if (kWeights && tile.raw) tile.clear();
  CT_ROLLED(int i = 0; i < tile.stages - 1; ++i) tile.request(own);
  int taken = 0;
  CT_ROLLED(int n = 0; n < tile.tiles_here; ++n) {
    typename Tile::Sums sums = {};
    tile.begin_tile(n);
    if constexpr (kForward) tile.add_biases(sums);
    CT_ROLLED(int step = tile.begin; step < tile.end; ++step) {
      std::uint16_t* const left = tile.stage(taken++);
      tile.raw ? copies_wait<0>() : copies_wait<kStagesOf<kGroups> - 2>();
      fence_async();
      __syncthreads();
      unsigned rows[kWideBlock / 16][4];
      tile.read(left + tile.group * tile.left_size, tile.group == 0 ? own[0].raw : own[1].raw, rows);
      wgmma_begin_with(sums);
      CT_FOR(k, kWideBlock / 16)
        multiply_wide<!kForward>(sums, rows[k], left + kGroups * tile.left_size, 16 * k);
      wgmma_commit();
      tile.request(own);
      if constexpr (kWeights) tile.add_sides(left, own, side);
      wgmma_wait<0>(sums);
    }
    tile.put(sums);
  }
  copies_end();
  if (kWeights && tile.pair == 0) tile.put_sides(reinterpret_cast<float*>(memory), side);
}

inline void round_weights(const Exec& exec, const JoinedLinear<float>& a, const LinearSlabs& s) {
  const std::int64_t pieces = std::int64_t{s.count} * kWideBlock * s.whole_inputs() / 8;
  launch(exec, "joined_linear (operands)", round_weights<kWideThreads>,
         per_replica(blocks_for(pieces, kWideThreads), a.x.value.R), kWideThreads, 0, a, s);
}

template <WideRole kRole, int kGroups>
void launch_wide(const Exec& exec, const char* name, const JoinedLinear<float>& a, const LinearSlabs& s,
                 unsigned blocks) {
  launch(exec, name, wide_maps<kRole, kGroups>, per_replica(blocks, a.x.value.R), 128 * kGroups,
         kWideBytesOf<kGroups>, a, s);
}

/// Larger tiles where there are enough of them; no bit depends on it.
template <WideRole kRole>
void launch_wide(const Exec& exec, const char* name, const JoinedLinear<float>& a, const LinearSlabs& s) {
  const unsigned inputs = blocks_for(s.inputs, 2 * kWideBlock), outputs = blocks_for(s.count, 2);
  if constexpr (kRole == WideRole::weights) {
    launch_wide<kRole, 2>(exec, name, a, s, inputs * outputs * static_cast<unsigned>(s.pieces));
  } else {
    const auto blocks = [&](int groups) {
      return blocks_for(a.x.value.rows(), groups * kWideBlock) *
             (kRole == WideRole::forward ? outputs : inputs);
    };
    if (blocks(4) >= 2 * kTunedFor && kWideBytesOf<4> <= shared_memory_limit())
      return launch_wide<kRole, 4>(exec, name, a, s, kTunedFor);
    launch_wide<kRole, 2>(exec, name, a, s, blocks(2));
  }
}

}  // namespace crosstalk::device
