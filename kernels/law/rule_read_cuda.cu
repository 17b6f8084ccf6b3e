// A law that is a program on CUDA: a block a sequence and head interprets it, its memory shared where that fits. The number
// of threads follows from the sizes of its values alone.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "kernels/base/cuda_launch.cuh"
#include "kernels/law/rule_arguments.h"
#include "kernels/law/rule_walk.h"

namespace crosstalk {
namespace {

extern __shared__ __align__(16) unsigned char shared_memory[];

/// A block. Where the program's memory is shared it begins with the dynamic part, which functions name themselves: the
/// compiler then knows that it is shared.
template <class Real, int kThreads, bool kShared>
struct RuleBlock {
  static constexpr int kWarps = kThreads / 32;
  Real* sums;                   ///< shared, a number a warp
  const RuleOperation* staged;  ///< operations first .. end in shared memory
  int staged_first, staged_end;

  __device__ static Real* memory(Real* m) {
    if constexpr (kShared) return reinterpret_cast<Real*>(shared_memory);
    return m;
  }
  __device__ const RuleOperation* operations(const RuleOperation* all, int first) const {
    return first >= staged_first && first < staged_end ? staged + (first - staged_first) : all + first;
  }

  __device__ static void sync() {
    if constexpr (kWarps == 1) {
      __syncwarp();
    } else {
      __syncthreads();
    }
  }
  __device__ static int warp() { return static_cast<int>(threadIdx.x) / 32; }
  __device__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }

  template <class F>
  __device__ void each(int n, F&& f) const {
    for (int i = static_cast<int>(threadIdx.x); i < n; i += kThreads) f(i);
    sync();
  }
  // Four entries are worked out before the first is stored: their loads wait together. Other loops are not unrolled, since an
  // interpreter that does not fit the caches of instructions waits for these.
  template <class F>
  __device__ void fill(int n, Real* y, F&& f) const {
    const int first = static_cast<int>(threadIdx.x);
    int i = first;
#pragma unroll 1
    for (; i + 3 * kThreads < n; i += 4 * kThreads) {
      Real x[4];
#pragma unroll
      for (int u = 0; u < 4; ++u) x[u] = f(i + u * kThreads);
#pragma unroll
      for (int u = 0; u < 4; ++u) y[i + u * kThreads] = x[u];
    }
#pragma unroll 1
    for (; i < n; i += kThreads) y[i] = f(i);
    sync();
  }
  template <class F>
  __device__ void cells(int rows, int columns, Real* y, F&& f) const {
#pragma unroll 1
    for (int j = lane(); j < columns; j += 32) {
      int i = warp();
#pragma unroll 1
      for (; i + 3 * kWarps < rows; i += 4 * kWarps) {
        Real x[4];
#pragma unroll
        for (int u = 0; u < 4; ++u) x[u] = f(i + u * kWarps, j);
#pragma unroll
        for (int u = 0; u < 4; ++u) y[(i + u * kWarps) * columns + j] = x[u];
      }
#pragma unroll 1
      for (; i < rows; i += kWarps) y[i * columns + j] = f(i, j);
    }
    sync();
  }
  __device__ int next_position(const std::int32_t* position, int Q, int T, int from, bool up) const {
    int next = up ? T + 1 : -1;
#pragma unroll 1
    for (int i = lane(); i < Q; i += 32) {
      const int p = device::clamped(position[i], T);
      if (up ? p >= from && p < next : p <= from && p > next) next = p;
    }
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) {
      const int other = __shfl_xor_sync(device::kFullWarp, next, offset);
      next = (up ? other < next : other > next) ? other : next;
    }
    return next;
  }
  /// Eight rows at a time: their sums share exchanges.
  template <class Term, class Put>
  __device__ void rows(int rows, int n, Term&& term, Put&& put) const {
#pragma unroll 1
    for (int first = 8 * warp(); first < rows; first += 8 * kWarps) {
      Real x[8] = {};
#pragma unroll 1
      for (int j = lane(); j < n; j += 32) {
#pragma unroll
        for (int i = 0; i < 8; ++i) x[i] += first + i < rows ? term(first + i, j) : Real(0);
      }
      device::scatter_sum<8>(x);
      const int mine = first + lane() / 4;
      if (lane() % 4 == 0 && mine < rows) put(mine, x[0]);
    }
    sync();
  }
  template <class Term, class Put>
  __device__ void columns(int columns, int n, Term&& term, Put&& put) const {
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < columns; i += kThreads) {
      Real total = 0;
#pragma unroll 4
      for (int j = 0; j < n; ++j) total += term(i, j);
      put(i, total);
    }
    sync();
  }
  template <class Term>
  __device__ Real sum(int n, Term&& term) const {
    Real total = 0;
#pragma unroll 4
    for (int i = static_cast<int>(threadIdx.x); i < n; i += kThreads) total += term(i);
    total = device::warp_sum(total);
    if constexpr (kWarps > 1) {
      if (lane() == 0) sums[warp()] = total;
      __syncthreads();
      total = 0;
#pragma unroll 1
      for (int w = 0; w < kWarps; ++w) total += sums[w];
    }
    sync();
    return total;
  }
};

template <class Real, int kThreads, bool kForward, bool kShared>
__global__ void __launch_bounds__(kThreads)
    rule_read_kernel(const __grid_constant__ law::RuleView<Real> view, int first, int end, int staged_at) {
  using Team = RuleBlock<Real, kThreads, kShared>;
  __shared__ Real sums[Team::kWarps];
  auto* staged = reinterpret_cast<RuleOperation*>(shared_memory + staged_at);
  const int words = (end - first) * static_cast<int>(sizeof(RuleOperation) / sizeof(int));
  for (int i = static_cast<int>(threadIdx.x); i < words; i += kThreads)
    reinterpret_cast<int*>(staged)[i] = reinterpret_cast<const int*>(view.operations + first)[i];
  Team::sync();
  const int item = static_cast<int>(blockIdx.x), r = static_cast<int>(blockIdx.y);
  const Team team{sums, staged, first, end};
  const law::RuleWalk<Real, Team> walk{view, team, r, item,
                                       view.work.at(r) + item * view.work_numbers + view.memory};
  if constexpr (kForward) {
    walk.forward();
  } else {
    walk.backward();
  }
}

template <int kThreads, bool kForward, class Real>
void launch(const Exec& exec, const RuleRead<Real>& op) {
  const RuleProgram& p = *op.program;
  const law::RuleView<Real> view(op, p.on_device());
  const std::vector<RuleProgram::Part> parts =
      kForward ? std::vector{p.step, p.read} : std::vector{p.step_again, p.read_back, p.step_back};
  int first = parts[0].first, end = first;
  for (const RuleProgram::Part& part : parts) {
    first = std::min(first, part.first);
    end = std::max(end, part.first + part.count);
  }
  if (end - first > 256) end = first;  // long laws are read from the device's memory
  const auto staged = static_cast<std::size_t>(end - first) * sizeof(RuleOperation);
  const int numbers = kForward ? p.forward_numbers : p.backward_numbers;
  const std::size_t memory = (static_cast<std::size_t>(numbers) * sizeof(Real) + 15) / 16 * 16;
  const bool shared = memory + staged + 1024 <= shared_memory_limit();
  const auto kernel = shared ? rule_read_kernel<Real, kThreads, kForward, true>
                             : rule_read_kernel<Real, kThreads, kForward, false>;
  const std::size_t bytes = (shared ? memory : 0) + staged;
  device::allow_shared_memory(kernel, bytes);
  const dim3 grid(static_cast<unsigned>(op.B() * op.H()), static_cast<unsigned>(op.o.value.R));
  kernel<<<grid, kThreads, bytes, device::stream_of(exec)>>>(view, first, end,
                                                             shared ? static_cast<int>(memory) : 0);
  device::check_launch(RuleRead<Real>::kName);
}

template <class Real>
RuleArguments<Real> arguments_of(const RuleRead<Real>& op) {
  RuleArguments<Real> a{};
  for (std::size_t i = 0; i < op.program->inputs.size(); ++i) {
    const In<Real>& x = op.x[i];
    a.inputs[i] = {x.value.data, x.wanted() ? x.gradient.data : nullptr, x.value.replica_stride,
                   x.gradient.replica_stride, x.write == Write::add};
  }
  for (std::size_t i = 0; i < op.program->states.size(); ++i) {
    const Out<Real>& end = op.end[i];
    a.ends[i] = {end.value.data, end.gradient.data, end.value.replica_stride, end.gradient.replica_stride};
  }
  a.position = op.position ? op.position.value.data : nullptr;
  a.position_stride = op.position.value.replica_stride;
  a.o = op.o.value.data, a.o_stride = op.o.value.replica_stride;
  a.d_o = op.o.gradient.data, a.d_o_stride = op.o.gradient.replica_stride;
  a.states = op.states.value.data, a.states_stride = op.states.value.replica_stride;
  a.work = op.work.value.data, a.work_stride = op.work.value.replica_stride;
  a.work_numbers = op.work.value.columns();
  a.T = op.T(), a.Q = op.Q(), a.H = op.H();
  return a;
}

template <bool kForward, class Real>
void run(const Exec& exec, const RuleRead<Real>& op) {
  if (op.B() * op.H() == 0 || op.o.value.R == 0) return;
  if (op.kernels) {
    RuleArguments<Real> arguments = arguments_of(op);
    op.kernels->launch(kForward, &arguments, static_cast<unsigned>(op.B() * op.H()),
                       static_cast<unsigned>(op.o.value.R), exec.stream);
    return;
  }
  const int largest = op.program->largest;
  if (largest <= 1024) {
    launch<32, kForward>(exec, op);
  } else if (largest <= 4096) {
    launch<128, kForward>(exec, op);
  } else {
    launch<256, kForward>(exec, op);
  }
}

}  // namespace

template <class Real>
void forward_cuda(const Exec& exec, const RuleRead<Real>& op) {
  run<true>(exec, op);
}
template <class Real>
void backward_cuda(const Exec& exec, const RuleRead<Real>& op) {
  run<false>(exec, op);
}

CROSSTALK_INSTANTIATE(cuda, RuleRead)

}  // namespace crosstalk
