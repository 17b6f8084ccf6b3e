// DiagonalRead with its state in registers: what both directions share.
//
// A block walks some rows of the state of one sequence and head. The 32 lanes of a warp stand as lanes down x LC across; a lane
// holds kRows rows by 4 columns, a warp whole rows. So a sum along a row ends within a warp (scatter_sum), a sum down a column is
// joined over warps in shared memory, and over blocks where the rows take several. Tokens come by stages of 4 through
// shared memory, the next while one is walked. A token beyond the last has step 0 or gates of 1, and k, v of 0: the state
// stays as it is (a complex one, whose step is that of all tokens, stops there). Forward keeps the state every 12 tokens; backward walks these again, keeps the states between stages and those
// of one stage in shared memory, and goes back.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/base/device/cuda_launch.cuh"
#include "kernels/elementwise/elementwise.h"
#include "kernels/law/diagonal_read.h"

namespace crosstalk::device {

/// Factors of an entry: exp(step rate); 2 exp(step rate) - 1; exp(step rate) of a complex rate, with one step for all
/// tokens; gates of its row and its column; or 1 - step k^2.
enum class DecayKind { rates, signs, complex, gates, keys };

constexpr int kDiagonalTokens = 4;                                   ///< of a stage
constexpr int kDiagonalStages = 3;                                   ///< between two kept states
constexpr int kDiagonalSegment = kDiagonalTokens * kDiagonalStages;  ///< tokens between two kept states
constexpr int kDiagonalWarps = 8;

/// Kept states of a sequence. The last token is never the last of a segment: reads are taken back at the token behind.
constexpr int diagonal_segments(int T) { return T / kDiagonalSegment + 1; }

CT_DEVICE float diagonal_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

template <DecayKind kLaw, int LC>
struct FadingTile {
  static constexpr bool kComplex = kLaw == DecayKind::complex, kGates = kLaw == DecayKind::gates;
  static constexpr bool kKeys = kLaw == DecayKind::keys, kRates = !kComplex && !kGates && !kKeys;
  static constexpr int kRows = 4, kParts = kComplex ? 2 : 1;
  static constexpr int kDown = 32 / LC, kColumns = 4 * LC;
  static constexpr int kWarpRows = kRows * kDown, kBlockRows = kDiagonalWarps * kWarpRows;
  static constexpr int kSums = kGates ? 3 : 2;  ///< down columns: of k, of q, of column gates
  /// Numbers of a stage: k, q and column gates; v, cotangents, steps or row gates.
  static constexpr int kStage = kDiagonalTokens * (kSums * kColumns + 3 * kBlockRows);
  /// States in shared memory: before stages but the first, and within one. A complex one's last is not held in registers.
  static constexpr int kSlots = kDiagonalStages - 1 + kDiagonalTokens - (kComplex ? 1 : 2);

  static constexpr int warps(int V) {
    return V >= kBlockRows ? kDiagonalWarps : (V + kWarpRows - 1) / kWarpRows;
  }
  static constexpr int tiles(int V) { return (V + kBlockRows - 1) / kBlockRows; }
  /// Numbers of a tile's state, a lane's side by side in fours.
  static constexpr int numbers(int V) { return warps(V) * 32 * kParts * kRows * 4; }
  static constexpr std::size_t forward_bytes(int) { return 2 * kStage * sizeof(float); }
  static constexpr std::size_t backward_bytes(int V) {
    const int sums = kDiagonalTokens * warps(V) * kSums * kColumns;
    return (2 * kStage + sums + kSlots * numbers(V)) * sizeof(float);
  }
};

/// One lane's part of a state.
template <class Tile>
struct FadingState {
  float v[Tile::kParts][Tile::kRows][4];

  /// Fours of a warp's lanes lie side by side.
  __device__ void load(const float* from) {
    CT_FOR(i, Tile::kParts * Tile::kRows) {
      const auto four = reinterpret_cast<const float4*>(from)[i * static_cast<int>(blockDim.x) + threadIdx.x];
      float* to = v[i / Tile::kRows][i % Tile::kRows];
      to[0] = four.x, to[1] = four.y, to[2] = four.z, to[3] = four.w;
    }
  }
  __device__ void store(float* to) const {
    CT_FOR(i, Tile::kParts * Tile::kRows) {
      const float* from = v[i / Tile::kRows][i % Tile::kRows];
      reinterpret_cast<float4*>(to)[i * static_cast<int>(blockDim.x) + threadIdx.x] =
          make_float4(from[0], from[1], from[2], from[3]);
    }
  }
};

/// Row i of a lane's state, in registers or where store() has put it.
template <class Tile>
CT_DEVICE void diagonal_row(const FadingState<Tile>& S, int part, int i, float (&x)[4]) {
  CT_FOR(j, 4) x[j] = S.v[part][i][j];
}
template <class Tile>
CT_DEVICE void diagonal_row(const float* S, int part, int i, float (&x)[4]) {
  const auto four = reinterpret_cast<const float4*>(
      S)[(part * Tile::kRows + i) * static_cast<int>(blockDim.x) + threadIdx.x];
  x[0] = four.x, x[1] = four.y, x[2] = four.z, x[3] = four.w;
}

/// Place of a block and a lane.
template <DecayKind kLaw, int LC>
struct FadingWalk {
  using Tile = FadingTile<kLaw, LC>;
  using State = FadingState<Tile>;
  static constexpr int kRows = Tile::kRows, kColumns = Tile::kColumns, kBlockRows = Tile::kBlockRows;

  const DiagonalRead<float>& op;
  int r, tile, tiles, b, h, T, Q, H, K, V, first;  ///< first: row of the block
  std::int64_t item;                               ///< sequence and head
  int warp, lane, row, column;                     ///< row: of the lane, within the block
  std::int32_t* asking;  ///< shared, [T]: the query behind each token in this round, or -1

  __device__ FadingWalk(const DiagonalRead<float>& op_, std::int32_t* asking_)
      : op(op_),
        r(static_cast<int>(blockIdx.y)),
        tiles(Tile::tiles(op.V())),
        T(op.T()),
        Q(op.Q()),
        H(op.H()),
        K(op.K()),
        V(op.V()),
        asking(asking_) {
    tile = static_cast<int>(blockIdx.x) % tiles, item = static_cast<int>(blockIdx.x) / tiles;
    b = static_cast<int>(item) / H, h = static_cast<int>(item) % H, first = tile * kBlockRows;
    warp = CT_WARP, lane = CT_LANE;
    row = warp * Tile::kWarpRows + lane / LC * kRows, column = lane % LC * 4;
  }

  /// Row 0 of [B,count,H,width].
  __device__ std::int64_t rows_at(int width, int count) const {
    return (std::int64_t{b} * count * H + h) * width;
  }
  /// Positions of the sequence's queries; without them query t stands behind token t.
  __device__ const std::int32_t* positions() const { return op.position.value.at(r) + std::int64_t{b} * Q; }
  /// The query behind token t, or -1.
  __device__ int query_of(int t) const { return t < 0 || t >= T ? -1 : op.position ? asking[t] : t; }
  /// Takes one of the queries behind each token: fills `asking`, and says whether there are others for later rounds.
  __device__ bool begin_round(int round) const {
    if (!op.position) return false;
    const std::int32_t* position = positions();
    __syncthreads();
    for (int t = CT_THREAD; t < T; t += static_cast<int>(blockDim.x)) asking[t] = -1;
    __syncthreads();
    int later = 0;
    for (int i = CT_THREAD; i < Q; i += static_cast<int>(blockDim.x)) {
      const int seen = clamped(position[i], T);
      int earlier = 0;
      for (int j = 0; j < i; ++j) earlier += clamped(position[j], T) == seen;
      if (seen > 0 && earlier == round) asking[seen - 1] = i;
      later |= seen > 0 && earlier > round;
    }
    return __syncthreads_or(later);
  }
  /// Zeros in `count` columns, from `begin` on, of the rows [B,Q,H,width] of queries that see no token.
  __device__ void clear_blind(float* x, int width, int begin, int count) const {
    for (int i = 0; op.position && i < Q; ++i) {
      if (positions()[i] > 0) continue;
      float* to = x + rows_at(width, Q) + std::int64_t{i} * H * width + begin;
      for (int c = CT_THREAD; c < count; c += static_cast<int>(blockDim.x)) to[c] = 0;
    }
  }
  __device__ bool has(int i, int j) const { return first + row + i < V && column + j < K; }
  __device__ int entry(int i, int j) const { return (first + row + i) * K + column + j; }
  /// The lane's entries of [B,(1,)H,V*K], 0 beyond it and where there is no memory, or not `any`.
  __device__ void entries(const Tensor<float>& x, float (&to)[kRows][4], bool any = true) const {
    const float* from = any && x.data ? x.at(r) + item * V * K : nullptr;
    CT_FOR2(i, kRows, j, 4) to[i][j] = from && has(i, j) ? from[entry(i, j)] : 0.0f;
  }
  /// One step for all tokens, of the lane's rows.
  __device__ void steps(float (&to)[kRows]) const {
    const float* from = op.step.value.at(r) + item * V + first + row;
    CT_FOR(i, kRows) to[i] = first + row + i < V ? from[i] : 0.0f;
  }
  /// Stores or adds factor * x.
  __device__ void put_entries(Write mode, const Tensor<float>& x, const float (&from)[kRows][4],
                              float factor = 1) const {
    if (mode == Write::none || !x.data) return;
    float* to = x.at(r) + item * V * K;
    CT_FOR2(i, kRows, j, 4)
      if (has(i, j)) put(mode, to + entry(i, j), factor * from[i][j]);
  }
  /// The kept state before segment s.
  __device__ float* kept(int s) const {
    const std::int64_t numbers = Tile::numbers(V);
    return op.states.value.at(r) + ((item * diagonal_segments(T) + s) * tiles + tile) * numbers;
  }

  // A stage: k, q, column gates [4, kColumns], then v, cotangents, steps or row gates [4, kBlockRows]; and the same in fours.
  static constexpr int kOfRows = kDiagonalTokens * Tile::kSums * kColumns, kFours = Tile::kStage / 4;
  struct Four {
    int which, token,
        first;  ///< tensor (0 to 2 of columns, 3 to 5 of rows), token of the stage, number of its row
  };
  __device__ static Four four(int i) {
    if (i < kOfRows / 4) return {i / kColumns, i / LC % kDiagonalTokens, i % LC * 4};
    const int j = i - kOfRows / 4;
    return {3 + j / kBlockRows, j / (kBlockRows / 4) % kDiagonalTokens, j % (kBlockRows / 4) * 4};
  }
  /// Starts of tensors, [6]: of the block's sequence, head and rows.
  __device__ void begin_sources(const float** sources) const {
    const int i = CT_THREAD;
    if (i < 6) {
      const Tensor<float>& x = i == 0         ? op.k.value
                               : i == 1       ? op.q.value
                               : i == 2       ? op.column_log_decay.value
                               : i == 3       ? op.v.value
                               : i == 4       ? op.o.gradient
                               : Tile::kGates ? op.row_log_decay.value
                                              : op.step.value;
      const int count = i == 1 || i == 4 ? Q : T;
      sources[i] = x.data ? x.at(r) + (i < 3 ? rows_at(K, count) : rows_at(V, count) + first) : nullptr;
    }
    __syncthreads();
  }
  /// Begins to copy a stage, 0 beyond tensors. Queries, and cotangents of reads, are those behind the tokens from `queries` on;
  /// `walks`: without them.
  __device__ void begin_stage(const float* const* sources, float* stage, int token, int queries,
                              bool walks) const {
    for (int i = CT_THREAD; i < kFours; i += static_cast<int>(blockDim.x)) {
      const Four at = four(i);
      const bool of_query = at.which == 1 || at.which == 4;
      if ((of_query && walks) || (Tile::kComplex && at.which == 5)) continue;
      const int t = of_query ? query_of(at.token + queries) : at.token + token, width = at.which < 3 ? K : V;
      const float* from = sources[at.which];
      const int valid =
          !from || t < 0 || (!of_query && t >= T) ? 0 : (at.which < 3 ? K : V - first) - at.first;
      from = valid > 0 ? from + std::int64_t{t} * (H * width) + at.first : op.k.value.data;
      float* to = stage + 4 * i;
      const auto shared = static_cast<unsigned>(__cvta_generic_to_shared(to));
      if ((valid >= 4 || valid <= 0) && is_aligned16(from)) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(from),
                     "r"(valid > 0 ? 16 : 0)
                     : "memory");
      } else {
        CT_FOR(j, 4) {
          asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared + 4 * j),
                       "l"(j < valid ? from + j : from), "r"(j < valid ? 4 : 0)
                       : "memory");
        }
      }
    }
  }
  /// Waits for the stage. All threads have left the stage before when it returns.
  __device__ static void end_stage(float* stage) {
    asm volatile("cp.async.wait_all;" ::: "memory");
    if constexpr (Tile::kGates) {  // each thread what it has copied
      for (int i = CT_THREAD; i < kFours; i += static_cast<int>(blockDim.x)) {
        const int which = four(i).which;
        if (which != 2 && which != 5) continue;
        CT_FOR(j, 4) stage[4 * i + j] = expf(stage[4 * i + j]);
      }
    }
    __syncthreads();
  }
  /// The lane's 4 columns, and its rows, of token t of a stage.
  __device__ void columns(const float* stage, int which, int t, float (&x)[4]) const {
    const auto four =
        *reinterpret_cast<const float4*>(stage + (which * kDiagonalTokens + t) * kColumns + column);
    x[0] = four.x, x[1] = four.y, x[2] = four.z, x[3] = four.w;
  }
  __device__ void rows(const float* stage, int which, int t, float (&x)[kRows]) const {
    const float* from = stage + kOfRows + (which * kDiagonalTokens + t) * kBlockRows + row;
    const auto four = *reinterpret_cast<const float4*>(from);
    x[0] = four.x, x[1] = four.y, x[2] = four.z, x[3] = four.w;
  }
  /// f(number n, its sum over the lanes across), by one lane each, of N numbers x.
  template <int N, class F>
  __device__ void sum_across(float (&x)[N], F&& f) const {
    scatter_sum<N, LC / 2>(x);
    constexpr int kEach = N >= LC ? N / LC : 1, kSame = N >= LC ? 1 : LC / N;
    const int across = lane % LC;
    if (across % kSame != 0) return;
    CT_FOR(i, kEach) f(across * N / LC + i, x[i]);
  }
};

/// Decays and reads of a lane's entries, law by law.
template <DecayKind kLaw, int LC>
struct FadingLaw {
  using Walk = FadingWalk<kLaw, LC>;
  using Tile = typename Walk::Tile;
  using State = typename Walk::State;
  static constexpr int kRows = Tile::kRows;
  static constexpr int kNumbers = Tile::kRates ? kRows : 1, kSets = Tile::kComplex ? kRows : 1;
  static constexpr float kSlope = (kLaw == DecayKind::signs ? 2 : 1) * 0.6931471805599453f;  ///< of a factor

  float rate[kNumbers][4];                     ///< -e^{log_rate} log2 e
  float cos[kSets][4], sin[kSets][4];          ///< times the size of the factor
  float read_re[kSets][4], read_im[kSets][4];  ///< what is read: read_re re + read_im im
  float steady[kSets];                         ///< steps of rows

  __device__ explicit FadingLaw(const Walk& at) {
    if constexpr (Tile::kRates) {
      at.entries(at.op.log_rate.value, rate);
      CT_UNROLL(auto& of_row : rate)
        CT_UNROLL(float& x : of_row) x = -1.4426950408889634f * mapped(MapKind::exp, x);
    }
    if constexpr (Tile::kComplex) {
      at.entries(at.op.log_rate.value, cos), at.entries(at.op.angle.value, sin);
      at.entries(at.op.read.value, read_re), at.entries(at.op.read_imag.value, read_im);
      at.steps(steady);
      CT_FOR2(i, kRows, j, 4) {
        const float size = expf(-steady[i] * mapped(MapKind::exp, cos[i][j])), angle = steady[i] * sin[i][j];
        cos[i][j] = size * cosf(angle), sin[i][j] = size * sinf(angle);
        read_re[i][j] *= 2, read_im[i][j] *= -2;
      }
    }
  }
  /// Adds what a row gives to its columns, times k. Gates are steps of rows, and of columns.
  __device__ float write(int i, const float (&v)[kRows], const float (&step)[kRows]) const {
    return Tile::kGates ? v[i] : Tile::kComplex ? steady[i] * v[i] : step[i] * v[i];
  }
  /// S after a token.
  __device__ void step(State& S, const float (&k)[4], const float (&column_gate)[4], const float (&v)[kRows],
                       const float (&step)[kRows]) const {
    CT_FOR(i, kRows) {
      const float written = write(i, v, step);
      CT_FOR(j, 4) {
        float& re = S.v[0][i][j];
        if constexpr (Tile::kComplex) {
          float& im = S.v[1][i][j];
          const float turned = fmaf(-sin[i][j], im, written * k[j]);
          im = fmaf(sin[i][j], re, cos[i][j] * im), re = fmaf(cos[i][j], re, turned);
        } else if constexpr (Tile::kGates) {
          re = fmaf(step[i] * column_gate[j], re, written * k[j]);
        } else if constexpr (Tile::kKeys) {
          re = fmaf(k[j], fmaf(-step[i] * k[j], re, written), re);
        } else {
          const float size = diagonal_exp2(step[i] * rate[i][j]);
          re = fmaf(kLaw == DecayKind::signs ? fmaf(2.0f, size, -1.0f) : size, re, written * k[j]);
        }
      }
    }
  }
  /// The number that a query's number multiplies.
  __device__ float seen(int i, int j, float re, float im) const {
    return Tile::kComplex
               ? fmaf(read_re[Tile::kComplex ? i : 0][j], re, read_im[Tile::kComplex ? i : 0][j] * im)
               : re;
  }
};

}  // namespace crosstalk::device
