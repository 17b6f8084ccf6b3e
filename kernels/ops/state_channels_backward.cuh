// The chunkwise state whose key channels decay each by itself, backward. Equations: state_chunk_backward.cuh,
// with the decays inside the sums over channels (state_channels.cuh). SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/ops/state_channels_forward.cuh"

namespace crosstalk::device {

template <class Tile>
struct ChannelBackwardMemory {
  using Type = typename Tile::Type;
  static constexpr int C = Tile::C, D = Tile::D, kTokens = C * Tile::kRow, kPairs = C * Tile::kSide;
  static constexpr int kSums = Tile::Rows::kAcross * C;
  ChannelParts<Tile> parts;
  Type *d_o, *written, *state, *d_state, *scores, *inverse, *look, *d_written, *d_rest;
  float *write, *erase, *of_value, *of_erase;  ///< the latter two: sums of rows
  float *d_q, *d_a, *d_k;                      ///< [C][D] of pairs within a half
  float *reads, *writes, *borders, *through;   ///< see ChannelParts::put_decay_gradient
  std::size_t bytes;

  CT_HD ChannelBackwardMemory(unsigned char* base, bool, bool solves, bool tied) {
    Carve carve{base};
    parts.take(carve, true, solves, tied);
    d_o = carve.take<Type>(kTokens);
    written = carve.take<Type>(kTokens);
    state = carve.take<Type>(D * Tile::kRow);
    d_state = carve.take<Type>(D * Tile::kRow);
    scores = carve.take<Type>(kPairs);
    inverse = solves ? carve.take<Type>(kPairs) : nullptr;
    look = solves ? carve.take<Type>(kPairs) : nullptr;
    d_written = solves ? carve.take<Type>(kTokens) : nullptr;
    d_rest = solves ? carve.take<Type>(kTokens) : nullptr;
    write = carve.take<float>(C);
    erase = carve.take<float>(C);
    of_value = carve.take<float>(kSums);
    of_erase = carve.take<float>(kSums);
    for (float** rows : {&d_q, &d_k, &reads, &writes, &borders}) *rows = carve.take<float>(C * D);
    d_a = solves ? carve.take<float>(C * D) : nullptr;
    through = carve.take<float>(Tile::State::kDown * D);
    bytes = carve.used;
  }
};

template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::D == 32 ? 3 : 1)
    channel_backward(const __grid_constant__ StateRead<float> op) {
  using Op = typename Tile::Op;
  using Matrix = typename Tile::Matrix;
  using Rows = typename Tile::Rows;
  using Side = typename Tile::Side;
  using Parts = ChannelParts<Tile>;
  using WholeTile = StateTile<Tile::kFormat, Tile::D, true, true, Tile::C>;
  constexpr int C = Tile::C, D = Tile::D, kRow = Tile::kRow, kSide = Tile::kSide, kHalf = Parts::kHalf;
  extern __shared__ __align__(16) unsigned char dynamic[];
  const StateWalk<Tile> walk(op);
  const int K = walk.K, V = walk.V, H = walk.H, chunks = (walk.T + C - 1) / C;
  const ChannelBackwardMemory<Tile> memory(dynamic, true, walk.solves, walk.tied);
  const Parts& parts = memory.parts;
  const Matrix d_o{memory.d_o, kRow}, written{memory.written, kRow}, state_at{memory.state, kRow},
      d_state_at{memory.d_state, kRow}, scores{memory.scores, kSide}, inverse{memory.inverse, kSide},
      look{memory.look, kSide}, d_written{memory.d_written, kRow}, d_rest{memory.d_rest, kRow},
      border{parts.border, kRow}, x_border{parts.x_border, kRow};
  const std::int64_t stride_k = static_cast<std::int64_t>(H) * K, stride_v = static_cast<std::int64_t>(H) * V;
  const bool worker = threadIdx.x < Parts::kWorkers;

  typename Tile::State d_state;
  if (op.end.gradient) {
    d_state.template take<Tile::kWhole>(walk.kept(op.end.gradient, 1, 0, V * K), K, V, K);
  }
  for (int chunk = chunks - 1; chunk >= 0; --chunk) {
    const int first = chunk * C, valid = min(C, walk.T - first);
    const float* v_at = walk.rows(op.v.value, first, V);
    if (worker) parts.prepare(walk, op, first, valid);
    if (threadIdx.x >= Tile::kThreads - 32) {
      fill_gains(walk, op, first, valid, memory.write, memory.erase);
    }
    d_state.pairs([&](int v, int c, float a, float b) { Op::put2(memory.d_state + v * kRow + c, a, b); });
    {
      Fetched<Tile> d_o_in, written_in;
      Fetched<Tile, D> state_in;
      const bool has_gradient = static_cast<bool>(op.o.gradient);
      d_o_in.fetch(has_gradient ? walk.rows(op.o.gradient, first, V) : v_at, stride_v, valid, V);
      written_in.fetch(walk.solves ? walk.rows(op.solved.value, first, V) : v_at, stride_v, valid, V);
      state_in.fetch(walk.kept(op.states.value, chunks, chunk, V * K), K, V, K);
      d_o_in.put(memory.d_o, has_gradient ? valid : 0);
      written_in.put(memory.written, valid, kRow,
                     walk.solves ? nullptr : walk.rows(op.write_gain.value, first, 1), H);
      state_in.put(memory.state, V);
    }
    if (walk.solves) {
      Fetched<WholeTile, C, C> inverse_in;
      inverse_in.fetch(walk.kept(op.inverse.value, chunks, chunk, C * C), C, C, C);
      inverse_in.put(memory.inverse, C, kSide);
    }
    if (chunk > 0) {
      prefetch_rows<Tile>(walk.rows(op.q.value, first - C, K), stride_k, C);
      prefetch_rows<Tile>(walk.rows(op.k.value, first - C, K), stride_k, C);
      prefetch_rows<Tile>(walk.rows(op.log_decay.value, first - C, K), stride_k, C);
      prefetch_rows<Tile>(walk.rows(op.v.value, first - C, V), stride_v, C);
      if (op.o.gradient) prefetch_rows<Tile>(walk.rows(op.o.gradient, first - C, V), stride_v, C);
      prefetch_rows<Tile>(walk.kept(op.states.value, chunks, chunk - 1, V * K), K, V);
      if (walk.solves) prefetch_rows<Tile>(walk.rows(op.solved.value, first - C, V), stride_v, C);
    }
    __syncthreads();

    parts.template score<false>(memory.scores, nullptr, 0, nullptr);
    Rows d_u;  // dU, or dR where nothing is solved
    d_u.template add<false, false, D>(Matrix{parts.k_left, kRow}, d_state_at);
    __syncthreads();
    Rows given;  // v
    given.template take<Tile::kWhole>(v_at, stride_v, valid, V);
    d_u.template add<true, true, C>(scores, d_o, d_u.first_row(), C);
    if (walk.solves) {
      d_u.pairs([&](int j, int v, float a, float b) { Op::put2(memory.d_written + j * kRow + v, a, b); });
      __syncthreads();
      d_u.clear();
      d_u.template add<true, true, C>(inverse, d_written, d_u.first_row(), C);
      d_u.pairs([&](int i, int v, float a, float b) { Op::put2(memory.d_rest + i * kRow + v, a, b); });
    }
    given.multiply(d_u);
    given.row_sums(memory.of_value);
    if (op.v.wanted()) {
      given = d_u;
      given.scale(memory.write);
      given.template put<Tile::kWhole>(op.v.write, walk.rows(op.v.gradient, first, V), stride_v, valid, V);
    }
    __syncthreads();

    {  // P; N in the place of the inverse, -e N
      Side p;
      p.template add<false, false, D>(d_o, written);
      p.pairs([&](int i, int j, float a, float b) {
        Op::put2(memory.scores + i * kSide + j, j <= i ? a : 0, j + 1 <= i ? b : 0);
      });
      if (walk.solves) {
        p.clear();
        p.template add<false, false, D>(d_rest, written);
        p.pairs([&](int i, int j, float a, float b) {
          const float e = -memory.erase[i];
          a = j < i ? a : 0, b = j + 1 < i ? b : 0;
          Op::put2(memory.inverse + i * kSide + j, a, b);
          Op::put2(memory.look + i * kSide + j, e * a, e * b);
        });
        d_u.pairs([&](int i, int v, float a, float b) {  // -e dR, in the place of dU
          const float e = -memory.erase[i];
          Op::put2(memory.d_written + i * kRow + v, e * a, e * b);
        });
      }
    }
    __syncthreads();

    if (worker) {
      parts.score_backward(memory.scores, memory.inverse, memory.erase, walk.solves, memory.d_q, memory.d_a,
                           memory.d_k);
    }
    Rows d_q, d_a, d_k, across;  // d_a: -da; across: by pairs across the border
    const bool second = Rows::first_row() >= kHalf;
    d_q.template add<false, true, D>(d_o, state_at);
    if (second) across.template add<false, true, kHalf>(scores, border);
    __syncthreads();
    // A read's gradient by the state at the chunk's start and by pairs: decays put on, what passes them added
    // up.
    const auto finish_read = [&](Rows& rows, const typename Tile::Type* read, const typename Tile::Type* edge,
                                 const float* within, const float* factors, bool add) {
      rows.pairs_with(across, [&](int i, int c, float& a, float& b, float m, float n) {
        const int at = i * D + c, there = i * kRow + c;
        const float f = factors ? -factors[i] : 1;
        float reads[2] = {f * a * Op::value(read[there]), f * b * Op::value(read[there + 1])};
        float edges[2] = {f * m * Op::value(edge[there]), f * n * Op::value(edge[there + 1])};
#pragma unroll
        for (int x = 0; x < 2; ++x) {
          memory.reads[at + x] = add ? memory.reads[at + x] + reads[x] : reads[x];
          if (second) memory.borders[at + x] = add ? memory.borders[at + x] + edges[x] : edges[x];
        }
        const float *since = parts.since + at, *before = parts.half + c;
        a = a * since[0] * (second ? before[0] : 1) + m * since[0] + within[at];
        b = b * since[1] * (second ? before[1] : 1) + n * since[1] + within[at + 1];
      });
    };
    finish_read(d_q, parts.q_read, parts.border, memory.d_q, nullptr, false);
    if (op.q.wanted()) {
      d_q.template put<Tile::kWhole>(op.q.write, walk.rows(op.q.gradient, first, K), stride_k, valid, K);
    }
    across.clear();
    d_k.template add<false, true, D>(written, d_state_at);
    if (!second) {
      // Turned: rows of k are tokens of the second half.
      across.template add<true, true, kHalf>(Matrix{memory.scores + kHalf * kSide, kSide},
                                             Matrix{parts.border + kHalf * kRow, kRow});
      if (walk.solves) {
        across.template add<true, true, kHalf>(Matrix{memory.look + kHalf * kSide, kSide},
                                               Matrix{parts.x_border + kHalf * kRow, kRow});
      }
    }
    d_k.pairs_with(across, [&](int i, int c, float& a, float& b, float m, float n) {
      const int at = i * D + c, there = i * kRow + c;
      memory.writes[at] = a * Op::value(parts.k_left[there]);
      memory.writes[at + 1] = b * Op::value(parts.k_left[there + 1]);
      if (!second) {
        memory.borders[at] = m * Op::value(parts.border[there]);
        memory.borders[at + 1] = n * Op::value(parts.border[there + 1]);
      }
      const float *until = parts.until + at, *after = parts.half + D + c;
      a = a * until[0] * (second ? 1 : after[0]) + m * until[0] + memory.d_k[at];
      b = b * until[1] * (second ? 1 : after[1]) + n * until[1] + memory.d_k[at + 1];
    });
    if (walk.solves) {
      across.clear();
      d_a.template add<false, true, D>(d_rest, state_at);
      if (second) across.template add<false, true, kHalf>(inverse, border);
      finish_read(d_a, parts.x_read, parts.x_border, memory.d_a, memory.erase, true);
      d_a.row_sums(memory.of_erase, [&](int i, int c, float a, float b) {
        const typename Tile::Type* x = parts.x + i * kRow + c;
        return a * Op::value(x[0]) + b * Op::value(x[1]);
      });
      d_a.scale(memory.erase);
      if (!walk.tied) d_k.subtract(d_a);
    }
    if (op.k.wanted()) {
      d_k.template put<Tile::kWhole>(op.k.write, walk.rows(op.k.gradient, first, K), stride_k, valid, K);
    }
    if (walk.tied && op.erase_read.wanted()) {
      d_a.each(d_a, [](float& x, float y) { x = -y; });
      d_a.template put<Tile::kWhole>(op.erase_read.write, walk.rows(op.erase_read.gradient, first, K),
                                     stride_k, valid, K);
    }
    d_state.column_sums(memory.through, D, [&](int v, int c, float a, float b, float(&sums)[2]) {
      const typename Tile::Type* s = memory.state + v * kRow + c;
      sums[0] += a * Op::value(s[0]), sums[1] += b * Op::value(s[1]);
    });
    d_state.pairs([&](int, int c, float& a, float& b) { a *= parts.all[c], b *= parts.all[c + 1]; });
    __syncthreads();

    if (threadIdx.x < D) {  // its own column: no barrier
      float sum = 0;
      for (int i = 0; i < Tile::State::kDown; ++i) sum += memory.through[i * D + threadIdx.x];
      memory.through[threadIdx.x] = sum * parts.all[threadIdx.x];
    }
    if (const int i = static_cast<int>(threadIdx.x); i < valid) {
      const std::int64_t at = static_cast<std::int64_t>(i) * H;
      const float d_erase = walk.solves ? -Rows::total(memory.of_erase, i) : 0;
      if (op.write_gain.wanted()) {
        put(op.write_gain.write, walk.rows(op.write_gain.gradient, first, 1) + at,
            Rows::total(memory.of_value, i) + (walk.tied ? 0 : d_erase));
      }
      if (walk.tied && op.erase_gain.wanted()) {
        put(op.erase_gain.write, walk.rows(op.erase_gain.gradient, first, 1) + at, d_erase);
      }
    }
    d_state.template add<true, true, C>(d_o, Matrix{parts.q_read, kRow});
    if (walk.solves) d_state.template add<true, true, C>(d_written, Matrix{parts.x_read, kRow});
    __syncthreads();
    if (worker && op.log_decay.wanted()) {
      parts.put_decay_gradient(op.log_decay.write, walk.rows(op.log_decay.gradient, first, K), stride_k,
                               valid, K, memory.through, memory.reads, memory.writes, memory.borders);
      // The next chunk's parts are written by the same threads in the same places, its sums after a barrier.
    }
  }
  if (op.start.wanted()) {
    d_state.template put<Tile::kWhole>(op.start.write, walk.kept(op.start.gradient, 1, 0, V * K), K, V, K);
  }
}

}  // namespace crosstalk::device
