// Gradients of looked-up tables as sums over lists of where each id stands (lookup.h), made before the
// step. Pieces of a list are added in their order: sums depend on the shapes and the ids alone.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/base/device/cluster.cuh"
#include "kernels/base/device/each.cuh"
#include "kernels/base/device/early_launch.cuh"
#include "kernels/embedding/lookup.h"

namespace crosstalk::device {
namespace {

constexpr int kListThreads = 256;
/// Entries of a list that a warp adds up alone; longer ones are left to a block of many warps, very long ones
/// (filler tokens) to a cluster of blocks.
constexpr int kLongList = 1024, kVeryLongList = 4096, kLongThreads = 1024, kLongRows = 512, kLongBlocks = 8;

/// Tables of a lookup whose gradients one launch adds up by lists, so that d_y comes from memory once.
template <class Real>
struct Sums {
  Tensor<Real> d_y;
  int tables = 0;
  Tensor<std::int32_t> order[kMaxTables], start[kMaxTables];
  Tensor<Real> d_table[kMaxTables];
  Write mode[kMaxTables] = {Write::none, Write::none, Write::none};
};

/// Gradient of one row of a table from its list: kPieces warps own 64 columns of it; each adds its piece of
/// the list. Half a warp reads an entry (four columns a lane), the halves take turns, and kDepth entries of
/// each are under way at once; the sums of halves, pieces and blocks are added in their order. With kPieces >
/// 1 the whole block, and all `blocks` of the cluster of which this is number `rank`, must call it.
template <class Real, int kPieces>
__device__ void sum_list(const Sums<Real>& a, int table, int row, int column, int begin, int end,
                         Real (*parts)[64], int blocks = 1, int rank = 0) {
  constexpr int kDepth = 8;
  const int r = static_cast<int>(blockIdx.z), lane = CT_LANE, warp = CT_WARP, half = lane / 16;
  const int d = a.d_y.columns();
  const bool aligned = d % 4 == 0;
  const std::int32_t* listed = a.order[table].at(r);
  const Real* x = a.d_y.at(r) + column;
  Real sum[4] = {};
  for (int i0 = begin; i0 < end; i0 += 2 * kDepth) {
    int at[kDepth];
    Real v[kDepth][4];
    CT_FOR(k, kDepth) {
      const int i = i0 + 2 * k + half;
      at[k] = i < end ? listed[i] : -1;
    }
    CT_FOR(k, kDepth)
      load4(x + std::int64_t{at[k] < 0 ? 0 : at[k]} * d, at[k] < 0 ? 0 : d - column, aligned, v[k]);
    CT_FOR2(k, kDepth, c, 4) sum[c] += v[k][c];
  }
  CT_FOR(c, 4) sum[c] += __shfl_xor_sync(kFullWarp, sum[c], 16);
  if constexpr (kPieces > 1) {
    CT_FOR(c, 4) parts[warp][lane % 16 * 4 + c] = sum[c];
    __syncthreads();
    if (warp == 0) {
      CT_UNROLL(int i = 1; i < kPieces; ++i)
        CT_FOR(c, 4) sum[c] += parts[i][lane % 16 * 4 + c];
    }
    if (blocks > 1) {
      if (warp == 0 && half == 0)
        CT_FOR(c, 4) parts[0][lane * 4 + c] = sum[c];
      CT_FOR(c, 4) sum[c] = cluster_sum(parts[0], lane % 16 * 4 + c, blocks, rank);
    }
    if (warp > 0 || rank > 0) return;
  }
  if (half > 0) return;
  Real* out = a.d_table[table].at(r) + std::int64_t{row} * d + column;
  CT_FOR(c, 4)
    if (column + c < d) put(a.mode[table], out + c, sum[c]);
}

/// kPieces warps a row, all rows whose lists have at most `most` entries. blockIdx.y: table and columns.
template <class Real, int kPieces>
__global__ void __launch_bounds__(kListThreads)
    sum_lists(const __grid_constant__ Sums<Real> a, int columns, int most) {
  wait_for_earlier();
  constexpr int kWarps = kListThreads / 32;
  static_assert(kPieces == 1 || kPieces == kWarps);
  __shared__ __align__(16) Real parts[kPieces > 1 ? kWarps : 1][64];
  const int r = static_cast<int>(blockIdx.z), lane = CT_LANE, warp = CT_WARP, piece = warp % kPieces;
  const int table = static_cast<int>(blockIdx.y) / columns,
            column = static_cast<int>(blockIdx.y) % columns * 64 + lane % 16 * 4;
  const Tensor<std::int32_t>& start = a.start[table];
  const int row = (static_cast<int>(blockIdx.x) * kWarps + warp) / kPieces;
  if (row >= static_cast<int>(start.size()) - 1) return;
  const int from = start.at(r)[row], count = start.at(r)[row + 1] - from;
  if (count > most || (count == 0 && a.mode[table] == Write::add)) return;
  sum_list<Real, kPieces>(a, table, row, column, from + count * piece / kPieces,
                          from + count * (piece + 1) / kPieces, parts);
}

/// Rows with longer lists: a cluster of blocks looks for them among kLongRows rows; all warps of its first
/// block add one up, or those of all its blocks a very long one. Clusters stand along x alone, the `pieces` of columns and tables
/// of the same rows side by side: the few that have work (those of a filler token, which has a small id) are the
/// first of their replica to be started.
template <class Real>
__global__ void __launch_bounds__(kLongThreads)
    sum_long_lists(const __grid_constant__ Sums<Real> a, int cluster, int columns, int pieces, int most) {
  constexpr int kWarps = kLongThreads / 32, kWords = kLongRows / 32;
  static_assert(kWords <= kWarps);
  __shared__ __align__(16) Real parts[kWarps][64];
  __shared__ unsigned longer[kWords];  // a bit a row
  const int r = static_cast<int>(blockIdx.z), lane = CT_LANE, warp = CT_WARP,
            rank = static_cast<int>(blockIdx.x) % cluster, number = static_cast<int>(blockIdx.x) / cluster;
  const int table = number % pieces / columns, column = number % pieces % columns * 64 + lane % 16 * 4;
  const Tensor<std::int32_t>& start = a.start[table];
  const int rows = static_cast<int>(start.size()) - 1, first = number / pieces * kLongRows;
  const auto count_of = [&](int row) { return row < rows ? start.at(r)[row + 1] - start.at(r)[row] : 0; };
  if (warp < kWords) {
    const unsigned found = __ballot_sync(kFullWarp, count_of(first + 32 * warp + lane) > most);
    if (lane == 0) longer[warp] = found;
  }
  __syncthreads();
  for (int word = 0; word < kWords; ++word) {
    for (unsigned found = longer[word]; found; found &= found - 1) {
      const int row = first + 32 * word + __ffs(static_cast<int>(found)) - 1, from = start.at(r)[row];
      const std::int64_t count = count_of(row);
      const int blocks = count > kVeryLongList ? cluster : 1, parts_of = kWarps * blocks,
                part = (blocks > 1 ? rank * kWarps : 0) + warp;
      if (blocks == 1 && rank > 0) continue;
      sum_list<Real, kWarps>(a, table, row, column, from + static_cast<int>(count * part / parts_of),
                             from + static_cast<int>(count * (part + 1) / parts_of), parts, blocks,
                             blocks > 1 ? rank : 0);
      __syncthreads();
    }
  }
}

/// The same for tables of few columns: a warp owns an entry, each lane every 32nd of its list.
template <class Real>
__global__ void __launch_bounds__(kListThreads) sum_narrow_lists(const __grid_constant__ Sums<Real> a) {
  wait_for_earlier();
  const int r = static_cast<int>(blockIdx.z), table = static_cast<int>(blockIdx.y), d = a.d_y.columns(),
            lane = CT_LANE;
  const int entry = (static_cast<int>(blockIdx.x) * kListThreads + CT_THREAD) / 32, row = entry / d,
            column = entry % d;
  const Tensor<std::int32_t>& start = a.start[table];
  if (row >= static_cast<int>(start.size()) - 1) return;
  const int begin = start.at(r)[row], end = start.at(r)[row + 1];
  const std::int32_t* listed = a.order[table].at(r);
  const Real* x = a.d_y.at(r) + column;
  Real sum = 0;
#pragma unroll 4
  for (int i = begin + lane; i < end; i += 32) sum += x[std::int64_t{listed[i]} * d];
  sum = warp_sum(sum);
  if (lane == 0) put(a.mode[table], a.d_table[table].at(r) + entry, sum);
}

/// One launch for all `sums`, lists with `many` entries a row or few.
template <class Real>
void launch_sums(const Exec& exec, const Sums<Real>& sums, bool many) {
  std::int64_t rows = 0;  // of the largest
  for (int t = 0; t < sums.tables; ++t) rows = std::max(rows, sums.d_table[t].rows());
  const int d = sums.d_y.columns();
  if (rows == 0 || d == 0 || sums.d_y.R == 0) return;
  constexpr int kWarps = kListThreads / 32;
  const unsigned columns = d < 8 ? 1 : blocks_for(d, 64);
  const auto grid = [&](std::int64_t blocks) {
    return dim3(static_cast<unsigned>(blocks), columns * static_cast<unsigned>(sums.tables),
                static_cast<unsigned>(sums.d_y.R));
  };
  const auto run = [&](auto* kernel, std::int64_t blocks, auto... more) {
    launch_early(exec, "lookup backward (lists)", kernel, grid(blocks), kListThreads, 0, sums, more...);
  };
  const int each = static_cast<int>(columns), any = 0x7fffffff;
  if (d < 8) {
    run(sum_narrow_lists<Real>, blocks_for(rows * d, kWarps));
  } else if (many) {
    run(sum_lists<Real, kWarps>, rows, each, any);
  } else {
    const bool longer = sums.d_y.rows() > kLongList;
    run(sum_lists<Real, 1>, blocks_for(rows, kWarps), each, longer ? kLongList : any);
    if (longer) {
      const int cluster = has_clusters(sum_long_lists<Real>) ? kLongBlocks : 1;
      const int pieces = each * sums.tables;
      launch_clusters(
          cluster, exec, "lookup backward (lists)", sum_long_lists<Real>,
          dim3(cluster * blocks_for(rows, kLongRows) * pieces, 1, static_cast<unsigned>(sums.d_y.R)),
          kLongThreads, 0, sums, cluster, each, pieces, kLongList);
    }
  }
}

/// Adds at most kFewIds rows to a table (the queries of a batch to the embedding), which lists would only delay: the first
/// warp of each id adds all rows of that id, in the order of n; 128 columns a warp.
template <class Real>
__global__ void __launch_bounds__(kListThreads)
    add_few_rows(const __grid_constant__ Lookup<Real> a, int table) {
  const Tensor<Real>& d_y = a.y.gradient;
  const int N = static_cast<int>(d_y.rows()), d = d_y.columns(), c = a.ids.value.columns(),
            r = static_cast<int>(blockIdx.z), lane = CT_LANE,
            n = static_cast<int>(blockIdx.x * kListThreads + threadIdx.x) / 32,
            column = static_cast<int>(blockIdx.y) * 128 + 4 * lane;
  if (n >= N) return;
  const std::int32_t* ids = a.ids.value.at(r) + a.channel[table];
  const int own = ids[n * c];
  if (own < 0) return;
  const bool aligned = d % 4 == 0;
  const Real* x = d_y.at(r) + column;
  Real sum[4], more[4];
  load4(x + std::int64_t{n} * d, d - column, aligned, sum);
  for (int m0 = 0; m0 < N; m0 += 32) {
    const int m = m0 + lane;
    unsigned same = __ballot_sync(kFullWarp, m < N && ids[m * c] == own);
    if (m0 <= n) {  // of these 32, those at or before n
      if (same & (n - m0 < 32 ? (1u << (n - m0)) - 1 : kFullWarp)) return;
      same &= n - m0 < 31 ? kFullWarp << (n - m0 + 1) : 0;
    }
    for (; same; same &= same - 1) {
      load4(x + std::int64_t{m0 + __ffs(static_cast<int>(same)) - 1} * d, d - column, aligned, more);
      CT_FOR(k, 4) sum[k] += more[k];
    }
  }
  Real* out = a.table[table].gradient.at(r) + std::int64_t{own} * d + column;
  CT_FOR(k, 4)
    if (column + k < d) put(Write::add, out + k, sum[k]);
}

/// Tables of long lists apart from the others. A table without lists has few rows added.
template <class Real>
void sum_by_lists(const Exec& exec, const Lookup<Real>& a) {
  for (bool many : {true, false}) {
    Sums<Real> sums;
    sums.d_y = a.y.gradient;
    for (int t = 0; t < a.tables; ++t) {
      if (!a.table[t].wanted() || (a.y.gradient.rows() > 64 * a.table[t].gradient.rows()) != many) continue;
      if (!a.order[t].value) continue;
      for (int other = 0; other < sums.tables; ++other) {
        if (sums.d_table[other].data != a.table[t].gradient.data) continue;
        launch_sums(exec, sums, many);  // two channels of one table take turns
        sums.tables = 0;
      }
      sums.order[sums.tables] = a.order[t].value, sums.start[sums.tables] = a.start[t].value;
      sums.mode[sums.tables] = a.table[t].write;
      sums.d_table[sums.tables++] = a.table[t].gradient;
    }
    launch_sums(exec, sums, many);
  }
  for (int t = 0; t < a.tables; ++t) {
    if (!a.table[t].wanted() || a.order[t].value) continue;
    const std::int64_t N = a.y.gradient.rows();
    const int R = a.y.gradient.R;
    if (N > kFewIds) throw std::logic_error("[lookup] many rows have no gradient on a GPU without lists");
    if (R == 0) continue;
    const Tensor<Real> table = a.table[t].gradient;
    if (a.table[t].write == Write::overwrite)
      each(exec, "lookup backward (few rows)", R, table.size(),
           [=] __device__(int r, std::int64_t i) { table.at(r)[i] = 0; });
    const dim3 grid(blocks_for(N, kListThreads / 32), blocks_for(a.y.gradient.columns(), 128),
                    static_cast<unsigned>(R));
    launch(exec, "lookup backward (few rows)", add_few_rows<Real>, grid, kListThreads, 0, a, t);
  }
}

}  // namespace
}  // namespace crosstalk::device
