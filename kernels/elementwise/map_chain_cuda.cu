// A chain of elementwise ops: four neighbours a thread go through all steps, whose registers lie in shared memory, so that
// one kernel runs any chain. Rows are lanes side by side. Gradients of parameters are added up by thread, block and part of
// the tokens, each in its order.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/device/async_copy.cuh"
#include "kernels/base/device/reduce.cuh"
#include "kernels/elementwise/map_chain_known.cuh"

namespace crosstalk {
namespace {
using namespace device;

/// f(e) of each of four numbers.
CT_DEVICE void fours(const auto& f) {
  CT_FOR(e, 4) f(e);
}

/// Calls f with the map as a type, so that four numbers share the choice.
CT_DEVICE void with_map(MapKind map, const auto& f) {
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
    CROSSTALK_CASE(expm1)
  }
#undef CROSSTALK_CASE
}
CT_DEVICE void by_kind(ChainKind kind, const auto& f) {
  if (kind == ChainKind::add) return f(std::integral_constant<CombineKind, CombineKind::add>{});
  if (kind == ChainKind::multiply) return f(std::integral_constant<CombineKind, CombineKind::multiply>{});
  f(std::integral_constant<CombineKind, CombineKind::larger>{});
}
/// Not inlined: a chain's code shall fit where instructions are kept.
template <class Real>
__device__ __noinline__ Four<Real> any_map(MapKind kind, Four<Real> x) {
  with_map(kind, [&](auto map) { fours([&](int e) { x.v[e] = mapped(map.value, x.v[e]); }); });
  return x;
}
template <class Real>
__device__ __noinline__ Four<Real> any_slope(MapKind kind, Four<Real> x) {
  with_map(kind, [&](auto map) { fours([&](int e) { x.v[e] = map_slope(map.value, x.v[e]); }); });
  return x;
}
template <class Real>
CT_DEVICE Four<Real> values_of(const Mapping<Real>& m, Four<Real> x) {
  if (m.map != MapKind::affine) x = any_map(m.map, x);
  fours([&](int e) { x.v[e] = m.scale * x.v[e] + m.shift; });
  return x;
}

template <class Real>
CT_DEVICE Four<Real> load_four(const Tensor<Real>& t, int r, int i) {
  if constexpr (std::is_same_v<Real, float>) {
    if (t.is_bf16()) return four_of(*reinterpret_cast<const uint2*>(t.bf16_at(r) + i));
  }
  return *reinterpret_cast<const Four<Real>*>(t.at(r) + i);
}
template <class Real>
CT_DEVICE void store_four(const Tensor<Real>& t, int r, int i, const Four<Real>& x) {
  if constexpr (std::is_same_v<Real, float>) {
    if (t.is_bf16()) {
      *reinterpret_cast<uint2*>(t.bf16_at(r) + i) = pairs_of(x);
      return;
    }
  }
  *reinterpret_cast<Four<Real>*>(t.at(r) + i) = x;
}

/// The registers of a thread's four numbers. All threads of a warp call what sums rows.
template <class Real>
struct ChainThread {
  const ChainArgs<Real>& a;
  Four<Real>* const slots;
  const int r, tid = CT_THREAD;

  __device__ Four<Real>& value(int n) const { return slots[n * static_cast<int>(blockDim.x) + tid]; }
  __device__ Four<Real>& gradient(int n) const { return value(a.inputs + a.steps + n); }
  __device__ Real over_row(Real x) const {
    for (int offset = a.D / 8; offset > 0; offset /= 2) x += __shfl_xor_sync(kFullWarp, x, offset);
    return x;
  }
  __device__ static Real sum(const Four<Real>& x) { return (x.v[0] + x.v[1]) + (x.v[2] + x.v[3]); }
  /// Factor of a row, from its mapped numbers.
  __device__ Real inverse_of(const StepMath<Real>& step, Four<Real> x) const {
    fours([&](int e) { x.v[e] *= x.v[e]; });
    return step.inverse_of(over_row(sum(x)), a.D);
  }
  __device__ void load_parameters() const {
    for (int i = 0; i < a.inputs; ++i) {
      if (a.x[i].access != Access::parameter || 4 * tid >= a.span) continue;
      const auto& x = a.x[i];
      for (int e = 0; e < 4; ++e)
        value(i).v[e] = x.value.at(r)[x.period ? (4 * tid + e) % x.period : x.within.index(4 * tid + e)];
    }
  }
  /// Four numbers on their way to a slot, as they lie in memory; widen() makes numbers of the slot's type of them.
  CT_DEVICE void fetch(const Tensor<Real>& t, int i, Four<Real>& slot) const {
    if constexpr (std::is_same_v<Real, float>) {
      if (t.is_bf16()) return copy_async<8>(&slot, t.bf16_at(r) + i);
    }
    constexpr int kEach = 16 / sizeof(Real);
    CT_UNROLL(int e = 0; e < 4; e += kEach) copy_async(slot.v + e, t.at(r) + i + e);
  }
  CT_DEVICE void widen(const Tensor<Real>& t, Four<Real>& slot) const {
    if constexpr (std::is_same_v<Real, float>) {
      if (t.is_bf16()) slot = four_of(*reinterpret_cast<const uint2*>(&slot));
    }
  }
  /// f(tensor, slot) of what comes from memory: inputs but parameters, of a set, and gradients of outputs.
  CT_DEVICE void each_whole(unsigned which, bool gradients, const auto& f) const {
    for (int k = 0; k < a.inputs; ++k)
      if (a.x[k].access == Access::whole && ChainArgs<Real>::has(which, k)) f(a.x[k].value, value(k));
    for (int o = 0; gradients && o < a.outputs; ++o)
      if (a.d_y[o].data) f(a.d_y[o], gradient(a.made_by[o]));
  }
  /// All copies are on their way before the first is waited for.
  CT_DEVICE void load(int i, bool active, unsigned which, bool gradients, const auto& meanwhile) const {
    each_whole(which, gradients, [&](const Tensor<Real>& t, Four<Real>& slot) {
      if (active)
        fetch(t, i, slot);
      else
        slot = {};
    });
    for (int k = 0; k < a.inputs; ++k) {
      if (a.x[k].access != Access::row || !ChainArgs<Real>::has(which, k)) continue;
      const Real x = active ? a.x[k].value.at(r)[i / a.D] : Real(0);
      value(k) = {{x, x, x, x}};
    }
    meanwhile();
    copies_end();
    if (active)
      each_whole(which, gradients, [&](const Tensor<Real>& t, Four<Real>& slot) { widen(t, slot); });
  }
  __device__ void forward(unsigned which) const {
    for (int s = 0; s < a.steps; ++s) {
      if (!ChainArgs<Real>::has(which, a.inputs + s)) continue;
      const StepMath<Real>& step = a.step[s];
      Four<Real> y = values_of(step.of_a, value(step.a));
      if (has_two(step.kind)) {
        const Four<Real> other = values_of(step.of_b, value(step.b));
        by_kind(step.kind, [&](auto kind) {
          fours(
              [&](int e) { y.v[e] = combined(kind.value, step.scale_a, y.v[e], step.scale_b, other.v[e]); });
        });
      } else if (reduces(step.kind)) {
        const bool sums = step.kind == ChainKind::row_sum;
        const Real factor = sums ? over_row(sum(y)) : inverse_of(step, y);
        fours([&](int e) { y.v[e] = sums ? factor : y.v[e] * factor; });
      }
      value(a.inputs + s) = y;
    }
  }
  /// Adds d to what register n has, through the map's slopes at x.
  CT_DEVICE void pass_on(int n, bool active, const Mapping<Real>& m, const Four<Real>& x,
                         const Four<Real>& d) const {
    if (!active || !ChainArgs<Real>::has(a.wanted, n)) return;
    Four<Real> slope = {{1, 1, 1, 1}};
    if (m.map != MapKind::affine) slope = any_slope(m.map, x);
    Four<Real>& to = gradient(n);
    fours([&](int e) { to.v[e] += d.v[e] * (m.scale * slope.v[e]); });
  }
  __device__ void backward(bool active) const {
    for (int s = a.steps - 1; s >= 0; --s) {
      if (!ChainArgs<Real>::has(a.wanted, a.inputs + s)) continue;
      const StepMath<Real>& step = a.step[s];
      Four<Real> d = gradient(a.inputs + s), d_b = d;
      const Four<Real> p = value(step.a);
      if (has_two(step.kind)) {
        const Four<Real> q = value(step.b);
        by_kind(step.kind, [&](auto kind) {
          Four<Real> of_a = p, of_b = q;
          if (kind.value != CombineKind::add) of_a = values_of(step.of_a, p), of_b = values_of(step.of_b, q);
          CT_FOR(e, 4) {
            d.v[e] *= combine_slope(kind.value, true, step.scale_a, of_a.v[e], of_b.v[e]);
            d_b.v[e] *= combine_slope(kind.value, false, step.scale_b, of_b.v[e], of_a.v[e]);
          }
        });
        pass_on(step.b, active, step.of_b, q, d_b);
      } else if (step.kind == ChainKind::row_sum) {
        d.v[0] = d.v[1] = d.v[2] = d.v[3] = over_row(sum(d));
      } else if (reduces(step.kind)) {  // d_x = inverse (d_y - y (y . d_y) [/ D]), y = inverse x
        Four<Real> y = values_of(step.of_a, p);
        const Real inverse = inverse_of(step, y);
        fours([&](int e) { y.v[e] *= inverse, d_b.v[e] *= y.v[e]; });
        const Real along = over_row(sum(d_b)) / (step.kind == ChainKind::rms ? static_cast<Real>(a.D) : 1);
        fours([&](int e) { d.v[e] = inverse * (d.v[e] - y.v[e] * along); });
      }
      pass_on(step.a, active, step.of_a, p, d);
    }
  }
  /// Gradients of inputs but parameters.
  __device__ void store(int i, bool active) const {
    for (int k = 0; k < a.inputs; ++k) {
      const auto& x = a.x[k];
      if (x.access == Access::parameter || x.write == Write::none) continue;
      Four<Real> d = gradient(k);
      if (x.access == Access::row) {
        const Real total = over_row(sum(d));
        if (active && i % a.D == 0) put(x.write, x.gradient.at(r) + i / a.D, total);
      } else if (active) {
        const Four<Real> old = x.write == Write::add ? load_four(x.gradient, r, i) : Four<Real>{};
        fours([&](int e) { d.v[e] += old.v[e]; });
        store_four(x.gradient, r, i, d);
      }
    }
  }
  /// A block's part of gradients of parameters: a warp a number.
  __device__ void store_parts() const {
    const int lane = tid % 32, warps = static_cast<int>(blockDim.x) / 32;
    Real* const part = a.pieces.at(r) + std::int64_t{blockIdx.x} * a.piece_size;
    __syncthreads();
    for (int k = 0; k < a.inputs; ++k) {
      const auto& x = a.x[k];
      if (x.access != Access::parameter || x.write == Write::none) continue;
      const int size = static_cast<int>(x.value.size());
      const Real* const from = reinterpret_cast<const Real*>(&gradient(k) - tid);
      for (int j = tid / 32; j < size; j += warps) {
        Real total = 0;
        for (int n = lane; n < a.span / size; n += 32)
          total += from[x.period ? n * x.period + j : x.within.element(j, n)];
        total = warp_sum(total);
        if (lane == 0) part[x.piece_at + j] = total;
      }
    }
  }
};

template <class Real>
__global__ void __launch_bounds__(256) chain_forward(const __grid_constant__ ChainArgs<Real> a) {
  extern __shared__ __align__(16) unsigned char raw[];
  const ChainThread<Real> chain{a, reinterpret_cast<Four<Real>*>(raw), static_cast<int>(blockIdx.y)};
  const int i = static_cast<int>(blockIdx.x) * a.span + 4 * chain.tid;
  const bool active = 4 * chain.tid < a.span && i < a.n;
  chain.load(i, active, ~0u, false, [&] { chain.load_parameters(); });
  chain.forward(~0u);
  for (int o = 0; active && o < a.outputs; ++o) store_four(a.y[o], chain.r, i, chain.value(a.made_by[o]));
}

template <class Real>
__global__ void __launch_bounds__(256) chain_backward(const __grid_constant__ ChainArgs<Real> a) {
  extern __shared__ __align__(16) unsigned char raw[];
  const ChainThread<Real> chain{a, reinterpret_cast<Four<Real>*>(raw), static_cast<int>(blockIdx.y)};
  chain.load_parameters();
  for (int k = 0; k < a.inputs; ++k) chain.gradient(k) = {};
  for (int first = static_cast<int>(blockIdx.x) * a.span; first < a.n;
       first += static_cast<int>(gridDim.x) * a.span) {
    const int i = first + 4 * chain.tid;
    const bool active = 4 * chain.tid < a.span && i < a.n;
    chain.load(i, active, a.needed, true, [&] {
      for (int k = 0; k < a.inputs + a.steps; ++k) {
        const bool sums_on = k < a.inputs && a.x[k].access == Access::parameter;
        if (!sums_on && !ChainArgs<Real>::has(a.given, k)) chain.gradient(k) = {};
      }
    });
    chain.forward(a.needed);
    chain.backward(active);
    chain.store(i, active);
  }
  if (a.pieces.data) chain.store_parts();
}

template <class Real, class Kernel>
void launch_chain(const Exec& exec, const MapChain<Real>& op, const ChainArgs<Real>& args, int blocks,
                  bool backward, Kernel kernel) {
  if (op.is_wide_norm()) throw std::logic_error("[map_chain] rows of 256 lie at multiples of 16 bytes");
  const std::size_t bytes =
      std::size_t(op.threads()) * std::size_t(op.registers()) * sizeof(Four<Real>) * (backward ? 2 : 1);
  launch(exec, "map_chain", kernel, per_replica(blocks, op.x[0].value.R), op.threads(), bytes, args);
}

}  // namespace

template <class Real>
void forward_cuda(const Exec& exec, const MapChain<Real>& op) {
  if (op.x[0].value.R == 0) return;
  const ChainArgs<Real> args(op);
  if constexpr (std::is_same_v<Real, float>) {
    if (launch_known<false>(exec, op, args)) return;
  }
  launch_chain(exec, op, args, op.sweeps(), false, chain_forward<Real>);
}

template <class Real>
void backward_cuda(const Exec& exec, const MapChain<Real>& op) {
  const ChainArgs<Real> args(op);
  if (op.x[0].value.R == 0 || args.wanted == 0) return;
  bool done = false;
  if constexpr (std::is_same_v<Real, float>) done = launch_known<true>(exec, op, args);
  if (!done)
    launch_chain(exec, op, args, args.piece_size > 0 ? op.parts() : op.sweeps(), true, chain_backward<Real>);
  if (args.piece_size == 0) return;
  sum_pieces<Real, 32, 32>(
      exec, "map_chain", op.x[0].value.R, args.piece_size, op.parts(), args.piece_size,
      [=] __device__(int r, std::int64_t i) { return args.pieces.at(r) + i; },
      [=] __device__(int r, std::int64_t i, Real sum) {
        int k = 0;
        while (args.x[k].access != Access::parameter || i >= args.x[k].piece_at + args.x[k].value.size()) ++k;
        if (args.x[k].write != Write::none)
          put(args.x[k].write, args.x[k].gradient.at(r) + (i - args.x[k].piece_at), sum);
      });
}

CROSSTALK_INSTANTIATE(cuda, MapChain)

}  // namespace crosstalk
