// Table rows chosen by tokens.
//
// Backward, for each table: a block owns some rows of it; each of its warps walks one fixed slice of n, keeps
// what concerns the owned rows and adds it to sums of its own in shared memory, in the order of n; the slices
// are then added in their order. No atomics, and the order knows only N. Cost of a table with N = 19,200 ids,
// 600 rows and D = 64: every block reads all ids once (75 kB for each channel, from the L2 cache; 38 or 75
// blocks) and every row of d_y is read once. Narrow tables (D = 1, gates) fit whole in a block, so their ids
// are read once.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "kernels/base/each.cuh"
#include "kernels/embedding/lookup.h"
#include "kernels/embedding/lookup_lists.cuh"
#include "kernels/matmul/column_sum.cuh"

namespace crosstalk {
namespace {
using namespace device;

constexpr int kThreads = 256;

template <class Real>
__device__ __forceinline__ void load_piece(const Real* p, Real (&x)[1]) {
  x[0] = *p;
}
template <class Real>
__device__ __forceinline__ void load_piece(const Real* p, Real (&x)[4]) {
  load4(p, 4, true, x);
}

// kBatch pieces of rows a thread, all on their way at once: 4 columns each where kWide, else 1.
constexpr int kBatch = 4;
template <class Real, bool kWide>
__global__ void __launch_bounds__(kThreads) gather_rows(const __grid_constant__ Lookup<Real> a) {
  constexpr int kColumns = kWide ? 4 : 1;
  const int d = a.y.value.columns(), c = a.ids.value.columns(), r = blockIdx.y;
  const unsigned quads = static_cast<unsigned>(d / kColumns);  // pieces of a replica: fewer than 2^32
  const auto rows = static_cast<unsigned>(a.y.value.rows());
  Real sum[kBatch][kColumns] = {};
  unsigned n[kBatch];
  int j[kBatch];
#pragma unroll
  for (int m = 0; m < kBatch; ++m) {
    const unsigned i = (blockIdx.x * kBatch + static_cast<unsigned>(m)) * kThreads + threadIdx.x;
    n[m] = i / quads, j[m] = static_cast<int>(i % quads) * kColumns;
    if (a.bias.value && n[m] < rows)
      load_piece(a.bias.value.at(r) + n[m] % static_cast<unsigned>(a.bias_rows()) * d + j[m], sum[m]);
  }
  for (int t = 0; t < a.tables; ++t) {
    std::int32_t id[kBatch];
    Real x[kBatch][kColumns] = {};
#pragma unroll
    for (int m = 0; m < kBatch; ++m)
      id[m] = n[m] < rows ? a.ids.value.at(r)[static_cast<std::int64_t>(n[m]) * c + a.channel[t]]
                          : std::int32_t(-1);
#pragma unroll
    for (int m = 0; m < kBatch; ++m) {
      if (id[m] >= 0) load_piece(a.table[t].value.at(r) + static_cast<std::int64_t>(id[m]) * d + j[m], x[m]);
    }
#pragma unroll
    for (int m = 0; m < kBatch; ++m) {
#pragma unroll
      for (int k = 0; k < kColumns; ++k) sum[m][k] += x[m][k];
    }
  }
#pragma unroll
  for (int m = 0; m < kBatch; ++m) {
    if (n[m] >= rows) continue;
    Real* y = a.y.value.at(r) + static_cast<std::int64_t>(n[m]) * d + j[m];
    if constexpr (kWide) {
      *reinterpret_cast<Four<Real>*>(y) = {{sum[m][0], sum[m][1], sum[m][2], sum[m][3]}};
    } else {
      *y = sum[m][0];
    }
  }
}

/// One table's gradient.
template <class Real>
struct Scatter {
  Tensor<std::int32_t> ids;
  int channel = 0;
  Tensor<Real> d_y, d_table;
  Write mode = Write::none;
  int rows_per_block = 0;
};

constexpr int kSlices = 8;    // of n: one for each warp of a block
constexpr int kColumns = 64;  // of a block

template <class Real>
__global__ void __launch_bounds__(32 * kSlices) scatter_rows(const __grid_constant__ Scatter<Real> a) {
  extern __shared__ __align__(16) unsigned char raw[];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, r = blockIdx.z;
  const int d = a.d_y.columns(), c = a.ids.columns(), rows = static_cast<int>(a.d_table.rows());
  const int row0 = static_cast<int>(blockIdx.x) * a.rows_per_block,
            column0 = static_cast<int>(blockIdx.y) * kColumns;
  const int owned = min(a.rows_per_block, rows - row0), width = min(kColumns, d - column0);
  Real* sums = reinterpret_cast<Real*>(raw);  // [slice][row][column]
  Real* own = sums + warp * a.rows_per_block * kColumns;
  for (int i = lane; i < owned * kColumns; i += 32) own[i] = 0;
  __syncwarp();

  const int n = static_cast<int>(a.d_y.rows()), slice = (n + kSlices - 1) / kSlices;
  const int begin = warp * slice, end = min(n, begin + slice);
  const std::int32_t* ids = a.ids.at(r) + a.channel;
  const Real* d_y = a.d_y.at(r) + column0;
  const bool low = lane < width, high = lane + 32 < width;
  constexpr int kDepth = 4;
  for (int i0 = begin; i0 < end; i0 += 32 * kDepth) {
    int row[kDepth];
#pragma unroll
    for (int k = 0; k < kDepth; ++k) {
      const int i = i0 + 32 * k + lane;
      row[k] = i < end ? ids[static_cast<std::int64_t>(i) * c] - row0 : -1;
    }
#pragma unroll
    for (int k = 0; k < kDepth; ++k) {
      unsigned found = __ballot_sync(kFullWarp, row[k] >= 0 && row[k] < owned);
      while (found) {  // up to four rows at a time, so that their loads overlap
        int target[4];
        Real x[4], y[4];
#pragma unroll
        for (int m = 0; m < 4; ++m) {
          const int bit = found ? __ffs(static_cast<int>(found)) - 1 : -1;
          target[m] = __shfl_sync(kFullWarp, row[k], bit < 0 ? 0 : bit);
          if (bit < 0) target[m] = -1;
          const std::int64_t at = static_cast<std::int64_t>(i0 + 32 * k + (bit < 0 ? 0 : bit)) * d + lane;
          x[m] = bit >= 0 && low ? d_y[at] : Real(0);
          y[m] = bit >= 0 && high ? d_y[at + 32] : Real(0);
          found &= found - 1;
        }
#pragma unroll
        for (int m = 0; m < 4; ++m) {
          if (target[m] < 0) continue;
          own[target[m] * kColumns + lane] += x[m];
          own[target[m] * kColumns + lane + 32] += y[m];
        }
      }
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < owned * kColumns; i += 32 * kSlices) {
    const int column = i % kColumns;
    if (column >= width) continue;
    Real total = 0;
#pragma unroll
    for (int s = 0; s < kSlices; ++s) total += sums[s * a.rows_per_block * kColumns + i];
    put(a.mode, a.d_table.at(r) + static_cast<std::int64_t>(row0 + i / kColumns) * d + column0 + column,
        total);
  }
}

constexpr int kNarrowSlices = 16;

// D columns of few: blockIdx.y is the column. A warp adds 32 neighbours of n at once; lanes that hit the same
// row take turns in the order of n.
template <class Real>
__global__ void __launch_bounds__(32 * kNarrowSlices)
    scatter_column(const __grid_constant__ Scatter<Real> a) {
  extern __shared__ __align__(16) unsigned char raw[];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, r = blockIdx.z, column = blockIdx.y;
  const int d = a.d_y.columns(), c = a.ids.columns(), rows = static_cast<int>(a.d_table.rows());
  const int row0 = static_cast<int>(blockIdx.x) * a.rows_per_block,
            owned = min(a.rows_per_block, rows - row0);
  Real* sums = reinterpret_cast<Real*>(raw);  // [slice][row]
  Real* own = sums + warp * a.rows_per_block;
  for (int i = lane; i < owned; i += 32) own[i] = 0;
  __syncwarp();
  const int n = static_cast<int>(a.d_y.rows()), slice = (n + kNarrowSlices - 1) / kNarrowSlices;
  const int begin = warp * slice, end = min(n, begin + slice);
  const std::int32_t* ids = a.ids.at(r) + a.channel;
  const Real* d_y = a.d_y.at(r) + column;
#pragma unroll 4
  for (int i0 = begin; i0 < end; i0 += 32) {
    const int i = i0 + lane;
    int row = i < end ? ids[static_cast<std::int64_t>(i) * c] - row0 : -1;
    const Real x = i < end ? d_y[static_cast<std::int64_t>(i) * d] : Real(0);
    if (row >= owned) row = -1;
    const unsigned same = __match_any_sync(kFullWarp, row);
    const int turn = row < 0 ? -1 : __popc(same & ((1u << lane) - 1));
    for (int k = 0; __any_sync(kFullWarp, turn >= k); ++k) {
      if (turn == k) own[row] += x;
      __syncwarp();
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < owned; i += 32 * kNarrowSlices) {
    Real total = 0;
#pragma unroll
    for (int s = 0; s < kNarrowSlices; ++s) total += sums[s * a.rows_per_block + i];
    put(a.mode, a.d_table.at(r) + static_cast<std::int64_t>(row0 + i) * d + column, total);
  }
}

constexpr int kFew = 256;

// A handful of rows added to a table (the queries of a batch to the embedding): warp n, if no n before it has
// its id, adds all rows of that id in the order of n; 128 columns a warp.
template <class Real>
__global__ void __launch_bounds__(kThreads) add_few_rows(const __grid_constant__ Scatter<Real> a) {
  const int N = static_cast<int>(a.d_y.rows()), lane = threadIdx.x % 32, r = blockIdx.z,
            n = static_cast<int>(blockIdx.x * (kThreads / 32) + threadIdx.x / 32);
  const int d = a.d_y.columns(), column = static_cast<int>(blockIdx.y) * 128 + 4 * lane;
  if (n >= N) return;
  const std::int32_t* ids = a.ids.at(r) + a.channel;
  const int c = a.ids.columns(), own = ids[n * c];
  if (own < 0) return;
  const bool aligned = d % 4 == 0;
  const Real* x = a.d_y.at(r) + column;
  Real* out = a.d_table.at(r) + static_cast<std::int64_t>(own) * d + column;
  Real sum[4], before[4], y[4];
  load4(x + static_cast<std::int64_t>(n) * d, d - column, aligned, sum);
  load4(out, d - column, aligned, before);
  for (int m0 = 0; m0 < N; m0 += 32) {
    const int m = m0 + lane;
    unsigned same = __ballot_sync(kFullWarp, m < N && ids[m * c] == own);
    if (m0 <= n) {
      const unsigned earlier = n - m0 < 32 ? (1u << (n - m0)) - 1 : kFullWarp;
      if (same & earlier) return;
      same &= n - m0 < 31 ? kFullWarp << (n - m0 + 1) : 0;
    }
    for (; same; same &= same - 1) {
      load4(x + static_cast<std::int64_t>(m0 + __ffs(static_cast<int>(same)) - 1) * d, d - column, aligned,
            y);
#pragma unroll
      for (int k = 0; k < 4; ++k) sum[k] += y[k];
    }
  }
#pragma unroll
  for (int k = 0; k < 4; ++k) before[k] += sum[k];
  if (aligned && column < d) {
    *reinterpret_cast<Four<Real>*>(out) = {{before[0], before[1], before[2], before[3]}};
  } else {
    for (int k = 0; k < 4 && column + k < d; ++k) out[k] = before[k];
  }
}

template <class Real>
void scatter(const Exec& exec, Scatter<Real> a) {
  const int rows = static_cast<int>(a.d_table.rows()), d = a.d_y.columns();
  const unsigned R = static_cast<unsigned>(a.d_y.R);
  if (rows == 0 || d == 0 || R == 0) return;
  const std::int64_t N = a.d_y.rows();
  if (a.mode == Write::add && N <= kFew) {
    if (N == 0) return;
    add_few_rows<<<dim3(blocks_for(N, kThreads / 32), blocks_for(d, 128), R), kThreads, 0, stream_of(exec)>>>(
        a);
  } else if (d < 8) {
    a.rows_per_block = 2048 / static_cast<int>(sizeof(Real));
    const std::size_t bytes = kNarrowSlices * a.rows_per_block * sizeof(Real);
    scatter_column<<<dim3(blocks_for(rows, a.rows_per_block), static_cast<unsigned>(d), R),
                     32 * kNarrowSlices, bytes, stream_of(exec)>>>(a);
  } else {
    // More rows a block means fewer reads of the ids, fewer rows more blocks. Changes no sum: any block adds
    // a row's entries in the same order.
    const std::int64_t many = 64 / static_cast<int>(sizeof(Real));
    a.rows_per_block = static_cast<int>(R * blocks_for(rows, many) >= 264 ? many : many / 2);
    const std::size_t bytes = static_cast<std::size_t>(kSlices * kColumns * a.rows_per_block) * sizeof(Real);
    scatter_rows<<<dim3(blocks_for(rows, a.rows_per_block), blocks_for(d, kColumns), R), 32 * kSlices, bytes,
                   stream_of(exec)>>>(a);
  }
  check_launch("lookup backward");
}

}  // namespace

template <class Real>
void forward_cuda(const Exec& exec, const Lookup<Real>& a) {
  const int d = a.y.value.columns();
  const std::int64_t pieces = a.y.value.rows() * (d % 4 == 0 ? d / 4 : d);
  if (pieces == 0 || a.y.value.R == 0) return;
  const dim3 grid(blocks_for(pieces, kBatch * kThreads), static_cast<unsigned>(a.y.value.R));
  (d % 4 == 0 ? gather_rows<Real, true>
              : gather_rows<Real, false>)<<<grid, kThreads, 0, stream_of(exec)>>>(a);
  check_launch("lookup");
}

template <class Real>
void backward_cuda(const Exec& exec, const Lookup<Real>& a) {
  sum_by_lists(exec, a);
  for (int t = 0; t < a.tables; ++t) {
    if (a.table[t].write == Write::none || a.order[t].value) continue;
    scatter(exec,
            Scatter<Real>{a.ids.value, a.channel[t], a.y.gradient, a.table[t].gradient, a.table[t].write});
  }
  if (!a.bias.wanted()) return;
  ColumnSum<Real> sum;  // sequences are rows where the bias has a row for each position
  const int positions = a.bias_rows();
  sum.rows = a.y.gradient.rows() / positions, sum.columns = a.y.gradient.columns() * positions;
  sum.x = a.y.gradient.data, sum.x_replica = a.y.gradient.replica_stride;
  sum.out = a.bias.gradient.data, sum.out_replica = a.bias.gradient.replica_stride;
  sum.mode = a.bias.write;
  column_sum(exec, "lookup backward (bias)", sum, a.y.gradient.R);
  if (a.bias.write == Write::add) return;
  each(exec, "lookup backward (bias)", a.y.gradient.R, a.bias.gradient.size() - sum.columns,
       [=] __device__(int r, std::int64_t i) { a.bias.gradient.at(r)[sum.columns + i] = 0; });
}

CROSSTALK_INSTANTIATE(cuda, Lookup)

}  // namespace crosstalk
