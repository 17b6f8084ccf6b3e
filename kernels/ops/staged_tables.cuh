// Tables of 64 columns in shared memory, and what teams of eight lanes read of them: the parts of the kernels
// of table_scores_staged_cuda.cu. SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/ops/table_scores.cuh"

namespace crosstalk::device {
namespace {

constexpr int kD = 64;       // columns of keys
constexpr int kLanes = 8;    // of a team
constexpr int kTeams = 4;    // of a warp
constexpr int kTokens = 32;  // of a chunk
constexpr int kTurns = kTokens / kTeams;
constexpr std::size_t kStagedBytes = 216 * 1024;  // of shared memory at most

// NaN if either is: a diverged model must not look finite.
__device__ __forceinline__ float smaller(float x, float y) {
  float z;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y));
  return z;
}
__device__ __forceinline__ float larger(float x, float y) {
  float z;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y));
  return z;
}

/// phi of a key. elu1 wants 1 more than the key, which the first staged table holds: max(x + 1, min(e^x, 1)).
template <FeatureMap kMap>
__device__ __forceinline__ float phi(float x) {
  if constexpr (kMap == FeatureMap::elu1)
    return larger(x, smaller(power_of_two(fmaf(x, kLog2E, -kLog2E)), 1));
  if constexpr (kMap == FeatureMap::relu) return larger(x, 0);
  if constexpr (kMap == FeatureMap::tanh) return tanh(x);
  return x;
}

/// phi' of x = known + other; known is as prepared() made it: for elu1 in units in which exp is a power of 2.
template <FeatureMap kMap>
__device__ __forceinline__ float prepared(float known) {
  return kMap == FeatureMap::elu1 ? known * kLog2E : known;
}
template <FeatureMap kMap>
__device__ __forceinline__ float slope(float known, float other) {
  if constexpr (kMap == FeatureMap::elu1) return power_of_two(smaller(fmaf(other, kLog2E, known), 0));
  if constexpr (kMap == FeatureMap::relu) return known + other > 0 ? 1.0f : 0.0f;
  if constexpr (kMap == FeatureMap::tanh) {
    const float y = tanh(known + other);
    return 1 - y * y;
  }
  return 1;
}

/// Starts copies of columns column0 .. column0 + kWidth - 1 of `rows` rows of kD columns.
template <int kWidth>
__device__ __forceinline__ void stage(float* target, const float* source, int rows, int column0) {
  constexpr int kQuads = kWidth / 4;
  for (int i = threadIdx.x; i < rows * kQuads; i += blockDim.x) {
    const int row = i / kQuads, column = i % kQuads * 4;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                     static_cast<unsigned>(__cvta_generic_to_shared(target + row * kWidth + column))),
                 "l"(source + static_cast<std::int64_t>(row) * kD + column0 + column)
                 : "memory");
  }
}

/// The same with 1 added.
template <int kWidth>
__device__ __forceinline__ void stage_plus_one(float* target, const float* source, int rows, int column0) {
  constexpr int kQuads = kWidth / 4;
#pragma unroll 4
  for (int i = threadIdx.x; i < rows * kQuads; i += blockDim.x) {
    const int row = i / kQuads, column = i % kQuads * 4;
    const float4 x =
        *reinterpret_cast<const float4*>(source + static_cast<std::int64_t>(row) * kD + column0 + column);
    *reinterpret_cast<float4*>(target + row * kWidth + column) =
        make_float4(x.x + 1, x.y + 1, x.z + 1, x.w + 1);
  }
}

/// Tables one after the other, each with a row of zeros at its end, which absent ids read; 1 added to all of
/// the first if kPlusOne.
template <int kTables, int kWidth, bool kPlusOne = false>
struct Staged {
  const std::int32_t* ids;
  int stride, rows[kTables], first[kTables], channel[kTables];

  /// All tables but `skip`, from `memory` on; nothing is copied yet.
  __device__ __forceinline__ Staged(const TableKeys<float>& keys, int r, int skip = -1)
      : ids(keys.ids.at(r)), stride(keys.ids.columns()) {
    int at = 0;
#pragma unroll
    for (int i = 0; i < kTables; ++i) {
      const int table = i + (skip >= 0 && i >= skip ? 1 : 0);
      rows[i] = static_cast<int>(keys.table[table].rows());
      first[i] = at;
      channel[i] = keys.channel[table];
      at += (rows[i] + 1) * kWidth;
    }
  }
  /// Starts the copies.
  __device__ __forceinline__ void fill(const TableKeys<float>& keys, int r, float* memory, int column0,
                                       int skip = -1) const {
#pragma unroll
    for (int i = 0; i < kTables; ++i) {
      const float* source = keys.table[i + (skip >= 0 && i >= skip ? 1 : 0)].at(r);
      const bool plus_one = kPlusOne && i == 0;
      if (plus_one) {
        stage_plus_one<kWidth>(memory + first[i], source, rows[i], column0);
      } else {
        stage<kWidth>(memory + first[i], source, rows[i], column0);
      }
      for (int c = threadIdx.x; c < kWidth; c += blockDim.x)
        memory[first[i] + rows[i] * kWidth + c] = plus_one ? 1 : 0;
    }
  }
  /// Where the rows of a token lie in shared memory; of a token that is not `there`, rows of zeros.
  __device__ __forceinline__ void locate(int token, bool there, int (&offset)[kTables]) const {
#pragma unroll
    for (int i = 0; i < kTables; ++i) {
      const int id = there ? ids[token * stride + channel[i]] : -1;
      offset[i] = first[i] + (id < 0 ? rows[i] : id) * kWidth;
    }
  }
};

__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_all;" ::: "memory");
  __syncthreads();
}

__device__ __forceinline__ void load_quad(const float* p, float (&x)[4]) {
  const float4 four = *reinterpret_cast<const float4*>(p);
  x[0] = four.x, x[1] = four.y, x[2] = four.z, x[3] = four.w;
}

/// The lane's columns 4 l + 32 h .. of the rows at offset[i] of lane `source`, added up.
template <int kTables, int kWidth>
__device__ __forceinline__ void load_key(const float* memory, const int (&offset)[kTables], int source,
                                         float (&x)[kWidth / 32][4]) {
#pragma unroll
  for (int i = 0; i < kTables; ++i) {
    const float* row = memory + __shfl_sync(kFullWarp, offset[i], source) + threadIdx.x % kLanes * 4;
#pragma unroll
    for (int h = 0; h < kWidth / 32; ++h) {
      float y[4];
      load_quad(row + 32 * h, y);
#pragma unroll
      for (int k = 0; k < 4; ++k) x[h][k] = i == 0 ? y[k] : x[h][k] + y[k];
    }
  }
}

}  // namespace
}  // namespace crosstalk::device
