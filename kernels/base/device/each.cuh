// A thread an element, or a few: the launches that element-by-element ops share.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/base/device/cuda_launch.cuh"
#include "kernels/base/device/tuned_for.h"
#include "kernels/base/sweep.h"

namespace crosstalk::device {
namespace {

constexpr int kEachThreads = 128;

template <int kThreads, class F>
__global__ void __launch_bounds__(kThreads) each_kernel(std::int64_t n, const F f) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < n) f(static_cast<int>(blockIdx.y), i);
}

/// f(r, i) for every element i of every replica.
template <int kThreads = kEachThreads, class F>
void each(const Exec& exec, const char* name, int R, std::int64_t n, const F& f) {
  launch(exec, name, each_kernel<kThreads, F>, per_replica(blocks_for(n, kThreads), R), kThreads, 0, n, f);
}

constexpr int kAtOnce = 4;
/// Elements from which every multiprocessor has enough threads, though each takes kAtOnce of them.
constexpr std::int64_t kManyElements = 1 << 18;

template <class Value, class F, class Put>
__global__ void __launch_bounds__(kEachThreads)
    each_value_kernel(std::int64_t n, const F f, const Put store) {
  const int r = static_cast<int>(blockIdx.y);
  const std::int64_t first = std::int64_t{blockIdx.x} * kEachThreads * kAtOnce + threadIdx.x;
  if (first + (kAtOnce - 1) * kEachThreads < n) {
    Value value[kAtOnce];
    CT_FOR(k, kAtOnce) value[k] = f(r, first + k * kEachThreads);
    CT_FOR(k, kAtOnce) store(r, first + k * kEachThreads, value[k]);
  } else {
    for (std::int64_t i = first; i < n; i += kEachThreads) store(r, i, f(r, i));
  }
}

/// store(r, i, f(r, i)) for every element i of every replica. No load of f waits for a store of another
/// element, so that each thread has several on their way.
template <class Value, class F, class Put>
void each_value(const Exec& exec, const char* name, int R, std::int64_t n, const F& f, const Put& store) {
  if (n * R < kManyElements) {
    each(exec, name, R, n, [=] __device__(int r, std::int64_t i) { store(r, i, f(r, i)); });
    return;
  }
  launch(exec, name, each_value_kernel<Value, F, Put>, per_replica(blocks_for(n, kEachThreads * kAtOnce), R),
         kEachThreads, 0, n, f, store);
}

}  // namespace
}  // namespace crosstalk::device

namespace crosstalk {
namespace {

template <class Function, class Op>
struct Sweep {
  Op op;
  __device__ void operator()(int r, std::int64_t i) const { Function::call(op, r, i); }
};

/// Runs the sweeps of an op (sweep.h).
template <class Op>
auto cuda_sweep(const Exec& exec, const Op& op) {
  return [&]<class Function>(std::int64_t n, Function) {
    device::each(exec, Op::kName, op.y.value.R, n, Sweep<Function, Op>{op});
  };
}

template <bool kBack, class Op>
struct Walk {
  Op op;
  __device__ void operator()(int r, std::int64_t i) const { walk_channels<1, 8, kBack>(op, r, i); }
};
/// Of an op that says is_plain(): what make_plain() fixes is known when this is compiled.
template <bool kBack, class Op>
struct PlainWalk {
  Op op;
  __device__ void operator()(int r, std::int64_t i) const {
    Op plain = op;
    plain.make_plain();
    walk_channels<1, 8, kBack>(plain, r, i);
  }
};
/// A thread a channel, in small blocks: walks are long. A load a token in turn would be most of their time. Few channels, whose
/// tokens often lie apart from their neighbours', are spread over more multiprocessors.
template <bool kBack, class Op>
void cuda_walk(const Exec& exec, const Op& op) {
  const auto walk = [&](const auto& f) {
    const int R = op.channels().R;
    const std::int64_t n = std::int64_t{op.channels().dim(0)} * op.channels().dim(2);
    if (n * R <= 16 * kTunedFor) return device::each<8>(exec, Op::kName, R, n, f);
    device::each<64>(exec, Op::kName, R, n, f);
  };
  if constexpr (requires { op.is_plain(); }) {
    if (op.is_plain()) return walk(PlainWalk<kBack, Op>{op});
  }
  walk(Walk<kBack, Op>{op});
}

}  // namespace
}  // namespace crosstalk
