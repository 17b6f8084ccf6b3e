// The algebra of gates on the CPU, number by number.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/parallel.h"
#include "kernels/elementwise/elementwise.h"

namespace crosstalk {
namespace {
constexpr std::int64_t kBlock = 1024;

// Adds up what every element of `part` was repeated for: f(i) of element i of the whole.
template <class Real, class F>
void gather_gradient(const Exec& exec, const In<Real>& part, const Tensor<Real>& full, const F& f) {
  if (!part.wanted()) return;
  const Broadcast map = broadcast(full, part.value);
  const std::int64_t repeats = map.repeats();
  parallel_each(exec, full.R, part.value.size(), repeats > 8 ? 16 : kBlock, [&](int r, std::int64_t j) {
    Real sum = 0;
    for (std::int64_t n = 0; n < repeats; ++n) sum += f(r, map.element(j, n));
    put(part.write, part.gradient.at(r) + j, sum);
  });
}
}  // namespace

template <class Real>
void forward_cpu(const Exec& exec, const Map<Real>& op) {
  const Real scale = static_cast<Real>(op.scale), shift = static_cast<Real>(op.shift);
  parallel_each(exec, op.x.value.R, op.x.value.size(), kBlock, [&](int r, std::int64_t i) {
    op.y.value.at(r)[i] = scale * mapped(op.map, op.x.value.at(r)[i]) + shift;
  });
}

template <class Real>
void backward_cpu(const Exec& exec, const Map<Real>& op) {
  if (!op.x.wanted()) return;
  const Real scale = static_cast<Real>(op.scale);
  parallel_each(exec, op.x.value.R, op.x.value.size(), kBlock, [&](int r, std::int64_t i) {
    const Real slope = scale * map_slope(op.map, op.x.value.at(r)[i]);
    put(op.x.write, op.x.gradient.at(r) + i, op.y.gradient.at(r)[i] * slope);
  });
}

template <class Real>
void forward_cpu(const Exec& exec, const Combine<Real>& op) {
  const Broadcast of_a = broadcast(op.y.value, op.a.value), of_b = broadcast(op.y.value, op.b.value);
  const Real scale_a = static_cast<Real>(op.scale_a), scale_b = static_cast<Real>(op.scale_b);
  parallel_each(exec, op.y.value.R, op.y.value.size(), kBlock, [&](int r, std::int64_t i) {
    const Real a = op.a.value.at(r)[of_a.index(i)], b = op.b.value.at(r)[of_b.index(i)];
    op.y.value.at(r)[i] = combined(op.kind, scale_a, a, scale_b, b);
  });
}

template <class Real>
void backward_cpu(const Exec& exec, const Combine<Real>& op) {
  const Broadcast of_a = broadcast(op.y.value, op.a.value), of_b = broadcast(op.y.value, op.b.value);
  const auto give = [&](bool first) {
    const Real scale = static_cast<Real>(first ? op.scale_a : op.scale_b);
    gather_gradient(exec, first ? op.a : op.b, op.y.value, [&, first, scale](int r, std::int64_t i) {
      const Real a = op.a.value.at(r)[of_a.index(i)], b = op.b.value.at(r)[of_b.index(i)];
      return op.y.gradient.at(r)[i] * combine_slope(op.kind, first, scale, first ? a : b, first ? b : a);
    });
  };
  give(true);
  give(false);
}

template <class Real>
void forward_cpu(const Exec& exec, const Fold<Real>& op) {
  const Broadcast map = broadcast(op.x.value, op.y.value);
  parallel_each(exec, op.y.value.R, op.y.value.size(), 16, [&](int r, std::int64_t j) {
    Real sum = 0;
    for (std::int64_t n = 0; n < map.repeats(); ++n) sum += op.x.value.at(r)[map.element(j, n)];
    op.y.value.at(r)[j] = sum;
  });
}

template <class Real>
void backward_cpu(const Exec& exec, const Fold<Real>& op) {
  if (!op.x.wanted()) return;
  const Broadcast map = broadcast(op.x.value, op.y.value);
  parallel_each(exec, op.x.value.R, op.x.value.size(), kBlock, [&](int r, std::int64_t i) {
    put(op.x.write, op.x.gradient.at(r) + i, op.y.gradient.at(r)[map.index(i)]);
  });
}

template <class Real>
void forward_cpu(const Exec& exec, const Expand<Real>& op) {
  const Broadcast map = broadcast(op.y.value, op.x.value);
  parallel_each(exec, op.y.value.R, op.y.value.size(), kBlock,
                [&](int r, std::int64_t i) { op.y.value.at(r)[i] = op.x.value.at(r)[map.index(i)]; });
}

template <class Real>
void backward_cpu(const Exec& exec, const Expand<Real>& op) {
  gather_gradient(exec, op.x, op.y.value, [&](int r, std::int64_t i) { return op.y.gradient.at(r)[i]; });
}

CROSSTALK_INSTANTIATE(cpu, Map)
CROSSTALK_INSTANTIATE(cpu, Combine)
CROSSTALK_INSTANTIATE(cpu, Fold)
CROSSTALK_INSTANTIATE(cpu, Expand)

}  // namespace crosstalk
