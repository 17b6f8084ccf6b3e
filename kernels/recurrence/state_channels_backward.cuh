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
  /// True if there is room for S, and for x until the gradients of rows are made.
  static constexpr bool kStateStaged = !ChannelParts<Tile>::kTight, kReread = ChannelParts<Tile>::kTight;
  ChannelParts<Tile> parts;
  Type *d_o, *written, *rest, *state, *d_state, *x;   ///< x: that of ChannelParts, or its second copy
  Type *scores, *inverse, *leaf_reads, *leaf_erases;  ///< the last: P and N within leaves
  float *d_q, *d_a, *d_k;                             ///< [C][D], see ChannelParts
  float *write, *erase, *of_value;                    ///< the last: sums of rows
  float* through;                                     ///< sums of columns: S . D
  /// Rows of each half at a level's borders: reads by odd blocks, writes of even ones.
  float *reads[ChannelParts<Tile>::kLevels], *writes[ChannelParts<Tile>::kLevels];
  int* list;
  std::size_t bytes;

  CT_HD ChannelBackwardMemory(unsigned char* base, bool, bool solves, bool tied) {
    Carve carve{base};
    parts.take(carve, true, solves, tied);
    d_o = carve.take<Type>(kTokens);
    written = carve.take<Type>(kTokens);
    scores = carve.take<Type>(kPairs);
    leaf_reads = carve.take<Type>(C * parts.kLeaf);
    leaf_erases = carve.take<Type>(solves ? C * parts.kLeaf : 0);
    rest = solves ? carve.take<Type>(kTokens) : nullptr;
    inverse = solves ? carve.take<Type>(kPairs) : nullptr;
    write = carve.take<float>(C);
    erase = carve.take<float>(C);
    of_value = carve.take<float>(kSums);
    through = carve.take<float>(Tile::State::kDown * D);
    for (float*& sums : reads) sums = carve.take<float>(kDown * D);
    for (float*& sums : writes) sums = carve.take<float>(kDown * D);
    list = carve.take<int>(Tile::kListed ? C + 1 : 0);
    // One after the other: the states, and gradients of rows.
    const std::size_t shared = carve.used;
    d_state = carve.take<Type>(D * Tile::kRow);
    state = carve.take<Type>(kStateStaged ? D * Tile::kRow : 0);
    bytes = carve.used;
    carve.used = shared;
    for (float** rows : {&d_q, &d_k}) *rows = carve.take<float>(C * D);
    d_a = carve.take<float>(solves ? C * D : 0);
    x = parts.x;
    if (kReread && tied) parts.x = rest, x = carve.take<Type>(kTokens);  // until there is a rest
    if (carve.used > bytes) bytes = carve.used;
  }
};

/// Four neighbours to memory, as far as there are columns.
template <bool kWhole>
CT_DEVICE void put4(Write mode, float* to, float4 x, int columns) {
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

/// The same of four numbers in bf16.
CT_DEVICE void put4_narrow(Write mode, uint2* to, float4 x) {
  if (mode == Write::add) {
    const Four<float> old = four_of(*to);
    x.x += old.v[0], x.y += old.v[1], x.z += old.v[2], x.w += old.v[3];
  }
  *to = pairs_of(Four<float>{{x.x, x.y, x.z, x.w}});
}

template <class Tile>
struct ChannelBackward {
  using Op = typename Tile::Op;
  using Type = typename Tile::Type;
  using Matrix = typename Tile::Matrix;
  using Rows = typename Tile::Rows;
  using State = typename Tile::State;
  using Parts = ChannelParts<Tile>;
  using Memory = ChannelBackwardMemory<Tile>;
  static constexpr int D = Tile::D, C = Tile::C, kRow = Tile::kRow, kSide = Tile::kSide;
  static constexpr int kHalf = Parts::kHalf, kLeaf = Parts::kLeaf;
  const StateWalk<Tile>& walk;
  const StateRead<float>& op;
  const Memory& memory;
  const Parts& parts;

  CT_DEVICE static Matrix rows_of(const Type* at) { return {at, kRow}; }
  CT_DEVICE static Matrix pairs_of(const Type* at) { return {at, kSide}; }

  /// All threads load what memory has of a chunk.
  CT_DEVICE void load(int chunk, int first, int valid, State& d_state) const {
    using WholeTile = StateTile<Tile::kFormat, Tile::D, true, true, false, Tile::C, Tile::W>;
    const int V = walk.V;
    Fetched<Tile, C, D, Tile::kListed> d_o_in;
    Fetched<Tile> written_in;
    const bool has_gradient = static_cast<bool>(op.o.gradient);
    parts.load(walk, op, first, valid, [&] {
      d_o_in.fetch(walk.of_queries(has_gradient ? op.o.gradient : op.o.value, first, valid, V), V);
      written_in.fetch(walk.written(op, first, valid), V);
      if (threadIdx.x >= Tile::kThreads - 32) fill_gains(walk, op, first, valid, memory.write, memory.erase);
      d_state.pairs([&](int v, int c, float a, float b) { Op::put2(memory.d_state + v * kRow + c, a, b); });
      fetch_kept<WholeTile, Memory::kStateStaged, false>(op, walk, chunk, memory.state, memory.inverse);
    });
    d_o_in.put(memory.d_o, has_gradient ? valid : 0);
    if (!Tile::kMapped && walk.solves) {
      written_in.put(memory.written, valid);
    } else {
      written_in.put(memory.written, valid, kRow,
                     [&](int row) { return walk.gain_of_written(op, first, valid, row); });
    }
  }

  /// Asks early for what the chunk before needs.
  CT_DEVICE void prefetch(int chunk, int first, int step) const {
    if (chunk == 0) return;
    const int before = first - step, V = walk.V;
    if (!Tile::kListed) prefetch_rows<Tile>(0, walk.queries(op, before, C), C);
    prefetch_rows<Tile>(1, walk.keys(op, before, step), step);
    prefetch_rows<Tile>(2, walk.of_tokens(op.log_decay.value, before, step, walk.line, walk.first_key), step);
    prefetch_rows<Tile>(3, walk.of_writes(op.v.value, before, step, V), step);
    if (!Tile::kListed) prefetch_rows<Tile>(4, walk.of_queries(op.o.gradient, before, C, V), C);
    walk.prefetch_state(5, op, chunk - 1);
    if (walk.solves) prefetch_rows<Tile>(6, walk.of_erases(op.solved.value, before, step, V), step);
    if (walk.tied) prefetch_rows<Tile>(7, walk.looks(op, before, step), step);
  }

  /// dU and dR; the latter (its negative where something is solved) stays in `rest`. Gradients of values.
  CT_DEVICE void of_written(bool direct, int first, int valid) const {
    const int V = walk.V;
    Rows given, d_u;  // v; dU, or dR where nothing is solved
    given.template take<Tile::kWhole>(walk.of_writes(op.v.value, first, valid, V), V);
    parts.template score<false, true>(direct, memory.scores, nullptr, 0, nullptr);
    d_u.template add<false, false, D>(rows_of(parts.k_left), rows_of(memory.d_state));
    __syncthreads();
    d_u.template add<true, true, C>(pairs_of(memory.scores), rows_of(memory.d_o), d_u.first_row(), C);
    if (walk.solves) {
      d_u.pairs([&](int j, int v, float a, float b) { Op::put2(memory.rest + j * kRow + v, a, b); });
      __syncthreads();
      d_u.clear();
      d_u.template add<true, true, C>(pairs_of(memory.inverse), rows_of(memory.rest), d_u.first_row(), C);
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
  }

  /// P and N, in the places of scores and inverses.
  CT_DEVICE void of_pairs(bool direct) const {
    const auto lay_down = [&](const Type* d_rows, bool inclusive, bool late, Type* pairs, Type* leaf) {
      typename Tile::Side p;
      p.template add<false, false, D>(rows_of(d_rows), rows_of(memory.written));
      p.pairs([&](int i, int j, float a, float b) {
        const int last = inclusive ? i : i - 1;
        if (Parts::kMayBeDirect && direct)
          return Op::put2(pairs + i * kSide + j, j <= last ? a : 0, j < last ? b : 0);
        Parts::put_pair(pairs, leaf, i, j, j <= last, late, a);
        Parts::put_pair(pairs, leaf, i, j + 1, j + 1 <= last, late, b);
      });
    };
    lay_down(memory.d_o, !parts.before, parts.before, memory.scores, memory.leaf_reads);
    if (walk.solves) lay_down(memory.rest, false, parts.late, memory.inverse, memory.leaf_erases);
  }

  /// Sums over values of S . D; D as the state before the chunk has it.
  CT_DEVICE void through_state(int chunk, State& d_state) const {
    const int K = walk.K, V = walk.V;
    const auto kept = walk.state(op.states.value, walk.chunks, chunk);
    d_state.column_sums(memory.through, D, [&](int v, int c, float a, float b, float(&sums)[2]) {
      if constexpr (Memory::kStateStaged) {
        const float2 s = two_operands<Tile>(memory.state + v * kRow + c);
        sums[0] += a * s.x, sums[1] += b * s.y;
      } else {
        const float* s = kept.at + std::int64_t{v} * walk.line + c;
        if (v < V && c < K) sums[0] += a * s[0];
        if (v < V && c + 1 < K) sums[1] += b * s[1];
      }
    });
    d_state.pairs([&](int, int c, float& a, float& b) { a *= parts.all[c], b *= parts.all[c + 1]; });
  }

  /// Gradients of rows by the state at the chunk's ends, then by pairs in different leaves; they stand at the
  /// borders of leaves. Begins with the states where gradients of rows will stand.
  CT_DEVICE void of_rows(bool direct, int chunk, int first, int valid) const {
    Rows d_q, d_a, d_k;
    const auto by_state = [&](Rows& rows, const Type* a) {
      add_state<Memory::kStateStaged>(op, walk, chunk, rows, rows_of(a), memory.state);
    };
    by_state(d_q, memory.d_o);
    if (walk.solves) by_state(d_a, memory.rest);
    d_k.template add<false, true, D>(rows_of(memory.written), rows_of(memory.d_state));
    if (Parts::kMayBeDirect && direct) {
      by_pairs(d_q, d_a, d_k);
    } else {
      across<Parts::kTop>(d_q, d_a, d_k);
      if constexpr (Parts::kLevels > 1) across<0>(d_q, d_a, d_k);
    }
    __syncthreads();
    const auto lay_down = [&](Rows& rows, float* to) {
      rows.pairs([&](int i, int c, float a, float b) {
        *reinterpret_cast<float2*>(to + i * D + c) = make_float2(a, b);
      });
    };
    lay_down(d_q, memory.d_q), lay_down(d_k, memory.d_k);
    if (walk.solves) lay_down(d_a, memory.d_a);
    if (Memory::kReread && walk.tied) {
      Fetched<Tile> x_in;
      x_in.fetch(walk.looks(op, first, valid), walk.K);
      x_in.template put<typename Parts::Raw>(memory.x, valid);
    }
  }

  /// Of a direct chunk, gradients of its rows as they are in products, by the pairs too; what writes by themselves say of the
  /// decays after them.
  CT_DEVICE void by_pairs(Rows& d_q, Rows& d_a, Rows& d_k) const {
    const Type* const k_at = parts.direct_k();
    d_k.pairs([&](int, int c, float& a, float& b) { a *= parts.all[c], b *= parts.all[c + 1]; });
    d_k.column_sums(memory.writes[0], D, [&](int i, int c, float a, float b, float(&two)[2]) {
      const float2 k = two_operands<Tile>(k_at + i * kRow + c);
      two[0] += a * k.x, two[1] += b * k.y;
    });
    d_q.template add<false, true, C>(pairs_of(memory.scores), rows_of(k_at));
    d_k.template add<true, true, C>(pairs_of(memory.scores), rows_of(parts.template direct_q<true>()));
    if (!walk.solves) return;
    d_a.template add<false, true, C>(pairs_of(memory.inverse), rows_of(k_at));
    d_k.template add<true, true, C>(pairs_of(memory.inverse), rows_of(parts.template direct_a<true>()));
  }

  /// Of a direct chunk, by all: gradients of rows and of the decays, in the places of by_channels(). A pair of rows on one side
  /// of a decay stands in the gradient of either row, which are of the same rounded factors: they cancel.
  CT_DEVICE void by_channels_directly() const {
    float* const leaf_sums = memory.reads[0];  // [kLeaves][D]: those of both levels lie side by side
    static_assert(Parts::kLevels * Memory::kDown == Parts::kLeaves);
    const Type *const q_at = parts.template direct_q<true>(), *const a_at = parts.template direct_a<true>(),
                      *const k_at = parts.direct_k();
    Parts::leaves([&](int c, int from) {
      float since = parts.before_leaf(c, from), of_row[kLeaf], of_own[kLeaf];
      CT_FOR(i, kLeaf) {
        const int at = (from + i) * D + c, place = (from + i) * kRow + c;
        const float previous = since;
        since *= parts.alpha[at];
        const float d_q = memory.d_q[at], d_k = memory.d_k[at], read = d_q * Op::value(q_at[place]);
        float look = 0;
        memory.d_q[at] = d_q * (parts.before ? previous : since);
        memory.d_k[at] = __fdividef(d_k, since);
        if (walk.solves) {
          const float d_a = memory.d_a[at];
          look = d_a * Op::value(a_at[place]);
          memory.d_a[at] = d_a * (parts.late ? previous : since);
        }
        const float key = d_k * Op::value(k_at[place]);
        of_row[i] = (read + look) - key;
        of_own[i] = ((parts.before ? 0 : read) + (parts.late ? 0 : look)) - key;
      }
      float after = 0;
      CT_UNROLL(int i = kLeaf - 1; i >= 0; --i)
        parts.alpha[(from + i) * D + c] = after + of_own[i], after += of_row[i];
      leaf_sums[from / kLeaf * D + c] = after;
    });
    __syncthreads();
    Parts::leaves([&](int c, int from) {
      float after = 0;
      CT_FOR(i, State::kDown) after += memory.through[i * D + c];
      after *= parts.all[c];
      CT_FOR(half, Memory::kDown) after += memory.writes[0][half * D + c];
      CT_UNROLL(int l = 1; l < Parts::kLeaves; ++l) after += l > from / kLeaf ? leaf_sums[l * D + c] : 0;
      CT_FOR(i, kLeaf) parts.alpha[(from + i) * D + c] += after;
    });
  }

  /// Gradients of rows from the borders of a level's pairs of blocks to those of its blocks, and by the pairs
  /// across; what the rows so far say of the decays in between.
  template <int kLevel>
  CT_DEVICE void across(Rows& d_q, Rows& d_a, Rows& d_k) const {
    constexpr int kBlock = kLeaf << kLevel;
    static_assert(Rows::kRows == kHalf, "a warp's rows are those of a half");
    Type *const with = parts.across[kLevel], *const a_with = parts.a_across[kLevel];
    const auto to_border = [&](Rows& rows, bool odd, const Type* by) {
      Rows weighed;
      rows.pairs([&](int i, int c, float& a, float& b) {
        if ((i / kBlock % 2 == 1) != odd) return;
        const float* const decay = parts.decays[kLevel] + (i / kBlock ^ 1) * D + c;
        a *= decay[0], b *= decay[1];
      });
      weighed = rows;
      weighed.pairs([&](int i, int c, float& a, float& b) {
        const bool there = (i / kBlock % 2 == 1) == odd;
        const float2 x = two_operands<Tile>(by + i * kRow + c);
        a *= there ? x.x : 0, b *= there ? x.y : 0;
      });
      return weighed;
    };
    const auto sum = [&](Rows& weighed, float* sums) {
      weighed.column_sums(sums, D,
                          [](int, int, float a, float b, float(&two)[2]) { two[0] += a, two[1] += b; });
    };
    Rows of_reads = to_border(d_q, true, with), of_writes = to_border(d_k, false, with);
    if (walk.solves) {
      const Rows of_erases = to_border(d_a, true, a_with);
      of_reads.each(of_erases, [](float& x, float y) { x += y; });
    }
    sum(of_reads, memory.reads[kLevel]);
    sum(of_writes, memory.writes[kLevel]);

    // Rows of a warp meet those of the other half, or at lower levels of their own one.
    constexpr bool kHalves = kBlock == kHalf;
    const int own = Rows::first_row(), others = kHalves ? own ^ kHalf : own;
    if (!kHalves || own > 0) {
      d_q.template add<false, true, kHalf>(pairs_of(memory.scores + others), rows_of(with + others * kRow));
      if (walk.solves) {
        d_a.template add<false, true, kHalf>(pairs_of(memory.inverse + others),
                                             rows_of(with + others * kRow));
      }
    }
    if (!kHalves || own == 0) {
      const int at = others * kSide;
      d_k.template add<true, true, kHalf>(pairs_of(memory.scores + at), rows_of(with + others * kRow));
      if (walk.solves)
        d_k.template add<true, true, kHalf>(pairs_of(memory.inverse + at), rows_of(a_with + others * kRow));
    }
  }

  /// All threads make gradients of rows, in the places of those at borders, and of the decays, in that of the decays.
  /// Reads times their decays take the places of keys.
  CT_DEVICE void by_channels() const {
    Parts::leaves([&](int c, int from) {
      float a[kLeaf], d_k[kLeaf], d_g[kLeaf], outer = 0;
      CT_FOR(i, kLeaf) a[i] = parts.alpha[(from + i) * D + c];
      CT_FOR(i, State::kDown) outer += memory.through[i * D + c];
      outer *= parts.all[c];
      CT_FOR(level, Parts::kLevels) {
        const bool odd = from / (kLeaf << level) % 2 == 1;
        const int half = level == Parts::kTop ? !odd : from / kHalf;
        outer += (odd ? memory.writes[level] : memory.reads[level])[half * D + c];
      }
      parts.back_keys(c, from, a, memory.d_k, outer, d_k, d_g);
#pragma unroll 1
      for (int reads = 0; reads < (walk.solves ? 2 : 1); ++reads) {  // q; a
        const bool of_q = reads == 0;
        parts.back_rows(
            c, from, a,
            [&](int i) {
              return of_q ? Parts::Raw::value(parts.q[i * kRow + c])
                          : memory.erase[i] * Parts::Raw::value(memory.x[i * kRow + c]);
            },
            of_q ? memory.d_q : memory.d_a, of_q ? memory.leaf_reads : memory.leaf_erases,
            of_q ? parts.before : parts.late, of_q ? parts.q_read : parts.a_read, d_k, d_g);
      }
      CT_FOR(i, kLeaf) {
        const int at = (from + i) * D + c;
        memory.d_k[at] = d_k[i], parts.alpha[at] = d_g[i];
      }
    });
  }

  /// All threads write gradients to memory.
  CT_DEVICE void put_rows(int first, int valid) const {
    const int K = walk.K, line = walk.line, from = walk.first_key;
    const auto d_queries = walk.of_queries(op.q.gradient, first, valid, line, from);
    const auto d_keys = walk.of_writes(op.k.gradient, first, valid, line, from);
    const auto d_decays = walk.of_tokens(op.log_decay.gradient, first, valid, line, from);
    const auto d_looks = walk.of_erases(op.erase_read.gradient, first, valid, line, from);
    const auto d_erased = walk.of_erases(op.erase_write.gradient, first, valid, line, from);
    const auto four = [](const float* p) { return *reinterpret_cast<const float4*>(p); };
    CT_ROLLED(int n = threadIdx.x; n < C * D / 4; n += Tile::kThreads) {
      const int row = n / (D / 4), c = n % (D / 4) * 4, at = row * D + c;
      const auto give = [&](const In<float>& field, Write mode, const auto& rows, float4 x) {
        float* const to = rows(row);
        if (!field.wanted() || !to) return;
        if constexpr (kMayBeNarrow<Tile, std::decay_t<decltype(rows)>>) {
          if (rows.narrow) return put4_narrow(mode, narrow_at<uint2>(to, c), x);
        }
        put4<Tile::kWhole>(mode, to + c, x, K - c);
      };
      float4 d_k = four(memory.d_k + at), d_x = {};
      float d_erase = 0;
      if (walk.solves) {
        const float e = memory.erase[row];
        d_x = four(memory.d_a + at);
        const float values[4] = {d_x.x, d_x.y, d_x.z, d_x.w};
        CT_FOR(i, 4) d_erase += values[i] * Parts::Raw::value(memory.x[row * kRow + c + i]);
        CT_UNROLL(int offset = D / 8; offset > 0; offset /= 2)
          d_erase += __shfl_xor_sync(kFullWarp, d_erase, offset);
        d_x.x *= e, d_x.y *= e, d_x.z *= e, d_x.w *= e;
        if (!walk.tied) d_k.x += d_x.x, d_k.y += d_x.y, d_k.z += d_x.z, d_k.w += d_x.w;
      }
      give(op.q, op.q.write, d_queries, four(memory.d_q + at));
      give(op.k, walk.own(op.k.write), d_keys, d_k);
      if (walk.shift) give(op.erase_write, walk.own(op.erase_write.write), d_erased, d_k);
      give(op.log_decay, walk.own(op.log_decay.write), d_decays, four(parts.alpha + at));
      if (walk.tied) give(op.erase_read, walk.own(op.erase_read.write), d_looks, d_x);
      if (c > 0 || row >= valid) continue;
      put_gains(op, walk, first, valid, row, memory.of_value, d_erase);
    }
  }
};

template <class Tile>
CT_DEVICE void channel_backward_pass(const StateRead<float>& op, const StateWalk<Tile>& walk,
                                     const ChannelBackwardMemory<Tile>& memory) {
  const ChannelBackward<Tile> back{walk, op, memory, memory.parts};
  typename Tile::State d_state;
  if (op.end.gradient && walk.pass == 0)
    d_state.template take<Tile::kWhole>(walk.state(op.end.gradient), walk.K);
  for (int chunk = walk.chunks - 1; chunk >= 0; --chunk) {
    const int step = Tile::kListed ? walk.step : Tile::C;
    const int first = chunk * step, valid = min(step, walk.T - first);
    if constexpr (Tile::kListed) {
      walk.fill_queries(op, first, valid);
      __syncthreads();
    }
    back.load(chunk, first, valid, d_state);
    back.prefetch(chunk, first, step);
    __syncthreads();
    const bool direct = memory.parts.template age<true>(memory.erase);
    __syncthreads();
    back.of_written(direct, first, valid);
    __syncthreads();
    back.of_pairs(direct);
    back.through_state(chunk, d_state);
    __syncthreads();
    back.of_rows(direct, chunk, first, valid);
    __syncthreads();
    const auto* q_read = memory.parts.q_read;
    const auto* a_read = memory.parts.a_read;
    if (ChannelParts<Tile>::kMayBeDirect && direct) {
      back.by_channels_directly();
      q_read = memory.parts.template direct_q<true>(), a_read = memory.parts.template direct_a<true>();
    } else {
      back.by_channels();
    }
    __syncthreads();
    back.put_rows(first, valid);
    d_state.template add<true, true, Tile::C>(back.rows_of(memory.d_o), back.rows_of(q_read));
    if (walk.solves)
      d_state.template add<true, true, Tile::C>(back.rows_of(memory.rest), back.rows_of(a_read));
    __syncthreads();
  }
  if (op.start.wanted())
    d_state.template put<Tile::kWhole>(op.start.write, walk.state(op.start.gradient), walk.K);
}

template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, kChannelBlocks<Tile, 3>)
    channel_backward(const __grid_constant__ StateRead<float> op, const __grid_constant__ KeyBlock keys) {
  wait_for_earlier();
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
