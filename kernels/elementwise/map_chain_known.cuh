// Chains of elementwise ops that stand in many models, known to the compiler: their registers are the threads' and wait for
// memory alone, where chains that are interpreted (map_chain_cuda.cu) wait for instructions. What a chain scales and shifts
// by, its sizes and formats are the op's. A chain that is not in the list is interpreted.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <utility>

#include "kernels/base/device/early_launch.cuh"
#include "kernels/elementwise/map_chain_args.cuh"
#include "kernels/matmul/operand_pairs.cuh"

namespace crosstalk {
namespace {
using namespace device;

/// A chain but for its numbers. Inputs are of its shape, parameters, or one number a row.
struct ChainShape {
  struct Step {
    ChainKind kind = ChainKind::map;
    int a = 0;
    MapKind of_a = MapKind::affine;
    int b = 0;
    MapKind of_b = MapKind::affine;
  };
  int inputs, steps, outputs;
  unsigned parameters;  ///< bit i: of input i
  unsigned rows;        ///< those of one number a row
  Step step[6];
  int made_by[3];

  constexpr int registers() const { return inputs + steps; }
  /// Neighbours of a thread.
  constexpr int each() const { return steps > 2 ? 4 : 8; }
  constexpr bool is_parameter(int i) const { return parameters >> i & 1; }
  constexpr bool is_of_rows(int i) const { return rows >> i & 1; }
};

using By = MapKind;
constexpr ChainShape::Step map(int a, By f = By::affine) { return {ChainKind::map, a, f}; }
constexpr ChainShape::Step l2(int a = 0, By f = By::affine) { return {ChainKind::l2, a, f}; }
constexpr ChainShape::Step row_sum(int a) { return {ChainKind::row_sum, a}; }
constexpr ChainShape::Step times(int a, int b, By f = By::affine, By g = By::affine) {
  return {ChainKind::multiply, a, f, b, g};
}
constexpr ChainShape::Step plus(int a, int b, By f = By::affine) { return {ChainKind::add, a, f, b}; }
constexpr ChainShape::Step larger(int a, int b) { return {ChainKind::larger, a, By::affine, b}; }
constexpr ChainShape kChainShapes[] = {
    {1, 1, 1, 0, 0, {l2()}, {1}},
    {1, 1, 1, 0, 0, {l2(0, By::silu)}, {1}},
    {1, 1, 1, 0, 0, {map(0)}, {1}},
    {1, 1, 1, 0, 0, {map(0, By::exp)}, {1}},
    {1, 1, 1, 0, 0, {map(0, By::sigmoid)}, {1}},
    {1, 1, 1, 0, 0, {map(0, By::log_sigmoid)}, {1}},
    {1, 1, 1, 0, 0, {map(0, By::tanh)}, {1}},
    {1, 1, 1, 0, 0, {map(0, By::silu)}, {1}},
    {1, 2, 2, 0, 0, {map(0, By::log_sigmoid), map(1, By::expm1)}, {1, 2}},  // HGRN2
    {2, 1, 1, 2, 0, {times(1, 0, By::exp, By::softplus)}, {2}},             // KDA
    {2, 1, 1, 0, 0, {times(0, 1, By::sigmoid)}, {2}},                       // Gated DeltaNet-2
    {2, 2, 2, 0, 0, {l2(), times(1, 2, By::sigmoid)}, {2, 3}},
    // RWKV-7, RWKV-6
    {4,
     6,
     3,
     0b1010,
     0,
     {times(0, 1), l2(4), map(2, By::sigmoid), times(6, 3), times(0, 7), times(6, 5)},
     {5, 8, 9}},
    {5, 5, 1, 0b00001, 0, {times(0, 1), times(2, 5), row_sum(6), times(7, 3), plus(4, 8)}, {9}},
    {1, 1, 1, 0, 1, {map(0)}, {1}},  // a number a row in all columns
    // Comba, and with queries at positions
    {4, 5, 3, 0b0110, 0, {l2(), times(1, 4, By::sigmoid), times(2, 5), l2(3), plus(7, 6)}, {4, 5, 8}},
    {2, 2, 2, 2, 0, {l2(), times(1, 2, By::sigmoid)}, {2, 3}},
    {3, 3, 1, 2, 0, {l2(), times(1, 2), plus(3, 4)}, {5}},
    {2, 3, 2, 0, 2, {l2(), times(2, 2), times(1, 3, By::sigmoid)}, {2, 4}},
    // preconditioned memories
    {3, 4, 1, 2, 0, {map(0), plus(3, 1, By::log), map(4, By::softsign), times(5, 2, By::exp)}, {6}},
    {2, 2, 2, 0, 2, {map(0), times(1, 2)}, {2, 3}},
    {4,
     4,
     1,
     0,
     0b0100,
     {times(0, 1), row_sum(4), larger(5, 2), times(3, 6, By::affine, By::inverse)},
     {7}},  // mLSTM
    // reads divided by sums of keys
    {3, 4, 1, 0, 0, {times(0, 1), row_sum(3), map(4), times(2, 5, By::affine, By::reciprocal)}, {6}},
};
constexpr int kKnownChains = static_cast<int>(std::size(kChainShapes)), kKnownThreads = 256;

template <int... I, class F>
__host__ CT_DEVICE void each_of(std::integer_sequence<int, I...>, F&& f) {
  (f(std::integral_constant<int, I>{}), ...);
}
/// f(i) of i < kCount as constants; upwards, or downwards.
template <int kCount, class F>
CT_DEVICE void upwards(F&& f) {
  each_of(std::make_integer_sequence<int, kCount>{}, f);
}
template <int kCount, class F>
CT_DEVICE void downwards(F&& f) {
  upwards<kCount>([&](auto i) { f(std::integral_constant<int, kCount - 1 - i.value>{}); });
}

/// N neighbours from number i of replica r on.
template <int N>
CT_DEVICE void load_neighbours(const Tensor<float>& t, int r, int i, float (&x)[N]) {
  if (t.is_bf16()) {
    uint2 pairs[N / 4];
    if constexpr (N == 8) {
      const uint4 all = *reinterpret_cast<const uint4*>(t.bf16_at(r) + i);
      pairs[0] = make_uint2(all.x, all.y), pairs[1] = make_uint2(all.z, all.w);
    } else {
      pairs[0] = *reinterpret_cast<const uint2*>(t.bf16_at(r) + i);
    }
    CT_FOR(e, N) x[e] = four_of(pairs[e / 4]).v[e % 4];
  } else {
    CT_UNROLL(int e = 0; e < N; e += 4) {
      const Four<float> four = *reinterpret_cast<const Four<float>*>(t.at(r) + i + e);
      CT_FOR(n, 4) x[e + n] = four.v[n];
    }
  }
}
template <int N>
CT_DEVICE void store_neighbours(const Tensor<float>& t, int r, int i, const float (&x)[N]) {
  if (t.is_bf16()) {
    uint2 pairs[N / 4];
    CT_UNROLL(int e = 0; e < N; e += 4)
      pairs[e / 4] = pairs_of(Four<float>{{x[e], x[e + 1], x[e + 2], x[e + 3]}});
    if constexpr (N == 8) {
      *reinterpret_cast<uint4*>(t.bf16_at(r) + i) =
          make_uint4(pairs[0].x, pairs[0].y, pairs[1].x, pairs[1].y);
    } else {
      *reinterpret_cast<uint2*>(t.bf16_at(r) + i) = pairs[0];
    }
  } else {
    CT_UNROLL(int e = 0; e < N; e += 4)
      *reinterpret_cast<Four<float>*>(t.at(r) + i + e) = {{x[e], x[e + 1], x[e + 2], x[e + 3]}};
  }
}

template <int kChain>
struct KnownChain {
  static constexpr int kInputs = kChainShapes[kChain].inputs, kSteps = kChainShapes[kChain].steps,
                       kOutputs = kChainShapes[kChain].outputs, N = kChainShapes[kChain].each(),
                       kRegisters = kInputs + kSteps;
  static constexpr bool is_parameter(int i) { return kChainShapes[kChain].is_parameter(i); }
  static constexpr bool is_of_rows(int i) { return kChainShapes[kChain].is_of_rows(i); }
  const ChainArgs<float>& a;
  const int r;
  float value[kRegisters][N], gradient[kRegisters][N], inverse[kSteps];  ///< inverse: of norms

  CT_DEVICE explicit KnownChain(const ChainArgs<float>& args) : a(args), r(static_cast<int>(blockIdx.y)) {
    const int period = args.period(), at = N * CT_THREAD % period;
    upwards<kInputs>([&](auto i) {
      if constexpr (is_parameter(i.value)) {
        const Tensor<float>& x = a.x[i.value].value;
        const bool whole = x.size() == period;
        CT_FOR(e, N) value[i.value][e] = x.at(r)[whole ? at + e : at / a.D], gradient[i.value][e] = 0;
      }
    });
  }
  CT_DEVICE float over_row(float x) const {
    for (int offset = a.D / (2 * N); offset > 0; offset /= 2) x += __shfl_xor_sync(kFullWarp, x, offset);
    return x;
  }
  /// The sum of x_e y_e over a row.
  CT_DEVICE float product(const float (&x)[N], const float (&y)[N]) const {
    float sum = 0;
    CT_FOR(e, N) sum += x[e] * y[e];
    return over_row(sum);
  }
  CT_DEVICE void forward(int i) {
    upwards<kInputs>([&](auto k) {
      if constexpr (is_of_rows(k.value)) {
        const float x = a.x[k.value].value.at(r)[i / a.D];
        CT_FOR(e, N) value[k.value][e] = x;
      } else if constexpr (!is_parameter(k.value)) {
        load_neighbours(a.x[k.value].value, r, i, value[k.value]);
      }
    });
    upwards<kSteps>([&](auto s) {
      constexpr ChainShape::Step step = kChainShapes[kChain].step[s.value];
      const StepMath<float>& math = a.step[s.value];
      float(&y)[N] = value[kInputs + s.value];
      CT_FOR(e, N) {
        y[e] = math.of_a.scale * mapped(step.of_a, value[step.a][e]) + math.of_a.shift;
        if constexpr (has_two(step.kind)) {
          const float b = math.of_b.scale * mapped(step.of_b, value[step.b][e]) + math.of_b.shift;
          y[e] = combined(combine_of(step.kind), math.scale_a, y[e], math.scale_b, b);
        }
      }
      if constexpr (reduces(step.kind)) {
        float factor = 0;
        if constexpr (step.kind == ChainKind::row_sum) {
          CT_FOR(e, N) factor += y[e];
          factor = over_row(factor);
        } else {
          factor = inverse[s.value] = math.inverse_of(product(y, y), a.D);
        }
        CT_FOR(e, N) y[e] = step.kind == ChainKind::row_sum ? factor : y[e] * factor;
      }
    });
  }
  CT_DEVICE void backward(int i) {
    upwards<kRegisters>([&](auto n) {
      if constexpr (n.value >= kInputs || !is_parameter(n.value))
        CT_FOR(e, N) gradient[n.value][e] = 0;
    });
    upwards<kOutputs>([&](auto o) {
      constexpr int made_by = kChainShapes[kChain].made_by[o.value];
      if (a.d_y[o.value].data) load_neighbours(a.d_y[o.value], r, i, gradient[made_by]);
    });
    forward(i);
    downwards<kSteps>([&](auto s) {
      constexpr ChainShape::Step step = kChainShapes[kChain].step[s.value];
      const StepMath<float>& math = a.step[s.value];
      float(&d)[N] = gradient[kInputs + s.value];
      if constexpr (step.kind == ChainKind::row_sum) {
        float sum = 0;
        CT_FOR(e, N) sum += d[e];
        sum = over_row(sum);
        CT_FOR(e, N) d[e] = sum;
      } else if constexpr (reduces(step.kind)) {  // d_x = inverse (d_y - y (y . d_y) [/ D]), y = inverse x
        const float(&y)[N] = value[kInputs + s.value];
        const float along = product(y, d) / (step.kind == ChainKind::rms ? static_cast<float>(a.D) : 1);
        CT_FOR(e, N) d[e] = inverse[s.value] * (d[e] - y[e] * along);
      }
      CT_FOR(e, N) {
        const float x = value[step.a][e];
        float d_a = d[e];
        if constexpr (has_two(step.kind)) {
          const float z = value[step.b][e], of_a = math.of_a.scale * mapped(step.of_a, x) + math.of_a.shift,
                      of_b = math.of_b.scale * mapped(step.of_b, z) + math.of_b.shift;
          constexpr CombineKind kind = combine_of(step.kind);
          d_a = d[e] * combine_slope(kind, true, math.scale_a, of_a, of_b);
          const float d_b = d[e] * combine_slope(kind, false, math.scale_b, of_b, of_a);
          gradient[step.b][e] += d_b * (math.of_b.scale * map_slope(step.of_b, z));
        }
        gradient[step.a][e] += d_a * (math.of_a.scale * map_slope(step.of_a, x));
      }
    });
    upwards<kInputs>([&](auto k) {
      constexpr bool parameter = is_parameter(k.value);
      const auto& x = a.x[k.value];
      if (parameter || x.write == Write::none) return;
      float(&d)[N] = gradient[k.value];
      if constexpr (is_of_rows(k.value)) {
        float sum = 0;
        CT_FOR(e, N) sum += d[e];
        sum = over_row(sum);
        if (i % a.D == 0) put(x.write, x.gradient.at(r) + i / a.D, sum);
        return;
      }
      if (x.write == Write::add) {
        float old[N];
        load_neighbours(x.gradient, r, i, old);
        CT_FOR(e, N) d[e] += old[e];
      }
      store_neighbours(x.gradient, r, i, d);
    });
  }
  /// A block's part of gradients of parameters: a warp a number. `numbers`: of the block's threads, in shared memory.
  CT_DEVICE void store_parts(float* numbers) const {
    const int tid = CT_THREAD, period = a.period(), size = N * kKnownThreads;
    float* const part = a.pieces.at(r) + std::int64_t{blockIdx.x} * a.piece_size;
    upwards<kInputs>([&](auto k) {
      if constexpr (is_parameter(k.value)) {
        __syncthreads();
        CT_FOR(e, N) numbers[N * tid + e] = gradient[k.value][e];
        __syncthreads();
        const int count = static_cast<int>(a.x[k.value].value.size()), run = period / count;  // side by side
        for (int j = tid / 32; j < count; j += kKnownThreads / 32) {
          float sum = 0;
          for (int n = tid % 32; n < size / count; n += 32)
            sum += numbers[n / run * period + j * run + n % run];
          sum = warp_sum(sum);
          if (tid % 32 == 0) part[a.x[k.value].piece_at + j] = sum;
        }
      }
    });
  }
};

template <int kChain>
__global__ void __launch_bounds__(kKnownThreads) known_forward(const __grid_constant__ ChainArgs<float> a) {
  wait_for_earlier();
  KnownChain<kChain> chain(a);
  constexpr int N = KnownChain<kChain>::N;
  const int i = N * static_cast<int>(blockIdx.x * kKnownThreads + threadIdx.x);
  if (i >= a.n) return;  // whole warps
  chain.forward(i);
  upwards<KnownChain<kChain>::kOutputs>([&](auto o) {
    constexpr int made_by = kChainShapes[kChain].made_by[o.value];
    store_neighbours(a.y[o.value], chain.r, i, chain.value[made_by]);
  });
}

/// Four blocks a multiprocessor: as many as there are parts (MapChain::kMostParts).
template <int kChain>
__global__ void __launch_bounds__(kKnownThreads, 4)
    known_backward(const __grid_constant__ ChainArgs<float> a) {
  wait_for_earlier();
  constexpr int N = KnownChain<kChain>::N;
  KnownChain<kChain> chain(a);
  const int step = N * kKnownThreads * static_cast<int>(gridDim.x);
  for (int i = N * static_cast<int>(blockIdx.x * kKnownThreads + threadIdx.x); i < a.n; i += step)
    chain.backward(i);
  if constexpr (kChainShapes[kChain].parameters != 0) {
    __shared__ float numbers[N * kKnownThreads];
    if (a.pieces.data) chain.store_parts(numbers);
  }
}

/// True if an op is this chain, in whole warps, and its parameters repeat with a block's numbers.
inline bool is_chain(const MapChain<float>& op, const ChainShape& known) {
  const int N = known.each(), lanes = op.D() / N, period = op.period();
  if (op.inputs != known.inputs || op.steps != known.steps || op.outputs != known.outputs ||
      op.size() % (32 * N) != 0)
    return false;
  if ((op.sums_rows() || known.rows != 0) && (op.D() % N != 0 || lanes > 32 || (lanes & (lanes - 1)) != 0))
    return false;
  const auto aligned = [&](const Tensor<float>& t) {
    return reinterpret_cast<std::uintptr_t>(t.data) % (t.is_bf16() ? 2 * N : 16) == 0;
  };
  for (int i = 0; i < op.inputs; ++i) {
    const std::int64_t size = op.x[i].value.size();
    if (known.is_parameter(i)) {
      const bool repeats =
          size == period || (size == op.dims[2] && op.x[i].value.dims[2] == size && op.D() % N == 0);
      if (!op.is_parameter(i) || !repeats || N * kKnownThreads % period != 0) return false;
    } else if (known.is_of_rows(i)) {
      if (!op.is_of_rows(i)) return false;
    } else if (!op.whole(i) || !aligned(op.x[i].value) || !aligned(op.x[i].gradient)) {
      return false;
    }
  }
  for (int s = 0; s < op.steps; ++s) {
    const ChainStep& step = op.step[s];
    const ChainShape::Step& as = known.step[s];
    if (step.kind != as.kind || step.a != as.a || step.of_a.map != as.of_a ||
        (has_two(as.kind) && (step.b != as.b || step.of_b.map != as.of_b)))
      return false;
  }
  for (int o = 0; o < op.outputs; ++o)
    if (op.made_by[o] != known.made_by[o] || !aligned(op.y[o].value) || !aligned(op.y[o].gradient))
      return false;
  return true;
}

/// True if the chain is known, and runs.
template <bool kBackward>
bool launch_known(const Exec& exec, const MapChain<float>& op, const ChainArgs<float>& args) {
  bool found = false;
  each_of(std::make_integer_sequence<int, kKnownChains>{}, [&](auto chain) {
    constexpr int kChain = chain.value;
    if (found || !is_chain(op, kChainShapes[kChain])) return;
    found = true;
    const unsigned sweeps = blocks_for(op.size(), kChainShapes[kChain].each() * kKnownThreads);
    const int R = op.x[0].value.R;
    if constexpr (kBackward)
      launch_early(exec, "map_chain", known_backward<kChain>,
                   per_replica(args.piece_size > 0 ? op.parts() : sweeps, R), kKnownThreads, 0, args);
    else
      launch_early(exec, "map_chain", known_forward<kChain>, per_replica(sweeps, R), kKnownThreads, 0, args);
  });
  return found;
}

}  // namespace
}  // namespace crosstalk
