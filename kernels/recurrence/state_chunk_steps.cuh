// Steps that the chunkwise state takes alike with a decay a token (state_chunk_*) and with one a key channel
// (state_channels_*): the inverse of a chunk, what is kept for backward, and gradients of gains.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/recurrence/state_chunk_walk.cuh"

namespace crosstalk::device {

/// Forward, after the blocks on the diagonal: merges them to (I + A)^-1, as operands and, for backward, in
/// memory. Begins and ends with barriers.
template <class Tile, class Inverse>
CT_DEVICE void finish_inverse(const StateRead<float>& op, const StateWalk<Tile>& walk, int chunk,
                              const Inverse& inverting, const float* solving, typename Tile::Type* inverse) {
  constexpr int C = Tile::C;
  __syncthreads();
  inverting.merge_all();
  float* kept = walk.kept(op.inverse.value, walk.chunks, chunk, C * C);
  for (int i = threadIdx.x; i < C * C / 4; i += Tile::kThreads) {
    const int row = i / (C / 4), column = i % (C / 4) * 4;
    const float4 four = *reinterpret_cast<const float4*>(solving + row * inverting.kStride + column);
    const float values[4] = {four.x, four.y, four.z, four.w};
    Tile::Op::put4(inverse + row * Tile::kSide + column, values);
    if (!StateWalk<Tile>::kShort && kept) *reinterpret_cast<float4*>(kept + 4 * i) = four;
  }
  __syncthreads();
  if constexpr (StateWalk<Tile>::kShort) {
    if (op.inverse) Eights<Tile, C, C>::keep(inverse, Tile::kSide, walk.short_inverse(op, chunk));
  }
}

/// Backward: the state before a chunk, where there is room for it, and the inverse, as forward kept them.
/// WholeTile: the tile of an inverse's rows, all of which are there.
template <class WholeTile, bool kStateStaged, bool kGuarded, class Tile>
CT_DEVICE void fetch_kept(const StateRead<float>& op, const StateWalk<Tile>& walk, int chunk,
                          typename Tile::Type* state, typename Tile::Type* inverse) {
  constexpr int C = Tile::C, D = Tile::D;
  if constexpr (StateWalk<Tile>::kShort) {
    Eights<Tile, D, D> state_in;
    state_in.fetch(walk.short_state(op, chunk));
    state_in.put(state, Tile::kRow);
  } else if constexpr (kStateStaged) {
    Fetched<Tile, D, D, kGuarded> state_in;
    state_in.fetch(walk.state(op.states.value, walk.chunks, chunk), walk.K);
    state_in.put(state, walk.V);
  }
  if (!walk.solves) return;
  if constexpr (StateWalk<Tile>::kShort) {
    Eights<Tile, C, C> inverse_in;
    inverse_in.fetch(walk.short_inverse(op, chunk));
    inverse_in.put(inverse, Tile::kSide);
  } else {
    Fetched<WholeTile, C, C, kGuarded> inverse_in;
    inverse_in.fetch(PlainRows<float>{walk.kept(op.inverse.value, walk.chunks, chunk, C * C), 4 * C, C}, C);
    inverse_in.put(inverse, C, Tile::kSide);
  }
}

/// rows += a S with the state before a chunk, which is staged, or read where it is kept.
template <bool kStateStaged, class Tile, class Rows, class Matrix>
CT_DEVICE void add_state(const StateRead<float>& op, const StateWalk<Tile>& walk, int chunk, Rows& rows,
                         Matrix a, const typename Tile::Type* state) {
  if constexpr (kStateStaged) {
    rows.template add<false, true, Tile::D>(a, typename Tile::Matrix{state, Tile::kRow});
  } else {
    rows.template add<false, true, Tile::D>(
        a, Unstaged{walk.state(op.states.value, walk.chunks, chunk).at, walk.line, walk.V, walk.K});
  }
}

/// Gradients of the gains of a row: of_value from u = w v, d_erase from what is erased.
template <class Tile>
CT_DEVICE void put_gains(const StateRead<float>& op, const StateWalk<Tile>& walk, int first, int valid,
                         int row, const float* of_value, float d_erase) {
  if (op.write_gain.wanted() && walk.writes(row)) {
    put(walk.shared(op.write_gain.write), walk.of_writes(op.write_gain.gradient, first, valid, 1)(row),
        Tile::Rows::total(of_value, row) + (walk.tied ? 0 : d_erase));
  }
  if (walk.tied && op.erase_gain.wanted() && walk.erases(row)) {
    put(walk.shared(op.erase_gain.write), walk.of_erases(op.erase_gain.gradient, first, valid, 1)(row),
        d_erase);
  }
}

}  // namespace crosstalk::device
