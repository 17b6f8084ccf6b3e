// AttendMix by one block a sequence and head: up to 256 queries and tokens in heads of up to 128, operands in
// bf16, no bias.
//
// The rows that a pass sums over all lie in shared memory, and warps walk over them without a barrier: keys and
// values for what is read and for d_x, then queries and d_o for d_k and d_v. A warp has 16 rows of the other
// side at a time, first from the one end, then from the other: under a causal mask all have the same to do.
// Where there are fewer queries than warps, warps share them and take keys in turns; their sums are then
// added in the order of the warps.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/attention/attend_mix_tiles.cuh"
#include "kernels/base/device/async_copy.cuh"

namespace crosstalk::device {

constexpr int kWholeStep = WholeHead::kStep, kOwnRows = WholeHead::kOwnRows;

/// The tiles and warps of a WholeHead.
template <class Tile_, int kWarps_>
struct Whole {
  using Tile = Tile_;
  static_assert(Tile::bytes(1) == (Tile::kD + WholeHead::kPadding) * 2 &&
                sizeof(SeenBy) == WholeHead::kQueryBytes && sizeof(float2) == WholeHead::kTopBytes);
  static constexpr int kWarps = kWarps_, kThreads = 32 * kWarps;
  /// Blocks that a multiprocessor shall hold, by which the compiler gives registers.
  static constexpr int kReadBlocks = Tile::kD > 64 ? 1 : 16 / kWarps,
                       kGradientBlocks = Tile::kD > 64 || kWarps > 4 ? 1 : 3;
  /// Which of the blocks of 16 rows this warp has in a turn; not one of them: none.
  static __device__ int turn_of(int warp, int turn) {
    return turn % 2 == 0 ? turn * kWarps + warp : (turn + 1) * kWarps - 1 - warp;
  }
};

/// Neighbours that a thread moves at once. Of row n of N and C numbers a row; outside of these, any others.
template <class Number>
constexpr int kMoved = sizeof(Number) == sizeof(float) ? 4 : 8;
CT_DEVICE Four<float> whole_fetch(const HeadRows<float>& rows, int n, int N, int c, int C) {
  return *reinterpret_cast<const Four<float>*>(rows(min(n, N - 1)) + (c < C ? c : 0));
}
CT_DEVICE uint4 whole_fetch(const HeadRows<std::uint16_t>& rows, int n, int N, int c, int C) {
  return *reinterpret_cast<const uint4*>(rows(min(n, N - 1)) + (c < C ? c : 0));
}
CT_DEVICE void whole_keep(std::uint16_t* to, const Four<float>& x, bool inside) {
  *reinterpret_cast<uint2*>(to) =
      inside ? make_uint2(bf16_pair(x.v[0], x.v[1]), bf16_pair(x.v[2], x.v[3])) : make_uint2(0, 0);
}
CT_DEVICE void whole_keep(std::uint16_t* to, const uint4& x, bool inside) {
  *reinterpret_cast<uint4*>(to) = inside ? x : make_uint4(0, 0, 0, 0);
}
CT_DEVICE float whole_dot(const Four<float>& x, const Four<float>& y) {
  return (x.v[0] * y.v[0] + x.v[1] * y.v[1]) + (x.v[2] * y.v[2] + x.v[3] * y.v[3]);
}
CT_DEVICE float whole_dot(const uint4& x, const uint4& y) {
  const auto pair = [](unsigned a, unsigned b) {
    return __uint_as_float(a << 16) * __uint_as_float(b << 16) +
           __uint_as_float(a & 0xffff0000) * __uint_as_float(b & 0xffff0000);
  };
  return (pair(x.x, y.x) + pair(x.y, y.y)) + (pair(x.z, y.z) + pair(x.w, y.w));
}

/// take_rows() of floats, at once.
template <int kTeam, class Tile>
CT_DEVICE void take_rows(int thread, const Tile& tile, const HeadRows<float>& rows, int n0, int count, int N,
                         int C) {
  constexpr int kStride = kTeam / Tile::kFours, kBatch = kTeam > 32 ? 16 : kOwnRows / kStride;
  const int c = thread % Tile::kFours * 4;
  CT_ROLLED(int n = thread / Tile::kFours; n < count; n += kBatch * kStride) {
    Four<float> x[kBatch];
    CT_FOR(i, kBatch) x[i] = whole_fetch(rows, n0 + n + i * kStride, N, c, C);
    CT_FOR(i, kBatch) {
      const int row = n + i * kStride;
      if (row < count) whole_keep(tile.place(row, c), x[i], n0 + row < N && c < C);
    }
  }
}
/// The same of queries and d_o. With `seen`: also the tokens that each query sees, its L and its D.
template <int kTeam, class Number, class Tile>
CT_DEVICE void take_queries(const AttendMix<float>& op, int r, int bh, int thread, const Tile& xs,
                            const Tile& us, SeenBy* seen, int n0, int count) {
  constexpr int kMany = kMoved<Number>, kAcross = Tile::kD / kMany, kStride = kTeam / kAcross;
  constexpr int kBatch = Tile::kD > 64 ? 8 : 4;
  const int c = thread % kAcross * kMany, Q = op.Q(), K = op.K(), V = op.V();
  const auto o = rows_of<Number>(op, op.o.value, r, bh), d_o = rows_of<Number>(op, op.o.gradient, r, bh);
  take_rows<kTeam>(thread, xs, rows_of<Number>(op, op.x.value, r, bh), n0, count, Q, K);
  if (!seen) return take_rows<kTeam>(thread, us, d_o, n0, count, Q, V);
  using Moved = decltype(whole_fetch(o, 0, 0, 0, 0));
  CT_ROLLED(int row0 = thread / kAcross; row0 < count; row0 += kBatch * kStride) {
    Moved a[kBatch], b[kBatch];
    CT_FOR(i, kBatch) {
      const int n = n0 + row0 + i * kStride;
      a[i] = whole_fetch(d_o, n, Q, c, V), b[i] = whole_fetch(o, n, Q, c, V);
    }
    CT_FOR(i, kBatch) {
      const int row = row0 + i * kStride, n = n0 + row;
      float along = op.normalised && c < V ? whole_dot(a[i], b[i]) : 0;
      CT_UNROLL(int offset = kAcross / 2; offset > 0; offset /= 2)
        along += __shfl_xor_sync(kFullWarp, along, offset);
      if (row >= count) continue;
      whole_keep(us.place(row, c), a[i], n < Q && c < V);
      if (c > 0) continue;
      SeenBy query = {0, 0, 0, along};
      if (n < Q) {
        const std::int64_t at = std::int64_t{bh} * Q + n;
        const SeenTokens tokens = seen_tokens(op, r, bh / op.H(), n);
        query.first = tokens.first, query.last = tokens.last, query.row = op.row.value.at(r)[at];
        op.d_rows.value.at(r)[2 * at] = along;
      }
      seen[n] = query;
    }
  }
}

CT_DEVICE void put_whole(Write mode, float* to, const float (&v)[4]) {
  CT_FOR(e, 4) put(mode, to + e, v[e]);
}
CT_DEVICE void put_whole(Write, std::uint16_t* to, const float (&v)[4]) {
  *reinterpret_cast<uint2*>(to) = make_uint2(bf16_pair(v[0], v[1]), bf16_pair(v[2], v[3]));
}

/// Puts the sums of a warp into `shared`, [parts][rows][D], from row n0 on.
template <int D>
CT_DEVICE void share_sums(float* shared, int n0, const float (&sums)[D / 8][4]) {
  const int lane = threadIdx.x % 32;
  CT_FOR2(n, D / 8, half, 2)
    *reinterpret_cast<float2*>(shared + (n0 + lane / 4 + 8 * half) * D + n * 8 + 2 * (lane % 4)) =
        make_float2(sums[n][2 * half], sums[n][2 * half + 1]);
}

/// Adds the sums of warps that share queries, in their order; stores values read, and L.
template <class Cut, class Number>
CT_DEVICE void read_shared(const AttendMix<float>& op, int r, int bh, const WholeHead& cut,
                           const float2* tops, const float* shared, const HeadRows<Number>& o) {
  using Tile = typename Cut::Tile;
  constexpr int D = Tile::kD, kThreads = Cut::kThreads;
  const int thread = threadIdx.x, parts = cut.parts, rows = cut.blocks * kOwnRows;
  const int c = thread % Tile::kFours * 4, Q = op.Q(), V = op.V();
  const bool normalised = op.normalised;
  for (int n = thread / Tile::kFours; n < Q; n += kThreads / Tile::kFours) {
    float top = -INFINITY, sum = 0, v[4] = {};
    for (int p = 0; p < parts; ++p) top = fmaxf(top, tops[p * rows + n].x);
    for (int p = 0; p < parts; ++p) {
      const float2 of = tops[p * rows + n];
      const float factor = !normalised ? 1 : of.x == -INFINITY ? 0 : power_of_two(of.x - top);
      const Four<float> some = *reinterpret_cast<const Four<float>*>(shared + (p * rows + n) * D + c);
      sum += factor * of.y;
      CT_FOR(e, 4) v[e] += factor * some.v[e];
    }
    if (c == 0) keep_row(op, r, bh, n, top, sum);
    const float factor = !normalised ? 1 : sum > 0 ? 1 / sum : 0;
    CT_FOR(e, 4) v[e] *= factor;
    if (c < V) put_whole(Write::overwrite, o(n) + c, v);
  }
}

/// Reads the values of a head, and keeps L.
template <class Cut, class Number>
__global__ void __launch_bounds__(Cut::kThreads, Cut::kReadBlocks)
    whole_read(const __grid_constant__ AttendMix<float> op, const __grid_constant__ WholeHead cut) {
  using Tile = typename Cut::Tile;
  constexpr int D = Tile::kD, kWarps = Cut::kWarps, kThreads = Cut::kThreads, kCount = kWholeStep / 8;
  extern __shared__ __align__(16) unsigned char memory[];
  const int T = op.T(), Q = op.Q(), K = op.K(), V = op.V(), bh = blockIdx.x, r = blockIdx.y;
  const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
  auto* const tops = reinterpret_cast<float2*>(memory);  // [parts][rows]: largest, sum
  const Tile ks{reinterpret_cast<typename Tile::Number*>(tops + kWarps * kOwnRows)},
      vs{ks.numbers + cut.tokens * Tile::kStep},
      xs{vs.numbers + (cut.tokens + warp * kOwnRows) * Tile::kStep};
  const auto x = rows_of<Number>(op, op.x.value, r, bh), o = rows_of<Number>(op, op.o.value, r, bh);
  const int parts = cut.parts, part = parts > 1 ? warp / cut.blocks : 0;
  const auto block_of = [&](int turn) {
    return parts == 1 ? Cut::turn_of(warp, turn) : part < parts ? warp % cut.blocks : cut.blocks;
  };
  if (block_of(0) < cut.blocks) take_rows<32>(lane, xs, x, block_of(0) * kOwnRows, kOwnRows, Q, K);
  take_rows<kThreads>(thread, ks, rows_of<Number>(op, op.k.value, r, bh), 0, cut.tokens, T, K);
  take_rows<kThreads>(thread, vs, rows_of<Number>(op, op.v.value, r, bh), 0, cut.tokens, T, V);
  copies_end();
  __syncthreads();
  const float scale = static_cast<float>(op.scale) * kLog2E;
  const float beside =
      op.normalised && part == 0 ? static_cast<float>(op.beside(r, bh % op.H())) * kLog2E : -INFINITY;
  RunningRows<D> read(beside);
  CT_ROLLED(int turn = 0; turn * kWarps < cut.blocks; ++turn) {
    const int block = block_of(turn), q0 = block * kOwnRows;
    if (block >= cut.blocks) continue;
    if (turn > 0) take_rows<32>(lane, xs, x, q0, kOwnRows, Q, K), copies_end();
    __syncwarp();
    unsigned rows[D / 16][4];
    operands(xs, 0, rows);
    __syncwarp();
    const Query query[2] = {query_of<false>(op, r, bh, q0 + lane / 4),
                            query_of<false>(op, r, bh, q0 + lane / 4 + 8)};
    if (turn > 0) read = RunningRows<D>(beside);
    CT_ROLLED(int j0 = part * kWholeStep; j0 < T; j0 += parts * kWholeStep) {
      if (!__any_sync(kFullWarp,
                      query[0].sees_of(j0, j0 + kWholeStep) || query[1].sees_of(j0, j0 + kWholeStep)))
        continue;
      float s[kCount][4];
      scores(rows, ks, j0, s);
      read.weigh(
          op.normalised, scale, query, j0, [](int, int) { return 0.f; }, s);
      mix(s, vs, j0, read.sums);
    }
    float factor[2];
    read.finish(op.normalised, factor);
    if (parts > 1) continue;
    CT_FOR(half, 2)
      if (lane % 4 == 0) keep_row(op, r, bh, q0 + lane / 4 + 8 * half, read.largest[half], read.total[half]);
    store(Write::overwrite, o, q0, Q, V, read.sums, factor);
  }
  if (parts == 1) return;
  __syncthreads();  // keys and values are read
  auto* const shared = reinterpret_cast<float*>(ks.numbers);
  const int rows = cut.blocks * kOwnRows;
  if (part < parts) {
    const int n0 = part * rows + block_of(0) * kOwnRows;
    share_sums<D>(shared, n0, read.sums);
    CT_FOR(half, 2)
      if (lane % 4 == 0) tops[n0 + lane / 4 + 8 * half] = make_float2(read.largest[half], read.total[half]);
  }
  __syncthreads();
  read_shared<Cut>(op, r, bh, cut, tops, shared, o);
}

/// Gradients of a head, each phase by all threads of a block.
template <class Cut, class Number>
struct WholeGradient {
  using Tile = typename Cut::Tile;
  static constexpr int D = Tile::kD, kStep = Tile::kStep, kWarps = Cut::kWarps, kThreads = Cut::kThreads,
                       kCount = kWholeStep / 8;
  const AttendMix<float>& op;
  const WholeHead& cut;
  unsigned char* const memory;
  const int T = op.T(), Q = op.Q(), K = op.K(), V = op.V(), bh = blockIdx.x, r = blockIdx.y;
  const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
  const bool both = cut.both;
  SeenBy* const seen = reinterpret_cast<SeenBy*>(memory);
  const Tile ks{reinterpret_cast<typename Tile::Number*>(seen + cut.queries)},
      vs{ks.numbers + cut.tokens * kStep}, xs{both ? vs.numbers + cut.tokens * kStep : ks.numbers},
      us{xs.numbers + cut.queries * kStep};
  // This warp's rows where both sides do not fit.
  const Tile as{ks.numbers + 2 * (max(cut.queries, cut.tokens) + warp * kOwnRows) * kStep},
      bs{as.numbers + kOwnRows * kStep};
  float* const shared = reinterpret_cast<float*>(both ? us.numbers + cut.queries * kStep : ks.numbers);
  const HeadRows<Number> k = rows_of<Number>(op, op.k.value, r, bh),
                         v = rows_of<Number>(op, op.v.value, r, bh);
  const float plain_scale = static_cast<float>(op.scale), scale = plain_scale * kLog2E;
  const int parts = cut.parts, part = parts > 1 ? warp / cut.blocks : 0;

  /// Brings keys and values, and queries where they fit beside.
  CT_DEVICE void load() const {
    take_rows<kThreads>(thread, ks, k, 0, cut.tokens, T, K);
    take_rows<kThreads>(thread, vs, v, 0, cut.tokens, T, V);
    if (both)
      take_queries<kThreads, Number>(op, r, bh, thread, xs, us, seen, 0, cut.queries);
    else  // rows that no warp takes
      for (int n = cut.blocks * kOwnRows + thread; n < cut.queries; n += kThreads) seen[n] = {0, 0, 0, 0};
    copies_end();
    __syncthreads();
  }
  /// d_x: warps walk over the tokens.
  CT_DEVICE void of_queries() const {
    const float factor[2] = {plain_scale, plain_scale};
    float sums[D / 8][4] = {};
    int block = 0;
    CT_ROLLED(int turn = 0; turn * kWarps < cut.blocks; ++turn) {
      block = parts == 1 ? Cut::turn_of(warp, turn) : part < parts ? warp % cut.blocks : cut.blocks;
      if (block >= cut.blocks) continue;
      const int q0 = block * kOwnRows;
      if (!both) {
        __syncwarp();
        take_queries<32, Number>(op, r, bh, lane, as, bs, seen, q0, kOwnRows);
        copies_end();
        __syncwarp();
      }
      unsigned x[D / 16][4], u[D / 16][4];
      operands(both ? xs : as, both ? q0 : 0, x);
      operands(both ? us : bs, both ? q0 : 0, u);
      const SeenBy query[2] = {seen[q0 + lane / 4], seen[q0 + lane / 4 + 8]};
      CT_FOR(n, D / 8) sums[n][0] = sums[n][1] = sums[n][2] = sums[n][3] = 0;
      CT_ROLLED(int j0 = part * kWholeStep; j0 < T; j0 += parts * kWholeStep) {
        bool meet = false;
        CT_UNROLL(const SeenBy& q : query) meet = meet || q.sees_of(j0, j0 + kWholeStep);
        if (!__any_sync(kFullWarp, meet)) continue;
        float a[kCount][4], d[kCount][4];
        scores(x, ks, j0, a);
        scores(u, vs, j0, d);
        CT_FOR2(n, kCount, e, 4)
          weigh_back(query[e / 2], j0 + n * 8 + 2 * (lane % 4) + e % 2, scale, 0, a[n][e], d[n][e]);
        mix(d, ks, j0, sums);
      }
      if (parts == 1 && op.x.wanted())
        store(op.x.write, rows_of<Number>(op, op.x.gradient, r, bh), q0, Q, K, sums, factor);
    }
    if (parts > 1 && op.x.wanted()) add_shared(block, sums);
  }
  /// d_x of queries that warps share, added in their order.
  CT_DEVICE void add_shared(int block, const float (&sums)[D / 8][4]) const {
    const int rows = cut.blocks * kOwnRows, c = thread % Tile::kFours * 4;
    if (!both) __syncthreads();  // keys are read
    if (part < parts) share_sums<D>(shared, part * rows + block * kOwnRows, sums);
    __syncthreads();
    const auto d_x = rows_of<Number>(op, op.x.gradient, r, bh);
    for (int n = thread / Tile::kFours; n < Q; n += kThreads / Tile::kFours) {
      float sum[4] = {};
      for (int p = 0; p < parts; ++p) {
        const Four<float> some = *reinterpret_cast<const Four<float>*>(shared + (p * rows + n) * D + c);
        CT_FOR(e, 4) sum[e] += some.v[e];
      }
      CT_FOR(e, 4) sum[e] *= plain_scale;
      if (c < K) put_whole(op.x.write, d_x(n) + c, sum);
    }
  }
  /// d_k and d_v: warps walk over the queries.
  CT_DEVICE void of_tokens() const {
    if (!op.k.wanted() && !op.v.wanted()) return;
    if (!both) {
      take_queries<kThreads, Number>(op, r, bh, thread, xs, us, nullptr, 0, cut.queries);
      copies_end();
      __syncthreads();
    }
    const int blocks = (T + kOwnRows - 1) / kOwnRows;
    const float factor[2] = {plain_scale, plain_scale}, one[2] = {1, 1};
    CT_ROLLED(int turn = 0; turn * kWarps < blocks; ++turn) {
      const int block = Cut::turn_of(warp, turn), n0 = block * kOwnRows;
      if (block >= blocks) continue;
      if (!both) {
        __syncwarp();
        take_rows<32>(lane, as, k, n0, kOwnRows, T, K);
        take_rows<32>(lane, bs, v, n0, kOwnRows, T, V);
        copies_end();
        __syncwarp();
      }
      float sums[D / 8][4] = {}, value_sums[D / 8][4] = {};
      CT_ROLLED(int i0 = 0; i0 < Q; i0 += kWholeStep) {
        if (!__any_sync(kFullWarp, seen[i0 + lane].sees_of(n0, n0 + kOwnRows))) continue;
        float a[kCount][4], d[kCount][4];
        scores(both ? ks : as, both ? n0 : 0, xs, i0, a);
        scores(both ? vs : bs, both ? n0 : 0, us, i0, d);
        CT_FOR2(n, kCount, e, 4) {
          const SeenBy q = seen[i0 + n * 8 + 2 * (lane % 4) + e % 2];
          weigh_back(q, n0 + lane / 4 + e / 2 * 8, scale, 0, a[n][e], d[n][e]);
        }
        mix(d, xs, i0, sums);
        mix(a, us, i0, value_sums);
      }
      if (op.k.wanted()) store(op.k.write, rows_of<Number>(op, op.k.gradient, r, bh), n0, T, K, sums, factor);
      if (op.v.wanted())
        store(op.v.write, rows_of<Number>(op, op.v.gradient, r, bh), n0, T, V, value_sums, one);
    }
  }
};

template <class Cut, class Number>
__global__ void __launch_bounds__(Cut::kThreads, Cut::kGradientBlocks)
    whole_gradient(const __grid_constant__ AttendMix<float> op, const __grid_constant__ WholeHead cut) {
  extern __shared__ __align__(16) unsigned char memory[];
  const WholeGradient<Cut, Number> gradient{op, cut, memory};
  gradient.load();
  gradient.of_queries();
  __syncthreads();  // d_x is written: d_k and d_v may be added to it
  gradient.of_tokens();
}

}  // namespace crosstalk::device
