// The chunkwise state, forward: a block walks the chunks of one replica, sequence and head, the state in
// registers.
//
//   A_ij = e_i (x_i . k_j) e^{G_i - G_j}, j < i        (I + A) U = R,  R_i = w_i v_i - e_i e^{G_i} S x_i
//   o_i = sum_{j <= i} (q_i . k_j) e^{G_i - G_j} u_j + e^{G_i} S q_i
//   S' = e^{G_end} S + sum_j e^{G_end - G_j} u_j k_j^T
//
// Derived in docs/delta_chunk.md (Yang et al. 2024, arXiv 2406.06484 and 2412.06464). What it keeps: S before
// each chunk, U, (I + A)^-1.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/recurrence/state_chunk_steps.cuh"

namespace crosstalk::device {

template <class Tile>
struct ForwardMemory {
  using Type = typename Tile::Type;
  static constexpr int C = Tile::C, kTokens = C * Tile::kRow;
  ChunkGates<C>* gates;
  Type *q, *k, *x, *state, *written, *aged, *rest, *scores, *inverse;
  float *solving, *scratch;
  int* list;
  std::size_t bytes;

  CT_HD ForwardMemory(unsigned char* base, bool gated, bool solves, bool tied) {
    Carve carve{base};
    gates = carve.take<ChunkGates<C>>(1);
    q = carve.take<Type>(kTokens);
    k = carve.take<Type>(kTokens);
    x = tied ? carve.take<Type>(kTokens) : k;
    state = carve.take<Type>(Tile::D * Tile::kRow);
    written = carve.take<Type>(kTokens);
    aged = gated ? carve.take<Type>(kTokens) : written;
    scores = carve.take<Type>(C * Tile::kSide);
    rest = solves ? carve.take<Type>(kTokens) : nullptr;
    inverse = solves ? carve.take<Type>(C * Tile::kSide) : nullptr;
    solving = solves ? carve.take<float>(C * ChunkInverse<C, Tile::W>::kStride) : nullptr;
    scratch = solves ? carve.take<float>(ChunkInverse<C, Tile::W>::kScratch) : nullptr;
    list = carve.take<int>(Tile::kListed ? C + 1 : 0);
    bytes = carve.used;
  }
};

/// Scores of the reads: of row i by column j, faded by the gates between.
template <class Tile>
CT_DEVICE void score_reads(const StateWalk<Tile>& walk, const ChunkGates<Tile::C>& gates,
                           typename Tile::Matrix q, typename Tile::Matrix k, typename Tile::Type* scores) {
  typename Tile::Side s;
  s.template add<false, false, Tile::D>(q, k);
  fade<Tile>(s, gates, walk.gated(), 1, walk.before);
  s.pairs([&](int i, int j, float a, float b) { Tile::Op::put2(scores + i * Tile::kSide + j, a, b); });
}
/// A: scores of what is erased by what was written before.
template <class Tile>
CT_DEVICE void score_erases(const StateWalk<Tile>& walk, const ChunkGates<Tile::C>& gates,
                            typename Tile::Matrix x, typename Tile::Matrix k, float* solving, int stride) {
  typename Tile::Side s;
  s.template add<false, false, Tile::D>(x, k);
  s.scale(gates.erase);
  fade<Tile>(s, gates, walk.gated(), 2, true);
  s.pairs([&](int i, int j, float a, float b) {
    *reinterpret_cast<float2*>(solving + i * stride + j) = make_float2(a, b);
  });
}
/// The written rows, and what is left of them at the chunk's end.
template <class Tile>
CT_DEVICE void put_written(const StateWalk<Tile>& walk, const ForwardMemory<Tile>& memory,
                           typename Tile::Rows& rows) {
  using Op = typename Tile::Op;
  constexpr int kRow = Tile::kRow;
  rows.pairs([&](int i, int v, float a, float b) {
    const float l = memory.gates->left[i];
    Op::put2(memory.written + i * kRow + v, a, b);
    if (walk.gated()) Op::put2(memory.aged + i * kRow + v, l * a, l * b);
  });
}
/// S': what the gates keep of S, and what the chunk wrote.
template <class Tile>
CT_DEVICE void advance_state(const StateWalk<Tile>& walk, const ChunkGates<Tile::C>& gates,
                             typename Tile::Matrix aged, typename Tile::Matrix k,
                             typename Tile::State& state) {
  if (walk.gated()) {
    const float all = gates.all;
    state.pairs([&](int, int, float& a, float& b) { a *= all, b *= all; });
  }
  state.template add<true, true, Tile::C>(aged, k);
}
/// Asks for rows that the next chunk brings.
template <class Tile>
CT_DEVICE void prefetch_tokens(const StateRead<float>& op, const StateWalk<Tile>& walk, int first, int soon) {
  if (!Tile::kListed) prefetch_rows<Tile>(0, walk.queries(op, first, soon), soon);
  prefetch_rows<Tile>(1, walk.keys(op, first, soon), soon);
  prefetch_rows<Tile>(2, walk.of_writes(op.v.value, first, soon, walk.V), soon);
}

template <class Tile>
CT_DEVICE void forward_pass(const StateRead<float>& op, const StateWalk<Tile>& walk,
                            const ForwardMemory<Tile>& memory) {
  using Op = typename Tile::Op;
  using Matrix = typename Tile::Matrix;
  constexpr int C = Tile::C, D = Tile::D, kRow = Tile::kRow, kSide = Tile::kSide;
  constexpr bool kShortRows = StateWalk<Tile>::kShortRows;
  const int K = walk.K, V = walk.V;
  ChunkGates<C>& gates = *memory.gates;
  const Matrix q{memory.q, kRow}, k{memory.k, kRow}, x{memory.x, kRow}, state_at{memory.state, kRow},
      written{memory.written, kRow}, aged{memory.aged, kRow}, rest{memory.rest, kRow},
      scores{memory.scores, kSide}, inverse{memory.inverse, kSide};
  const ChunkInverse<C, Tile::W> inverting{memory.solving, memory.scratch};

  typename Tile::State state;
  if (op.start.value) state.template take<Tile::kWhole>(walk.state(op.start.value), K);
  Fetched<Tile, C, D, Tile::kListed> next_q;
  Fetched<Tile> next_k;  // on their way while the chunk before is at work
  if constexpr (!Tile::kListed) next_q.fetch(walk.queries(op, 0, min(C, walk.T)), K);
  if constexpr (!Tile::kMapped) next_k.fetch(walk.keys(op, 0, min(C, walk.T)), K);
  auto gains = walk.gains(op, 0, min(Tile::kMapped ? walk.step : C, walk.T));
  for (int chunk = 0; chunk < walk.chunks; ++chunk) {
    const int step = Tile::kMapped ? walk.step : C;
    const int first = chunk * step, valid = min(step, walk.T - first),
              soon = min(step, walk.T - first - step);
    if constexpr (Tile::kListed) {
      walk.fill_queries(op, first, valid);
      if constexpr (Tile::kMapped) next_k.fetch(walk.keys(op, first, valid), K);
      __syncthreads();
      next_q.fetch(walk.queries(op, first, valid), K);
    }
    next_q.put(memory.q, valid);
    next_k.put(memory.k, valid);
    if (walk.tied) {
      Fetched<Tile> look;
      look.fetch(walk.looks(op, first, valid), K);
      look.put(memory.x, valid);
    }
    state.pairs([&](int v, int c, float a, float b) { Op::put2(memory.state + v * kRow + c, a, b); });
    if (!StateWalk<Tile>::kShort && op.states)
      state.template put<Tile::kWhole>(Write::overwrite, walk.state(op.states.value, walk.chunks, chunk), K);
    if (threadIdx.x < 32) {
      walk.fill(gates, op, gains);
      gains = walk.gains(op, first + step, soon);
    }
    if (soon > 0) prefetch_tokens(op, walk, first + step, soon);
    typename Tile::Rows given;  // v
    const auto values = walk.of_writes(op.v.value, first, valid, V);
    given.template ask<Tile::kWhole>(values, V);
    __syncthreads();
    score_reads(walk, gates, q, k, memory.scores);
    given.template unpack<Tile::kWhole>(values);
    if (walk.solves) {
      score_erases(walk, gates, x, k, memory.solving, inverting.kStride);
      typename Tile::Rows r;
      r.template add<false, false, D>(x, state_at);
      given.scale(gates.write), r.scale(gates.erase);
      if (walk.gated()) r.scale(gates.look);
      given.subtract(r);
      given.pairs([&](int i, int v, float a, float b) { Op::put2(memory.rest + i * kRow + v, a, b); });
    } else {
      given.scale(gates.write);
      put_written(walk, memory, given);
    }
    __syncthreads();

    typename Tile::Rows o;
    if (walk.solves) inverting.diagonal();
    o.template add<false, false, D>(q, state_at);
    if (walk.gated()) o.scale(gates.read);
    if constexpr (StateWalk<Tile>::kShort) {  // by who does not wait for the blocks on the diagonal
      if (op.states) Eights<Tile, D, D>::keep(memory.state, kRow, walk.short_state(op, chunk));
    }
    if (walk.solves) {
      finish_inverse(op, walk, chunk, inverting, memory.solving, memory.inverse);
      typename Tile::Rows u;
      u.template add<false, true, C>(inverse, rest, 0, u.first_row() + u.kRows);
      put_written(walk, memory, u);
      if (!kShortRows && op.solved)
        u.template put<Tile::kWhole>(Write::overwrite, walk.of_erases(op.solved.value, first, valid, V), V);
      __syncthreads();
      if constexpr (kShortRows) {
        if (op.solved) Eights<Tile, C, D>::keep(memory.written, kRow, walk.short_solved(op, first, valid));
      }
    }

    if (!Tile::kListed && soon > 0) next_q.fetch(walk.queries(op, first + C, soon), K);
    if (!Tile::kMapped && soon > 0) next_k.fetch(walk.keys(op, first + C, soon), K);
    o.template add<false, true, C>(scores, written, 0, o.first_row() + o.kRows);
    o.template put<Tile::kWhole>(walk.first_key > 0 ? Write::add : Write::overwrite,
                                 walk.of_queries(op.o.value, first, valid, V), V);
    advance_state(walk, gates, aged, k, state);
    __syncthreads();
  }
  if (op.end.value) state.template put<Tile::kWhole>(Write::overwrite, walk.state(op.end.value), K);
}

template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kForwardBlocks)
    chunk_forward(const __grid_constant__ StateRead<float> op, const __grid_constant__ KeyBlock keys) {
  wait_for_earlier();
  extern __shared__ __align__(16) unsigned char dynamic[];
  StateWalk<Tile> walk(op, keys);
  const ForwardMemory<Tile> memory(dynamic, walk.gated(), walk.solves, walk.tied);
  walk.begin(memory.list);
  walk.blind_reads(op);
  do {
    forward_pass<Tile>(op, walk, memory);
  } while (walk.next_pass());
}

}  // namespace crosstalk::device
