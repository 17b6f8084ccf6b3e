// Parts that both directions of the chunkwise state share where every key channel decays by itself.
//
// A score is sum_c x_ic k_jc e^{G_ic - G_jc}: the decays cannot be taken out of the sum, and e^{-G}
// overflows. A chunk of 32 tokens is therefore halved, and its halves once more (levels). Between two such
// blocks the product splits at their border into two factors of at most 1 each, and is a product of matrices;
// within a leaf, the smallest block, the decay of each pair is a running product over the tokens between. No
// exponent is ever positive, no sum of decays is a difference.
//
// Of operands in bf16, a chunk that decays little is direct: q e^G, a e^G and k e^-G of the whole chunk make scores, and
// gradients, by one product each. Numbers of bf16 have as many digits at 1e29 as at 1.
//
// Work goes by two layouts: products of matrices by fragments, and what runs along tokens by all threads, a
// channel of a leaf each, with the leaf's decays in registers. Loops there stay loops where they can:
// straight code does not fit the cache of instructions, and fetching it took two thirds of the time.
// a = e x.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/recurrence/state_chunk_walk.cuh"

namespace crosstalk::device {

/// Numbers of a chunk's tokens per channel, in shared memory. Level l has blocks of kLeaf << l tokens.
template <class Tile>
struct ChannelParts {
  using Type = typename Tile::Type;
  using Op = typename Tile::Op;
  using Matrix = typename Tile::Matrix;
  using Raw =
      NumberFormat<Tile::kFormat == Precision::bf16 ? Precision::bf16 : Precision::full>;  ///< not rounded
  static constexpr int C = Tile::C, D = Tile::D, kHalf = C / 2, kRow = Tile::kRow, kSide = Tile::kSide;
  static constexpr int kThreads = Tile::kThreads;
  /// Shared memory is short: some things take the place of others, and there is one level.
  static constexpr bool kTight = D == 128 && sizeof(Type) == 4;
  static constexpr int kLevels = kTight ? 1 : 2, kTop = kLevels - 1, kLeaf = kHalf >> kTop,
                       kLeaves = C / kLeaf;
  static_assert(kHalf == 16 && kLeaves * D % kThreads == 0);
  static constexpr bool kMayBeDirect = Tile::kFormat == Precision::bf16;
  static constexpr float kMild =
      4e-8f;  ///< what a leaf of a direct chunk leaves of a channel at least: of a chunk 1e-30
  bool before, late, tied, solves;  ///< before, late: queries, erases do not see their own token's decay
  Type *q, *k, *x;                  ///< as they are
  Type *q_read, *a_read;            ///< times the decay since the chunk's start
  Type* k_left;                     ///< times the decay until its end
  /// Rows of a level: odd blocks, q (a) times the decay since the block's start; even ones, k until the block's end.
  Type *across[kLevels], *a_across[kLevels];
  float* alpha;            ///< [C][D] e^g
  float* decays[kLevels];  ///< [C / block][D] of the level's blocks
  float* all;              ///< [D] of the chunk

  CT_HD void take(Carve& carve, bool backward, bool solves_, bool tied_) {
    constexpr int kTokens = C * kRow;
    solves = solves_, tied = tied_;
    q = carve.take<Type>(kTokens);
    k = carve.take<Type>(kTokens);
    k_left = carve.take<Type>(kTokens);
    for (int level = 0; level < kLevels; ++level) {
      across[level] = carve.take<Type>(kTokens);
      decays[level] = carve.take<float>((kLeaves >> level) * D);
      // The first half is no odd block of the top level.
      const int unused = level == kTop ? kHalf * kRow : 0;
      a_across[level] = solves ? carve.take<Type>(kTokens - unused) - unused : nullptr;
    }
    if (backward) {  // reads take these places when they are no longer needed
      x = !tied ? k : kTight ? nullptr : carve.take<Type>(kTokens);
      q_read = k_left, a_read = across[kTop];
    } else {
      q_read = carve.take<Type>(kTokens);
      a_read = solves ? carve.take<Type>(kTokens) : nullptr;
      x = !tied ? k : kTight ? k_left : carve.take<Type>(kTokens);
    }
    alpha = carve.take<float>(C * D);
    all = carve.take<float>(D);
  }

  /// f(channel, first token) of this thread's leaves.
  CT_DEVICE static void leaves(auto&& f) {
    CT_ROLLED(int at = threadIdx.x; at < kLeaves * D; at += kThreads) {
      f(at % D, at / D * kLeaf);
      if (kLeaves * D == kThreads) break;
    }
  }

  /// q, k, x as they are and the decays, of the tokens from `first` on. `meanwhile` fetches what else is on
  /// its way while these are waited for.
  CT_DEVICE void load(const StateWalk<Tile>& walk, const StateRead<float>& op, int first, int valid,
                      auto&& meanwhile) const {
    const int K = walk.K;
    Fetched<Tile, C, D, Tile::kListed> q_in;
    Fetched<Tile> k_in, g_in, x_in;
    q_in.fetch(walk.queries(op, first, valid), K);
    k_in.fetch(walk.keys(op, first, valid), K);
    g_in.fetch(walk.of_tokens(op.log_decay.value, first, valid, walk.line, walk.first_key), K);
    if (tied) x_in.fetch(walk.looks(op, first, valid), K);
    meanwhile();
    q_in.template put<Raw>(q, valid);
    k_in.template put<Raw>(k, valid);
    g_in.each([&](int row, int column, float g) {
      const float a = Tile::kFormat == Precision::bf16 ? __expf(g) : expf(g);
      alpha[row * D + column] = row < valid ? a : 1;
    });
    if (tied) x_in.template put<Raw>(x, valid);
  }

  /// Rows of a direct chunk: q and a times e^G, k times e^-G. They take the places of levels.
  template <bool kBackward>
  CT_DEVICE Type* direct_q() const {
    return kBackward ? across[0] : q_read;
  }
  template <bool kBackward>
  CT_DEVICE Type* direct_a() const {
    return kBackward ? a_across[0] : a_read;
  }
  CT_DEVICE Type* direct_k() const { return across[kTop]; }
  /// e^G of the token before `from`.
  CT_DEVICE float before_leaf(int c, int from) const {
    float decay = 1;
    CT_FOR(l, kLeaves - 1) decay *= l < from / kLeaf ? decays[0][l * D + c] : 1;
    return decay;
  }

  /// By all, from what load() laid down: rows times their decays. Whether the chunk is direct.
  template <bool kBackward>
  CT_DEVICE bool age(const float* erase) const {
    if constexpr (kMayBeDirect) {
      bool mild = true;
      leaves([&](int c, int from) {
        float decay = 1;
        CT_FOR(i, kLeaf) decay *= alpha[(from + i) * D + c];
        decays[0][from / kLeaf * D + c] = decay;
        mild = mild && decay >= kMild;
      });
      if (__syncthreads_and(mild)) {
        age_directly<kBackward>(erase);
        return true;
      }
    }
    age_by_leaves<kBackward>(erase);
    return false;
  }
  template <bool kBackward>
  CT_DEVICE void age_directly(const float* erase) const {
    leaves([&](int c, int from) {
      float since = before_leaf(c, from), end = since;
      CT_FOR(l, kLeaves) end *= l >= from / kLeaf ? decays[0][l * D + c] : 1;
      if (from == 0) all[c] = end;
#pragma unroll 4
      for (int i = from; i < from + kLeaf; ++i) {
        const int at = i * kRow + c;
        const float previous = since;
        since *= alpha[i * D + c];
        const float back = __fdividef(Raw::value(k[at]), since);
        Op::put1(direct_q<kBackward>() + at, Raw::value(q[at]) * (before ? previous : since));
        if (solves)
          Op::put1(direct_a<kBackward>() + at, erase[i] * Raw::value(x[at]) * (late ? previous : since));
        Op::put1(direct_k() + at, back);
        Op::put1(k_left + at, back * end);
      }
    });
  }
  template <bool kBackward>
  CT_DEVICE void age_by_leaves(const float* erase) const {
    leaves([&](int c, int from) {
      const int leaf = from / kLeaf;
      const bool odd = leaf & 1, second = from >= kHalf;
      float own = 1, beside = 1;     // decays of this leaf and of its neighbour,
      float earlier = 1, later = 1;  // of all others
      CT_FOR(l, kLeaves) {
        float decay = 1;
        CT_FOR(i, kLeaf) decay *= alpha[(l * kLeaf + i) * D + c];
        if (l == leaf) own = decay;
        if (l == (leaf ^ 1)) beside = decay;
        if (l < leaf) earlier *= decay;
        if (l > leaf) later *= decay;
      }
      decays[0][leaf * D + c] = own;
      if (kLevels > 1 && !odd) decays[kTop][leaf / 2 * D + c] = own * beside;
      if (leaf == 0) all[c] = own * later;

      float since = 1, until = 1;
#pragma unroll 4
      for (int i = from; i < from + kLeaf; ++i) {
        const int at = i * kRow + c;
        const float previous = since;
        since *= alpha[i * D + c];
        const auto put_read = [&](Type* const(&to)[kLevels], Type* read, float x_i) {
          if (odd) Op::put1(to[0] + at, x_i);
          if (kLevels > 1 && second) Op::put1(to[kTop] + at, odd ? x_i * beside : x_i);
          if (!kBackward) Op::put1(read + at, x_i * earlier);
        };
        put_read(across, q_read, Raw::value(q[at]) * (before ? previous : since));
        if (!solves) continue;
        put_read(a_across, a_read, erase[i] * Raw::value(x[at]) * (late ? previous : since));
        if (kLevels > 1 && !odd) Op::put1(a_across[0] + at, 0);  // meets zeros in products
      }
#pragma unroll 4
      for (int i = from + kLeaf - 1; i >= from; --i) {
        const int at = i * kRow + c;
        const float k_i = Raw::value(k[at]) * until;
        if (!odd) Op::put1(across[0] + at, k_i);
        if (kLevels > 1 && !second) Op::put1(across[kTop] + at, odd ? k_i : k_i * beside);
        if (kBackward || !kTight || !tied) Op::put1(k_left + at, k_i * later);
        until *= alpha[i * D + c];
      }
    });
  }

  /// By all, where x stands in its place until the scores are known: k_left.
  CT_DEVICE void leave() const {
    static_assert(!kTight || kLeaf == kHalf);
    leaves([&](int c, int from) {
      float decay = from == 0 ? decays[kTop][D + c] : 1;
#pragma unroll 4
      for (int i = from + kLeaf - 1; i >= from; --i) {
        Op::put1(k_left + i * kRow + c, Raw::value(k[i * kRow + c]) * decay);
        decay *= alpha[i * D + c];
      }
    });
  }

  /// Scores of pairs, by all warps: those of the reads, and (kBoth, forward) A.
  template <bool kBoth, bool kBackward = false>
  CT_DEVICE void score(bool direct, Type* scores, float* matrix, int stride, const float* erase) const {
    if (kMayBeDirect && direct) {
      const Matrix keys{direct_k(), kRow};
      typename Tile::Side s;
      s.template add<false, false, D>(Matrix{direct_q<kBackward>(), kRow}, keys);
      s.pairs([&](int i, int j, float a, float b) {
        const int last = before ? i - 1 : i;
        Op::put2(scores + i * kSide + j, j <= last ? a : 0, j < last ? b : 0);
      });
      if constexpr (kBoth) {
        typename Tile::Side n;
        n.template add<false, false, D>(Matrix{direct_a<kBackward>(), kRow}, keys);
        n.pairs([&](int i, int j, float a, float b) {
          matrix[i * stride + j] = j < i ? a : 0, matrix[i * stride + j + 1] = j + 1 < i ? b : 0;
        });
      }
      return;
    }
    score_blocks<kBoth>(scores, matrix, stride);
    // Columns j of both halves at a time, half a warp's lanes over channels each: sum n is of row j + n, or of
    // the next one where rows do not see their own decay; beyond the leaf, of nothing.
    constexpr int kSums = (kBoth ? 2 : 1) * kLeaf,
                  kPack = D < 64 ? 2 : 4;  // channels that a lane loads at once
    constexpr int kEach = kSums < 16 ? 1 : kSums / 16, kShare = kSums < 16 ? 16 / kSums : 1;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 16, of_q = before, of_x = late;
    CT_ROLLED(int column = __shfl_sync(kFullWarp, warp, 0); column < kHalf; column += kThreads / 32) {
      const int rows = kLeaf - column % kLeaf, j = column + CT_THREAD / 16 % 2 * kHalf;
      float sums[kSums] = {};
      CT_ROLLED(int c = lane * kPack; c < D; c += 16 * kPack) {
        float aged[kPack], decay[kPack], of[kPack];
        load_row(k + j * kRow + c, aged);
        const Type *q_at = q + (j + of_q) * kRow + c, *x_at = x + (j + of_x) * kRow + c;
        CT_FOR(n, kLeaf) {
          if (n % 4 == 0 && n >= rows) break;  // a few rows too many, so that loads need not wait
          const auto add = [&](const Type* from, float& sum) {
            load_row(from + n * kRow, of);
            CT_FOR(i, kPack) sum += of[i] * aged[i];
          };
          if (n > 0) {
            load_row(alpha + (j + n) * D + c, decay);
            CT_FOR(i, kPack) aged[i] *= decay[i];
          }
          add(q_at, sums[n]);
          if (kBoth) add(x_at, sums[kSums - kLeaf + n]);
        }
      }
      scatter_sum<kSums, 8>(sums);
      if (lane % kShare != 0) continue;
      CT_FOR(i, kEach) {
        const int at = lane / kShare * kEach + i, n = at % kLeaf;
        const bool of_reads = at < kLeaf;
        const int shift = of_reads ? of_q : of_x, row = j + rows - kLeaf + (kLeaf - rows + n + shift) % kLeaf;
        const bool seen = n + shift < rows;
        if (of_reads)
          Op::put1(scores + row * kSide + j, seen ? sums[i] : 0);
        else
          matrix[row * stride + j] = seen && n + shift > 0 ? erase[row] * sums[i] : 0;
      }
    }
  }

  /// Those of pairs in different leaves.
  template <bool kBoth>
  CT_DEVICE void score_blocks(Type* scores, float* matrix, int stride) const {
    using Side = typename Tile::Side;
    const int row = Side::first_row() / kHalf, column = Side::first_column() / kHalf;
    if (kLevels == 1 && row == column) return;
    const bool top = row != column;
    const Matrix keys{top ? across[kTop] : across[0], kRow};
    const auto laid = [&](const Matrix& rows, auto&& put) {
      Side s;
      if (row >= column) s.template add<false, false, D>(rows, keys);
      s.pairs([&](int i, int j, float a, float b) {
        if (i / kLeaf == j / kLeaf) return;
        const bool seen = i > j;
        put(i, j, seen ? a : 0, seen ? b : 0);
      });
    };
    laid(keys, [&](int i, int j, float a, float b) { Op::put2(scores + i * kSide + j, a, b); });
    if constexpr (kBoth) {
      laid(Matrix{top ? a_across[kTop] : a_across[0], kRow}, [&](int i, int j, float a, float b) {
        matrix[i * stride + j] = a, matrix[i * stride + j + 1] = b;
      });
    }
  }

  // Backward, by all. E: gradients of rows at their leaf's border, from all but the pairs within the leaf: of
  // reads by decays since the leaf's start, of keys by decays until its end; become those of the rows. d_g:
  // the gradient of the leaf's log decays, summed up.

  /// outer: what every decay of the leaf passes on, reads behind it and writes before it among others.
  CT_DEVICE void back_keys(int c, int from, const float (&a)[kLeaf], const float* E, float outer,
                           float (&d_k)[kLeaf], float (&d_g)[kLeaf]) const {
    float until = 1;
    CT_UNROLL(int i = kLeaf - 1; i >= 0; --i) {
      d_k[i] = E[(from + i) * D + c] * until;
      until *= a[i];
    }
    CT_FOR(i, kLeaf) {
      d_g[i] = outer;
      outer += d_k[i] * Raw::value(k[(from + i) * kRow + c]);
    }
  }

  /// The gradients of the scores before their decays, as products want them: 0 within a leaf. Those stand
  /// apart, turned, as back_rows() wants them, where rows that do not see their own decay (late_) stand one
  /// earlier, the first of them last.
  CT_DEVICE static void put_pair(Type* pairs, Type* leaf, int i, int j, bool seen, bool late_, float x) {
    const bool within = i / kLeaf == j / kLeaf;
    Op::put1(pairs + i * kSide + j, seen && !within ? x : 0);
    if (within) Op::put1(leaf + j * kLeaf + (i + kLeaf - late_) % kLeaf, seen ? x : 0);
  }

  /// Of rows x (q or a), whose pairs' gradients add to that of the keys too. A row that does not see its own
  /// decay (late_) is like one a token earlier that does; the leaf's first one then sees no decay at all.
  /// x becomes what it is times the decay since the chunk's start.
  CT_DEVICE void back_rows(int c, int from, const float (&a)[kLeaf], auto&& x_at, float* E, const Type* leaf,
                           bool late_, Type* read, float (&d_k)[kLeaf], float (&d_g)[kLeaf]) const {
    const int to = from + late_;
    float since = 1, x[kLeaf], d_x[kLeaf], h = 0, start = 1;
    CT_ROLLED(int l = 0; l < from / kLeaf; ++l) start *= decays[0][l * D + c];
    if (late_) Op::put1(read + from * kRow + c, x_at(from) * start);
    CT_FOR(n, kLeaf) {
      const bool there = n + 1 < kLeaf || !late_;
      since *= a[n];
      x[n] = there ? x_at(to + n) : 0;
      d_x[n] = there ? since * E[(to + n) * D + c] : 0;
      if (there) Op::put1(read + (to + n) * kRow + c, x[n] * since * start);
    }
    CT_UNROLL(int n = kLeaf - 1; n >= 0; --n) d_g[n] += h += d_x[n] * x[n];
    CT_FOR(j, kLeaf) {
      float aged[kLeaf], p[kLeaf];
      load_row(leaf + (from + j) * kLeaf, p);
      aged[j] = Raw::value(k[(from + j) * kRow + c]);
      CT_UNROLL(int n = j + 1; n < kLeaf; ++n) aged[n] = aged[n - 1] * a[n];
      h = 0;  // of row n: what keys at n would get from the rows from n on
      CT_UNROLL(int n = kLeaf - 1; n >= j; --n) {
        d_x[n] += p[n] * aged[n];
        h = p[n] * x[n] + (n + 1 < kLeaf ? a[n + 1 < kLeaf ? n + 1 : n] * h : 0);
        if (n > j) d_g[n] += aged[n] * h;
      }
      d_k[j] += h;
    }
    CT_FOR(n, kLeaf)
      if (n + 1 < kLeaf || !late_) E[(to + n) * D + c] = d_x[n];
  }

  /// N neighbours, whose alignment is that of all of them (at most of 16 bytes).
  template <class T, int N>
  CT_DEVICE static void load_row(const T* from, float (&x)[N]) {
    constexpr int kBytes = N * static_cast<int>(sizeof(T)), kWords = kBytes >= 16  ? 4
                                                                     : kBytes >= 4 ? kBytes / 4
                                                                                   : 1;
    if constexpr (kBytes < 4) {
      x[0] = Raw::value(from[0]);
    } else {
      struct alignas(4 * kWords) Words {
        unsigned at[kWords];
      };
      CT_UNROLL(int i = 0; i < kBytes / 4; i += kWords) {
        const Words words = reinterpret_cast<const Words*>(from)[i / kWords];
        CT_FOR(n, kWords) {
          if constexpr (sizeof(T) == 4) {
            x[i + n] = __uint_as_float(words.at[n]);
          } else {
            x[2 * (i + n)] = __uint_as_float(words.at[n] << 16);
            x[2 * (i + n) + 1] = __uint_as_float(words.at[n] & 0xffff0000);
          }
        }
      }
    }
  }
};

}  // namespace crosstalk::device
