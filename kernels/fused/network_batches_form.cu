// NetworkRead with hidden units, a mini-batch at a time (law/network_batches.h): a block a sequence and head.
//
//   precision   float
//   network     hidden units; mini-batches of up to 16 tokens; numbers of keys, values and hidden units that are multiples of 4
//   queries     any; with positions they are no variable of the keys or values
//   memory      what stands beside the states, 210 KiB with 64 keys, 64 values and 256 hidden units and 16 tokens, is shared where it
//               fits, else global
// SPDX-License-Identifier: Apache-2.0
#include <new>

#include "kernels/law/law_team.cuh"
#include "kernels/law/network_batches_backward.h"
#include "kernels/law/network_batches_forward.h"

namespace crosstalk {
namespace {
using namespace device;
using BatchesOp = NetworkRead<float>;
using BatchesLaw = law::NetworkBatches<float>;
constexpr int kBatchesThreads = law::kThreads;

__device__ Four<float> four(const float* from) { return *reinterpret_cast<const Four<float>*>(from); }

/// Sums of up to kRows rows x [rows,D] with a row w (kAcross), or with a column whose numbers are N apart. Not inlined, as there are
/// many calls: each would be a loop of its own.
template <int kRows, bool kAcross>
__device__ __noinline__ void row_sums(int rows, int N, int D, const float* x, const float* w,
                                      float (&all)[kRows]) {
  float sums[kRows] = {};
#pragma unroll 2
  for (int d = 0; d < D; d += 4) {
    Four<float> of;
    if constexpr (kAcross) {
      of = four(w + d);
    } else {
#pragma unroll
      for (int c = 0; c < 4; ++c) of.v[c] = w[static_cast<std::int64_t>(d + c) * N];
    }
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      if (i >= rows) break;
      const Four<float> here = four(x + i * D + d);
#pragma unroll
      for (int c = 0; c < 4; ++c) sums[i] += here.v[c] * of.v[c];
    }
  }
#pragma unroll
  for (int i = 0; i < kRows; ++i) all[i] = sums[i];
}
/// Four by four sums of weight x y over rows, x [rows,D], y [rows,N].
__device__ __noinline__ void outer_sums(int rows, int D, int N, const float* weight, const float* x,
                                        const float* y, float (&all)[16]) {
  float sums[16] = {};
  for (int i = 0; i < rows; ++i) {
    const Four<float> a = four(x + i * D), b = four(y + i * N);
    const float by = weight ? weight[i] : 1.0f;
#pragma unroll
    for (int c = 0; c < 16; ++c) sums[c] += by * a.v[c / 4] * b.v[c % 4];
  }
#pragma unroll
  for (int c = 0; c < 16; ++c) all[c] = sums[c];
}

/// A block with the products of a mini-batch: each thread has some rows of a column, or 4 x 4 numbers of an outer product.
struct ProductBlock : law::Block<float> {
  template <class Put>
  __device__ void across(int rows, int N, int D, const float* x, const float* w, Put&& put) const {
    if (N >= kBatchesThreads) return products<16, true>(rows, N, D, x, w, put);
    products<4, true>(rows, N, D, x, w, put);
  }
  template <class Put>
  __device__ void down(int rows, int N, int D, const float* x, const float* w, Put&& put) const {
    if (N >= kBatchesThreads) return products<16, false>(rows, N, D, x, w, put);
    products<4, false>(rows, N, D, x, w, put);
  }
  template <class Load, class Put>
  __device__ void outer(int rows, int D, int N, const float* weight, const float* x, const float* y,
                        Load&& load, Put&& put) const {
    for (int tile = static_cast<int>(threadIdx.x); tile < D / 4 * (N / 4); tile += kBatchesThreads) {
      const int d = tile / (N / 4) * 4, j = tile % (N / 4) * 4;
      float sums[16], before[16];
      outer_sums(rows, D, N, weight, x + d, y + j, sums);
#pragma unroll
      for (int c = 0; c < 16; ++c) before[c] = load(d + c / 4, j + c % 4);
#pragma unroll
      for (int c = 0; c < 16; ++c) put(d + c / 4, j + c % 4, before[c], sums[c]);
    }
    __syncthreads();
  }

 private:
  template <int kRows, bool kAcross, class Put>
  __device__ void products(int rows, int N, int D, const float* x, const float* w, Put& put) const {
    for (int item = static_cast<int>(threadIdx.x); item < N * ((rows + kRows - 1) / kRows);
         item += kBatchesThreads) {
      const int j = item % N, first = item / N * kRows, here = min(kRows, rows - first);
      float sums[kRows];
      row_sums<kRows, kAcross>(here, N, D, x + first * D,
                               kAcross ? w + static_cast<std::int64_t>(j) * D : w + j, sums);
      for (int i = 0; i < here; ++i) put(first + i, j, sums[i]);
    }
    __syncthreads();
  }
};

std::size_t scratch_bytes(const BatchesOp& op) {
  return sizeof(float) * static_cast<std::size_t>(BatchesLaw::scratch(op));
}
bool fits_shared(const BatchesOp& op) {
  return scratch_bytes(op) + sizeof(BatchesLaw) + 64 <= shared_memory_limit();
}

template <bool kBack>
__global__ void __launch_bounds__(kBatchesThreads)
    network_batches_kernel(const __grid_constant__ BatchesOp op, bool shared) {
  extern __shared__ Four<float> batches_memory[];
  __shared__ float sums[law::kWarps];
  const int item = static_cast<int>(blockIdx.x), r = static_cast<int>(blockIdx.y);
  float* const behind_states = op.work.value.at(r) +
                               item * static_cast<std::int64_t>(op.work.value.columns()) +
                               BatchesLaw::work_of(op);
  // One for all threads: its pointers are more than registers, and one for each thread would fill the cache.
  __shared__ alignas(BatchesLaw) unsigned char place[sizeof(BatchesLaw)];
  if (threadIdx.x == 0) new (place) BatchesLaw(op, shared ? batches_memory[0].v : behind_states, r, item);
  __syncthreads();
  const BatchesLaw& law = *reinterpret_cast<const BatchesLaw*>(place);
  if constexpr (kBack) {
    law.backward(ProductBlock{sums});
  } else {
    law.forward(ProductBlock{sums});
  }
}

bool covers(const BatchesOp& op) {
  const bool apart = !op.q.memory || (op.q.memory != op.k.memory && op.q.memory != op.v.memory);
  return op.hidden > 0 && op.hidden % 4 == 0 && op.K() % 4 == 0 && op.V() % 4 == 0 &&
         op.mini_batch <= law::kMostBatch && (!op.position || apart) && op.T() > 0;
}

void plan(BatchesOp& op) {
  const int R = op.k.value.R;
  op.states.value =
      shaped<float>(R, {op.B(), op.H(), law::segments(BatchesLaw::batches_of(op)), BatchesLaw::numbers(op)});
  const std::int64_t beside = fits_shared(op) ? 0 : BatchesLaw::scratch(op);
  op.work.value = shaped<float>(R, {op.B(), op.H(), static_cast<int>(BatchesLaw::work_of(op) + beside)});
}

template <bool kBack>
void run(const Exec& exec, const BatchesOp& op) {
  const bool shared = fits_shared(op);
  launch(exec, kBack ? "network_read backward by mini-batches" : "network_read by mini-batches",
         network_batches_kernel<kBack>, per_replica(op.B() * op.H(), op.k.value.R), kBatchesThreads,
         shared ? scratch_bytes(op) : 0, op, shared);
}

}  // namespace

namespace forms {
void network_batches() { add_form<BatchesOp>({"mini-batches", covers, plan, run<false>, run<true>}); }
}  // namespace forms

}  // namespace crosstalk
