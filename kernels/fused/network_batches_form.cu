// NetworkRead with hidden units, a mini-batch at a time (law/network_batches.h): a block a sequence and head.
//
//   precision   float
//   network     hidden units; mini-batches of up to 16 tokens; numbers of keys, values and hidden units that are multiples of 4
//   queries     any; with positions they are no variable of the keys or values
//   products    on tensor cores, of three TF32 products each; weights come from the states in global memory, each by one warp
//   memory      what stands beside the states, 208 KiB (with momentum 222) with 64 keys, 64 values, 256 hidden units and 16 tokens, is
//               shared where it fits, else global
// SPDX-License-Identifier: Apache-2.0
#include <new>

#include "kernels/fused/apart.h"
#include "kernels/law/law_team.cuh"
#include "kernels/law/network_batches_backward.h"
#include "kernels/law/network_batches_forward.h"
#include "kernels/matmul/tensor_core.cuh"

namespace crosstalk {
namespace {
using namespace device;
using BatchesOp = NetworkRead<float>;
using BatchesLaw = law::NetworkBatches<float>;
constexpr int kBatchesWarps = 16, kBatchesThreads = 32 * kBatchesWarps;
constexpr int kSpareTiles =
    12;  // sums of 16 x 16 numbers that warps hand over, where several share a product's terms

CT_DEVICE Four<float> four_or_none(bool there, const float* from) {
  return there ? *reinterpret_cast<const Four<float>*>(from) : Four<float>{};
}
CT_DEVICE float2 two_or_none(bool there, const float* from) {
  return there ? *reinterpret_cast<const float2*>(from) : float2{};
}

/// Left factor of a product, 16 rows and 8 terms, in TF32 halves: rows g and g + 8 of two terms of a lane.
struct BatchFactor {
  unsigned high[4], low[4];
  CT_DEVICE BatchFactor(float first, float first_below, float second, float second_below) {
    const float x[4] = {first, first_below, second, second_below};
    CT_FOR(i, 4) split(x[i], high[i], low[i]);
  }
};
/// Adds the product of eight terms to two tiles of eight columns, whose two terms of a lane are first[i] and second[i].
CT_DEVICE void add_terms(float (&sums)[2][4], const BatchFactor& a, const float (&first)[2],
                         const float (&second)[2]) {
  unsigned high[2][2], low[2][2];
  CT_FOR(i, 2) split(first[i], high[i][0], low[i][0]), split(second[i], high[i][1], low[i][1]);
  CT_FOR(i, 2) mma_tf32(sums[i], a.low, high[i][0], high[i][1]);
  CT_FOR(i, 2) mma_tf32(sums[i], a.high, low[i][0], low[i][1]);
  CT_FOR(i, 2) mma_tf32(sums[i], a.high, high[i][0], high[i][1]);
}

struct TileSums {
  float of[2][4];
};
/// A warp's sums over terms 16 first .. 16 end - 1 of rows x [rows,D] with 16 columns from n on: of w [N,D] (kAcross), whose column
/// n + 8 i + c is column c of tile i, else of w [D,N], whose column n + 2 c + i is. Terms 4 t .. 4 t + 3 of sixteen are those of lane t
/// of four, so that loads are wide.
template <bool kAcross>
CT_DEVICE TileSums tile_sums(int rows, int N, int D, const float* x, const float* w, int n, int first,
                             int end) {
  constexpr int kAhead = 4;  // chunks of 16 terms whose loads are on their way at once
  const int g = CT_LANE / 4, t = CT_THREAD % 4;
  TileSums sums = {};
  for (; first < end; first += kAhead) {
    float of[kAhead][4][2];  // by term and tile
    CT_FOR(c, kAhead) {
      const int d = (first + c) * 16 + 4 * t;
      const bool there = first + c < end && d < D;
      if constexpr (kAcross) {
        CT_FOR(i, 2) {
          const int row = n + 8 * i + g;
          const Four<float> terms = four_or_none(there && row < N, w + std::int64_t{row} * D + d);
          CT_FOR(e, 4) of[c][e][i] = terms.v[e];
        }
      } else {
        CT_FOR(e, 4) {
          const float2 columns = two_or_none(there && n + 2 * g < N, w + std::int64_t{d + e} * N + n + 2 * g);
          of[c][e][0] = columns.x, of[c][e][1] = columns.y;
        }
      }
    }
    CT_FOR(c, kAhead) {
      if (first + c >= end) break;
      const int d = (first + c) * 16 + 4 * t;
      const Four<float> upper = four_or_none(d < D && g < rows, x + g * D + d),
                        lower = four_or_none(d < D && g + 8 < rows, x + (g + 8) * D + d);
      CT_UNROLL(int e = 0; e < 4; e += 2)
        add_terms(sums.of, BatchFactor(upper.v[e], lower.v[e], upper.v[e + 1], lower.v[e + 1]), of[c][e],
                  of[c][e + 1]);
    }
  }
  return sums;
}

/// to [D,N] grows by sums of weight x y over rows, x [rows,D], y [rows,N]: tiles of 16 x 16 numbers, kAhead of them at once. A lane has four
/// numbers side by side of two rows of a tile.
__device__ __noinline__ void outer_tiles(int rows, int D, int N, const float* weight, const float* x,
                                         const float* y, const law::ScaledSum<float>& to) {
  constexpr int kAhead = 4;
  const int warp = CT_WARP, g = CT_LANE / 4, t = CT_THREAD % 4;
  const int groups = (N + 16 * kAhead - 1) / (16 * kAhead), all = (D + 15) / 16 * groups;
  for (int group = warp; group < all; group += kBatchesWarps) {
    const int d = group / groups * 16 + g, n = group % groups * (16 * kAhead);
    Four<float> before[kAhead][2];
    CT_FOR2(c, kAhead, low, 2) {
      const int column = n + 16 * c + 4 * t, at = (d + 8 * low) * N + column;
      const bool there = d + 8 * low < D && column < N;
      const Four<float> a = four_or_none(there, to.a + at), b = four_or_none(there && to.b, to.b + at);
      CT_FOR(e, 4) before[c][low].v[e] = to.by_a * a.v[e] + to.by_b * b.v[e];
    }
    const auto factor = [&](int token, int row) {
      return token < rows && row < D ? x[token * D + row] * (weight ? weight[token] : 1.0f) : 0.0f;
    };
    const BatchFactor early(factor(t, d), factor(t, d + 8), factor(t + 4, d), factor(t + 4, d + 8)),
        late(factor(t + 8, d), factor(t + 8, d + 8), factor(t + 12, d), factor(t + 12, d + 8));
    CT_FOR(c, kAhead) {
      const int column = n + 16 * c + 2 * g;
      float of[4][2], sums[2][4] = {};
      CT_FOR(e, 4) {
        const float2 here = two_or_none(t + 4 * e < rows && column < N, y + (t + 4 * e) * N + column);
        of[e][0] = here.x, of[e][1] = here.y;
      }
      add_terms(sums, early, of[0], of[1]);
      add_terms(sums, late, of[2], of[3]);
      CT_FOR(low, 2) {
        if (d + 8 * low >= D || n + 16 * c + 4 * t >= N) continue;
        Four<float> grown;
        CT_FOR(e, 4) grown.v[e] = before[c][low].v[e] + to.sign * sums[e % 2][2 * low + e / 2];
        *reinterpret_cast<Four<float>*>(to.to + (d + 8 * low) * N + n + 16 * c + 4 * t) = grown;
      }
    }
  }
}

/// to [rows,N] = [to +] x w + bias (kAcross: x w^T). A warp has 16 columns; where warps are left over, they share the terms. Not inlined,
/// as each call would be code that a block waits for.
template <bool kAcross>
__device__ __noinline__ void make_product(int rows, int N, int D, const float* x, const float* w, float* to,
                                          bool adds, const float* bias, float* spare) {
  const int warp = CT_WARP, lane = CT_LANE, g = lane / 4, t = lane % 4;
  const int tiles = (N + 15) / 16, chunks = (D + 15) / 16;
  const int most = max(1, min(kBatchesWarps / tiles, kSpareTiles / tiles + 1)),
            share = (chunks + most - 1) / most, parts = (chunks + share - 1) / share;
  const int together = kBatchesWarps / parts, part = warp / together;
  CT_ROLLED(int first = 0; first < tiles; first += together) {
    const int tile = first + warp % together, from = part * share;
    const bool mine = tile < tiles && part < parts;
    TileSums sums;
    if (mine) sums = tile_sums<kAcross>(rows, N, D, x, w, 16 * tile, from, min(from + share, chunks));
    if (parts > 1) {
      float* const handed = spare + tile * 256 + lane;
      if (mine && part > 0)
        CT_FOR(c, 8) handed[(part - 1) * tiles * 256 + 32 * c] = sums.of[c / 4][c % 4];
      __syncthreads();
      for (int other = 0; mine && part == 0 && other + 1 < parts; ++other)
        CT_FOR(c, 8) sums.of[c / 4][c % 4] += handed[other * tiles * 256 + 32 * c];
    }
    if (!mine || part > 0) continue;
    CT_FOR(c, 8) {
      const int row = g + c % 4 / 2 * 8, within = 2 * t + c % 2,
                column = 16 * tile + (kAcross ? 8 * (c / 4) + within : 2 * within + c / 4);
      if (row >= rows || column >= N) continue;
      float* const place = to + row * N + column;
      *place = (adds ? *place : 0.0f) + sums.of[c / 4][c % 4] + (bias ? bias[column] : 0.0f);
    }
  }
  __syncthreads();
}
/// to_i = sum_j x_ij y_ij, a warp a row.
__device__ __noinline__ void make_dots(int rows, int n, const float* x, const float* y, float* to) {
  for (int i = CT_WARP; i < rows; i += kBatchesWarps) {
    const float sum = warp_dot(x + i * n, y + i * n, n);
    if (threadIdx.x % 32 == 0) to[i] = sum;
  }
  __syncthreads();
}

/// A block with the products of a mini-batch on tensor cores, of three TF32 products each.
struct ProductBlock : law::Block<float, kBatchesWarps> {
  float* spare;  ///< shared, kSpareTiles

  __device__ void each(int n, auto&& f) const {
    CT_ROLLED(int i = CT_THREAD; i < n; i += kBatchesThreads) f(i);
    __syncthreads();
  }
  template <int kCount, class Term>
  __device__ void add_up(int n, float (&totals)[kCount], Term&& term) const {
    for (int i = CT_THREAD; i < n; i += kBatchesThreads) term(i, totals);
    for (float& total : totals) {
      const float part = total;
      total = sum(kBatchesThreads, [&](int) { return part; });
    }
  }
  __device__ void copy(const float* from, float* to, std::int64_t n) const {
    constexpr int kAhead = 8;  // loads on their way at once
    CT_ROLLED(std::int64_t first = threadIdx.x; first < n / 4; first += kAhead * kBatchesThreads) {
      Four<float> held[kAhead];
      CT_FOR(c, kAhead) {
        const std::int64_t at = first + c * kBatchesThreads;
        held[c] = four_or_none(at < n / 4, from + 4 * at);
      }
      CT_FOR(c, kAhead) {
        const std::int64_t at = first + c * kBatchesThreads;
        if (at < n / 4) *reinterpret_cast<Four<float>*>(to + 4 * at) = held[c];
      }
    }
    __syncthreads();
  }
  __device__ void outer(int rows, int D, int N, const float* weight, const float* x, const float* y,
                        const law::ScaledSum<float>& to) const {
    outer_tiles(rows, D, N, weight, x, y, to);
    __syncthreads();
  }

  __device__ void product(bool down, int rows, int N, int D, const float* x, const float* w, float* to,
                          bool adds = false, const float* bias = nullptr) const {
    down ? make_product<false>(rows, N, D, x, w, to, adds, bias, spare)
         : make_product<true>(rows, N, D, x, w, to, adds, bias, spare);
  }
  __device__ void dots(int rows, int n, const float* x, const float* y, float* to) const {
    make_dots(rows, n, x, y, to);
  }
};

constexpr int kSpareNumbers = 256 * kSpareTiles;
std::size_t scratch_bytes(const BatchesOp& op) {
  return sizeof(float) * static_cast<std::size_t>(BatchesLaw::scratch(op) + kSpareNumbers);
}
bool fits_shared(const BatchesOp& op) {
  return scratch_bytes(op) + sizeof(BatchesLaw) + 128 <= shared_memory_limit();
}

template <bool kBack>
__global__ void __launch_bounds__(kBatchesThreads)
    network_batches_kernel(const __grid_constant__ BatchesOp op, bool shared) {
  extern __shared__ Four<float> batches_memory[];
  __shared__ float sums[kBatchesWarps];
  const int item = static_cast<int>(blockIdx.x), r = static_cast<int>(blockIdx.y);
  float* const behind_states =
      op.work.value.at(r) + item * std::int64_t{op.work.value.columns()} + BatchesLaw::work_of(op);
  // One for all threads: its pointers are more than registers, and one for each thread would fill the cache.
  __shared__ alignas(BatchesLaw) unsigned char place[sizeof(BatchesLaw)];
  if (threadIdx.x == 0)
    new (place) BatchesLaw(op, shared ? &batches_memory[kSpareNumbers / 4].v[0] : behind_states, r, item);
  __syncthreads();
  const BatchesLaw& law = *reinterpret_cast<const BatchesLaw*>(place);
  if constexpr (kBack)
    law.backward(ProductBlock{{sums}, batches_memory[0].v});
  else
    law.forward(ProductBlock{{sums}, batches_memory[0].v});
}

bool covers(const BatchesOp& op) {
  return op.hidden > 0 && op.hidden % 4 == 0 && op.K() % 4 == 0 && op.V() % 4 == 0 &&
         op.mini_batch <= law::kMostBatch && (!op.position || (apart(op.q, op.k) && apart(op.q, op.v))) &&
         op.T() > 0;
}

void plan(BatchesOp& op) {
  const int R = op.k.value.R;
  op.states.value =
      shaped<float>(R, {op.B(), op.H(), law::segments(BatchesLaw::batches_of(op)), BatchesLaw::numbers(op)});
  const std::int64_t beside = fits_shared(op) ? 0 : BatchesLaw::scratch(op);
  op.work.value = shaped<float>(R, {op.B(), op.H(), BatchesLaw::work_of(op) + beside});
}

template <bool kBack>
void run(const Exec& exec, const BatchesOp& op) {
  const bool shared = fits_shared(op);
  launch(exec, kBack ? "network_read backward by mini-batches" : "network_read by mini-batches",
         network_batches_kernel<kBack>, per_replica(op.B() * op.H(), op.k.value.R), kBatchesThreads,
         shared ? scratch_bytes(op) : kSpareNumbers * sizeof(float), op, shared);
}

}  // namespace

namespace forms {
void network_batches() { add_form<BatchesOp>({"mini-batches", covers, plan, run<false>, run<true>}); }
}  // namespace forms

}  // namespace crosstalk
