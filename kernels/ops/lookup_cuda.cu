// Table rows chosen by tokens.
//
// Backward, for each table: a block owns some rows of it; each of its warps walks one fixed slice of n, keeps
// what concerns the owned rows and adds it to sums of its own in shared memory, in the order of n; the slices
// are then added in their order. No atomics, and the order knows only N. Cost of a table with N = 19,200 ids,
// 600 rows and D = 64: every block reads all ids once (75 kB for each channel, from the L2 cache; 38 or 75
// blocks) and every row of d_y is read once. Narrow tables (D = 1, gates) fit whole in a block, so their ids
// are read once. SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "kernels/ops/column_sum.cuh"
#include "kernels/ops/lookup.h"

namespace crosstalk {
namespace {
using namespace device;

constexpr int kThreads = 256;

template <class Real>
__global__ void __launch_bounds__(kThreads) gather_rows(const __grid_constant__ LookupForward<Real> a) {
  const int d = a.y.columns(), c = a.ids.columns(), r = blockIdx.y;
  const bool wide = d % 4 == 0;
  const int quads = wide ? d / 4 : d;                      // pieces of a row: 4 columns or 1
  const unsigned i = blockIdx.x * kThreads + threadIdx.x;  // pieces of a replica: fewer than 2^32
  const std::int64_t n = i / static_cast<unsigned>(quads);
  if (n >= a.y.rows()) return;
  const int j = static_cast<int>(i % static_cast<unsigned>(quads));
  const std::int32_t* ids = a.ids.at(r) + n * c;
  if (!wide) {
    Real sum = a.bias ? a.bias.at(r)[j] : Real(0);
    for (int t = 0; t < a.tables; ++t) {
      const std::int32_t id = ids[a.channel[t]];
      if (id >= 0) sum += a.table[t].at(r)[static_cast<std::int64_t>(id) * d + j];
    }
    a.y.at(r)[n * d + j] = sum;
    return;
  }
  Real sum[4] = {}, x[4];
  if (a.bias) load4(a.bias.at(r) + 4 * j, 4, true, sum);
  for (int t = 0; t < a.tables; ++t) {
    const std::int32_t id = ids[a.channel[t]];
    if (id < 0) continue;
    load4(a.table[t].at(r) + static_cast<std::int64_t>(id) * d + 4 * j, 4, true, x);
#pragma unroll
    for (int k = 0; k < 4; ++k) sum[k] += x[k];
  }
  *reinterpret_cast<Four<Real>*>(a.y.at(r) + n * d + 4 * j) = {{sum[0], sum[1], sum[2], sum[3]}};
}

constexpr int kBucketWarps = 32;
constexpr int kLaneShift = 27;  // places lie below 2^27

// Lanes of the warp that hold the same id, from one ballot a bit of it: much faster than match_any, whose
// cost grows with the number of different ids. 0 for absent ids.
__device__ __forceinline__ unsigned lanes_of(int id, int bits) {
  unsigned same = __ballot_sync(kFullWarp, id >= 0);
  for (int bit = 0; bit < bits; ++bit) {
    const bool set = (id >> bit & 1) != 0;
    const unsigned others = __ballot_sync(kFullWarp, set);
    same &= set ? others : ~others;
  }
  return id >= 0 ? same : 0;
}

// A stable counting sort by one block: each warp counts and then places its own slice of n, 32 neighbours at
// a time; lanes of one id take places in their order. Shared memory: counts [warp][row], one total a warp,
// and with kStaged the lists, which then leave it in order: n < 2^16.
template <class Real, bool kStaged>
__global__ void __launch_bounds__(32 * kBucketWarps)
    bucket_ids(const __grid_constant__ BucketIds<Real> a, int warps) {
  extern __shared__ std::int32_t counts[];
  const int r = static_cast<int>(blockIdx.x), copy = static_cast<int>(blockIdx.y),
            thread = static_cast<int>(threadIdx.x), warp = thread / 32, lane = thread % 32;
  const int n = static_cast<int>(a.order.size()), c = a.ids.columns(),
            rows = static_cast<int>(a.start.size()) - 1;
  const int threads = 32 * warps, slice = (n + threads - 1) / threads * 32, begin = warp * slice,
            end = min(n, begin + slice);
  const int bits = 32 - __clz(rows - 1);
  std::int32_t *totals = counts + warps * rows, *own = counts + warp * rows;
  auto* staged = reinterpret_cast<std::uint16_t*>(totals + warps);
  std::int32_t *start = a.start.at(r) + static_cast<std::int64_t>(copy) * (rows + 1),
               *order = a.order.at(r) + static_cast<std::int64_t>(copy) * n;
  const std::int32_t* ids = a.ids.at(r) + static_cast<std::int64_t>(copy) * n * c + a.channel;
  for (int i = thread; i < warps * rows; i += threads) counts[i] = 0;
  __syncthreads();

  constexpr int kDepth = 8;  // loads that overlap
  const auto walk = [&](auto&& visit) {
    for (int i0 = begin; i0 < end; i0 += 32 * kDepth) {
      int id[kDepth];
#pragma unroll
      for (int k = 0; k < kDepth; ++k) {
        const int i = i0 + 32 * k + lane;
        id[k] = i < end ? ids[static_cast<std::int64_t>(i) * c] : -1;
      }
#pragma unroll
      for (int k = 0; k < kDepth; ++k) visit(i0 + 32 * k + lane, id[k]);
    }
  };
  walk([&](int, int id) {
    if (id >= 0) atomicAdd(own + id, 1);
  });
  __syncthreads();

  int before = 0;  // entries of rows that are already placed
  for (int row0 = 0; row0 < rows; row0 += threads) {
    const int row = row0 + thread;
    int sum = 0;
#pragma unroll 8
    for (int w = 0; w < warps; ++w) sum += row < rows ? counts[w * rows + row] : 0;
    int upto = sum;  // inclusive scan over the warp, then over warps
#pragma unroll
    for (int offset = 1; offset < 32; offset *= 2) {
      const int other = __shfl_up_sync(kFullWarp, upto, offset);
      if (lane >= offset) upto += other;
    }
    if (lane == 31) totals[warp] = upto;
    __syncthreads();
    const int total = lane < warps ? totals[lane] : 0;
    int place = before + upto - sum + __reduce_add_sync(kFullWarp, lane < warp ? total : 0);
    if (row < rows) {
      start[row] = place;
#pragma unroll 4
      for (int w = 0; w < warps; ++w) {
        const int count = counts[w * rows + row];
        counts[w * rows + row] = place;
        place += count;
      }
    }
    before += __reduce_add_sync(kFullWarp, total);
    __syncthreads();
  }
  if (thread == 0) start[rows] = before;
  // Neighbours with different ids, the rule within a sequence, take their places at once: each writes its
  // lane beside the place and looks whether another one has written too.
  walk([&](int i, int id) {
    const int place = id >= 0 ? own[id] : 0;
    __syncwarp();
    if (id >= 0) atomicExch(own + id, place | lane << kLaneShift);
    __syncwarp();
    const bool alone = id < 0 || own[id] == (place | lane << kLaneShift);
    __syncwarp();
    unsigned same = 1u << lane;
    if (!__all_sync(kFullWarp, alone)) same = lanes_of(id, bits);
    if (id >= 0) {
      const int at = place + __popc(same & ((1u << lane) - 1));
      if constexpr (kStaged) {
        staged[at] = static_cast<std::uint16_t>(i);
      } else {
        order[at] = i;
      }
      if (__ffs(static_cast<int>(same)) - 1 == lane) own[id] = place + __popc(same);
    }
    __syncwarp();
  });
  if constexpr (kStaged) {
    __syncthreads();
    for (int i = thread; i < before; i += threads) order[i] = staged[i];
  }
}

/// What is added up by lists: some of a lookup's tables, in one launch, so that d_y comes from memory once.
template <class Real>
struct Sums {
  Tensor<Real> d_y;
  int tables = 0;
  Tensor<std::int32_t> order[kMaxTables], start[kMaxTables];
  Tensor<Real> d_table[kMaxTables];
  Write mode[kMaxTables] = {Write::none, Write::none, Write::none};
};

/// Tables' gradients from lists: kPieces warps own 64 columns of a row; each adds its piece of the row's
/// list. Half a warp reads an entry (four columns a lane), the halves take turns, and kDepth entries of each
/// are under way at once; the sums of halves and pieces are added in their order. blockIdx.y: the table.
template <class Real, int kPieces>
__global__ void __launch_bounds__(kThreads) sum_lists(const __grid_constant__ Sums<Real> a, int columns) {
  constexpr int kDepth = 8;
  __shared__ __align__(16) Real parts[kPieces > 1 ? kThreads / 32 : 1][64];
  const int r = static_cast<int>(blockIdx.z), lane = static_cast<int>(threadIdx.x) % 32,
            warp = static_cast<int>(threadIdx.x) / 32, piece = warp % kPieces, half = lane / 16;
  const int table = static_cast<int>(blockIdx.y) / columns;
  const Tensor<std::int32_t>& start = a.start[table];
  const int row = (static_cast<int>(blockIdx.x) * (kThreads / 32) + warp) / kPieces;
  const int d = a.d_y.columns(), column = static_cast<int>(blockIdx.y) % columns * 64 + lane % 16 * 4;
  const bool inside = row < static_cast<int>(start.size()) - 1, aligned = d % 4 == 0;
  const int from = inside ? start.at(r)[row] : 0, count = inside ? start.at(r)[row + 1] - from : 0;
  const int begin = from + count * piece / kPieces, end = from + count * (piece + 1) / kPieces;
  const std::int32_t* listed = a.order[table].at(r);
  const Real* x = a.d_y.at(r) + column;
  Real sum[4] = {};
  for (int i0 = begin; i0 < end; i0 += 2 * kDepth) {
    int at[kDepth];
    Real v[kDepth][4];
#pragma unroll
    for (int k = 0; k < kDepth; ++k) {
      const int i = i0 + 2 * k + half;
      at[k] = i < end ? listed[i] : -1;
    }
#pragma unroll
    for (int k = 0; k < kDepth; ++k)
      load4(x + static_cast<std::int64_t>(at[k] < 0 ? 0 : at[k]) * d, at[k] < 0 ? 0 : d - column, aligned,
            v[k]);
#pragma unroll
    for (int k = 0; k < kDepth; ++k) {
#pragma unroll
      for (int c = 0; c < 4; ++c) sum[c] += v[k][c];
    }
  }
#pragma unroll
  for (int c = 0; c < 4; ++c) sum[c] += __shfl_xor_sync(kFullWarp, sum[c], 16);
  if constexpr (kPieces > 1) {
#pragma unroll
    for (int c = 0; c < 4; ++c) parts[warp][lane % 16 * 4 + c] = sum[c];
    __syncthreads();
    if (piece > 0) return;
#pragma unroll
    for (int i = 1; i < kPieces; ++i) {
#pragma unroll
      for (int c = 0; c < 4; ++c) sum[c] += parts[warp + i][lane % 16 * 4 + c];
    }
  }
  if (!inside || half > 0) return;
  Real* out = a.d_table[table].at(r) + static_cast<std::int64_t>(row) * d + column;
#pragma unroll
  for (int c = 0; c < 4; ++c) {
    if (column + c < d) put(a.mode[table], out + c, sum[c]);
  }
}

/// The same for tables of few columns: a warp owns an entry, each lane every 32nd of its list.
template <class Real>
__global__ void __launch_bounds__(kThreads) sum_narrow_lists(const __grid_constant__ Sums<Real> a) {
  const int r = static_cast<int>(blockIdx.z), table = static_cast<int>(blockIdx.y), d = a.d_y.columns(),
            lane = static_cast<int>(threadIdx.x) % 32;
  const int entry = (static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x)) / 32,
            row = entry / d, column = entry % d;
  const Tensor<std::int32_t>& start = a.start[table];
  if (row >= static_cast<int>(start.size()) - 1) return;
  const int begin = start.at(r)[row], end = start.at(r)[row + 1];
  const std::int32_t* listed = a.order[table].at(r);
  const Real* x = a.d_y.at(r) + column;
  Real sum = 0;
#pragma unroll 4
  for (int i = begin + lane; i < end; i += 32) sum += x[static_cast<std::int64_t>(listed[i]) * d];
  sum = warp_sum(sum);
  if (lane == 0) put(a.mode[table], a.d_table[table].at(r) + entry, sum);
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

/// One launch for all `sums`, lists with `many` entries a row or few.
template <class Real>
void launch_sums(const Exec& exec, const Sums<Real>& sums, bool many) {
  std::int64_t rows = 0;  // of the largest
  for (int t = 0; t < sums.tables; ++t) rows = std::max(rows, sums.d_table[t].rows());
  const int d = sums.d_y.columns();
  if (rows == 0 || d == 0 || sums.d_y.R == 0) return;
  constexpr int kWarps = kThreads / 32;
  const unsigned columns = d < 8 ? 1 : blocks_for(d, 64);
  const auto launch = [&](auto kernel, std::int64_t blocks, auto... more) {
    const dim3 grid(static_cast<unsigned>(blocks), columns * static_cast<unsigned>(sums.tables),
                    static_cast<unsigned>(sums.d_y.R));
    kernel<<<grid, kThreads, 0, stream_of(exec)>>>(sums, more...);
  };
  if (d < 8) {
    launch(sum_narrow_lists<Real>, blocks_for(rows * d, kWarps));
  } else if (many) {
    launch(sum_lists<Real, kWarps>, rows, static_cast<int>(columns));
  } else {
    launch(sum_lists<Real, 1>, blocks_for(rows, kWarps), static_cast<int>(columns));
  }
  check_launch("lookup backward (lists)");
}

/// Tables that have lists, those of long lists apart from the others.
template <class Real>
void sum_by_lists(const Exec& exec, const LookupBackward<Real>& a) {
  for (bool many : {true, false}) {
    Sums<Real> sums;
    sums.d_y = a.d_y;
    for (int t = 0; t < a.tables; ++t) {
      if (a.write_table[t] == Write::none || !a.order[t] || (a.d_y.rows() > 64 * a.d_table[t].rows()) != many)
        continue;
      for (int other = 0; other < sums.tables; ++other) {
        if (sums.d_table[other].data != a.d_table[t].data) continue;
        launch_sums(exec, sums, many);  // two channels of one table take turns
        sums.tables = 0;
      }
      sums.order[sums.tables] = a.order[t], sums.start[sums.tables] = a.start[t];
      sums.mode[sums.tables] = a.write_table[t];
      sums.d_table[sums.tables++] = a.d_table[t];
    }
    launch_sums(exec, sums, many);
  }
}

}  // namespace

template <class Real>
void run_cuda(const Exec& exec, const BucketIds<Real>& a) {
  if (a.ids.R == 0) return;
  const std::int64_t rows = a.start.size() - 1;
  const std::int64_t fit =
      static_cast<std::int64_t>(shared_memory_limit() / sizeof(std::int32_t) - kBucketWarps) / rows;
  if (fit < 1)
    refuse_shape("bucket_ids", "rows of a table", static_cast<int>(rows),
                 static_cast<int>(shared_memory_limit() / 4));
  if (a.order.size() >> kLaneShift)
    refuse_shape("bucket_ids", "tokens", static_cast<int>(a.order.size()), 1 << kLaneShift);
  int warps = fit < kBucketWarps ? static_cast<int>(fit) : kBucketWarps;
  // Room for more blocks: short slices of n and few counts.
  while (warps > 4 && (warps * rows > 10 * 1024 || warps * 256 > a.order.size())) warps /= 2;
  std::size_t bytes = static_cast<std::size_t>(warps * (rows + 1)) * sizeof(std::int32_t);
  const std::size_t with_lists = bytes + static_cast<std::size_t>(a.order.size()) * sizeof(std::uint16_t);
  const bool staged = a.order.size() < (1 << 16) && with_lists <= shared_memory_limit();
  if (staged) bytes = with_lists;
  const auto kernel = staged ? bucket_ids<Real, true> : bucket_ids<Real, false>;
  allow_shared_memory(kernel, bytes);
  kernel<<<dim3(static_cast<unsigned>(a.ids.R), static_cast<unsigned>(a.copies)),
           static_cast<unsigned>(32 * warps), bytes, stream_of(exec)>>>(a, warps);
  check_launch("bucket_ids");
}

template <class Real>
void run_cuda(const Exec& exec, const LookupForward<Real>& a) {
  const int d = a.y.columns();
  const std::int64_t pieces = a.y.rows() * (d % 4 == 0 ? d / 4 : d);
  if (pieces == 0 || a.y.R == 0) return;
  gather_rows<<<dim3(blocks_for(pieces, kThreads), static_cast<unsigned>(a.y.R)), kThreads, 0,
                stream_of(exec)>>>(a);
  check_launch("lookup");
}

template <class Real>
void run_cuda(const Exec& exec, const LookupBackward<Real>& a) {
  sum_by_lists(exec, a);
  for (int t = 0; t < a.tables; ++t) {
    if (a.write_table[t] == Write::none || a.order[t]) continue;
    scatter(exec, Scatter<Real>{a.ids, a.channel[t], a.d_y, a.d_table[t], a.write_table[t]});
  }
  ColumnSum<Real> sum;
  sum.rows = a.d_y.rows(), sum.columns = a.d_y.columns();
  sum.x = a.d_y.data, sum.x_replica = a.d_y.replica_stride;
  sum.out = a.d_bias.data, sum.out_replica = a.d_bias.replica_stride;
  sum.mode = a.write_bias;
  column_sum(exec, "lookup backward (bias)", sum, a.d_y.R);
}

CROSSTALK_CUDA_OP(BucketIds)
CROSSTALK_CUDA_OP(LookupForward)
CROSSTALK_CUDA_OP(LookupBackward)

}  // namespace crosstalk
