// The chunkwise state whose key channels decay each by itself, backward. Equations: state_chunk_backward.cuh,
// with the decays inside the sums over channels (state_channels.cuh).
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/recurrence/state_channels_forward.cuh"

namespace crosstalk::device {

template <class Tile>
struct ChannelBackwardMemory {
  using Type = typename Tile::Type;
  static constexpr int C = Tile::C, D = Tile::D, kTokens = C * Tile::kRow, kPairs = C * Tile::kSide;
  static constexpr int kSums = Tile::Rows::kAcross * C, kDown = Tile::Rows::kDown;
  static_assert(kDown == 2, "sums of columns are those of halves");
  static constexpr bool kStateStaged = !ChannelParts<Tile>::kTight;
  ChannelParts<Tile> parts;
  Type *d_o, *written, *rest, *state, *d_state, *scores, *inverse;
  float *d_q, *d_a, *d_k;                    ///< [C][D], see ChannelParts
  float *write, *erase, *of_value;           ///< the last: sums of rows
  float *through, *keys, *queries, *erases;  ///< sums of columns: S . D; of the halves' rows
  int* list;
  std::size_t bytes;

  CT_HD ChannelBackwardMemory(unsigned char* base, bool, bool solves, bool tied) {
    Carve carve{base};
    parts.take(carve, true, solves, tied);
    d_o = carve.take<Type>(kTokens);
    written = carve.take<Type>(kTokens);
    scores = carve.take<Type>(kPairs);
    rest = solves ? carve.take<Type>(kTokens) : nullptr;
    inverse = solves ? carve.take<Type>(kPairs) : nullptr;
    parts.x = tied ? rest : parts.k;  // until there is a rest
    write = carve.take<float>(C);
    erase = carve.take<float>(C);
    of_value = carve.take<float>(kSums);
    through = carve.take<float>(Tile::State::kDown * D);
    for (float** sums : {&keys, &queries, &erases}) *sums = carve.take<float>(kDown * D);
    list = carve.take<int>(Tile::kMapped ? C + 1 : 0);
    // One after the other: the states, and gradients of rows.
    const std::size_t shared = carve.used;
    d_state = carve.take<Type>(D * Tile::kRow);
    state = carve.take<Type>(kStateStaged ? D * Tile::kRow : 0);
    bytes = carve.used;
    carve.used = shared;
    for (float** rows : {&d_q, &d_k}) *rows = carve.take<float>(C * D);
    d_a = carve.take<float>(solves ? C * D : 0);
    if (carve.used > bytes) bytes = carve.used;
  }
};

/// Four neighbours to memory, as far as there are columns.
template <bool kWhole>
__device__ __forceinline__ void put4(Write mode, float* to, float4 x, int columns) {
  if constexpr (kWhole) {
    float4* const p = reinterpret_cast<float4*>(to);
    if (mode == Write::add) {
      const float4 old = *p;
      x.x += old.x, x.y += old.y, x.z += old.z, x.w += old.w;
    }
    *p = x;
  } else {
    const float values[4] = {x.x, x.y, x.z, x.w};
    for (int n = 0; n < 4 && n < columns; ++n) put(mode, to + n, values[n]);
  }
}

template <class Tile>
struct ChannelBackward {
  using Parts = ChannelParts<Tile>;
  using Memory = ChannelBackwardMemory<Tile>;
  static constexpr int D = Tile::D, C = Tile::C, kHalf = Parts::kHalf, kRow = Tile::kRow;
  const StateWalk<Tile>& walk;
  const StateRead<float>& op;
  const Memory& memory;
  const Parts& parts;

  /// One number of x.
  __device__ __forceinline__ float x_at(int first, int valid, int row, int c) const {
    if (!walk.tied) return Parts::Raw::value(parts.k[row * kRow + c]);
    const float* const from = walk.looks(op, first, valid)(row);
    return from && c < walk.K ? from[c] : 0;
  }

  /// By the workers: gradients of rows, in the places of those at borders, and of the decays, in that of the
  /// decays. Reads times their decays take the places of keys.
  __device__ __forceinline__ void by_channels(int first, int valid) const {
    const int c = Parts::channel(), from = Parts::first_of_half();
    float a[kHalf], d_g[kHalf], through = 0;
#pragma unroll
    for (int i = 0; i < kHalf; ++i) a[i] = parts.alpha[(from + i) * D + c];
#pragma unroll
    for (int i = 0; i < Tile::State::kDown; ++i) through += memory.through[i * D + c];
    parts.back_keys(a, memory.d_k, through * parts.all[c], memory.keys[c],
                    memory.queries[D + c] + (walk.solves ? memory.erases[D + c] : 0), d_g);
#pragma unroll 1
    for (int reads = 0; reads < (walk.solves ? 2 : 1); ++reads) {  // q; a
      const bool of_q = reads == 0;
      parts.back_rows(
          a,
          [&](int i) {
            return of_q ? Parts::Raw::value(parts.q[i * kRow + c])
                        : memory.erase[i] * x_at(first, valid, i, c);
          },
          of_q ? memory.d_q : memory.d_a, of_q ? memory.scores : memory.inverse,
          of_q ? parts.before : parts.late, memory.d_k, of_q ? parts.q_read : parts.a_read, d_g);
    }
#pragma unroll
    for (int i = 0; i < kHalf; ++i) parts.alpha[(from + i) * D + c] = d_g[i];
  }

  /// By all: gradients to memory.
  __device__ __forceinline__ void put_rows(int first, int valid) const {
    const int K = walk.K, line = walk.line, from = walk.first_key;
    const auto d_queries = walk.of_queries(op.q.gradient, first, valid, line, from);
    const auto d_keys = walk.of_writes(op.k.gradient, first, valid, line, from);
    const auto d_decays = walk.of_tokens(op.log_decay.gradient, first, valid, line, from);
    const auto d_looks = walk.of_erases(op.erase_read.gradient, first, valid, line, from);
    const auto d_erased = walk.of_erases(op.erase_write.gradient, first, valid, line, from);
    const auto four = [](const float* p) { return *reinterpret_cast<const float4*>(p); };
#pragma unroll 1
    for (int n = threadIdx.x; n < C * D / 4; n += Tile::kThreads) {
      const int row = n / (D / 4), c = n % (D / 4) * 4, at = row * D + c;
      const auto give = [&](const In<float>& field, Write mode, float* to, float4 x) {
        if (field.wanted() && to) put4<Tile::kWhole>(mode, to + c, x, K - c);
      };
      float4 d_k = four(memory.d_k + at), d_x = {};
      float d_erase = 0;
      if (walk.solves) {
        const float e = memory.erase[row];
        d_x = four(memory.d_a + at);
        const float values[4] = {d_x.x, d_x.y, d_x.z, d_x.w};
#pragma unroll
        for (int i = 0; i < 4; ++i) d_erase += values[i] * x_at(first, valid, row, c + i);
#pragma unroll
        for (int offset = D / 8; offset > 0; offset /= 2) {
          d_erase += __shfl_xor_sync(kFullWarp, d_erase, offset);
        }
        d_x.x *= e, d_x.y *= e, d_x.z *= e, d_x.w *= e;
        if (!walk.tied) d_k.x += d_x.x, d_k.y += d_x.y, d_k.z += d_x.z, d_k.w += d_x.w;
      }
      give(op.q, op.q.write, d_queries(row), four(memory.d_q + at));
      give(op.k, walk.own(op.k.write), d_keys(row), d_k);
      if (walk.shift) give(op.erase_write, walk.own(op.erase_write.write), d_erased(row), d_k);
      give(op.log_decay, walk.own(op.log_decay.write), d_decays(row), four(parts.alpha + at));
      if (walk.tied) give(op.erase_read, walk.own(op.erase_read.write), d_looks(row), d_x);
      if (c > 0 || row >= valid) continue;
      put_gains(op, walk, first, valid, row, memory.of_value, d_erase);
    }
  }
};

template <class Tile>
__device__ __forceinline__ void channel_backward_pass(const StateRead<float>& op, const StateWalk<Tile>& walk,
                                                      const ChannelBackwardMemory<Tile>& memory) {
  using Op = typename Tile::Op;
  using Matrix = typename Tile::Matrix;
  using Rows = typename Tile::Rows;
  using Side = typename Tile::Side;
  using Parts = ChannelParts<Tile>;
  using Memory = ChannelBackwardMemory<Tile>;
  using WholeTile = StateTile<Tile::kFormat, Tile::D, true, true, false, Tile::C, Tile::W>;
  constexpr int C = Tile::C, D = Tile::D, kRow = Tile::kRow, kSide = Tile::kSide, kHalf = Parts::kHalf;
  const int K = walk.K, V = walk.V, chunks = walk.chunks;
  const Parts& parts = memory.parts;
  const Matrix d_o{memory.d_o, kRow}, written{memory.written, kRow}, rest{memory.rest, kRow},
      d_state_at{memory.d_state, kRow}, scores{memory.scores, kSide}, inverse{memory.inverse, kSide},
      border{parts.border, kRow};
  const bool worker = threadIdx.x < Parts::kWorkers;

  typename Tile::State d_state;
  if (op.end.gradient && walk.pass == 0) {
    d_state.template take<Tile::kWhole>(walk.state(op.end.gradient), K);
  }
  for (int chunk = chunks - 1; chunk >= 0; --chunk) {
    const int step = Tile::kMapped ? walk.step : C;
    const int first = chunk * step, valid = min(step, walk.T - first);
    const auto kept = walk.state(op.states.value, chunks, chunk);
    if constexpr (Tile::kMapped) {
      walk.fill_queries(op, first, valid);
      __syncthreads();
    }
    parts.load(walk, op, first, valid);
    if (threadIdx.x >= Tile::kThreads - 32) {
      fill_gains(walk, op, first, valid, memory.write, memory.erase);
    }
    d_state.pairs([&](int v, int c, float a, float b) { Op::put2(memory.d_state + v * kRow + c, a, b); });
    {
      Fetched<Tile> d_o_in, written_in;
      const bool has_gradient = static_cast<bool>(op.o.gradient);
      d_o_in.fetch(has_gradient ? walk.of_queries(op.o.gradient, first, valid, V)
                                : walk.of_queries(op.o.value, first, valid, V),
                   V);
      written_in.fetch(walk.written(op, first, valid), V);
      d_o_in.put(memory.d_o, has_gradient ? valid : 0);
      if (!Tile::kMapped && walk.solves) {
        written_in.put(memory.written, valid);
      } else {
        written_in.put(memory.written, valid, kRow,
                       [&](int row) { return walk.gain_of_written(op, first, valid, row); });
      }
    }
    fetch_kept<WholeTile, Memory::kStateStaged, false>(op, walk, chunk, memory.state, memory.inverse);
    if (chunk > 0) {
      const int before = first - step;
      if (!Tile::kMapped) prefetch_rows<Tile>(0, walk.queries(op, before, C), C);
      prefetch_rows<Tile>(1, walk.keys(op, before, step), step);
      prefetch_rows<Tile>(2, walk.of_tokens(op.log_decay.value, before, step, walk.line, walk.first_key),
                          step);
      prefetch_rows<Tile>(3, walk.of_writes(op.v.value, before, step, V), step);
      if (!Tile::kMapped) prefetch_rows<Tile>(4, walk.of_queries(op.o.gradient, before, C, V), C);
      walk.prefetch_state(5, op, chunk - 1);
      if (walk.solves) prefetch_rows<Tile>(6, walk.of_erases(op.solved.value, before, step, V), step);
      if (walk.tied) prefetch_rows<Tile>(7, walk.looks(op, before, step), step);
    }
    __syncthreads();
    if (worker) parts.template age<true>(memory.erase);
    __syncthreads();

    parts.template score<false>(memory.scores, nullptr, 0, nullptr);
    Rows d_u;  // dU, or dR where nothing is solved
    d_u.template add<false, false, D>(Matrix{parts.k_left, kRow}, d_state_at);
    __syncthreads();
    Rows given;  // v
    given.template take<Tile::kWhole>(walk.of_writes(op.v.value, first, valid, V), V);
    d_u.template add<true, true, C>(scores, d_o, d_u.first_row(), C);
    if (walk.solves) {
      d_u.pairs([&](int j, int v, float a, float b) { Op::put2(memory.rest + j * kRow + v, a, b); });
      __syncthreads();
      d_u.clear();
      d_u.template add<true, true, C>(inverse, rest, d_u.first_row(), C);
      __syncthreads();
      d_u.pairs(
          [&](int i, int v, float a, float b) { Op::put2(memory.rest + i * kRow + v, -a, -b); });  // -dR
    }
    given.multiply(d_u);
    given.row_sums(memory.of_value);
    if (op.v.wanted()) {
      d_u.scale(memory.write);
      d_u.template put<Tile::kWhole>(walk.shared(op.v.write), walk.of_writes(op.v.gradient, first, valid, V),
                                     V);
    }
    __syncthreads();

    {  // P, N
      Side p;
      p.template add<false, false, D>(d_o, written);
      p.pairs([&](int i, int j, float a, float b) {
        const int last = parts.before ? i - 1 : i;
        Parts::put_pair(memory.scores, i, j, j <= last, parts.before, a);
        Parts::put_pair(memory.scores, i, j + 1, j + 1 <= last, parts.before, b);
      });
      if (walk.solves) {
        p.clear();
        p.template add<false, false, D>(rest, written);
        p.pairs([&](int i, int j, float a, float b) {
          Parts::put_pair(memory.inverse, i, j, j < i, parts.late, a);
          Parts::put_pair(memory.inverse, i, j + 1, j + 1 < i, parts.late, b);
        });
      }
    }
    d_state.column_sums(memory.through, D, [&](int v, int c, float a, float b, float(&sums)[2]) {
      if constexpr (Memory::kStateStaged) {
        const typename Tile::Type* s = memory.state + v * kRow + c;
        sums[0] += a * Op::value(s[0]), sums[1] += b * Op::value(s[1]);
      } else {
        const float* s = kept.at + static_cast<std::int64_t>(v) * walk.line + c;
        if (v < V && c < K) sums[0] += a * s[0];
        if (v < V && c + 1 < K) sums[1] += b * s[1];
      }
    });
    d_state.pairs([&](int, int c, float& a, float& b) { a *= parts.all[c], b *= parts.all[c + 1]; });
    __syncthreads();

    // Gradients of rows at the border of their half: by the state at the chunk's ends, then by pairs across.
    const bool second = Rows::first_row() >= kHalf;
    const auto to_border = [&](Rows& rows, bool other, const float* decay, float* sums, const auto* with) {
      if (other) rows.pairs([&](int, int c, float& a, float& b) { a *= decay[c], b *= decay[c + 1]; });
      rows.column_sums(sums, D, [&](int i, int c, float a, float b, float(&two)[2]) {
        if (!other) return;
        two[0] += a * Op::value(with[i * kRow + c]), two[1] += b * Op::value(with[i * kRow + c + 1]);
      });
    };
    const auto by_state = [&](Rows& rows, Matrix a) {
      add_state<Memory::kStateStaged>(op, walk, chunk, rows, a, memory.state);
    };
    Rows d_q, d_a, d_k;
    by_state(d_q, d_o);
    to_border(d_q, second, parts.half, memory.queries, parts.border);
    if (second) d_q.template add<false, true, kHalf>(scores, border);
    d_k.template add<false, true, D>(written, d_state_at);
    to_border(d_k, !second, parts.half + D, memory.keys, parts.border);
    if (!second) {  // turned: rows of k are tokens of the second half
      d_k.template add<true, true, kHalf>(Matrix{memory.scores + kHalf * kSide, kSide},
                                          Matrix{parts.border + kHalf * kRow, kRow});
    }
    if (walk.solves) {
      by_state(d_a, rest);
      to_border(d_a, second, parts.half, memory.erases, parts.a_border);
      if (second) d_a.template add<false, true, kHalf>(inverse, border);
      if (!second) {
        d_k.template add<true, true, kHalf>(Matrix{memory.inverse + kHalf * kSide, kSide},
                                            Matrix{parts.a_border + kHalf * kRow, kRow});
      }
    }
    __syncthreads();
    const auto lay_down = [&](Rows& rows, float* to) {
      rows.pairs([&](int i, int c, float a, float b) {
        *reinterpret_cast<float2*>(to + i * D + c) = make_float2(a, b);
      });
    };
    lay_down(d_q, memory.d_q), lay_down(d_k, memory.d_k);
    if (walk.solves) lay_down(d_a, memory.d_a);
    __syncthreads();

    const ChannelBackward<Tile> back{walk, op, memory, parts};
    if (worker) back.by_channels(first, valid);
    __syncthreads();
    back.put_rows(first, valid);
    d_state.template add<true, true, C>(d_o, Matrix{parts.q_read, kRow});
    if (walk.solves) d_state.template add<true, true, C>(rest, Matrix{parts.a_read, kRow});
    __syncthreads();
  }
  if (op.start.wanted()) {
    d_state.template put<Tile::kWhole>(op.start.write, walk.state(op.start.gradient), K);
  }
}

template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, kChannelBlocks<Tile, 3>)
    channel_backward(const __grid_constant__ StateRead<float> op, const __grid_constant__ KeyBlock keys) {
  extern __shared__ __align__(16) unsigned char dynamic[];
  StateWalk<Tile> walk(op, keys);
  ChannelBackwardMemory<Tile> memory(dynamic, true, walk.solves, walk.tied);
  memory.parts.before = walk.before, memory.parts.late = !op.decayed;
  walk.begin(memory.list);
  walk.blind_gradients(op);
  do {
    channel_backward_pass<Tile>(op, walk, memory);
  } while (walk.next_pass());
}

}  // namespace crosstalk::device
