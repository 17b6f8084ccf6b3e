// The chunkwise state whose key channels decay each by itself, forward. Equations: state_chunk_forward.cuh,
// with the decays inside the sums over channels (state_channels.cuh).
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/recurrence/state_channels.cuh"
#include "kernels/recurrence/state_chunk_steps.cuh"

namespace crosstalk::device {

template <class Tile>
struct ChannelForwardMemory {
  using Type = typename Tile::Type;
  static constexpr int C = Tile::C, kTokens = C * Tile::kRow;
  using Inverse = ChunkInverse<C, Tile::W>;
  ChannelParts<Tile> parts;
  Type *state, *written, *rest, *scores, *inverse;
  float *write, *erase, *solving, *scratch;
  int* list;
  std::size_t bytes;

  CT_HD ChannelForwardMemory(unsigned char* base, bool, bool solves, bool tied) {
    Carve carve{base};
    parts.take(carve, false, solves, tied);
    state = carve.take<Type>(Tile::D * Tile::kRow);
    rest = carve.take<Type>(kTokens);
    written = solves ? parts.q : rest;  // q and k are of no use once their scores are known
    inverse = parts.k;
    scores = carve.take<Type>(C * Tile::kSide);
    solving = solves ? carve.take<float>(C * Inverse::kStride) : nullptr;
    scratch = solves ? carve.take<float>(Inverse::kScratch) : nullptr;
    write = carve.take<float>(C);
    erase = carve.take<float>(C);
    list = carve.take<int>(Tile::kListed ? C + 1 : 0);
    bytes = carve.used;
  }
};

/// One warp makes w and e of a chunk of 32 tokens; 0 beyond its end.
template <class Tile>
CT_DEVICE void fill_gains(const StateWalk<Tile>& walk, const StateRead<float>& op, int first, int valid,
                          float* write, float* erase) {
  const int i = threadIdx.x % 32;
  write[i] = walk.write_gain(op, first, valid, i);
  erase[i] = walk.erase_gain(op, first, valid, i);
}

/// Blocks that a multiprocessor is to hold, `small` of the smallest.
template <class Tile, int small>
constexpr int kChannelBlocks = Tile::D == 32                                       ? small
                               : Tile::D == 64 && Tile::kFormat == Precision::bf16 ? 2
                                                                                   : 1;

template <class Tile>
CT_DEVICE void channel_forward_pass(const StateRead<float>& op, const StateWalk<Tile>& walk,
                                    const ChannelForwardMemory<Tile>& memory) {
  using Op = typename Tile::Op;
  using Matrix = typename Tile::Matrix;
  using Memory = ChannelForwardMemory<Tile>;
  constexpr int C = Tile::C, D = Tile::D, kRow = Tile::kRow, kSide = Tile::kSide;
  const int K = walk.K, V = walk.V, chunks = walk.chunks;
  const auto& parts = memory.parts;
  const Matrix state_at{memory.state, kRow}, written{memory.written, kRow}, rest{memory.rest, kRow},
      scores{memory.scores, kSide}, inverse{memory.inverse, kSide};
  const typename Memory::Inverse inverting{memory.solving, memory.scratch};

  typename Tile::State state;
  if (op.start.value) state.template take<Tile::kWhole>(walk.state(op.start.value), K);
  for (int chunk = 0; chunk < chunks; ++chunk) {
    const int step = Tile::kListed ? walk.step : C;
    const int first = chunk * step, valid = min(step, walk.T - first);
    if constexpr (Tile::kListed) {
      walk.fill_queries(op, first, valid);
      __syncthreads();
    }
    parts.load(walk, op, first, valid, [] {});
    if (threadIdx.x >= Tile::kThreads - 32) fill_gains(walk, op, first, valid, memory.write, memory.erase);
    state.pairs([&](int v, int c, float a, float b) { Op::put2(memory.state + v * kRow + c, a, b); });
    if (!StateWalk<Tile>::kShort && op.states)
      state.template put<Tile::kWhole>(Write::overwrite, walk.state(op.states.value, chunks, chunk), K);
    if (const int soon = min(step, walk.T - first - step), next = first + step; soon > 0) {
      if (!Tile::kListed) prefetch_rows<Tile>(0, walk.queries(op, next, soon), soon);
      prefetch_rows<Tile>(1, walk.keys(op, next, soon), soon);
      prefetch_rows<Tile>(2, walk.of_tokens(op.log_decay.value, next, soon, walk.line, walk.first_key), soon);
      prefetch_rows<Tile>(3, walk.of_writes(op.v.value, next, soon, V), soon);
    }
    typename Tile::Rows given;  // v
    given.template take<Tile::kWhole>(walk.of_writes(op.v.value, first, valid, V), V);
    __syncthreads();
    if constexpr (StateWalk<Tile>::kShort) {
      if (op.states) Eights<Tile, D, D>::keep(memory.state, kRow, walk.short_state(op, chunk));
    }
    const bool direct = parts.template age<false>(memory.erase);
    __syncthreads();

    given.scale(memory.write);
    if (walk.solves) {
      parts.template score<true>(direct, memory.scores, memory.solving, inverting.kStride, memory.erase);
      typename Tile::Rows r;
      r.template add<false, false, D>(Matrix{parts.a_read, kRow}, state_at);
      given.subtract(r);
      given.pairs([&](int i, int v, float a, float b) { Op::put2(memory.rest + i * kRow + v, a, b); });
    } else {
      parts.template score<false>(direct, memory.scores, nullptr, 0, nullptr);
      given.pairs([&](int i, int v, float a, float b) { Op::put2(memory.written + i * kRow + v, a, b); });
    }
    __syncthreads();

    if (ChannelParts<Tile>::kTight && walk.tied) parts.leave();
    typename Tile::Rows o;
    if (walk.solves) inverting.diagonal();
    o.template add<false, false, D>(Matrix{parts.q_read, kRow}, state_at);
    if (walk.solves) {
      finish_inverse(op, walk, chunk, inverting, memory.solving, memory.inverse);
      typename Tile::Rows u;
      u.template add<false, true, C>(inverse, rest, 0, u.first_row() + u.kRows);
      u.pairs([&](int i, int v, float a, float b) { Op::put2(memory.written + i * kRow + v, a, b); });
      if (op.solved)
        u.template put<Tile::kWhole>(Write::overwrite, walk.of_erases(op.solved.value, first, valid, V), V);
      __syncthreads();
    }

    o.template add<false, true, C>(scores, written, 0, o.first_row() + o.kRows);
    o.template put<Tile::kWhole>(walk.first_key > 0 ? Write::add : Write::overwrite,
                                 walk.of_queries(op.o.value, first, valid, V), V);
    state.pairs([&](int, int c, float& a, float& b) { a *= parts.all[c], b *= parts.all[c + 1]; });
    state.template add<true, true, C>(written, Matrix{parts.k_left, kRow});
    __syncthreads();
  }
  if (op.end.value) state.template put<Tile::kWhole>(Write::overwrite, walk.state(op.end.value), K);
}

template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, kChannelBlocks<Tile, 4>)
    channel_forward(const __grid_constant__ StateRead<float> op, const __grid_constant__ KeyBlock keys) {
  wait_for_earlier();
  extern __shared__ __align__(16) unsigned char dynamic[];
  StateWalk<Tile> walk(op, keys);
  ChannelForwardMemory<Tile> memory(dynamic, true, walk.solves, walk.tied);
  memory.parts.before = walk.before, memory.parts.late = !op.decayed;
  walk.begin(memory.list);
  walk.blind_reads(op);
  do {
    channel_forward_pass<Tile>(op, walk, memory);
  } while (walk.next_pass());
}

}  // namespace crosstalk::device
