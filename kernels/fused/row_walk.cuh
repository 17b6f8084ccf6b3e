// A walk token after token with the state in the registers of a block (row_cells.cuh): how the forms of FwmRead and NetworkRead
// are cut, and what a walk knows of its sequence and head. Forward keeps the state at some tokens. Backward takes a chunk of tokens
// at a time, the last first, keeps the state before each of them in shared memory, and sums what is linear in a column of it over
// each warp's rows, and over warps at the chunk's end.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/fused/apart.h"
#include "kernels/fused/row_cells.cuh"
#include "kernels/law/law_walk.h"

namespace crosstalk::device {

constexpr int kWalkRows = 64, kWalkColumns = 64;  ///< the most of a state: V and K
constexpr int kWalkStaged =
    16;  ///< tokens staged at once forward, the most of a chunk, about those between kept states
constexpr int kWalkFewest = 4;  ///< tokens of a chunk, though a block of few warps has less
/// Shared memory of eight warps going back, on every GPU, since the cut into chunks is in the bits: two blocks of an H100's
/// multiprocessor, one where a block may have 99 KiB.
constexpr int kWalkFloats = 98 * 1024 / 4;

/// Places of numbers in shared memory on the way back, and how many tokens fit.
struct RowPlan {
  int C, warps, slot, length, chunks;  ///< slot: numbers of a state; length: tokens of a chunk
  int group, starts;                   ///< chunks between kept states, and how many of these
  std::size_t bytes;
  static int warps_of(int rows) { return (rows + 7) / 8; }
  /// Beside the state, a key and a query: numbers of a token, and of the block.
  template <class Op>
  RowPlan(const Op& op, int of_token, int of_block)
      : C(row_cells(op.K())), warps(warps_of(op.V())), slot(warps * 32 * C) {
    const int fixed = warps * 4 * C + of_block, token = slot + 8 * C + of_token;
    length = (kWalkFloats * warps / 8 - fixed) / token;
    length = length < kWalkFewest ? kWalkFewest : length < kWalkStaged ? length : kWalkStaged;
    bytes = sizeof(float) * static_cast<std::size_t>(fixed + length * token);
    chunks = (op.T() + length - 1) / length;
    group = length < kWalkStaged ? kWalkStaged / length : 1;
    starts = (chunks + group - 1) / group;
  }
  bool covers(const auto& op) const {
    return (!op.position || (apart(op.q, op.k) && apart(op.q, op.v))) && op.T() > 0 &&
           op.K() <= kWalkColumns && op.V() <= kWalkRows && bytes <= shared_memory_limit();
  }
};

/// Facts of a block's sequence and head. kListed: queries stand where their positions say, else one behind every token.
template <int C, bool kListed, class Op, class Plan>
struct RowWalk {
  static constexpr int kWide = 4 * C;
  const Op& op;
  const Plan& plan;
  const RowCells<C> cells = {};
  const int item = static_cast<int>(blockIdx.x), r = static_cast<int>(blockIdx.y), row = cells.row;
  const int T = op.T(), Q = op.Q(), H = op.H(), K = op.K(), V = op.V(), b = item / H, h = item % H;
  const int threads = static_cast<int>(blockDim.x), thread = CT_THREAD;
  const law::Rows<float> q{op.q, r, b, h, Q, H, K}, k{op.k, r, b, h, T, H, K}, v{op.v, r, b, h, T, H, V};
  const bool inside = row < V, writes = inside && cells.part == 0;
  const std::int32_t* const position = kListed ? op.position.value.at(r) + std::int64_t{b} * Q : nullptr;

  /// Places in [B,T,H], [B,T,H,V] and [B,Q,H,V].
  __device__ std::int64_t token(int t) const { return (std::int64_t{b} * T + t) * H + h; }
  __device__ std::int64_t row_of(int t) const { return token(t) * V; }
  __device__ std::int64_t row_of_query(int i) const { return ((std::int64_t{b} * Q + i) * H + h) * V; }
  /// Writes q's gradient of query i: d and what each warp has at `parts`, which the block has written.
  CT_DEVICE void put_query(int i, const float* parts, auto&& d) const {
    for (int j = thread; q.gradient && j < K; j += threads) {
      float sum = d(j);
      for (int w = 0; w < plan.warps; ++w) sum += parts[w * kWide + j];
      put(op.q.write, q.gradient + i * q.apart + j, sum);
    }
  }
  /// Writes the gradients of a chunk's tokens from `first` on: what d(t, j, of_query, of_key) sets and returns (v's) of number j,
  /// and each warp's sums of a token's key, where its state stood, and of the query before it behind these; in last_query of the
  /// last. A thread writes a number's gradient of all fields, in their order: they may be one variable's.
  CT_DEVICE void put_chunk(int first, int n, const float* slots, const float* last_query, auto&& d) const {
    for (int t = cells.warp; t < n; t += plan.warps) {
      const std::int64_t at = first + t;
      const float* of_key = slots + t * plan.slot;
      const float* of_query = t + 1 < n ? of_key + plan.slot + kWide : last_query;
      const int apart = t + 1 < n ? 32 * C : kWide;
      CT_UNROLL(int j = cells.lane; j < kWalkRows; j += 32) {
        float d_query = 0, d_key = 0;
        const float d_value = d(t, j, d_query, d_key);
        for (int w = 0; w < plan.warps && j < K; ++w)
          d_query += of_query[w * apart + j], d_key += of_key[w * 32 * C + j];
        if (!kListed && j < K && q.gradient) put(op.q.write, q.gradient + at * q.apart + j, d_query);
        if (j < K && k.gradient) put(op.k.write, k.gradient + at * k.apart + j, d_key);
        if (j < V && v.gradient) put(op.v.write, v.gradient + at * v.apart + j, d_value);
      }
    }
  }
};

}  // namespace crosstalk::device
