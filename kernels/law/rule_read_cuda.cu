// A law that is a program on CUDA: a block a sequence and head interprets it, its memory shared where that fits. The number
// of threads follows from the sizes of its values alone.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/cuda_launch.cuh"
#include "kernels/law/rule_walk.h"

namespace crosstalk {
namespace {

template <class Real, int kThreads>
struct RuleBlock {
  static constexpr int kWarps = kThreads / 32;
  Real* sums;  ///< shared, a number a warp

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
  template <class F>
  __device__ void cells(int rows, int columns, F&& f) const {
    for (int i = warp(); i < rows; i += kWarps) {
      for (int j = lane(); j < columns; j += 32) f(i, j);
    }
    sync();
  }
  /// Eight rows at a time: their sums share exchanges.
  template <class Term, class Put>
  __device__ void rows(int rows, int n, Term&& term, Put&& put) const {
    for (int first = 8 * warp(); first < rows; first += 8 * kWarps) {
      Real x[8] = {};
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        if (first + i < rows) {
          for (int j = lane(); j < n; j += 32) x[i] += term(first + i, j);
        }
      }
      device::scatter_sum<8>(x);
      const int mine = first + lane() / 4;
      if (lane() % 4 == 0 && mine < rows) put(mine, x[0]);
    }
    sync();
  }
  template <class Term, class Put>
  __device__ void columns(int columns, int n, Term&& term, Put&& put) const {
    for (int i = static_cast<int>(threadIdx.x); i < columns; i += kThreads) {
      Real total = 0;
      for (int j = 0; j < n; ++j) total += term(i, j);
      put(i, total);
    }
    sync();
  }
  template <class Term>
  __device__ Real sum(int n, Term&& term) const {
    Real total = 0;
    for (int i = static_cast<int>(threadIdx.x); i < n; i += kThreads) total += term(i);
    total = device::warp_sum(total);
    if constexpr (kWarps > 1) {
      if (lane() == 0) sums[warp()] = total;
      __syncthreads();
      total = 0;
      for (int w = 0; w < kWarps; ++w) total += sums[w];
    }
    sync();
    return total;
  }
};

template <class Real, int kThreads, bool kForward>
__global__ void __launch_bounds__(kThreads)
    rule_read_kernel(const __grid_constant__ law::RuleView<Real> view, bool shared) {
  using Team = RuleBlock<Real, kThreads>;
  __shared__ Real sums[Team::kWarps];
  extern __shared__ __align__(16) unsigned char memory[];
  const int item = static_cast<int>(blockIdx.x), r = static_cast<int>(blockIdx.y);
  Real* m =
      shared ? reinterpret_cast<Real*>(memory) : view.work.at(r) + item * view.work_numbers + view.memory;
  const Team team{sums};
  const law::RuleWalk<Real, Team> walk{view, team, r, item, m};
  if constexpr (kForward) {
    walk.forward();
  } else {
    walk.backward();
  }
}

template <int kThreads, bool kForward, class Real>
void launch(const Exec& exec, const RuleRead<Real>& op) {
  const law::RuleView<Real> view(op, op.program->on_device());
  const int numbers = kForward ? op.program->forward_numbers : op.program->backward_numbers;
  const std::size_t bytes = static_cast<std::size_t>(numbers) * sizeof(Real);
  const auto kernel = rule_read_kernel<Real, kThreads, kForward>;
  const bool shared = bytes + 1024 <= shared_memory_limit();
  if (shared) device::allow_shared_memory(kernel, bytes);
  const dim3 grid(static_cast<unsigned>(op.B() * op.H()), static_cast<unsigned>(op.o.value.R));
  kernel<<<grid, kThreads, shared ? bytes : 0, device::stream_of(exec)>>>(view, shared);
  device::check_launch(RuleRead<Real>::kName);
}

template <bool kForward, class Real>
void run(const Exec& exec, const RuleRead<Real>& op) {
  if (op.B() * op.H() == 0 || op.o.value.R == 0) return;
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
