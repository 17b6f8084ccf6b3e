// DiagonalRead with its state in registers (diagonal_registers.cuh).
//
//   precision   float
//   keys        K <= 128
//   queries     any; with positions no state before the sequence. Those behind one token take a walk each
//   steps       one for all tokens where the state is complex, else one a token
//   variables   each in one field
//   memory      that a block may share: at most 110 KiB with K <= 64, 220 complex
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "kernels/fused/apart.h"
#include "kernels/fused/diagonal_registers.cuh"

namespace crosstalk {
namespace {
using namespace device;
using Op = DiagonalRead<float>;

constexpr int blocks_of(DecayKind law) { return law == DecayKind::complex ? 1 : 2; }

template <DecayKind kLaw, int LC>
__global__ void __launch_bounds__(32 * kDiagonalWarps, 2)
    diagonal_forward_kernel(const __grid_constant__ Op op) {
  using Walk = FadingWalk<kLaw, LC>;
  using Tile = typename Walk::Tile;
  constexpr int kRows = Tile::kRows,
                kTogether = Tile::kComplex ? 1 : kDiagonalTokens;  // tokens whose sums are one
  extern __shared__ float4 shared_fours[];
  float* stages = reinterpret_cast<float*>(shared_fours);
  const Walk at(op, reinterpret_cast<std::int32_t*>(stages + 2 * Tile::kStage));
  const FadingLaw<kLaw, LC> law(at);
  typename Walk::State S;
  __shared__ const float* sources[6];
  at.begin_sources(sources);
  at.clear_blind(op.o.value.at(at.r), at.V, at.first, min(at.V - at.first, Tile::kBlockRows));
  bool more = true;
  for (int round = 0; more; ++round) {
    more = at.begin_round(round);
    at.entries(op.start.value, S.v[0]);
    if constexpr (Tile::kComplex) at.entries(op.start_imag.value, S.v[1]);
    at.begin_stage(sources, stages, 0, 0, false);
    for (int token = 0, turn = 0; token < diagonal_segments(at.T) * kDiagonalSegment;
         token += kDiagonalTokens, turn ^= 1) {
      float* stage = stages + turn * Tile::kStage;
      at.end_stage(stage);
      at.begin_stage(sources, stages + (turn ^ 1) * Tile::kStage, token + kDiagonalTokens,
                     token + kDiagonalTokens, false);
      if (op.states && token % kDiagonalSegment == 0) S.store(at.kept(token / kDiagonalSegment));
      CT_ROLLED(int begin = 0; begin < kDiagonalTokens; begin += kTogether) {
        if (Tile::kComplex && token + begin >= at.T) break;
        float o[kTogether * kRows];
        CT_FOR(j, kTogether) {
          const int t = begin + j;
          float k[4], q[4], column_gate[4] = {}, v[kRows], step[kRows] = {};
          at.columns(stage, 0, t, k), at.columns(stage, 1, t, q);
          if constexpr (Tile::kGates) at.columns(stage, 2, t, column_gate);
          at.rows(stage, 0, t, v);
          if constexpr (!Tile::kComplex) at.rows(stage, 2, t, step);
          law.step(S, k, column_gate, v, step);
          CT_FOR(i, kRows) {
            float sum = 0;
            CT_FOR(c, 4) sum = fmaf(law.seen(i, c, S.v[0][i][c], S.v[Tile::kParts - 1][i][c]), q[c], sum);
            o[j * kRows + i] = sum;
          }
        }
        at.sum_across(o, [&](int n, float sum) {
          const int query = at.query_of(token + begin + n / kRows), row = at.first + at.row + n % kRows;
          if (query >= 0 && row < at.V)
            op.o.value.at(at.r)[at.rows_at(at.V, at.Q) + std::int64_t{query} * at.H * at.V + row] = sum;
        });
      }
    }
    asm volatile("cp.async.wait_all;" ::: "memory");
  }
  at.put_entries(Write::overwrite, op.end.value, S.v[0]);
  if constexpr (Tile::kComplex) at.put_entries(Write::overwrite, op.end_imag.value, S.v[1]);
}

/// dL/dS of a lane's entries, and what their parameters get.
template <class Tile>
struct FadingGradients {
  static constexpr int kNumbers = Tile::kGates || Tile::kKeys ? 1 : Tile::kRows,
                       kSets = Tile::kComplex ? Tile::kRows : 1;
  FadingState<Tile> G;
  float size[kNumbers][4] = {};  ///< the logarithm of the factor's size; of rates that of 2, times step
  float angle[kSets][4] = {}, read_re[kSets][4] = {}, read_im[kSets][4] = {};
  float written[kSets] = {};  ///< a steady step through what is written
};

template <DecayKind kLaw, int LC>
struct FadingBack {
  using Walk = FadingWalk<kLaw, LC>;
  using Tile = typename Walk::Tile;
  using State = typename Walk::State;
  static constexpr int kRows = Tile::kRows, kColumns = Tile::kColumns;
  const Walk& at;
  const FadingLaw<kLaw, LC>& law;
  FadingGradients<Tile>& d;
  float* sums;    ///< [4, warps, kSums, kColumns]
  int round = 0;  ///< all but the first add

  __device__ Write mode_of(const In<float>& of) const { return round == 0 ? of.write : Write::add; }

  /// Sums x[4] down the lanes, to sums.
  __device__ void sum_down(int t, int which, float (&x)[4]) const {
    constexpr int kDown = Tile::kDown, kEach = kDown <= 4 ? 4 / kDown : 1, kSame = kDown <= 4 ? 1 : kDown / 4;
    if constexpr (kDown > 1) scatter_sum<4, 16, LC>(x);
    const int down = at.lane / LC;
    float* to = sums + ((t * static_cast<int>(blockDim.x / 32) + at.warp) * Tile::kSums + which) * kColumns +
                at.column + down * 4 / kDown;
    if (down % kSame != 0) return;
    CT_FOR(i, kEach) to[i] = x[i];
  }
  /// Takes token t of a stage back where it is `kInside` the sequence, S being the state before it, and then the read of that
  /// state.
  template <bool kInside, class Source>
  __device__ void token(const float* stage, int first_token, int t, const Source& S) const {
    float k[4], q[4], column_gate[4] = {}, v[kRows], d_o[kRows], step[kRows] = {};
    at.columns(stage, 0, t, k), at.columns(stage, 1, t, q);
    if constexpr (Tile::kGates) at.columns(stage, 2, t, column_gate);
    at.rows(stage, 0, t, v), at.rows(stage, 1, t, d_o);
    if constexpr (!Tile::kComplex) at.rows(stage, 2, t, step);
    float d_k[4] = {}, d_q[4] = {}, d_gate[4] = {};
    float of_rows[Tile::kComplex ? kRows : 2 * kRows];  // of v, and of steps or row gates
    CT_FOR(i, kRows) {
      const float write = law.write(i, v, step);
      float written = 0, faded = 0, s[4], s_im[4] = {};
      diagonal_row<Tile>(S, 0, i, s);
      if constexpr (Tile::kComplex) diagonal_row<Tile>(S, 1, i, s_im);
      CT_FOR(j, 4) {
        float& g = d.G.v[0][i][j];
        const float read = d_o[i] * q[j];
        d_q[j] = fmaf(d_o[i], law.seen(i, j, s[j], s_im[j]), d_q[j]);
        d_k[j] = fmaf(g, write, d_k[j]), written = fmaf(g, k[j], written);
        if constexpr (Tile::kComplex) {
          float& g_im = d.G.v[1][i][j];
          if constexpr (kInside) {
            const float c = law.cos[i][j], w = law.sin[i][j];
            const float back = fmaf(c, g, w * g_im), back_im = fmaf(c, g_im, -w * g);
            d.size[i][j] = fmaf(back, s[j], fmaf(back_im, s_im[j], d.size[i][j]));
            d.angle[i][j] = fmaf(back_im, s[j], fmaf(-back, s_im[j], d.angle[i][j]));
            g = back, g_im = back_im;
          }
          g = fmaf(law.read_re[i][j], read, g), g_im = fmaf(law.read_im[i][j], read, g_im);
          d.read_re[i][j] = fmaf(read, s[j], d.read_re[i][j]);
          d.read_im[i][j] = fmaf(read, s_im[j], d.read_im[i][j]);
        } else if constexpr (Tile::kGates) {
          const float back = step[i] * column_gate[j] * g, of_size = back * s[j];
          faded += of_size, d_gate[j] += of_size;
          g = back + read;
        } else if constexpr (Tile::kKeys) {
          const float of_size = g * s[j];  // its slope by step is -k^2, by k -2 step k
          faded = fmaf(of_size, -k[j] * k[j], faded);
          d_k[j] = fmaf(of_size, -2 * step[i] * k[j], d_k[j]);
          g = fmaf(fmaf(-step[i] * k[j], k[j], 1.0f), g, read);
        } else {
          const float back = diagonal_exp2(step[i] * law.rate[i][j]) * g, of_size = back * s[j];
          faded = fmaf(of_size, law.rate[i][j], faded);
          d.size[i][j] = fmaf(of_size, step[i], d.size[i][j]);
          g = kLaw == DecayKind::signs ? fmaf(2.0f, back, read - g) : back + read;
        }
      }
      if constexpr (Tile::kComplex) {
        if constexpr (kInside) d.written[i] = fmaf(v[i], written, d.written[i]);
        of_rows[i] = law.steady[i] * written;
      } else if constexpr (Tile::kGates) {
        of_rows[i] = written, of_rows[kRows + i] = faded;
      } else {
        of_rows[i] = step[i] * written;
        of_rows[kRows + i] = fmaf(v[i], written, Tile::kKeys ? faded : law.kSlope * faded);
      }
    }
    sum_down(t, 1, d_q);
    if constexpr (!kInside) return;
    at.sum_across(of_rows, [&](int n, float sum) {
      const Op& op = at.op;
      const int row = at.first + at.row + n % kRows;
      if (first_token + t >= at.T || row >= at.V) return;
      const In<float>& of = n < kRows ? op.v : Tile::kGates ? op.row_log_decay : op.step;
      if (of.wanted())
        put(mode_of(of),
            of.gradient.at(at.r) + at.rows_at(at.V, at.T) + std::int64_t{first_token + t} * at.H * at.V + row,
            sum);
    });
    sum_down(t, 0, d_k);
    if constexpr (Tile::kGates) sum_down(t, 2, d_gate);
  }
  /// Gradients of what stands for a whole sequence.
  CT_DEVICE void put_whole() {
    const Op& op = at.op;
    at.put_entries(op.start.write, op.start.gradient, d.G.v[0]);
    if constexpr (Tile::kComplex) at.put_entries(op.start_imag.write, op.start_imag.gradient, d.G.v[1]);
    if constexpr (Tile::kComplex) {
      float rate[kRows][4], angle[kRows][4];
      at.entries(op.log_rate.value, rate), at.entries(op.angle.value, angle);
      CT_FOR2(i, kRows, j, 4) {
        rate[i][j] = -mapped(MapKind::exp, rate[i][j]);
        d.written[i] = fmaf(d.size[i][j], rate[i][j], fmaf(d.angle[i][j], angle[i][j], d.written[i]));
        d.size[i][j] *= rate[i][j] * law.steady[i], d.angle[i][j] *= law.steady[i];
      }
      at.sum_across(d.written, [&](int n, float sum) {
        const int row = at.first + at.row + n;
        if (row < at.V && op.step.wanted())
          put(op.step.write, op.step.gradient.at(at.r) + at.item * at.V + row, sum);
      });
      at.put_entries(op.angle.write, op.angle.gradient, d.angle);
      at.put_entries(op.read.write, op.read.gradient, d.read_re, 2);
      at.put_entries(op.read_imag.write, op.read_imag.gradient, d.read_im, -2);
    }
    if constexpr (Tile::kRates)
      CT_FOR2(i, kRows, j, 4) d.size[i][j] *= law.rate[i][j] * law.kSlope;
    if constexpr (Tile::kRates || Tile::kComplex)
      at.put_entries(op.log_rate.write, op.log_rate.gradient, d.size);
  }
  /// Joins the warps' sums of a stage: gradients, or a tile's part of them in work [tiles, kSums, max(T, Q), K].
  __device__ void join(int first_token) const {
    const Op& op = at.op;
    const int warps = static_cast<int>(blockDim.x) / 32;
    for (int i = CT_THREAD; i < kDiagonalTokens * Tile::kSums * LC; i += static_cast<int>(blockDim.x)) {
      const int c = i % LC * 4, which = i / LC % Tile::kSums, t = i / LC / Tile::kSums;
      const int token = first_token + t - (which == 1 ? 1 : 0);
      const In<float>& of = which == 0 ? op.k : which == 1 ? op.q : op.column_log_decay;
      const int row = which == 1 ? at.query_of(token) : token, rows = which == 1 ? at.Q : at.T;
      if (c >= at.K || row < 0 || row >= rows || !of.wanted()) continue;
      float sum[4] = {};
      for (int w = 0; w < warps; ++w) {
        const auto four =
            *reinterpret_cast<const float4*>(sums + ((t * warps + w) * Tile::kSums + which) * kColumns + c);
        sum[0] += four.x, sum[1] += four.y, sum[2] += four.z, sum[3] += four.w;
      }
      const bool parts = at.tiles > 1;
      float* to =
          parts
              ? op.work.value.at(at.r) +
                    (((at.item * at.tiles + at.tile) * Tile::kSums + which) * max(at.T, at.Q) + row) * at.K +
                    c
              : of.gradient.at(at.r) + at.rows_at(at.K, rows) + std::int64_t{row} * at.H * at.K + c;
      const Write once = parts ? Write::overwrite : of.write;
      const Write mode = which == 1 || round == 0 ? once : Write::add;
      if (mode == Write::overwrite && c + 4 <= at.K && is_aligned16(to)) {
        *reinterpret_cast<float4*>(to) = make_float4(sum[0], sum[1], sum[2], sum[3]);
      } else {
        CT_FOR(j, 4)
          if (c + j < at.K) put(mode, to + j, sum[j]);
      }
    }
  }
};

template <DecayKind kLaw, int LC>
__global__ void __launch_bounds__(32 * kDiagonalWarps, blocks_of(kLaw))
    diagonal_backward_kernel(const __grid_constant__ Op op) {
  using Walk = FadingWalk<kLaw, LC>;
  using Tile = typename Walk::Tile;
  constexpr int kRows = Tile::kRows;
  constexpr int kTurns =
      2 * kDiagonalStages - 1;  // of a segment: stages to walk, then all from the last back
  extern __shared__ float4 shared_fours[];
  float* stages = reinterpret_cast<float*>(shared_fours);
  float* sums = stages + 2 * Tile::kStage;
  float* slots = sums + kDiagonalTokens * static_cast<int>(blockDim.x / 32) * Tile::kSums * Tile::kColumns;
  const int numbers = Tile::numbers(op.V());
  const Walk at(op, reinterpret_cast<std::int32_t*>(slots + Tile::kSlots * numbers));
  const FadingLaw<kLaw, LC> law(at);
  FadingGradients<Tile> d;
  FadingBack<kLaw, LC> back{at, law, d, sums};

  const auto stage_of = [](int turn) {
    return turn % kTurns < kDiagonalStages ? turn % kTurns : kTurns - 1 - turn % kTurns;
  };
  const int segments = diagonal_segments(at.T), turns = segments * kTurns;
  const auto token_of = [&](int turn) {
    return (segments - 1 - turn / kTurns) * kDiagonalSegment + stage_of(turn) * kDiagonalTokens;
  };
  const auto walks = [](int turn) { return turn % kTurns < kDiagonalStages - 1; };
  __shared__ const float* sources[6];
  at.begin_sources(sources);
  if (op.q.write == Write::overwrite && at.tiles == 1) at.clear_blind(op.q.gradient.at(at.r), at.K, 0, at.K);
  typename Walk::State S;
  bool more = true;
  for (; more; ++back.round) {  // gradients are linear in those of the reads
    more = at.begin_round(back.round);
    at.entries(op.end.gradient, d.G.v[0], back.round == 0);
    if constexpr (Tile::kComplex) at.entries(op.end_imag.gradient, d.G.v[1], back.round == 0);
    at.begin_stage(sources, stages, token_of(0), token_of(0) - 1, walks(0));
    for (int turn = 0; turn < turns; ++turn) {
      float* stage = stages + turn % 2 * Tile::kStage;
      at.end_stage(stage);
      if (turn + 1 < turns)
        at.begin_stage(sources, stages + (turn + 1) % 2 * Tile::kStage, token_of(turn + 1),
                       token_of(turn + 1) - 1, walks(turn + 1));
      const int number = stage_of(turn), token = token_of(turn);
      const float* begin =
          number == 0 ? at.kept(segments - 1 - turn / kTurns) : slots + (number - 1) * numbers;
      float* between = slots + (kDiagonalStages - 1) * numbers;  // states behind the stage's tokens
      S.load(begin);
#pragma unroll 1
      for (int t = 0; t < kDiagonalTokens - (walks(turn) ? 0 : 1); ++t) {
        float k[4], column_gate[4] = {}, v[kRows], step[kRows] = {};
        at.columns(stage, 0, t, k);
        if constexpr (Tile::kGates) at.columns(stage, 2, t, column_gate);
        at.rows(stage, 0, t, v);
        if constexpr (!Tile::kComplex) at.rows(stage, 2, t, step);
        law.step(S, k, column_gate, v, step);
        if (!walks(turn) && (Tile::kComplex || t < kDiagonalTokens - 2)) S.store(between + t * numbers);
      }
      if (walks(turn)) {
        S.store(slots + number * numbers);
        continue;
      }
      const auto before = [&](int t) { return t == 0 ? begin : between + (t - 1) * numbers; };
      int last = kDiagonalTokens - 1;
      if constexpr (Tile::kComplex) {
        const int end = at.T - token;
        if (end >= 0 && end <= last) back.template token<false>(stage, token, end, before(end));
        last = min(last, end - 1);
      }
      CT_ROLLED(int t = last; t >= 0; --t) {
        if constexpr (Tile::kComplex) {
          back.template token<true>(stage, token, t, before(t));
        } else {
          if (t < kDiagonalTokens - 1) S.load(before(t));
          back.template token<true>(stage, token, t, S);
        }
      }
      __syncthreads();
      back.join(token);
    }
  }
  back.put_whole();
}

/// The gradient of k, q or column gates, of parts [B H, tiles, sums, max(T, Q), K].
__global__ void diagonal_join_kernel(const __grid_constant__ Op op, int tiles, int sums) {
  const int which = static_cast<int>(blockIdx.y), r = static_cast<int>(blockIdx.z), K = op.K(), H = op.H();
  const int count = which == 1 ? op.Q() : op.T();
  const In<float>& of = which == 0 ? op.k : which == 1 ? op.q : op.column_log_decay;
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= std::int64_t{op.B()} * count * H * K || !of.wanted()) return;
  const int c = static_cast<int>(i % K), h = static_cast<int>(i / K % H);
  const std::int64_t row = i / K / H, item = row / count * H + h;
  const std::int64_t apart = std::int64_t{max(op.T(), op.Q())} * K;
  const float* part = op.work.value.at(r) + (item * tiles * sums + which) * apart + row % count * K + c;
  const bool blind = which == 1 && op.position && op.position.value.at(r)[row] <= 0;
  float sum = 0;
  for (int tile = 0; tile < tiles && !blind; ++tile) sum += part[tile * sums * apart];
  put(of.write, of.gradient.at(r) + i, sum);
}

/// f(law, lanes across) as constants.
void with_fading(const Op& op, auto&& f) {
  const DecayKind of = op.gated()       ? DecayKind::gates
                       : op.complex()   ? DecayKind::complex
                       : op.of_keys     ? DecayKind::keys
                       : op.either_sign ? DecayKind::signs
                                        : DecayKind::rates;
  with_value<DecayKind::gates, DecayKind::complex, DecayKind::keys, DecayKind::signs, DecayKind::rates>(
      of, [&](auto law) { with_least<8, 16, 32>((op.K() + 3) / 4, [&](auto across) { f(law, across); }); });
}

/// Bytes of a block's table of queries.
std::size_t table_bytes(const Op& op) { return op.position ? op.T() * sizeof(std::int32_t) : 0; }

bool covers(const Op& op) {
  const bool steady = op.steady() && (op.complex() || op.T() > 1);  // of one token a step is either
  if ((op.position && (op.start || op.start_imag)) || op.K() > 128 || op.T() == 0 || op.V() == 0 ||
      op.complex() != steady)
    return false;
  if (!apart(op.q, op.k, op.v, op.step, op.log_rate, op.row_log_decay, op.angle, op.read, op.column_log_decay,
             op.read_imag, op.start, op.start_imag))
    return false;
  std::size_t bytes = 0;
  with_fading(op, [&](auto law, auto across) {
    using Tile = FadingTile<decltype(law)::value, decltype(across)::value>;
    bytes = std::max(Tile::forward_bytes(op.V()), Tile::backward_bytes(op.V()));
  });
  return bytes + table_bytes(op) + 64 <= shared_memory_limit();  // 6 pointers
}

void plan(Op& op) {
  with_fading(op, [&](auto law, auto across) {
    using Tile = FadingTile<decltype(law)::value, decltype(across)::value>;
    const int R = op.k.value.R, tiles = Tile::tiles(op.V());
    op.states.value =
        shaped<float>(R, {op.B(), op.H(), diagonal_segments(op.T()), tiles * Tile::numbers(op.V())});
    if (tiles > 1)
      op.work.value =
          shaped<float>(R, {op.B(), op.H(), tiles * Tile::kSums, std::max(op.T(), op.Q()) * op.K()});
  });
}

void forward(const Exec& exec, const Op& op) {
  with_fading(op, [&](auto law, auto across) {
    using Tile = FadingTile<decltype(law)::value, decltype(across)::value>;
    launch(exec, Op::kName, diagonal_forward_kernel<decltype(law)::value, decltype(across)::value>,
           per_replica(op.B() * op.H() * Tile::tiles(op.V()), op.k.value.R), 32 * Tile::warps(op.V()),
           Tile::forward_bytes(op.V()) + table_bytes(op), op);
  });
}

void backward(const Exec& exec, const Op& op) {
  with_fading(op, [&](auto law, auto across) {
    using Tile = FadingTile<decltype(law)::value, decltype(across)::value>;
    const int tiles = Tile::tiles(op.V());
    launch(exec, Op::kName, diagonal_backward_kernel<decltype(law)::value, decltype(across)::value>,
           per_replica(op.B() * op.H() * tiles, op.k.value.R), 32 * Tile::warps(op.V()),
           Tile::backward_bytes(op.V()) + table_bytes(op), op);
    if (tiles == 1) return;
    const dim3 grid(blocks_for(std::max(op.k.value.size(), op.q.value.size()), 256), Tile::kSums,
                    static_cast<unsigned>(op.k.value.R));
    launch(exec, Op::kName, diagonal_join_kernel, grid, 256, 0, op, tiles, Tile::kSums);
  });
}

}  // namespace

namespace forms {
void diagonal_registers() { add_form<Op>({"registers", covers, plan, forward, backward}); }
}  // namespace forms

}  // namespace crosstalk
