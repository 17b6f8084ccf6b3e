// A chain of one step that reads one tensor of its shape (a map, a norm of mapped rows): eight neighbours a thread in registers,
// the map known to the compiler. Such chains make queries and keys of what linear maps give; they wait for memory alone.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/base/early_launch.cuh"
#include "kernels/elementwise/map_chain.h"
#include "kernels/matmul/operand_pairs.cuh"

namespace crosstalk::device {

/// Calls f with the map as a type, so that neighbours share the choice.
template <class F>
__device__ __forceinline__ void with_map(MapKind map, const F& f) {
#define CROSSTALK_CASE(kind) \
  case MapKind::kind:        \
    return f(std::integral_constant<MapKind, MapKind::kind>{});
  switch (map) {
    CROSSTALK_CASE(affine)
    CROSSTALK_CASE(exp)
    CROSSTALK_CASE(log)
    CROSSTALK_CASE(sigmoid)
    CROSSTALK_CASE(softplus)
    CROSSTALK_CASE(log_sigmoid)
    CROSSTALK_CASE(tanh)
    CROSSTALK_CASE(relu)
    CROSSTALK_CASE(silu)
    CROSSTALK_CASE(reciprocal)
    CROSSTALK_CASE(softsign)
    CROSSTALK_CASE(gelu)
    CROSSTALK_CASE(inverse)
    CROSSTALK_CASE(sine)
  }
#undef CROSSTALK_CASE
}

struct ChainStepArgs {
  static constexpr int kThreads = 256;
  Tensor<float> x, d_x, y, d_y;
  Write write;
  StepMath<float> step;
  int n, D;

  explicit ChainStepArgs(const MapChain<float>& op)
      : x(op.x[0].value),
        d_x(op.x[0].gradient),
        y(op.y[0].value),
        d_y(op.y[0].gradient),
        write(op.x[0].write),
        step(op.step[0]),
        n(static_cast<int>(op.size())),
        D(op.D()) {}
  /// Whether these kernels take a chain.
  static bool cover(const MapChain<float>& op) {
    const int lanes = op.D() / 8;
    const ChainKind kind = op.step[0].kind;
    const bool rows = op.D() % 8 == 0 && lanes <= 32 && (lanes & (lanes - 1)) == 0;
    if (op.inputs != 1 || op.outputs != 1 || op.steps != 1 || !op.whole(0) || op.size() % 8 != 0 ||
        !(kind == ChainKind::map || ((kind == ChainKind::l2 || kind == ChainKind::rms) && rows)))
      return false;
    for (const void* p :
         {op.x[0].value.data, op.x[0].gradient.data, op.y[0].value.data, op.y[0].gradient.data})
      if (reinterpret_cast<std::uintptr_t>(p) % 16 != 0) return false;
    return true;
  }
};

using Eight = float[8];

__device__ __forceinline__ void load_eight(const Tensor<float>& t, int r, int i, Eight& x) {
  Four<float> two[2];
  if (t.is_bf16()) {
    const uint4 all = *reinterpret_cast<const uint4*>(t.bf16_at(r) + i);
    two[0] = four_of(make_uint2(all.x, all.y)), two[1] = four_of(make_uint2(all.z, all.w));
  } else {
    const auto* const from = reinterpret_cast<const Four<float>*>(t.at(r) + i);
    two[0] = from[0], two[1] = from[1];
  }
#pragma unroll
  for (int e = 0; e < 8; ++e) x[e] = two[e / 4].v[e % 4];
}
__device__ __forceinline__ void store_eight(const Tensor<float>& t, int r, int i, const Eight& x) {
  const Four<float> two[2] = {{{x[0], x[1], x[2], x[3]}}, {{x[4], x[5], x[6], x[7]}}};
  if (t.is_bf16()) {
    const uint2 low = pairs_of(two[0]), high = pairs_of(two[1]);
    *reinterpret_cast<uint4*>(t.bf16_at(r) + i) = make_uint4(low.x, low.y, high.x, high.y);
  } else {
    auto* const to = reinterpret_cast<Four<float>*>(t.at(r) + i);
    to[0] = two[0], to[1] = two[1];
  }
}
/// The sum of x_e y_e over a row. All threads of a warp call it.
__device__ __forceinline__ float over_row(const Eight& x, const Eight& y, int D) {
  float sum = 0;
#pragma unroll
  for (int e = 0; e < 8; ++e) sum += x[e] * y[e];
  for (int offset = D / 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(kFullWarp, sum, offset);
  return sum;
}

__global__ void __launch_bounds__(ChainStepArgs::kThreads)
    step_forward(const __grid_constant__ ChainStepArgs a) {
  wait_for_earlier();
  const int r = static_cast<int>(blockIdx.y), i = 8 * static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  Eight x = {};
  if (i < a.n) load_eight(a.x, r, i, x);
  with_map(a.step.of_a.map, [&](auto map) {
#pragma unroll
    for (int e = 0; e < 8; ++e) x[e] = a.step.of_a.scale * mapped(map.value, x[e]) + a.step.of_a.shift;
  });
  if (a.step.kind != ChainKind::map) {
    const float inverse = a.step.inverse_of(over_row(x, x, a.D), a.D);
#pragma unroll
    for (int e = 0; e < 8; ++e) x[e] *= inverse;
  }
  if (i < a.n) store_eight(a.y, r, i, x);
}

/// d_x = f'(x) inverse (d_y - y (y . d_y) [/ D]), y = inverse f(x).
__global__ void __launch_bounds__(ChainStepArgs::kThreads)
    step_backward(const __grid_constant__ ChainStepArgs a) {
  wait_for_earlier();
  const int r = static_cast<int>(blockIdx.y), i = 8 * static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const bool there = i < a.n, norm = a.step.kind != ChainKind::map;
  with_map(a.step.of_a.map, [&](auto map) {
    Eight x = {}, d = {}, y, old = {};
    if (there && (norm || map.value != MapKind::affine)) load_eight(a.x, r, i, x);
    if (there) load_eight(a.d_y, r, i, d);
    if (there && a.write == Write::add) load_eight(a.d_x, r, i, old);
    if (norm) {
#pragma unroll
      for (int e = 0; e < 8; ++e) y[e] = a.step.of_a.scale * mapped(map.value, x[e]) + a.step.of_a.shift;
      const float inverse = a.step.inverse_of(over_row(y, y, a.D), a.D);
#pragma unroll
      for (int e = 0; e < 8; ++e) y[e] *= inverse;
      const float along = over_row(y, d, a.D) / (a.step.kind == ChainKind::rms ? static_cast<float>(a.D) : 1);
#pragma unroll
      for (int e = 0; e < 8; ++e) d[e] = inverse * (d[e] - y[e] * along);
    }
#pragma unroll
    for (int e = 0; e < 8; ++e) d[e] = old[e] + d[e] * (a.step.of_a.scale * map_slope(map.value, x[e]));
    if (there) store_eight(a.d_x, r, i, d);
  });
}

inline void launch_step(const Exec& exec, const MapChain<float>& op, void (*kernel)(ChainStepArgs)) {
  launch_early(exec, "map_chain", kernel,
               per_replica(blocks_for(op.size(), 8 * ChainStepArgs::kThreads), op.x[0].value.R),
               ChainStepArgs::kThreads, 0, ChainStepArgs(op));
}

}  // namespace crosstalk::device
