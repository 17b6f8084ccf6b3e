// Affine maps of one input on the tensor cores, operands in bf16, as fast as memory: rows are read once.
//
// Weights of all outputs lie in shared memory, and a block walks over tiles of 64 rows, the next two on their
// way while one is multiplied. A row's results do not depend on who computes it, so there are as many blocks
// as the GPU holds. Gradients of weights are sums over parts of the rows, added in the order of the parts.
//
// Columns of a block of 16 are ordered such that a lane's sums are four neighbours: n = 4 t + 2 b + x stands
// at 8 b + 2 t + x.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/base/device/async_copy.cuh"
#include "kernels/base/device/early_launch.cuh"
#include "kernels/base/device/reduce.cuh"
#include "kernels/linear/joined_linear.h"
#include "kernels/matmul/operand_pairs.cuh"
#include "kernels/matmul/row_tile.cuh"

namespace crosstalk::device {

constexpr int kJoinedThreads = 512, kJoinedRows = LinearSlabs::kRows;
constexpr int kColumnGroups = 4;  ///< of warps; the others are groups of 16 rows

CT_DEVICE int place_of(int n) { return n / 2 % 2 * 8 + n / 4 % 4 * 2 + n % 2; }

/// 64 rows of up to kColumns numbers in shared memory; `kStep` keeps banks apart.
template <int kColumns>
struct JoinedTile {
  static constexpr int kStep = kColumns + 8, kSize = kJoinedRows * kStep;
  static constexpr int kRaw = kJoinedRows * kColumns;  ///< floats as they come
  static constexpr int kFours = kColumns / 4, kStride = kJoinedThreads / kFours,
                       kTurns = kJoinedRows / kStride;
  using Numbers = Four<float>[kTurns];

  __device__ static int column() { return CT_THREAD % kFours * 4; }
  __device__ static int row(int i) { return CT_THREAD / kFours + i * kStride; }

  /// Starts the copies of this thread's part of a tile: rows n0 .. of N, `width` columns from `first` of rows of ld.
  /// Elements outside the matrix are unspecified. `step` 2: a thread has the same places whatever the format, so that tiles
  /// of both may follow one another there without a barrier.
  __device__ static void request(const float* from, bool is_bf16, int ld, int first, int width, int n0, int N,
                                 float* shared, int step = 1) {
    const int c = column();
    Four<float>* const to = reinterpret_cast<Four<float>*>(shared) + threadIdx.x;
    if (is_bf16) {
      const auto* const pairs = reinterpret_cast<const std::uint16_t*>(from) + first + (c < width ? c : 0);
      CT_FOR(i, kTurns)
        copy_async<8>(reinterpret_cast<uint2*>(shared) + step * (CT_THREAD + i * kJoinedThreads),
                      pairs + std::int64_t{min(n0 + row(i), N - 1)} * ld);
    } else if (ld % 4 == 0 && is_aligned16(from)) {  // no branch a copy
      from += first + (c < width ? c : 0);
      CT_FOR(i, kTurns)
        copy_async(to + i * kJoinedThreads, from + std::int64_t{min(n0 + row(i), N - 1)} * ld);
    } else if (ld % 2 == 0 &&
               is_aligned16(from)) {  // gates of a few heads: who waits for them holds up all tiles
      CT_FOR(i, kTurns) {
        const float* const row_at = from + std::int64_t{min(n0 + row(i), N - 1)} * ld + first + c;
        CT_FOR(half, 2)
          if (c + 2 * half < width)
            copy_async<8>(reinterpret_cast<uint2*>(to + i * kJoinedThreads) + half, row_at + 2 * half);
      }
    } else {
      CT_FOR(i, kTurns) {
        const int n = n0 + row(i);
        load4(from + std::int64_t{min(n, N - 1)} * ld + first + c, n < N ? width - c : 0, false,
              to[i * kJoinedThreads].v);
      }
    }
  }
  /// Reads the numbers that request() has brought.
  __device__ static void collect(const float* shared, bool is_bf16, Numbers& x, int step = 1) {
    CT_FOR(i, kTurns) {
      const int at = CT_THREAD + i * kJoinedThreads;
      if (is_bf16)
        x[i] = four_of(reinterpret_cast<const uint2*>(shared)[step * at]);
      else
        x[i] = reinterpret_cast<const Four<float>*>(shared)[at];
    }
  }
  /// Zeroes the numbers outside the matrix.
  __device__ static void clear(int width, int n0, int N, Numbers& x) {
    CT_FOR2(i, kTurns, e, 4)
      if (n0 + row(i) >= N || column() + e >= width) x[i].v[e] = 0;
  }
  __device__ static void keep(const Numbers& x, std::uint16_t* to) {
    CT_FOR(i, kTurns) {
      const float(&v)[4] = x[i].v;
      *reinterpret_cast<uint2*>(to + row(i) * kStep + column()) =
          make_uint2(bf16_pair(v[0], v[1]), bf16_pair(v[2], v[3]));
    }
  }
};

/// The output and its column of each 16 columns of all; by every thread, before a barrier.
CT_DEVICE void list_columns(const LinearSlabs& s, int2 (&list)[LinearSlabs::kMostColumns / 16]) {
  for (int i = CT_THREAD; i < s.count; i += kJoinedThreads)
    for (int c = 0; c < s.slab[i].width; c += 16)
      list[(s.slab[i].at + c) / 16] = make_int2(s.slab[i].output, s.slab[i].first + c);
}

/// Weights of all outputs as operands, [columns][kStep], zeros where there are none. kTurned: rows in their
/// places (for products with rows of x), else columns.
template <int D, bool kTurned>
CT_DEVICE void load_weights(const JoinedLinear<float>& a, const LinearSlabs& s, int r, const int2* list,
                            std::uint16_t* to) {
  constexpr int kStep = JoinedTile<D>::kStep;
  constexpr int kBatch = 8;
  const int all = s.columns * (D / 4);
  CT_ROLLED(int begin = CT_THREAD; begin < all; begin += kBatch * kJoinedThreads) {
    Four<float> v[kBatch];
    CT_FOR(j, kBatch) {  // no branch a load
      const int at = min(begin + j * kJoinedThreads, all - 1), c = at / (D / 4), i = at % (D / 4) * 4;
      const int2 of = list[c / 16];
      const Tensor<float>& w = a.w[of.x].value;
      const float* row = w.at(r) + std::int64_t{min(of.y + c % 16, w.dim(0) - 1)} * s.inputs;
      v[j] = *reinterpret_cast<const Four<float>*>(row + (i < s.inputs ? i : 0));
    }
    CT_FOR(j, kBatch) {
      const int at = begin + j * kJoinedThreads, c = at / (D / 4), i = at % (D / 4) * 4;
      if (at >= all) break;
      const int2 of = list[c / 16];
      const bool inside = of.y + c % 16 < a.w[of.x].value.dim(0) && i < s.inputs;
      const unsigned low = inside ? bf16_pair(v[j].v[0], v[j].v[1]) : 0,
                     high = inside ? bf16_pair(v[j].v[2], v[j].v[3]) : 0;
      if (kTurned) {
        *reinterpret_cast<uint2*>(to + (c / 16 * 16 + place_of(c % 16)) * kStep + i) = make_uint2(low, high);
      } else {
        std::uint16_t* row = to + c * kStep + i / 16 * 16 + i / 4 % 4 * 2;
        *reinterpret_cast<unsigned*>(row) = low;
        *reinterpret_cast<unsigned*>(row + 8) = high;
      }
    }
  }
}

// Copies are on their way for LinearSlabs::depth tiles, and tiles of operands alternate between two places,
// where a barrier a tile will do, or take turns in one where shared memory is short.
CT_DEVICE void copies_wait(int depth) { depth > 1 ? copies_wait<1>() : copies_wait<0>(); }

/// Dynamic shared memory: weights, tiles and copies of kColumns, biases.
template <int kColumns>
std::size_t joined_bytes(const LinearSlabs& s) {
  using T = JoinedTile<kColumns>;
  static_assert(T::kSize * sizeof(std::uint16_t) == LinearSlabs::tile_bytes(kColumns) &&
                T::kRaw * sizeof(float) == LinearSlabs::raw_bytes(kColumns));
  return s.walk_bytes(kColumns) - LinearSlabs::kListBytes;
}

/// Four neighbours of row n, as far as there are columns.
CT_DEVICE void put_four(Write mode, float* rows, bool is_bf16, std::int64_t n, int column, int columns,
                        bool aligned, const float (&v)[4]) {
  if (is_bf16) {
    auto* const to = reinterpret_cast<uint2*>(reinterpret_cast<std::uint16_t*>(rows) + n * columns + column);
    if (column >= columns) return;
    const Four<float> old = mode == Write::add ? four_of(*to) : Four<float>{};
    *to =
        make_uint2(bf16_pair(v[0] + old.v[0], v[1] + old.v[1]), bf16_pair(v[2] + old.v[2], v[3] + old.v[3]));
    return;
  }
  float* const row = rows + n * columns;
  if (aligned && column < columns) {
    Four<float>* to = reinterpret_cast<Four<float>*>(row + column);
    Four<float> sum = {{v[0], v[1], v[2], v[3]}};
    if (mode == Write::add) {
      const Four<float> old = *to;
      CT_FOR(e, 4) sum.v[e] += old.v[e];
    }
    *to = sum;
    return;
  }
  CT_FOR(e, 4)
    if (column + e < columns) put(mode, row + column + e, v[e]);
}

template <int D>
__global__ void __launch_bounds__(kJoinedThreads, 1)
    joined_forward(const __grid_constant__ JoinedLinear<float> a, const __grid_constant__ LinearSlabs s) {
  wait_for_earlier();
  using X = JoinedTile<D>;
  extern __shared__ __align__(16) unsigned char memory[];
  __shared__ int2 list[LinearSlabs::kMostColumns / 16];
  auto* const ws = reinterpret_cast<std::uint16_t*>(memory);
  std::uint16_t* const tiles_at = ws + s.columns * X::kStep;
  auto* const raw = reinterpret_cast<float*>(tiles_at + s.places * X::kSize);
  const int depth = s.depth, other = s.places - 1;
  float* const bias = raw + depth * X::kRaw;
  const int r = blockIdx.y, N = static_cast<int>(a.x.value.rows()),
            tiles = (N + kJoinedRows - 1) / kJoinedRows, walkers = static_cast<int>(gridDim.x);
  const float* const x = a.x.value.at(r);
  int tile = blockIdx.x;
  const auto request = [&](int t, int place) {
    if (t < tiles)
      X::request(x, a.x.value.is_bf16(), s.inputs, 0, s.inputs, t * kJoinedRows, N, raw + place * X::kRaw);
    copies_commit();
  };
  for (int i = 0; i < depth; ++i) request(tile + i * walkers, i);
  list_columns(s, list);
  __syncthreads();
  load_weights<D, true>(a, s, r, list, ws);
  for (int c = CT_THREAD; c < s.columns; c += kJoinedThreads) {
    const int2 of = list[c / 16];
    const Tensor<float>& b = a.b[of.x].value;
    const int o = of.y + c % 16;
    bias[c] = b && o < b.columns() ? b.at(r)[o] : 0;
  }
  const int lane = threadIdx.x % 32, warp = CT_WARP, r0 = warp / kColumnGroups * 16;
  int copy = 0, place = 0;
  for (; tile < tiles; tile += walkers, copy = (copy + 1) % depth, place ^= other) {
    const int n0 = tile * kJoinedRows;
    std::uint16_t* const xs = tiles_at + place * X::kSize;
    typename X::Numbers now;
    copies_wait(depth);
    X::collect(raw + copy * X::kRaw, a.x.value.is_bf16(), now);
    request(tile + depth * walkers, copy);
    X::clear(s.inputs, n0, N, now);
    if (other == 0) __syncthreads();  // the tile before is read
    X::keep(now, xs);
    __syncthreads();
    unsigned rows[D / 16][4];
    operands(OperandRows<D>{xs}, r0, rows);
    CT_ROLLED(int j = warp % kColumnGroups; j < s.columns / 16; j += kColumnGroups) {
      const std::uint16_t* w = ws + (j * 16 + lane % 8 + lane / 16 * 8) * X::kStep + lane / 8 % 2 * 8;
      float sums[2][4] = {};
      CT_FOR(k, D / 16) {
        unsigned b[4];
        load_matrices<false>(b, w + k * 16);
        mma_bf16(sums[0], sums[1], rows[k], b);
      }
      const int2 of = list[j];
      const Tensor<float>& y = a.y[of.x].value;
      const int columns = a.w[of.x].value.dim(0), column = of.y + 4 * (lane % 4);
      const Four<float> add = *reinterpret_cast<const Four<float>*>(bias + j * 16 + 4 * (lane % 4));
      const bool aligned = columns % 4 == 0 && is_aligned16(y.at(r));
      CT_FOR(half, 2) {
        const int n = n0 + r0 + lane / 4 + 8 * half;
        const float v[4] = {sums[0][2 * half] + add.v[0], sums[0][2 * half + 1] + add.v[1],
                            sums[1][2 * half] + add.v[2], sums[1][2 * half + 1] + add.v[3]};
        if (n < N)
          put_four(Write::overwrite, y.at(r), a.y[of.x].value.is_bf16(), n, column, columns, aligned, v);
      }
    }
  }
}

/// d_x = sum_i d_y_i W_i, slab after slab.
template <int D>
__global__ void __launch_bounds__(kJoinedThreads, 1)
    joined_inputs(const __grid_constant__ JoinedLinear<float> a, const __grid_constant__ LinearSlabs s) {
  wait_for_earlier();
  using Y = JoinedTile<LinearSlabs::kWidth>;
  constexpr int kStep = JoinedTile<D>::kStep, kOwn = D / kColumnGroups;
  extern __shared__ __align__(16) unsigned char memory[];
  __shared__ int2 list[LinearSlabs::kMostColumns / 16];
  auto* const ws = reinterpret_cast<std::uint16_t*>(memory);
  std::uint16_t* const tiles_at = ws + s.columns * kStep;
  auto* const raw = reinterpret_cast<float*>(tiles_at + s.places * Y::kSize);
  const int r = blockIdx.y, N = static_cast<int>(a.x.gradient.rows()),
            tiles = (N + kJoinedRows - 1) / kJoinedRows, walkers = static_cast<int>(gridDim.x);
  int tile = blockIdx.x;
  // The next request: slab after slab of a tile, then of the next tile.
  const int depth = s.depth, other = s.places - 1;
  int ahead_tile = tile, ahead_slab = 0;
  const auto request = [&](int place) {
    if (ahead_tile < tiles) {
      const LinearSlabs::Slab& slab = s.slab[ahead_slab];
      Y::request(a.y[slab.output].gradient.at(r), a.y[slab.output].gradient.is_bf16(),
                 a.w[slab.output].value.dim(0), slab.first, slab.width, ahead_tile * kJoinedRows, N,
                 raw + place * Y::kRaw, 2);
      if (++ahead_slab == s.count) ahead_slab = 0, ahead_tile += walkers;
    }
    copies_commit();
  };
  for (int i = 0; i < depth; ++i) request(i);
  list_columns(s, list);
  __syncthreads();
  load_weights<D, false>(a, s, r, list, ws);
  const int lane = threadIdx.x % 32, warp = CT_WARP, r0 = warp / kColumnGroups * 16,
            c0 = warp % kColumnGroups * kOwn;
  float* const d_x = a.x.gradient.at(r);
  const bool aligned = is_aligned16(d_x);
  int copy = 0, place = 0;
  for (; tile < tiles; tile += walkers) {
    const int n0 = tile * kJoinedRows;
    float sums[kOwn / 8][4] = {};
    CT_ROLLED(int i = 0; i < s.count; ++i, copy = (copy + 1) % depth, place ^= other) {
      const LinearSlabs::Slab& slab = s.slab[i];
      std::uint16_t* const ys = tiles_at + place * Y::kSize;
      typename Y::Numbers now;
      copies_wait(depth);
      Y::collect(raw + copy * Y::kRaw, a.y[slab.output].gradient.is_bf16(), now, 2);
      request(copy);
      Y::clear(slab.width, n0, N, now);
      if (other == 0) __syncthreads();  // the slab before is read
      Y::keep(now, ys);
      __syncthreads();
      const std::uint16_t *rows = ys + (r0 + lane % 16) * Y::kStep + lane / 16 * 8,
                          *w = ws + (slab.at + lane % 16) * kStep + c0 + lane / 16 * 8;
#pragma unroll 2
      for (int k = 0; k < slab.width; k += 16) {
        unsigned x[4];
        load_matrices<false>(x, rows + k);
        CT_UNROLL(int n = 0; n < kOwn / 8; n += 2) {
          unsigned b[4];
          load_matrices<true>(b, w + k * kStep + n * 8);
          mma_bf16(sums[n], sums[n + 1], x, b);
        }
      }
    }
    CT_FOR(half, 2) {
      const int n = n0 + r0 + lane / 4 + 8 * half;
      if (n >= N) continue;
      CT_UNROLL(int j = 0; j < kOwn / 8; j += 2) {
        const float v[4] = {sums[j][2 * half], sums[j][2 * half + 1], sums[j + 1][2 * half],
                            sums[j + 1][2 * half + 1]};
        put_four(a.x.write, d_x, a.x.value.is_bf16(), n, c0 + j * 8 + 4 * (lane % 4), s.inputs, aligned, v);
      }
    }
  }
}

}  // namespace crosstalk::device
