// A block of threads of the chunkwise state, and its facts of the sequence that it walks: where rows lie, and
// what they scale by.
//
// A row of a chunk is a write: of the simple kernels a token's only one, with the query that stands there.
// The listed kernels read at positions: a row has a query or none. The mapped kernels take more: several
// writes a token (its decay at the first, its query at the last), a part of the key channels, and a free
// erase, which is two rows: the first erases along y and writes nothing, the second only writes along k.
// The paired kernels take a free erase alone, so that they know at compile time where its rows lie.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/recurrence/state_chunk_parts.cuh"

namespace crosstalk::device {

/// Key channels that a launch walks: `count` from `first` on. Launches for later ones add to what all share.
struct KeyBlock {
  int first, count;
};

/// Places of rows that are one a write (shift 0), or that take turns.
template <class T>
struct StepRows {
  T *even, *odd;
  int bytes;  ///< between rows
  int valid, shift;
  bool narrow = false;
  CT_DEVICE T* of(int row) const { return row & shift ? odd : even; }
  CT_DEVICE bool has(int row) const { return row < valid && of(row); }
  CT_DEVICE T* start(int row) const { return ahead(of(row), row >> shift, bytes); }
  CT_DEVICE T* operator()(int row) const { return has(row) ? start(row) : nullptr; }
};
/// Those of queries that a list names.
template <class T>
struct ListedRows {
  T* at;
  int bytes;        ///< between rows
  const int* list;  ///< of a row's query, or -1
  bool narrow = false;
  CT_DEVICE bool has(int row) const { return at && list[row] >= 0; }
  CT_DEVICE T* start(int row) const { return ahead(at, list[row], bytes); }
  CT_DEVICE T* operator()(int row) const { return has(row) ? start(row) : nullptr; }
};
/// Those of the tokens whose first row a row is.
template <class T>
struct TokenRows {
  T* at;
  int bytes;  ///< between rows
  int valid, first, per_token;
  CT_DEVICE bool has(int row) const { return at && row < valid && (first + row) % per_token == 0; }
  CT_DEVICE T* start(int row) const { return ahead(at, (first + row) / per_token, bytes); }
  CT_DEVICE T* operator()(int row) const { return has(row) ? start(row) : nullptr; }
};

template <class Tile>
struct StateWalk {
  static constexpr bool kMapped = Tile::kMapped, kPaired = Tile::kPaired, kListed = Tile::kListed;
  int replica, b, h, H, K, V;
  int T;     ///< rows
  int step;  ///< rows of a chunk
  int chunks;
  int line, first_key;   ///< of a row of keys in memory: its length, and where this launch's K channels start
  int shift, per_token;  ///< rows of a write are 1 << shift
  int pass = 0;          ///< of queries at the same token, which one is read
  bool decays, solves, tied, before;  ///< tied: x and e are given
  std::int64_t write, token,
      query;            ///< index of the first of them among [B,n,H]; those of a head lie H apart
  int* list = nullptr;  ///< [C + 1] of shared memory (listed)

  __device__ StateWalk(const StateRead<float>& op, KeyBlock keys)
      : replica(blockIdx.y),
        H(op.H()),
        K(Tile::kWhole ? Tile::D : keys.count),
        V(Tile::kWhole ? Tile::D : op.V()),
        T(op.k.value.dim(1)),
        step(Tile::C),
        line(K),
        first_key(0),
        shift(0),
        per_token(1),
        before(op.before) {
    b = static_cast<int>(blockIdx.x) / H, h = static_cast<int>(blockIdx.x) % H;
    decays = static_cast<bool>(op.log_decay);
    solves = kPaired || op.erase != Erase::none;
    tied = op.erase == Erase::tied;
    write = token = query = std::int64_t{b} * T * H + h;
    if constexpr (kMapped) {
      const int tokens = T / op.writes;
      token = std::int64_t{b} * tokens * H + h;
      line = op.K(), first_key = kPaired ? 0 : keys.first;
      shift = kPaired || op.erase == Erase::free ? 1 : 0;
      tied = kPaired || tied || shift > 0;
      per_token = kPaired ? 2 : op.writes << shift;
      T <<= shift;
      step = Tile::C / per_token * per_token;
    }
    if constexpr (kMapped || kListed) {
      query = std::int64_t{b} * op.Q() * H + h;
      before = op.before && !op.position;
    }
    chunks = (T + step - 1) / step;
  }
  CT_DEVICE bool gated() const { return Tile::kGated && decays; }
  /// Rows of a write that erase, and that write.
  CT_DEVICE bool erases(int row) const { return !(row & shift); }
  CT_DEVICE bool writes(int row) const { return !shift || row & shift; }
  /// How a gradient is written that all launches share, and that of this one's key channels.
  CT_DEVICE Write shared(Write mode) const {
    return kListed && (first_key > 0 || pass > 0) ? Write::add : mode;
  }
  CT_DEVICE Write own(Write mode) const { return kListed && pass > 0 ? Write::add : mode; }

  /// True if a tensor of tokens is in bf16, which those of whole tiles may be whose products are.
  template <class X>
  CT_DEVICE static bool is_narrow(const Tensor<X>& x, int columns) {
    if constexpr (Tile::kNarrow) return columns > 1;
    return Tile::kWhole && Tile::kFormat == Precision::bf16 && x.is_bf16();
  }
  /// Place of number n of a replica.
  template <class X>
  CT_DEVICE X* number(const Tensor<X>& x, bool narrow, std::int64_t n) const {
    return narrow ? reinterpret_cast<X*>(x.bf16_at(replica) + n) : x.at(replica) + n;
  }

  /// Places of rows of what writes have, [R,B,M,H,columns], from `first` on; `from`: the first column. Of a
  /// free erase, those of the rows that erase lie in `even`, those of the rows that write in `odd`.
  template <class X>
  CT_DEVICE auto rows(const Tensor<X>& even, const Tensor<X>& odd, int first, int valid, int columns,
                      int from = 0) const {
    const bool narrow = is_narrow(even.data ? even : odd, columns);
    const int bytes = H * columns * (narrow ? 2 : static_cast<int>(sizeof(X)));
    const auto start = [&](const Tensor<X>& x) {
      return x.data ? ahead(number(x, narrow, write * columns + from), first >> shift, bytes) : nullptr;
    };
    if constexpr (kMapped)
      return StepRows<X>{start(even), shift ? start(odd) : nullptr, bytes, valid, shift, narrow};
    else
      return PlainRows<X>{start(even), bytes, valid, narrow};
  }
  template <class X>
  CT_DEVICE auto of_erases(const Tensor<X>& x, int first, int valid, int columns, int from = 0) const {
    return rows(x, Tensor<X>{}, first, valid, columns, from);
  }
  template <class X>
  CT_DEVICE auto of_writes(const Tensor<X>& x, int first, int valid, int columns, int from = 0) const {
    if constexpr (kMapped)
      return rows(shift ? Tensor<X>{} : x, x, first, valid, columns, from);
    else
      return rows(x, x, first, valid, columns, from);
  }
  /// The keys, along which a row writes or erases.
  CT_DEVICE auto keys(const StateRead<float>& op, int first, int valid) const {
    if constexpr (kMapped)
      return rows(shift ? op.erase_write.value : op.k.value, op.k.value, first, valid, line, first_key);
    else
      return rows(op.k.value, op.k.value, first, valid, K);
  }
  CT_DEVICE auto looks(const StateRead<float>& op, int first, int valid) const {
    return of_erases(op.erase_read.value, first, valid, line, first_key);
  }
  /// The written rows, but for gain(row): solved, or v.
  CT_DEVICE auto written(const StateRead<float>& op, int first, int valid) const {
    return rows(solves ? op.solved.value : op.v.value, op.v.value, first, valid, V);
  }
  CT_DEVICE float gain_of_written(const StateRead<float>& op, int first, int valid, int row) const {
    return (shift ? row & shift : !solves) ? write_gain(op, first, valid, row) : 1;
  }
  /// Rows of queries, [R,B,Q,H,columns].
  template <class X>
  CT_DEVICE auto of_queries(const Tensor<X>& x, int first, int valid, int columns, int from = 0) const {
    const bool narrow = is_narrow(x, columns);
    const int bytes = H * columns * (narrow ? 2 : static_cast<int>(sizeof(X)));
    X* const start = x.data ? number(x, narrow, query * columns + from) : nullptr;
    if constexpr (kPaired) {
      X* const at = x.data ? ahead(start, first >> 1, bytes) : nullptr;
      return StepRows<X>{before ? at : nullptr, before ? nullptr : at, bytes, valid, 1, narrow};
    } else if constexpr (kListed) {
      return ListedRows<X>{start, bytes, list, narrow};
    } else {
      return PlainRows<X>{x.data ? ahead(start, first, bytes) : nullptr, bytes, x.data ? valid : 0, narrow};
    }
  }
  CT_DEVICE auto queries(const StateRead<float>& op, int first, int valid) const {
    return of_queries(op.q.value, first, valid, line, first_key);
  }
  /// Rows of tokens, [R,B,T,H,columns].
  template <class X>
  CT_DEVICE auto of_tokens(const Tensor<X>& x, int first, int valid, int columns, int from = 0) const {
    const int bytes = H * columns * static_cast<int>(sizeof(X));
    X* const at = x.data ? x.at(replica) + token * columns + from : nullptr;
    if constexpr (kMapped)
      return TokenRows<X>{at, bytes, valid, first, per_token};
    else
      return PlainRows<X>{ahead(at, first, bytes), bytes, valid};
  }
  /// Place of the chunk in a tensor [R,B,H,count,size].
  template <class T_>
  CT_DEVICE T_* kept(const Tensor<T_>& x, int count, int chunk, int size) const {
    return x.data ? x.at(replica) + ((std::int64_t{b} * H + h) * count + chunk) * size : nullptr;
  }
  /// This launch's columns of a state, in a tensor [R,B,H,count,V,line].
  template <class T_>
  CT_DEVICE PlainRows<T_> state(const Tensor<T_>& x, int count = 1, int chunk = 0) const {
    return {kept(x, count, chunk, V * line) + first_key, line * static_cast<int>(sizeof(T_)), V};
  }

  /// States and inverses are kept in bf16, the operands of backward (chunk_read_keeps() in state_read.h).
  static constexpr bool kShort = Tile::kWhole && Tile::kFormat == Precision::bf16;
  /// True if so is what was written, with a decay a token.
  static constexpr bool kShortRows = kShort && !kMapped;
  using ShortRows = PlainRows<std::uint16_t>;
  /// The same as kept(), of a tensor in bf16.
  CT_DEVICE std::uint16_t* short_kept(const Tensor<float>& x, int chunk, int size) const {
    return x.bf16_at(replica) + ((std::int64_t{b} * H + h) * chunks + chunk) * size;
  }
  CT_DEVICE ShortRows short_state(const StateRead<float>& op, int chunk) const {
    return {short_kept(op.states.value, chunk, V * line) + first_key, 2 * line, V};
  }
  CT_DEVICE ShortRows short_inverse(const StateRead<float>& op, int chunk) const {
    constexpr int C = Tile::C;
    return {short_kept(op.inverse.value, chunk, C * C), 2 * C, C};
  }
  CT_DEVICE ShortRows short_solved(const StateRead<float>& op, int first, int valid) const {
    const int bytes = 2 * H * V;
    return {ahead(op.solved.value.bf16_at(replica) + write * V, first, bytes), bytes, valid};
  }
  CT_DEVICE void prefetch_state(int turn, const StateRead<float>& op, int chunk) const {
    if constexpr (kShort)
      prefetch_rows<Tile, 2 * Tile::D>(turn, short_state(op, chunk), V);
    else
      prefetch_rows<Tile>(turn, state(op.states.value, chunks, chunk), V);
  }

  /// Takes shared memory, [C + 1] (listed).
  CT_DEVICE void begin(int* shared) {
    if constexpr (!kListed) return;
    list = shared;
    if (threadIdx.x == 0) list[Tile::C] = 0;
    __syncthreads();
  }
  /// Which query each row has, `pass` of those at the same place before it (listed). Between barriers.
  CT_DEVICE void fill_queries(const StateRead<float>& op, int first, int valid) const {
    constexpr int kNone = 0x7fffffff;
    const int thread = CT_THREAD, offset = first + (before ? 0 : 1);
    const std::int32_t* const position =
        op.position ? op.position.value.at(replica) + std::int64_t{b} * op.Q() : nullptr;
    const auto row_of = [&](int i) {  // of query i; -1: none of this chunk
      const int row = min(position[i], T / per_token) * per_token - offset;
      return row < valid ? row : -1;
    };
    if (position && pass == 0) {  // the first of those that stand at a row
      if (thread < Tile::C) list[thread] = kNone;
      __syncthreads();
      for (int i = thread; i < op.Q(); i += Tile::kThreads)
        if (const int row = row_of(i); row >= 0) atomicMin(list + row, i);
      __syncthreads();
      for (int i = thread; i < op.Q(); i += Tile::kThreads)
        if (const int row = row_of(i); row >= 0 && list[row] != i) list[Tile::C] = 1;
      __syncthreads();
      if (thread < Tile::C && list[thread] == kNone) list[thread] = -1;
      return;
    }
    if (thread >= Tile::C) return;
    int found = -1;
    if (position) {
      int count = 0;
#pragma unroll 8
      for (int i = 0; i < op.Q(); ++i)
        if (row_of(i) == thread && count++ == pass) found = i;
      if (count > pass + 1) list[Tile::C] = pass + 1;
    } else if (thread < valid && (thread + offset) % per_token == 0) {
      found = (thread + offset) / per_token - (before ? 0 : 1);
    }
    list[thread] = found;
  }
  /// True if another pass has to follow: some token has more queries. Begins and ends with barriers.
  CT_DEVICE bool next_pass() {
    if constexpr (!kListed) return false;
    __syncthreads();
    const bool more = list[Tile::C] == ++pass;
    __syncthreads();
    return more;
  }
  /// Queries that see no token: what they read, and their gradients.
  CT_DEVICE void blind_reads(const StateRead<float>& op) const {
    if (kListed && op.position && first_key == 0) zero_blind(op, op.o.value, V, 0, V, Write::overwrite);
  }
  CT_DEVICE void blind_gradients(const StateRead<float>& op) const {
    if (kListed && op.position && op.q.wanted())
      zero_blind(op, op.q.gradient, line, first_key, K, op.q.write);
  }
  /// Gates of its rows that a lane of one warp knows.
  struct Gains {
    float write[Tile::C / 32], erase[Tile::C / 32], decay[Tile::C / 32];
  };
  /// Of the `valid` rows from `first` on. Asked for long before they are needed, they need not be waited for.
  CT_DEVICE Gains gains(const StateRead<float>& op, int first, int valid) const {
    Gains all;
    const auto decays = of_tokens(op.log_decay.value, first, gated() ? valid : 0, 1);
    CT_FOR(x, Tile::C / 32) {
      const int i = CT_LANE * (Tile::C / 32) + x;
      all.write[x] = write_gain(op, first, valid, i);
      all.erase[x] = erase_gain(op, first, valid, i);
      all.decay[x] = decays.has(i) ? *decays.start(i) : 0;
    }
    return all;
  }
  /// One warp makes everything in `gates`. Rows that are not there neither write nor decay.
  CT_DEVICE void fill(ChunkGates<Tile::C>& gates, const StateRead<float>& op, const Gains& all) const {
    constexpr int C = Tile::C, kEach = C / 32;
    constexpr bool kQuick = Tile::kFormat == Precision::bf16;
    using Sum = std::conditional_t<kQuick, float, double>;
    // A decay to nothing is -infinity: what stands for it must survive sums and differences.
    constexpr float kNothing = kQuick ? -100 : -1e4f;
    const auto power = [](Sum x) {
      return kQuick ? quick_exp(static_cast<float>(x)) : expf(static_cast<float>(x));
    };
    const int lane = threadIdx.x % 32;
    Sum sums[kEach], before_lane = 0;
    CT_FOR(x, kEach) {
      const int i = lane * kEach + x;
      gates.write[i] = all.write[x];
      gates.erase[i] = all.erase[x];
      before_lane += static_cast<Sum>(fmaxf(all.decay[x], kNothing));
      sums[x] = before_lane;
    }
    if (!gated()) {
      CT_FOR(x, kEach)
        gates.read[lane * kEach + x] = gates.look[lane * kEach + x] = gates.left[lane * kEach + x] = 1;
      return;
    }
    Sum running = before_lane;
    CT_UNROLL(int offset = 1; offset < 32; offset *= 2) {
      const Sum other = __shfl_up_sync(kFullWarp, running, offset);
      if (lane >= offset) running += other;
    }
    before_lane = running - before_lane;
    const Sum end = __shfl_sync(kFullWarp, running, 31);
    Sum previous = before_lane;
    CT_FOR(x, kEach) {
      const int i = lane * kEach + x;
      const Sum here = before_lane + sums[x];
      const Sum of[3] = {here, before ? previous : here, op.decayed ? here : previous};
      CT_FOR(kind, 3) {
        gates.high[kind][i] = static_cast<float>(of[kind]);
        if constexpr (!kQuick)
          gates.low[kind][i] = static_cast<float>(of[kind] - static_cast<double>(gates.high[kind][i]));
      }
      gates.read[i] = power(of[1]), gates.look[i] = power(of[2]), gates.left[i] = power(end - here);
      previous = here;
    }
    if (lane == 0) gates.all = power(end);
  }

  /// w and e of a row; 0 where it does not write, or erase.
  CT_DEVICE float write_gain(const StateRead<float>& op, int first, int valid, int row) const {
    if (row >= valid || !writes(row)) return 0;
    return op.write_gain ? *of_writes(op.write_gain.value, first, valid, 1).start(row) : 1;
  }
  CT_DEVICE float erase_gain(const StateRead<float>& op, int first, int valid, int row) const {
    if (row >= valid || !erases(row)) return 0;
    const In<float>& gain = op.erase == Erase::delta ? op.write_gain : op.erase_gain;
    return gain ? *of_erases(gain.value, first, valid, 1).start(row) : 1;
  }

 private:
  CT_DEVICE void zero_blind(const StateRead<float>& op, const Tensor<float>& x, int columns, int from,
                            int count, Write mode) const {
    const std::int32_t* const position = op.position.value.at(replica) + std::int64_t{b} * op.Q();
    const bool narrow = is_narrow(x, columns);
    float* const rows = number(x, narrow, query * columns + from);
    for (int i = CT_WARP; i < op.Q(); i += Tile::W) {
      for (int c = threadIdx.x % 32; c < count && position[i] <= 0; c += 32) {
        const std::int64_t at = std::int64_t{i} * H * columns + c;
        if (!narrow)
          put(mode, rows + at, 0.0f);
        else if (mode == Write::overwrite)
          reinterpret_cast<std::uint16_t*>(rows)[at] = 0;
      }
    }
  }
};

}  // namespace crosstalk::device
