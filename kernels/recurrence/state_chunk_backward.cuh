// The chunkwise state, backward: a block walks the chunks from the last to the first, with the state's
// gradient D in registers. Notation of state_chunk_forward.cuh; P = dO U^T and N = -dR U^T (masked, times
// their decays) are the gradients of the score matrices before their decays. Derived in docs/delta_chunk.md.
//
//   dU = scores^T dO + e^{G_end - G} K D^T     dR = (I + A)^-T dU     dv = w dR
//   dq = e^G dO S + P K        da = -e^G dR S + N K          (a = e x; dx = e da, de = x . da)
//   dk = e^{G_end - G} U D + P^T Q + N^T (e X)
//   D' = e^{G_end} D + (e^G dO)^T Q - (e e^G dR)^T X
//
// A log decay's gradient sums what passes it: the state, writes before it seen at the chunk's end, reads of
// the state after it, and pairs on either side of it. No differences of large sums, which low precision would
// not survive.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/recurrence/state_chunk_forward.cuh"

namespace crosstalk::device {

template <class Tile>
struct BackwardMemory {
  using Type = typename Tile::Type;
  static constexpr int C = Tile::C, kTokens = C * Tile::kRow, kPairs = C * Tile::kSide;
  static constexpr int kSums = Tile::Rows::kAcross * C;
  /// The state would not fit as floats beside its gradient: it is read from where it is kept.
  static constexpr bool kStateStaged = Tile::D <= 64 || Tile::kFormat == Precision::bf16;
  ChunkGates<C>* gates;
  Type *q, *k, *x, *d_o, *written, *state, *d_state, *scores, *inverse, *d_written, *d_rest, *d_rest_aged,
      *look;
  float *of_value, *of_read, *of_write, *of_look, *of_erase;  ///< sums of rows
  float *of_pairs, *of_rows;  ///< what pairs add to decays, crossing_sums(): of reads, then of erases
  float* parts;
  int* list;
  std::size_t bytes;

  CT_HD BackwardMemory(unsigned char* base, bool gated, bool solves, bool tied) {
    Carve carve{base};
    gates = carve.take<ChunkGates<C>>(1);
    q = carve.take<Type>(kTokens);
    k = carve.take<Type>(kTokens);
    x = tied ? carve.take<Type>(kTokens) : k;
    d_o = carve.take<Type>(kTokens);
    written = carve.take<Type>(kTokens);
    state = carve.take<Type>(kStateStaged ? Tile::D * Tile::kRow : 0);
    d_state = carve.take<Type>(Tile::D * Tile::kRow);
    scores = carve.take<Type>(kPairs);
    inverse = solves ? carve.take<Type>(kPairs) : nullptr;
    d_rest = carve.take<Type>(kTokens);
    for (float** sums : {&of_value, &of_read, &of_write, &of_look, &of_erase})
      *sums = carve.take<float>(kSums);
    of_pairs = carve.take<float>(gated ? 2 * Tile::Side::kDown * C : 0);
    of_rows = carve.take<float>(gated ? 2 * Tile::Side::kAcross * C : 0);
    parts = carve.take<float>(Tile::W);
    list = carve.take<int>(Tile::kListed ? C + 1 : 0);
    // dU, and then what follows. Keys of erases of their own are aged themselves: so two blocks fit a multiprocessor.
    look = carve.take<Type>(!solves ? 0 : tied && kTokens > kPairs ? kTokens : kPairs);
    d_rest_aged = tied ? nullptr : carve.take<Type>(solves ? kTokens : 0);
    d_written = tied ? look : d_rest_aged;
    bytes = carve.used;
  }
};

template <class Tile, int kRows = Tile::C, int kColumns = Tile::D>
using Guarded = Fetched<Tile, kRows, kColumns, true>;

/// Adds what pairs on either side of a decay give it, by one warp: a lane the decays of kEach tokens from lane kEach on.
template <class Tile, int kEach>
CT_DEVICE void add_crossing(const BackwardMemory<Tile>& memory, int kind, int late, float (&pairs)[kEach]) {
  constexpr int C = Tile::C, kDown = Tile::Side::kDown, kAcross = Tile::Side::kAcross;
  const int lane = threadIdx.x % 32, first = lane * kEach;
  CT_FOR2(d, kDown, n, kEach) pairs[n] += memory.of_pairs[(kind * kDown + d) * C + first + n];
  CT_UNROLL(int strip = 0; strip + 1 < kAcross; ++strip) {  // rows' totals from a token's on
    float x[kEach], running = 0;
    CT_FOR(n, kEach) {
      x[n] = memory.of_rows[(kind * kAcross + strip) * C + first + n];
      running += x[n];
    }
    CT_UNROLL(int offset = 1; offset < 32; offset *= 2) {
      const float other = __shfl_down_sync(kFullWarp, running, offset);
      if (lane + offset < 32) running += other;
    }
    float after = __shfl_down_sync(kFullWarp, running, 1);
    if (lane == 31) after = 0;
    CT_UNROLL(int n = kEach - 1; n >= 0; --n) {
      const float from_here = after + x[n];
      if ((first + n) / (C / kAcross) > strip) pairs[n] += late ? after : from_here;
      after = from_here;
    }
  }
}

/// One warp makes the gradient of a chunk's log decays from the sums of the chunk's rows.
template <class Tile>
CT_DEVICE void put_decay_gradient(const BackwardMemory<Tile>& memory, const StateRead<float>& op,
                                  const StateWalk<Tile>& walk, int first, int valid) {
  using Rows = typename Tile::Rows;
  constexpr int C = Tile::C, kEach = C / 32;
  const ChunkGates<C>& gates = *memory.gates;
  const int lane = threadIdx.x % 32;
  const auto to = walk.of_tokens(op.log_decay.gradient, first, valid, 1);
  const Write mode = walk.shared(op.log_decay.write);
  float writes[kEach], reads[kEach], looks[kEach], sums[3] = {};
  CT_FOR(n, kEach) {
    const int i = lane * kEach + n;
    writes[n] = Rows::total(memory.of_write, i);
    reads[n] = Rows::total(memory.of_read, i);
    looks[n] = walk.solves ? -gates.erase[i] * Rows::total(memory.of_look, i) : 0;
    sums[0] += writes[n], sums[1] += reads[n], sums[2] += looks[n];
  }
  // Sums of the lanes before (writes) and after (reads, looks) this one.
  float running[3] = {sums[0], sums[1], sums[2]};
  CT_UNROLL(int offset = 1; offset < 32; offset *= 2) {
    const float before = __shfl_up_sync(kFullWarp, running[0], offset);
    const float read = __shfl_down_sync(kFullWarp, running[1], offset);
    const float look = __shfl_down_sync(kFullWarp, running[2], offset);
    if (lane >= offset) running[0] += before;
    if (lane + offset < 32) running[1] += read, running[2] += look;
  }
  float before = __shfl_up_sync(kFullWarp, running[0], 1), read = __shfl_down_sync(kFullWarp, running[1], 1),
        look = __shfl_down_sync(kFullWarp, running[2], 1);
  if (lane == 0) before = 0;
  if (lane == 31) read = look = 0;
  float pairs[kEach] = {};
  add_crossing<Tile>(memory, 0, walk.before ? 1 : 0, pairs);
  if (walk.solves) add_crossing<Tile>(memory, 1, op.decayed ? 0 : 1, pairs);
  float through = 0;
  CT_FOR(w, Tile::W) through += memory.parts[w];
  through *= gates.all;
  float after[kEach];
  CT_UNROLL(int n = kEach - 1; n >= 0; --n) {
    after[n] = (walk.before ? read : read + reads[n]) + (op.decayed ? look + looks[n] : look);
    read += reads[n], look += looks[n];
  }
  CT_FOR(n, kEach) {
    const int i = lane * kEach + n;
    if (to.has(i)) put(mode, to.start(i), through + before + after[n] + pairs[n]);
    before += writes[n];
  }
}

/// The phases of one chunk, each by all threads of a block.
template <class Tile>
struct ChunkBackward {
  using Op = typename Tile::Op;
  using Matrix = typename Tile::Matrix;
  using Rows = typename Tile::Rows;
  using Side = typename Tile::Side;
  using State = typename Tile::State;
  using Memory = BackwardMemory<Tile>;
  using Walk = StateWalk<Tile>;
  using WholeTile = StateTile<Tile::kFormat, Tile::D, true, Tile::kGated>;
  static constexpr int C = Tile::C, D = Tile::D, kRow = Tile::kRow, kSide = Tile::kSide;
  static constexpr bool kShortRows = Walk::kShortRows;
  const StateRead<float>& op;
  const Walk& walk;
  const Memory& memory;
  const int K = walk.K, V = walk.V, step = Tile::kMapped ? walk.step : C;
  ChunkGates<C>& gates = *memory.gates;
  const Matrix q{memory.q, kRow}, k{memory.k, kRow}, x{memory.x, kRow}, d_o{memory.d_o, kRow},
      written{memory.written, kRow}, d_state_at{memory.d_state, kRow}, scores{memory.scores, kSide},
      inverse{memory.inverse, kSide}, look{memory.look, kSide}, d_written{memory.d_written, kRow},
      d_rest{memory.d_rest, kRow}, d_rest_aged{memory.d_rest_aged, kRow};

  /// A row's product with a row of operands.
  CT_DEVICE static auto with(const typename Tile::Type* rows) {
    return [rows](int i, int c, float a, float b) {
      const float2 x = two_operands<Tile>(rows + i * kRow + c);
      return a * x.x + b * x.y;
    };
  }

  /// Brings rows and gates of a chunk, and asks for the gates of the next. While they come, one warp has the gradient of the
  /// decays of the chunk before: its sums stand until solve().
  CT_DEVICE void load(int chunk, int first, int valid, typename Walk::Gains& gains) const {
    Guarded<Tile> q_in, k_in, d_o_in;
    std::conditional_t<kShortRows, Eights<Tile, C, D>, Guarded<Tile>> written_in;
    q_in.fetch(walk.queries(op, first, valid), K);
    k_in.fetch(walk.keys(op, first, valid), K);
    d_o_in.fetch(walk.of_queries(op.o.gradient, first, valid, V), V);
    const auto rows = walk.written(op, first, valid);
    if constexpr (!kShortRows)
      written_in.fetch(rows, V);
    else if (walk.solves)
      written_in.fetch(walk.short_solved(op, first, valid));
    Eights<Tile, D, D> state_in;
    Eights<Tile, C, C> inverse_in;
    if constexpr (kShortRows) {
      state_in.fetch(walk.short_state(op, chunk));
      if (walk.solves) inverse_in.fetch(walk.short_inverse(op, chunk));
    }
    if (threadIdx.x < 32) {
      if (chunk + 1 < walk.chunks && walk.gated() && op.log_decay.wanted()) {
        put_decay_gradient<Tile>(memory, op, walk, first + step, min(step, walk.T - first - step));
        __syncwarp();
      }
      walk.fill(gates, op, gains);
      gains = walk.gains(op, first - step, chunk > 0 ? step : 0);
    }
    q_in.put(memory.q, valid);
    k_in.put(memory.k, valid);
    d_o_in.put(memory.d_o, valid);
    const auto gain = [&](int row) { return walk.gain_of_written(op, first, valid, row); };
    if constexpr (!kShortRows) {
      written_in.put(memory.written, valid, kRow, gain);
    } else if (walk.solves) {
      written_in.put(memory.written, kRow);
    } else {
      Guarded<Tile> values;
      values.fetch(rows, V);
      values.put(memory.written, valid, kRow, gain);
    }
    if constexpr (kShortRows) {
      state_in.put(memory.state, kRow);
      if (walk.solves) inverse_in.put(memory.inverse, kSide);
    } else {
      fetch_kept<WholeTile, Memory::kStateStaged, true>(op, walk, chunk, memory.state, memory.inverse);
    }
    if (walk.tied) {
      Guarded<Tile> look_in;
      look_in.fetch(walk.looks(op, first, valid), K);
      look_in.put(memory.x, valid);
    }
  }
  /// Asks for the rows of the chunk that comes next.
  CT_DEVICE void prefetch(int before, int chunk) const {
    if (!Tile::kListed) prefetch_rows<Tile>(0, walk.queries(op, before, C), C);
    prefetch_rows<Tile>(1, walk.keys(op, before, step), step);
    prefetch_rows<Tile>(2, walk.of_writes(op.v.value, before, step, V), step);
    if (!Tile::kListed) prefetch_rows<Tile>(3, walk.of_queries(op.o.gradient, before, C, V), C);
    walk.prefetch_state(4, op, chunk);
    if (!walk.solves) return;
    if constexpr (kShortRows)
      prefetch_rows<Tile, 2 * D>(5, walk.short_solved(op, before, step), step);
    else
      prefetch_rows<Tile, 4 * D>(5, walk.of_erases(op.solved.value, before, step, V), step);
    if constexpr (Walk::kShort) {  // two rows a thread
      const auto rows = walk.short_inverse(op, chunk);
      prefetch_rows<Tile, 4 * C>(6, typename Walk::ShortRows{rows.at, 4 * C, C / 2}, C / 2);
    } else {
      prefetch_rows<Tile, 4 * C>(
          6, PlainRows<float>{walk.kept(op.inverse.value, walk.chunks, chunk, C * C), 4 * C, C}, C);
    }
  }
  /// Scores; d_u becomes dU, or dR where something is solved, whose rows lie in d_rest then; dv.
  CT_DEVICE void solve(int first, int valid, Rows& d_u) const {
    Rows given;  // v
    const auto values = walk.of_writes(op.v.value, first, valid, V);
    given.template ask<Tile::kWhole>(values, V);
    {
      Side s;
      s.template add<false, false, D>(q, k);
      fade<Tile>(s, gates, walk.gated(), 1, walk.before);
      s.pairs([&](int i, int j, float a, float b) { Op::put2(memory.scores + i * kSide + j, a, b); });
    }
    d_u.template add<false, false, D>(k, d_state_at);
    if (walk.gated()) d_u.scale(gates.left);
    __syncthreads();
    d_u.template add<true, true, C>(scores, d_o, d_u.first_row(), C);
    if (walk.solves) {
      d_u.pairs([&](int j, int v, float a, float b) { Op::put2(memory.d_written + j * kRow + v, a, b); });
      __syncthreads();
      d_u.clear();
      d_u.template add<true, true, C>(inverse, d_written, d_u.first_row(), C);
      d_u.pairs([&](int i, int v, float a, float b) { Op::put2(memory.d_rest + i * kRow + v, a, b); });
    }
    given.template unpack<Tile::kWhole>(values);
    given.multiply(d_u);
    given.row_sums(memory.of_value);
    if (op.v.wanted()) {
      given = d_u;
      given.scale(gates.write);
      given.template put<Tile::kWhole>(walk.shared(op.v.write),
                                       walk.of_writes(op.v.gradient, first, valid, V), V);
    }
    __syncthreads();
  }
  /// P and N, and what pairs add to the decays. Ends with a barrier.
  CT_DEVICE void pair(Rows& d_u) const {
    {
      Side p;
      p.template add<false, false, D>(d_o, written);
      fade<Tile>(p, gates, walk.gated(), 1, walk.before);
      p.pairs([&](int i, int j, float a, float b) { Op::put2(memory.scores + i * kSide + j, a, b); });
      if (walk.gated()) {
        Side s;
        s.template add<false, false, D>(q, k);
        s.multiply(p);
        s.crossing_sums(walk.before ? 1 : 0, memory.of_pairs, memory.of_rows);
      }
    }
    if (walk.solves) {
      Side p;
      p.template add<false, false, D>(d_rest, written);
      fade<Tile>(p, gates, walk.gated(), 2, true);
      p.pairs([&](int i, int j, float a, float b) { Op::put2(memory.inverse + i * kSide + j, a, b); });
      if (walk.gated()) {
        Side s;
        s.template add<false, false, D>(x, k);
        s.multiply(p);
        s.pairs([&](int i, int, float& a, float& b) { a *= -gates.erase[i], b *= -gates.erase[i]; });
        s.crossing_sums(op.decayed ? 0 : 1, memory.of_pairs + Side::kDown * C,
                        memory.of_rows + Side::kAcross * C);
      }
      p.scale(gates.erase);
      p.pairs([&](int i, int j, float a, float b) { Op::put2(memory.look + i * kSide + j, a, b); });
      if (!walk.tied) {
        d_u.scale(gates.erase);
        if (walk.gated()) d_u.scale(gates.look);
        d_u.pairs(
            [&](int i, int v, float a, float b) { Op::put2(memory.d_rest_aged + i * kRow + v, -a, -b); });
      }
    }
    __syncthreads();
  }
  CT_DEVICE void put_queries(int chunk, int first, int valid) const {
    Rows d_q;
    add_state<Memory::kStateStaged>(op, walk, chunk, d_q, d_o, memory.state);
    if (walk.gated()) {
      d_q.scale(gates.read);
      d_q.row_sums(memory.of_read, with(memory.q));
    }
    d_q.template add<false, true, C>(scores, k, 0, d_q.first_row() + d_q.kRows);
    if (op.q.wanted()) {
      d_q.template put<Tile::kWhole>(
          op.q.write, walk.of_queries(op.q.gradient, first, valid, walk.line, walk.first_key), K);
    }
  }
  /// dk, and what an erase reads and writes along.
  CT_DEVICE void put_keys(int chunk, int first, int valid) const {
    Rows d_k, d_a;  // d_a: -da
    d_k.template add<false, true, D>(written, d_state_at);
    if (walk.gated()) {
      d_k.scale(gates.left);
      d_k.row_sums(memory.of_write, with(memory.k));
    }
    d_k.template add<true, true, C>(scores, q, d_k.first_row(), C);
    if (walk.solves) {
      d_a.template add<true, true, C>(look, x, d_a.first_row(), C);
      d_k.subtract(d_a);
      d_a.clear();
      add_state<Memory::kStateStaged>(op, walk, chunk, d_a, d_rest, memory.state);
      if (walk.gated()) {
        d_a.scale(gates.look);
        d_a.row_sums(memory.of_look, with(memory.x));
      }
      d_a.template add<false, true, C>(inverse, k, 0, d_a.first_row() + d_a.kRows);
      d_a.row_sums(memory.of_erase, with(memory.x));
      d_a.scale(gates.erase);
      if (!walk.tied) d_k.subtract(d_a);
    }
    if (op.k.wanted()) {
      d_k.template put<Tile::kWhole>(
          walk.own(op.k.write), walk.of_writes(op.k.gradient, first, valid, walk.line, walk.first_key), K);
    }
    if (walk.shift && op.erase_write.wanted()) {
      d_k.template put<Tile::kWhole>(
          walk.own(op.erase_write.write),
          walk.of_erases(op.erase_write.gradient, first, valid, walk.line, walk.first_key), K);
    }
    if (walk.tied && op.erase_read.wanted()) {
      d_a.each(d_a, [](float& x, float y) { x = -y; });
      d_a.template put<Tile::kWhole>(
          walk.own(op.erase_read.write),
          walk.of_erases(op.erase_read.gradient, first, valid, walk.line, walk.first_key), K);
    }
  }
  /// S . D of a warp's part to memory.parts; D fades over the chunk.
  CT_DEVICE void pass_through(int chunk, State& d_state) const {
    const auto before = walk.state(op.states.value, walk.chunks, chunk);
    if (walk.gated()) {
      float sum = 0;
      d_state.pairs([&](int v, int c, float& a, float& b) {
        if constexpr (Memory::kStateStaged) {
          const float2 s = two_operands<Tile>(memory.state + v * kRow + c);
          sum += a * s.x + b * s.y;
        } else {
          const float* s = before.at + std::int64_t{v} * walk.line + c;
          if (v < V && c < K) sum += a * s[0];
          if (v < V && c + 1 < K) sum += b * s[1];
        }
        a *= gates.all, b *= gates.all;
      });
      sum = warp_sum(sum);
      if (threadIdx.x % 32 == 0) memory.parts[threadIdx.x / 32] = sum;
    }
  }
  /// What D' sums over the tokens: dO e^G takes the place of dO, and -e e^G X that of X where it is no other's.
  CT_DEVICE void age() const {
    const auto scale = [&](typename Tile::Type* rows, auto&& factor) {
      for (int i = threadIdx.x; i < C * D / 4; i += Tile::kThreads) {
        const int row = i / (D / 4), at = row * kRow + i % (D / 4) * 4;
        const float2 low = two_operands<Tile>(rows + at), high = two_operands<Tile>(rows + at + 2);
        const float f = factor(row), values[4] = {f * low.x, f * low.y, f * high.x, f * high.y};
        Op::put4(rows + at, values);
      }
    };
    const bool own = walk.solves && walk.tied;
    if (walk.gated()) scale(memory.d_o, [&](int row) { return gates.read[row]; });
    if (own)
      scale(memory.x, [&](int row) { return -gates.erase[row] * (walk.gated() ? gates.look[row] : 1.0f); });
    if (walk.gated() || own) __syncthreads();
  }
  CT_DEVICE void put_gates(int chunk, int first, int valid) const {
    if (threadIdx.x < 32) {
      if (chunk == 0 && walk.gated() && op.log_decay.wanted())  // of the others load() does it
        put_decay_gradient<Tile>(memory, op, walk, first, valid);
    } else if (const int i = CT_THREAD - 32; i < valid) {
      const float d_erase = walk.solves ? -Rows::total(memory.of_erase, i) : 0;
      put_gains(op, walk, first, valid, i, memory.of_value, d_erase);
    }
  }
};

template <class Tile>
CT_DEVICE void backward_pass(const StateRead<float>& op, const StateWalk<Tile>& walk,
                             const BackwardMemory<Tile>& memory) {
  using Op = typename Tile::Op;
  const ChunkBackward<Tile> at{op, walk, memory};
  typename Tile::State d_state;
  if (op.end.gradient && walk.pass == 0)
    d_state.template take<Tile::kWhole>(walk.state(op.end.gradient), walk.K);
  const int step = at.step, last_first = (walk.chunks - 1) * step;
  auto gains = walk.gains(op, last_first, walk.T - last_first);
  for (int chunk = walk.chunks - 1; chunk >= 0; --chunk) {
    const int first = chunk * step, valid = min(step, walk.T - first);
    d_state.pairs(
        [&](int v, int c, float a, float b) { Op::put2(memory.d_state + v * Tile::kRow + c, a, b); });
    if constexpr (Tile::kListed) {
      walk.fill_queries(op, first, valid);
      __syncthreads();
    }
    at.load(chunk, first, valid, gains);
    if (chunk > 0) at.prefetch(first - step, chunk - 1);
    __syncthreads();
    typename Tile::Rows d_u;
    at.solve(first, valid, d_u);
    at.pair(d_u);
    at.put_queries(chunk, first, valid);
    at.put_keys(chunk, first, valid);
    at.pass_through(chunk, d_state);
    __syncthreads();
    at.age();
    at.put_gates(chunk, first, valid);
    d_state.template add<true, true, Tile::C>(at.d_o, at.q);
    if (walk.solves) d_state.template add<true, true, Tile::C>(walk.tied ? at.d_rest : at.d_rest_aged, at.x);
    __syncthreads();
  }
  if (op.start.wanted())
    d_state.template put<Tile::kWhole>(op.start.write, walk.state(op.start.gradient), walk.K);
}

template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBackwardBlocks)
    chunk_backward(const __grid_constant__ StateRead<float> op, const __grid_constant__ KeyBlock keys) {
  wait_for_earlier();
  extern __shared__ __align__(16) unsigned char dynamic[];
  StateWalk<Tile> walk(op, keys);
  const BackwardMemory<Tile> memory(dynamic, walk.gated(), walk.solves, walk.tied);
  walk.begin(memory.list);
  walk.blind_gradients(op);
  do {
    backward_pass<Tile>(op, walk, memory);
  } while (walk.next_pass());
}

}  // namespace crosstalk::device
