// Lists of where each id stands, for ten batches in one launch (lookup.h).
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/device/reduce.cuh"
#include "kernels/embedding/lookup.h"

namespace crosstalk {
namespace {
using namespace device;

constexpr int kBucketWarps = 32;
constexpr int kLaneShift = 27;  // places lie below 2^27

// Lanes of the warp that hold the same id, from one ballot a bit of it: much faster than match_any, whose
// cost grows with the number of different ids. 0 for absent ids.
CT_DEVICE unsigned lanes_of(int id, int bits) {
  unsigned same = __ballot_sync(kFullWarp, id >= 0);
  for (int bit = 0; bit < bits; ++bit) {
    const bool set = (id >> bit & 1) != 0;
    const unsigned others = __ballot_sync(kFullWarp, set);
    same &= set ? others : ~others;
  }
  return id >= 0 ? same : 0;
}

/// Counts of rows by warps become places, in the order of rows and warps, and `start` gets those of rows.
/// Returns how many entries are placed, with the `before` of earlier rows.
CT_DEVICE int place_rows(std::int32_t* counts, std::int32_t* totals, std::int32_t* start, int rows, int warps,
                         int before) {
  const int thread = CT_THREAD, warp = thread / 32, lane = thread % 32, threads = 32 * warps;
  for (int row0 = 0; row0 < rows; row0 += threads) {
    const int row = row0 + thread;
    int sum = 0;
#pragma unroll 8
    for (int w = 0; w < warps; ++w) sum += row < rows ? counts[w * rows + row] : 0;
    const int upto = warp_scan(sum);  // and then over warps
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
  return before;
}

// A stable counting sort of `span` rows of the table (blockIdx.z; all of a small one) by one block: each warp
// counts and then places its own slice of n, 32 neighbours at a time; lanes of one id take places in their
// order. Lists of earlier rows come
// before: their entries are counted, not placed. Shared memory: counts [warp][row], one total a warp, and
// with kStaged (all rows) the lists, which then leave it in order: n < 2^16.
template <class Real, bool kStaged>
__global__ void __launch_bounds__(32 * kBucketWarps)
    bucket_ids(const __grid_constant__ BucketIds<Real> a, int warps, int span) {
  extern __shared__ std::int32_t counts[];
  const int r = static_cast<int>(blockIdx.x), copy = static_cast<int>(blockIdx.y), thread = CT_THREAD,
            warp = thread / 32, lane = thread % 32;
  const int n = static_cast<int>(a.order.size()), c = a.ids.columns(),
            all = static_cast<int>(a.start.size()) - 1, row0 = static_cast<int>(blockIdx.z) * span,
            rows = min(span, all - row0);
  const int threads = 32 * warps, slice = (n + threads - 1) / threads * 32, begin = warp * slice,
            end = min(n, begin + slice);
  const int bits = 32 - __clz(rows - 1);
  std::int32_t *totals = counts + warps * rows, *own = counts + warp * rows;
  auto* staged = reinterpret_cast<std::uint16_t*>(totals + warps);
  std::int32_t *start = a.start.at(r) + std::int64_t{copy} * (all + 1) + row0,
               *order = a.order.at(r) + std::int64_t{copy} * n;
  const std::int32_t* ids = a.ids.at(r) + std::int64_t{copy} * n * c + a.channel;
  for (int i = thread; i < warps * rows; i += threads) counts[i] = 0;
  __syncthreads();

  constexpr int kDepth = 8;  // loads that overlap
  const auto walk = [&](auto&& visit) {
    for (int i0 = begin; i0 < end; i0 += 32 * kDepth) {
      int id[kDepth];
      CT_FOR(k, kDepth) {
        const int i = i0 + 32 * k + lane;
        id[k] = i < end ? ids[std::int64_t{i} * c] : -1;
      }
      CT_FOR(k, kDepth) {
        const int row = id[k] - row0;  // of this block's
        visit(i0 + 32 * k + lane, id[k] >= 0 && row >= 0 && row < rows ? row : -1, id[k]);
      }
    }
  };
  int earlier = 0;
  walk([&](int, int row, int id) {
    if (row >= 0) atomicAdd(own + row, 1);
    earlier += id >= 0 && id < row0;
  });
  earlier = __reduce_add_sync(kFullWarp, earlier);
  if (lane == 0) totals[warp] = earlier;
  __syncthreads();

  int before = __reduce_add_sync(kFullWarp, lane < warps ? totals[lane] : 0);  // entries already placed
  const int first = before;
  __syncthreads();
  before = place_rows(counts, totals, start, rows, warps, before);
  if (thread == 0 && row0 + rows == all) start[rows] = before;
  // Neighbours with different ids, the rule within a sequence, take their places at once: each writes its
  // lane beside the place and looks whether another one has written too.
  walk([&](int i, int id, int) {
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
    for (int i = first + thread; i < before; i += threads) order[i] = staged[i];
  }
}

}  // namespace

template <class Real>
void run_cuda(const Exec& exec, const BucketIds<Real>& a) {
  if (a.ids.R == 0) return;
  constexpr int kSpan = 1024;  // rows of a block where there are more
  const int all = static_cast<int>(a.start.size()) - 1, rows = std::min(all, kSpan);
  if (a.order.size() >> kLaneShift)
    refuse_shape("bucket_ids", "tokens", static_cast<int>(a.order.size()), 1 << kLaneShift);
  int warps = kBucketWarps;
  // Room for more blocks: short slices of n and few counts.
  while (warps > 4 && (warps * rows > (all > kSpan ? 16 : 10) * 1024 || warps * 256 > a.order.size()))
    warps /= 2;
  std::size_t bytes = static_cast<std::size_t>(warps * (rows + 1)) * sizeof(std::int32_t);
  const std::size_t with_lists = bytes + static_cast<std::size_t>(a.order.size()) * sizeof(std::uint16_t);
  const bool staged = all == rows && a.order.size() < (1 << 16) && with_lists <= shared_memory_limit();
  if (staged) bytes = with_lists;
  const dim3 grid(static_cast<unsigned>(a.ids.R), static_cast<unsigned>(a.copies), blocks_for(all, rows));
  launch(exec, "bucket_ids", staged ? bucket_ids<Real, true> : bucket_ids<Real, false>, grid, 32 * warps,
         bytes, a, warps, rows);
}

CROSSTALK_INSTANTIATE_STEP(cuda, BucketIds)

}  // namespace crosstalk
