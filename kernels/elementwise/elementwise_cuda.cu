// Elementwise ops, a few elements a thread; sums over repeated elements in a fixed order: those of a few terms by a
// thread each, short ones by a warp, long ones by blocks, a slice of the terms each, which are added in their order.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/device/each.cuh"
#include "kernels/elementwise/elementwise.h"

namespace crosstalk {
namespace {
using namespace device;

constexpr int kThreads = 256, kWarps = kThreads / 32, kLongThreads = 1024;
constexpr std::int64_t kFewTerms = 16;    // up to which a thread adds them: a warp would mostly wait
constexpr std::int64_t kManyRows = 1024;  // rows from which their sum is worth a block
constexpr int kColumns = 8;               // of a block: 32 bytes of a row, what the memory reads at once

template <class Real, class F, class Put>
__global__ void __launch_bounds__(kThreads)
    sums_kernel(std::int64_t n, std::int64_t repeats, const F f, const Put store) {
  const std::int64_t j = std::int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;
  if (j >= n) return;
  Real sum = 0;
  for (std::int64_t i = threadIdx.x % 32; i < repeats; i += 32) sum += f(static_cast<int>(blockIdx.y), j, i);
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0) store(static_cast<int>(blockIdx.y), j, sum);
}

/// Slice s of sum j by a block, stored as number slices j + s: threads, then warps are added in their order.
template <class Real, class F, class Put>
__global__ void __launch_bounds__(kLongThreads)
    long_sums_kernel(std::int64_t repeats, int slices, const F f, const Put store) {
  __shared__ Real sums[kLongThreads / 32];
  const std::int64_t j = blockIdx.x / static_cast<unsigned>(slices);
  const int r = static_cast<int>(blockIdx.y), slice = static_cast<int>(blockIdx.x) % slices;
  Real sum = 0;
#pragma unroll 4
  for (std::int64_t i = slice * kLongThreads + CT_THREAD; i < repeats; i += slices * kLongThreads)
    sum += f(r, j, i);
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x > 0) return;
  for (int i = 1; i < kLongThreads / 32; ++i) sum += sums[i];
  store(r, blockIdx.x, sum);
}

/// The same of kColumns columns of a matrix of n columns, whose rows are the terms: each thread takes every so
/// many rows of its column, then rows of threads are added in their order.
template <class Real, class F, class Put>
__global__ void __launch_bounds__(kLongThreads)
    row_sums_kernel(std::int64_t n, std::int64_t rows, int slices, const F f, const Put store) {
  constexpr int kRows = kLongThreads / kColumns;
  __shared__ Real sums[kRows][kColumns];
  const int x = CT_THREAD % kColumns, y = CT_THREAD / kColumns;
  const int r = static_cast<int>(blockIdx.y), slice = static_cast<int>(blockIdx.x) % slices;
  const std::int64_t j = std::int64_t{blockIdx.x / static_cast<unsigned>(slices)} * kColumns + x;
  Real sum = 0;
  if (j < n) {
#pragma unroll 4
    for (std::int64_t i = slice * kRows + y; i < rows; i += slices * kRows) sum += f(r, j, i);
  }
  sums[y][x] = sum;
  __syncthreads();
  if (y > 0 || j >= n) return;
  for (int i = 1; i < kRows; ++i) sum += sums[i][x];
  store(r, j * slices + slice, sum);
}

/// store(r, j, sum over i < repeats of f(r, j, i)). `rows`: f(r, j, i) reads column j of row i of a matrix.
/// `slices`: memory for the parts of long sums; without it a block makes a whole one.
template <class Real, class F, class Put>
void sums(const Exec& exec, const char* name, int R, std::int64_t n, std::int64_t repeats, bool rows,
          const Work<Real>& slices_of_sums, const F& f, const Put& store) {
  if (n == 0 || R == 0) return;
  if (repeats <= kFewTerms) {
    each_value<Real>(
        exec, name, R, n,
        [=] __device__(int r, std::int64_t j) {
          Real sum = f(r, j, 0);
          for (std::int64_t i = 1; i < repeats; ++i) sum += f(r, j, i);
          return sum;
        },
        store);
    return;
  }
  const int slices = slices_of_sums ? slices_of_sum(n, repeats) : 1;
  const auto run = [&](const auto& put_sum) {
    using PutSum = std::decay_t<decltype(put_sum)>;
    if (rows && repeats >= kManyRows && n >= kColumns)
      launch(exec, name, row_sums_kernel<Real, F, PutSum>, per_replica(slices * blocks_for(n, kColumns), R),
             kLongThreads, 0, n, repeats, slices, f, put_sum);
    else if (repeats >= kManyTerms && n < 65536)
      launch(exec, name, long_sums_kernel<Real, F, PutSum>, per_replica(slices * n, R), kLongThreads, 0,
             repeats, slices, f, put_sum);
    else
      launch(exec, name, sums_kernel<Real, F, PutSum>, per_replica(blocks_for(n, kWarps), R), kThreads, 0, n,
             repeats, f, put_sum);
  };
  if (slices == 1) return run(store);
  const Tensor<Real> parts = slices_of_sums.value;
  run([=] __device__(int r, std::int64_t at, Real sum) { parts.at(r)[at] = sum; });
  each(exec, name, R, n, [=] __device__(int r, std::int64_t j) {
    Real sum = 0;
    for (int slice = 0; slice < slices; ++slice) sum += parts.at(r)[j * slices + slice];
    store(r, j, sum);
  });
}

// Numbers by fours: one access of 16 bytes, and one division of an index, for four of them.
constexpr std::int64_t kManyNumbers = 1 << 16;  // from which there are enough fours
/// Tells whether ops on elements of `full` may take four neighbours at a time: each of the tensors (those that have memory)
/// has rows as long, or of one number.
template <class Real>
bool by_fours(const Tensor<Real>& full, std::initializer_list<const Tensor<Real>*> tensors) {
  bool good = sizeof(Real) == sizeof(float) && full.size() >= kManyNumbers && full.columns() % 4 == 0;
  for (const Tensor<Real>* t : tensors)
    good = good && (!t->data || t->columns() == 1 ||
                    (t->columns() == full.columns() && reinterpret_cast<std::uintptr_t>(t->data) % 16 == 0 &&
                     t->replica_stride % 4 == 0));
  return good;
}
/// An element at a time.
struct Ones {
  template <class Real>
  using Number = Real;
  template <class Real>
  static CT_DEVICE Real read(const Tensor<Real>& x, int r, std::int64_t i) {
    return x.at(r)[i];
  }
  template <class Real>
  static CT_DEVICE Real read(const Tensor<Real>& x, const Broadcast& map, int r, std::int64_t i) {
    return x.at(r)[map.index(i)];
  }
  template <class F, class... X>
  static CT_DEVICE auto of(F&& f, X... x) {
    return f(x...);
  }
};
/// Four neighbours at a time.
struct Fours {
  template <class Real>
  using Number = Four<Real>;
  template <class Real>
  static CT_DEVICE Four<Real> read(const Tensor<Real>& x, int r, std::int64_t i) {
    return *reinterpret_cast<const Four<Real>*>(x.at(r) + i);
  }
  template <class Real>
  static CT_DEVICE Four<Real> read(const Tensor<Real>& x, const Broadcast& map, int r, std::int64_t i) {
    const Real* const from = x.at(r) + map.index(i);
    if (map.part[3] == 1) return {{*from, *from, *from, *from}};
    return *reinterpret_cast<const Four<Real>*>(from);
  }
  template <class F, class Real, class... X>
  static CT_DEVICE Four<Real> of(F&& f, Four<Real> x, const X&... y) {
    CT_FOR(e, 4) x.v[e] = f(x.v[e], y.v[e]...);
    return x;
  }
};
/// Target of elements.
template <class Real>
struct Into {
  Tensor<Real> to;
  Write mode = Write::overwrite;
  __device__ void operator()(int r, std::int64_t i, Real x) const { put(mode, to.at(r) + i, x); }
  __device__ void operator()(int r, std::int64_t i, Four<Real> x) const {
    Four<Real>* const at = reinterpret_cast<Four<Real>*>(to.at(r) + i);
    if (mode == Write::add) x = Fours::of([](Real a, Real b) { return a + b; }, x, *at);
    *at = x;
  }
};
/// store(r, i, f(r, i)) for every fourth element i, of floats. A thread has one four: maps are long code.
template <class Real, class F, class Put>
void each_four(const Exec& exec, const char* name, int R, std::int64_t n, const F& f, const Put& store) {
  if constexpr (std::is_same_v<Real, float>)
    each(exec, name, R, n / 4, [=] __device__(int r, std::int64_t i) { store(r, 4 * i, f(r, 4 * i)); });
}

/// store(r, i, f(Ones, r, i)) for every element i of `full`, or f(Fours, r, i) for every fourth.
template <class Value, class Real, class F, class Put>
void elements(const Exec& exec, const char* name, const Tensor<Real>& full, bool fours, const F& f,
              const Put& store) {
  if (fours)
    return each_four<Real>(
        exec, name, full.R, full.size(), [=] __device__(int r, std::int64_t i) { return f(Fours(), r, i); },
        store);
  each_value<Value>(
      exec, name, full.R, full.size(), [=] __device__(int r, std::int64_t i) { return f(Ones(), r, i); },
      store);
}

/// A Combine's function, and its slope along the first (or second) operand, `own`.
template <class Real>
struct Combining {
  CombineKind kind;
  Real scale_a, scale_b;
  explicit Combining(const Combine<Real>& op)
      : kind(op.kind), scale_a(static_cast<Real>(op.scale_a)), scale_b(static_cast<Real>(op.scale_b)) {}
  __device__ Real value(Real a, Real b) const { return combined(kind, scale_a, a, scale_b, b); }
  __device__ Real slope(bool first, Real own, Real other) const {
    return first ? combine_slope(kind, true, scale_a, own, other)
                 : combine_slope(kind, false, scale_b, own, other);
  }
};

// The gradient of one operand of a Combine, its first or its second.
template <class Real>
void operand_gradient(const Exec& exec, const Combine<Real>& op, bool first) {
  const In<Real>& part = first ? op.a : op.b;
  if (!part.wanted()) return;
  const Tensor<Real> other = first ? op.b.value : op.a.value;
  const Out<Real> y = op.y;
  const Combining<Real> f(op);
  const Broadcast of_part = broadcast(y.value, part.value), of_other = broadcast(y.value, other);
  if (of_part.same && by_fours(y.value, {&part.value, &other, &y.gradient, &part.gradient}))
    return each_four<Real>(
        exec, "combine backward", y.value.R, y.value.size(),
        [=] __device__(int r, std::int64_t i) {
          return Fours::of([&](Real d, Real own, Real with) { return d * f.slope(first, own, with); },
                           Fours::read(y.gradient, r, i), Fours::read(part.value, r, i),
                           Fours::read(other, of_other, r, i));
        },
        Into<Real>{part.gradient, part.write});
  sums<Real>(
      exec, "combine backward", y.value.R, part.value.size(), of_part.repeats(), of_part.repeats_rows(),
      op.slices,
      [=] __device__(int r, std::int64_t j, std::int64_t n) {
        const std::int64_t i = of_part.element(j, n);
        const Real own = part.value.at(r)[j], with = other.at(r)[of_other.index(i)];
        return y.gradient.at(r)[i] * f.slope(first, own, with);
      },
      Into<Real>{part.gradient, part.write});
}

template <class Number>
struct Pair {
  Number a, b;
};
template <class Real>
struct IntoBoth {
  Into<Real> a, b;
  template <class Number>
  __device__ void operator()(int r, std::int64_t i, const Pair<Number>& x) const {
    a(r, i, x.a), b(r, i, x.b);
  }
};
// Gradients of both operands where neither operand is repeated: y's and both values are read once.
template <class Real>
void both_gradients(const Exec& exec, const Combine<Real>& op) {
  const Combining<Real> f(op);
  const In<Real> a = op.a, b = op.b;
  const Tensor<Real> d_y = op.y.gradient;
  elements<Pair<Real>>(
      exec, "combine backward", op.y.value,
      by_fours(op.y.value, {&a.value, &b.value, &d_y, &a.gradient, &b.gradient}),
      [=] __device__(auto by, int r, std::int64_t i) {
        const auto own = by.read(a.value, r, i), with = by.read(b.value, r, i), d = by.read(d_y, r, i);
        return Pair<typename decltype(by)::template Number<Real>>{
            by.of([&](Real e, Real x, Real z) { return e * f.slope(true, x, z); }, d, own, with),
            by.of([&](Real e, Real x, Real z) { return e * f.slope(false, z, x); }, d, own, with)};
      },
      IntoBoth<Real>{{a.gradient, a.write}, {b.gradient, b.write}});
}
}  // namespace

template <class Real>
void forward_cuda(const Exec& exec, const Map<Real>& op) {
  const Tensor<Real> x = op.x.value;
  const Mapping<Real> f({op.map, op.scale, op.shift});
  elements<Real>(
      exec, "map", x, by_fours(x, {&x, &op.y.value}),
      [=] __device__(auto by, int r, std::int64_t i) {
        return by.of([&](Real e) { return f.value(e); }, by.read(x, r, i));
      },
      Into<Real>{op.y.value});
}

template <class Real>
void backward_cuda(const Exec& exec, const Map<Real>& op) {
  if (!op.x.wanted()) return;
  const Tensor<Real> x = op.x.value, d_y = op.y.gradient;
  const Mapping<Real> f({op.map, op.scale, op.shift});
  elements<Real>(
      exec, "map backward", x, by_fours(x, {&x, &d_y, &op.x.gradient}),
      [=] __device__(auto by, int r, std::int64_t i) {
        typename decltype(by)::template Number<Real> at{};
        if (f.map != MapKind::affine) at = by.read(x, r, i);  // half of the traffic
        return by.of([&](Real d, Real e) { return d * f.slope(e); }, by.read(d_y, r, i), at);
      },
      Into<Real>{op.x.gradient, op.x.write});
}

template <class Real>
void forward_cuda(const Exec& exec, const Combine<Real>& op) {
  const Tensor<Real> a = op.a.value, b = op.b.value;
  const Broadcast of_a = broadcast(op.y.value, a), of_b = broadcast(op.y.value, b);
  const Combining<Real> f(op);
  elements<Real>(
      exec, "combine", op.y.value, by_fours(op.y.value, {&a, &b, &op.y.value}),
      [=] __device__(auto by, int r, std::int64_t i) {
        return by.of([&](Real x, Real y) { return f.value(x, y); }, by.read(a, of_a, r, i),
                     by.read(b, of_b, r, i));
      },
      Into<Real>{op.y.value});
}

template <class Real>
void backward_cuda(const Exec& exec, const Combine<Real>& op) {
  if (op.a.wanted() && op.b.wanted() && broadcast(op.y.value, op.a.value).same &&
      broadcast(op.y.value, op.b.value).same)
    return both_gradients(exec, op);
  operand_gradient(exec, op, true);
  operand_gradient(exec, op, false);
}

template <class Real>
void forward_cuda(const Exec& exec, const Fold<Real>& op) {
  const Broadcast map = broadcast(op.x.value, op.y.value);
  sums<Real>(
      exec, "fold", op.y.value.R, op.y.value.size(), map.repeats(), map.repeats_rows(), op.slices,
      [=] __device__(int r, std::int64_t j, std::int64_t n) { return op.x.value.at(r)[map.element(j, n)]; },
      Into<Real>{op.y.value});
}

template <class Real>
void backward_cuda(const Exec& exec, const Fold<Real>& op) {
  if (!op.x.wanted()) return;
  const Broadcast map = broadcast(op.x.value, op.y.value);
  each_value<Real>(
      exec, "fold backward", op.x.value.R, op.x.value.size(),
      [=] __device__(int r, std::int64_t i) { return op.y.gradient.at(r)[map.index(i)]; },
      Into<Real>{op.x.gradient, op.x.write});
}

template <class Real>
void forward_cuda(const Exec& exec, const Expand<Real>& op) {
  const Broadcast map = broadcast(op.y.value, op.x.value);
  const Tensor<Real> x = op.x.value;
  elements<Real>(
      exec, "expand", op.y.value, by_fours(op.y.value, {&x, &op.y.value}),
      [=] __device__(auto by, int r, std::int64_t i) { return by.read(x, map, r, i); },
      Into<Real>{op.y.value});
}

template <class Real>
void backward_cuda(const Exec& exec, const Expand<Real>& op) {
  if (!op.x.wanted()) return;
  const Broadcast map = broadcast(op.y.value, op.x.value);
  const std::int64_t repeats = map.repeats();
  const Tensor<Real> d_y = op.y.gradient;
  const Into<Real> d_x{op.x.gradient, op.x.write};
  if (repeats <= kFewTerms && map.part[3] != 1 && by_fours(op.x.value, {&op.x.gradient, &d_y}))
    return each_four<Real>(
        exec, "expand backward", op.y.value.R, op.x.value.size(),
        [=] __device__(int r, std::int64_t j) {
          Four<Real> sum = Fours::read(d_y, r, map.element(j, 0));
          for (std::int64_t n = 1; n < repeats; ++n)
            sum =
                Fours::of([](Real a, Real b) { return a + b; }, sum, Fours::read(d_y, r, map.element(j, n)));
          return sum;
        },
        d_x);
  sums<Real>(
      exec, "expand backward", op.y.value.R, op.x.value.size(), repeats, map.repeats_rows(), op.slices,
      [=] __device__(int r, std::int64_t j, std::int64_t n) { return d_y.at(r)[map.element(j, n)]; }, d_x);
}

CROSSTALK_INSTANTIATE(cuda, Map)
CROSSTALK_INSTANTIATE(cuda, Combine)
CROSSTALK_INSTANTIATE(cuda, Fold)
CROSSTALK_INSTANTIATE(cuda, Expand)

}  // namespace crosstalk
