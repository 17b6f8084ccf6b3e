// Gradients of the weights of joined_linear_tiles.cuh: a block a slab and a part of the rows, whose tiles come in the
// background; parts are added in their order.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/linear/joined_linear_tiles.cuh"

namespace crosstalk::device {

/// sums += ys^T xs over the rows of a tile, of outputs from o0 and columns from c0 on.
template <int D, int kHigh, int kWide>
CT_DEVICE void add_outer(const std::uint16_t* xs, const std::uint16_t* ys, int o0, int c0,
                         float (&sums)[kHigh][kWide][4]) {
  using X = JoinedTile<D>;
  using Y = JoinedTile<LinearSlabs::kWidth>;
  const int lane = threadIdx.x % 32;
  CT_UNROLL(int k = 0; k < kJoinedRows; k += 16) {
    unsigned rows[kHigh][4];
    CT_FOR(m, kHigh)
      load_matrices<true>(rows[m],
                          ys + (k + lane / 16 * 8 + lane % 8) * Y::kStep + o0 + m * 16 + lane / 8 % 2 * 8);
    CT_UNROLL(int n = 0; n < kWide; n += 2) {
      unsigned b[4];
      load_matrices<true>(b, xs + (k + lane % 16) * X::kStep + c0 + n * 8 + lane / 16 * 8);
      CT_FOR(m, kHigh) mma_bf16(sums[m][n], sums[m][n + 1], rows[m], b);
    }
  }
}

/// Gradients of a slab's weights into a piece, [outputs][inputs].
template <int kHigh, int kWide>
CT_DEVICE void put_weights(float* out, const LinearSlabs& s, const LinearSlabs::Slab& slab, int o0, int c0,
                           const float (&sums)[kHigh][kWide][4]) {
  const int lane = threadIdx.x % 32;
  CT_FOR2(m, kHigh, half, 2) {
    const int o = o0 + m * 16 + lane / 4 + 8 * half;
    if (o >= slab.width) continue;
    float* to = out + s.weight_at[slab.output] + (slab.first + o) * s.inputs;
    CT_FOR(n, kWide) {
      const int c = c0 + n * 8 + 2 * (lane % 4);
      if (c < s.inputs)
        *reinterpret_cast<float2*>(to + c) = make_float2(sums[m][n][2 * half], sums[m][n][2 * half + 1]);
    }
  }
}

/// Gradients of a slab's biases into a piece, of what each thread has of its columns.
CT_DEVICE void put_biases(float* out, const LinearSlabs& s, const LinearSlabs::Slab& slab,
                          const float (&side)[4], unsigned char* memory) {
  using Y = JoinedTile<LinearSlabs::kWidth>;
  __syncthreads();                                             // the tiles are read
  auto* const sides = reinterpret_cast<Four<float>*>(memory);  // [rows of a turn][fours]
  sides[threadIdx.x] = {{side[0], side[1], side[2], side[3]}};
  __syncthreads();
  const int o = threadIdx.x;
  if (o >= slab.width) return;
  float sum = 0;
  CT_FOR(i, Y::kStride) sum += sides[i * Y::kFours + o / 4].v[o % 4];
  out[s.bias_at[slab.output] + slab.first + o] = sum;
}

/// Shared memory of joined_weights: copies of kDepth tiles and, of tensors in bf16, the one in use.
template <int D, bool kOperands, int kDepth>
std::size_t weights_bytes(const LinearSlabs& s) {
  constexpr std::size_t kTiles = LinearSlabs::tile_bytes(LinearSlabs::kWidth) + LinearSlabs::tile_bytes(D);
  return kOperands ? std::max((kDepth + 1) * kTiles, s.weights_bytes(1)) : s.weights_bytes(kDepth);
}

/// True if copies of a slab's d_y are operands.
inline CT_HD bool is_operand(const JoinedLinear<float>& a, const LinearSlabs::Slab& slab) {
  const Tensor<float>& d_y = a.y[slab.output].gradient;
  return d_y.is_bf16() && d_y.columns() % 8 == 0;
}

/// True if d_y of a slab is a few numbers a row (gates), which come by registers beside copies of x.
constexpr int kFewColumns = 16;
inline CT_HD bool is_few(const JoinedLinear<float>& a, const LinearSlabs::Slab& slab) {
  return slab.width <= kFewColumns && !a.b[slab.output].wanted();
}

/// d_y of a slab of a few columns: a thread's numbers of the tile that is next.
struct FewColumns {
  static constexpr int kTurns = kJoinedRows * kFewColumns / kJoinedThreads;
  const float* from;
  bool is_bf16;
  int ld, first, width, N, end;

  __device__ static int row(int i) { return CT_THREAD / kFewColumns + i * (kJoinedThreads / kFewColumns); }
  __device__ static int column() { return CT_THREAD % kFewColumns; }
  CT_DEVICE void ask(int tile, float (&next)[kTurns]) const {
    CT_FOR(i, kTurns) {
      const std::int64_t n = std::int64_t{tile} * kJoinedRows + row(i), at = n * ld + first + column();
      next[i] = 0;
      if (tile >= end || n >= N || column() >= width) continue;
      next[i] = is_bf16 ? __uint_as_float(unsigned{reinterpret_cast<const std::uint16_t*>(from)[at]} << 16)
                        : from[at];
    }
  }
  CT_DEVICE static void put(const float (&next)[kTurns], std::uint16_t* tile) {
    constexpr int kStep = JoinedTile<LinearSlabs::kWidth>::kStep;
    CT_FOR(i, kTurns) tile[row(i) * kStep + column()] = static_cast<std::uint16_t>(bf16_pair(next[i], 0));
  }
};

/// d_W = d_y^T x and d_b of one slab over one part of the rows, into its piece. kOperands: x is bf16, and d_y is too or is_few().
/// kDepth: tiles on their way.
template <int D, bool kOperands, int kDepth>
CT_DEVICE void weigh_slab(const JoinedLinear<float>& a, const LinearSlabs& s) {
  using X = JoinedTile<D>;
  using Y = JoinedTile<LinearSlabs::kWidth>;
  constexpr int kOwn = D / kColumnGroups,
                kOwnRows = LinearSlabs::kWidth / (kJoinedThreads / 32 / kColumnGroups);
  extern __shared__ __align__(16) unsigned char memory[];
  auto* const raw = reinterpret_cast<float*>(memory);
  auto* const tiles_at =
      reinterpret_cast<std::uint16_t*>(raw + (kOperands ? 0 : kDepth * (Y::kRaw + X::kRaw)));
  constexpr int kPlaces = kOperands ? kDepth + 1 : kDepth;
  const int r = blockIdx.y, N = static_cast<int>(a.x.value.rows()),
            tiles = (N + kJoinedRows - 1) / kJoinedRows;
  const int piece = static_cast<int>(blockIdx.x) / s.count;
  const LinearSlabs::Slab slab = s.slab[static_cast<int>(blockIdx.x) % s.count];
  const int end = static_cast<int>(std::int64_t{tiles} * (piece + 1) / s.pieces);
  const Tensor<float>& d_y = a.y[slab.output].gradient;
  const float *const x = a.x.value.at(r), *const g = d_y.at(r);
  const int ld = a.w[slab.output].value.dim(0);
  const bool y_is_bf16 = d_y.is_bf16(), biased = a.b[slab.output].wanted(),
             few = kOperands && !is_operand(a, slab);
  const auto request = [&](int t, int place) {
    if (kOperands && t < end) {
      std::uint16_t* const to = tiles_at + place * (Y::kSize + X::kSize);
      const auto take = [&](auto tile, const float* rows, int from, int of, int width) {
        auto* const first = reinterpret_cast<std::uint16_t*>(const_cast<float*>(rows)) + from;
        take_tile<kJoinedThreads>(threadIdx.x, tile, {first, of}, t * kJoinedRows, N, width);
      };
      if (!few) take(OperandRows<LinearSlabs::kWidth>{to}, g, slab.first, ld, slab.width);
      take(OperandRows<D>{to + Y::kSize}, x, 0, s.inputs, s.inputs);
    } else if (t < end) {
      float* const to = raw + place * (Y::kRaw + X::kRaw);
      Y::request(g, y_is_bf16, ld, slab.first, slab.width, t * kJoinedRows, N, to);
      X::request(x, a.x.value.is_bf16(), s.inputs, 0, s.inputs, t * kJoinedRows, N, to + Y::kRaw);
    }
    copies_commit();
  };
  const int warp = CT_WARP, o0 = warp / kColumnGroups * kOwnRows, c0 = warp % kColumnGroups * kOwn;
  float sums[kOwnRows / 16][kOwn / 8][4] = {}, side[4] = {};
  int tile = static_cast<int>(std::int64_t{tiles} * piece / s.pieces);
  const FewColumns columns{g, y_is_bf16, ld, slab.first, slab.width, N, end};
  float next[FewColumns::kTurns] = {};
  if (few) columns.ask(tile, next);
  CT_FOR(i, kDepth) request(tile + i, i);
  CT_ROLLED(int place = 0; tile < end; ++tile, place = (place + 1) % kPlaces) {
    const int n0 = tile * kJoinedRows;
    const float* const from = raw + place * (Y::kRaw + X::kRaw);
    std::uint16_t *const ys = tiles_at + place * (Y::kSize + X::kSize), *const xs = ys + Y::kSize;
    if constexpr (kOperands) {
      copies_wait<kDepth - 1>();
      __syncthreads();
      request(tile + kDepth, (place + kDepth) % kPlaces);  // that of the tile before is free
      if (few) {
        columns.put(next, ys);
        columns.ask(tile + 1, next);
        __syncthreads();
      } else if (biased) {
        CT_FOR(i, Y::kTurns) {
          const Four<float> now =
              four_of(*reinterpret_cast<const uint2*>(ys + Y::row(i) * Y::kStep + Y::column()));
          CT_FOR(e, 4) side[e] += now.v[e];
        }
      }
    } else {
      copies_wait(kDepth);
      if (kPlaces == 1) __syncthreads();  // the tile before is read
      {
        typename Y::Numbers now;
        Y::collect(from, y_is_bf16, now);
        Y::clear(slab.width, n0, N, now);
        CT_FOR2(i, Y::kTurns, e, 4) side[e] += now[i].v[e];
        Y::keep(now, ys);
      }
      {
        typename X::Numbers now;
        X::collect(from + Y::kRaw, a.x.value.is_bf16(), now);
        X::clear(s.inputs, n0, N, now);
        X::keep(now, xs);
      }
      request(tile + kDepth, place);
      __syncthreads();
    }
    if (o0 < slab.width) add_outer<D>(xs, ys, o0, c0, sums);
  }
  copies_end();
  float* const out = a.pieces.value.at(r) + std::int64_t{piece} * s.piece_size;
  put_weights(out, s, slab, o0, c0, sums);
  if (biased) put_biases(out, s, slab, side, memory);
}

/// kOperands: x is bf16, and d_y of each slab that is_operand() or is_few(); the others have one tile on its way.
template <int D, bool kOperands, int kDepth>
__global__ void __launch_bounds__(kJoinedThreads, 1)
    joined_weights(const __grid_constant__ JoinedLinear<float> a, const __grid_constant__ LinearSlabs s) {
  wait_for_earlier();
  if constexpr (kOperands) {
    const LinearSlabs::Slab& slab = s.slab[static_cast<int>(blockIdx.x) % s.count];
    if (!is_operand(a, slab) && !is_few(a, slab)) return weigh_slab<D, false, 1>(a, s);
  }
  weigh_slab<D, kOperands, kDepth>(a, s);
}

/// Gradients of weights and biases of all slabs, by pieces: keep(r, at, sum) of every number of a piece (LinearSlabs).
/// `operands`: x is bf16, in columns of a multiple of 8, and so is what reaches some outputs.
template <int D, class Keep>
void weights_in_tiles(const Exec& exec, const JoinedLinear<float>& a, const LinearSlabs& s, bool operands,
                      const Keep& keep) {
  const auto launch = [&]<bool kOperands, int kDepth>() {
    const std::size_t bytes = weights_bytes<D, kOperands, kDepth>(s);
    if (kDepth > 1 && bytes > shared_memory_limit()) return false;
    launch_early(exec, "joined_linear backward (w)", joined_weights<D, kOperands, kDepth>,
                 per_replica(s.count * s.pieces, a.x.value.R), kJoinedThreads, bytes, a, s);
    return true;
  };
  if (operands)
    launch.template operator()<true, 3>() || launch.template operator()<true, 1>();
  else
    launch.template operator()<false, 2>() || launch.template operator()<false, 1>();
  sum_pieces<float, 32, 16>(
      exec, "joined_linear backward (pieces)", a.x.value.R, s.piece_size, s.pieces, s.piece_size,
      [=] __device__(int r, std::int64_t at) { return a.pieces.value.at(r) + at; }, keep);
}

}  // namespace crosstalk::device
