// A law that is a program on CUDA: a block a sequence and head interprets it, its memory shared where that fits. The number
// of threads follows from the sizes of its values alone.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/device/cuda_launch.cuh"
#include "kernels/rule/rule_block.cuh"
#include "kernels/rule/rule_walk.h"

namespace crosstalk {
namespace {

/// Blocks that a multiprocessor should hold at least: registers must not keep more away than shared memory does.
template <class Real, int kThreads, bool kForward>
constexpr int kBlocks = (sizeof(Real) == 4 && kForward ? 1024 : 512) / kThreads;

template <class Real, int kThreads, bool kForward, bool kShared>
__global__ void __launch_bounds__(kThreads, kBlocks<Real, kThreads, kForward>)
    rule_read_kernel(const __grid_constant__ law::RuleView<Real> view, int rows_at) {
  using Team = RuleBlock<Real, kThreads, kShared, !kForward>;
  __shared__ Real sums[Team::kWarps];
  const Team team{sums, rows_at};
  const law::RuleWalk<Real, Team> walk(view, team, static_cast<int>(blockIdx.y), static_cast<int>(blockIdx.x),
                                       nullptr);
  if constexpr (kForward)
    walk.forward();
  else
    walk.backward();
}

template <int kThreads, bool kForward, class Real>
void launch(const Exec& exec, const RuleRead<Real>& op) {
  const RuleProgram& p = *op.program;
  const law::RuleView<Real> view(op, p.on_device());
  const int numbers = kForward ? p.forward_numbers : p.backward_numbers;
  const std::size_t bytes = (static_cast<std::size_t>(numbers) * sizeof(Real) + 15) / 16 * 16;
  const std::size_t rows = p.inputs.size() * sizeof(law::RuleRows<Real>);
  const bool shared = bytes + rows + 1024 <= shared_memory_limit();
  const auto kernel = shared ? rule_read_kernel<Real, kThreads, kForward, true>
                             : rule_read_kernel<Real, kThreads, kForward, false>;
  const std::size_t rows_at = shared ? bytes : 0;
  device::launch(exec, RuleRead<Real>::kName, kernel, device::per_replica(op.B() * op.H(), op.o.value.R),
                 kThreads, rows_at + rows, view, static_cast<int>(rows_at));
}

template <bool kBack, class Real>
void run(const Exec& exec, const RuleRead<Real>& op) {
  if (op.B() * op.H() == 0 || op.o.value.R == 0) return;
  if (op.kernels) {
    RuleArguments<Real> arguments = law::arguments_of(op);
    op.kernels->launch(!kBack, &arguments, static_cast<unsigned>(op.B() * op.H()),
                       static_cast<unsigned>(op.o.value.R), exec.stream);
    return;
  }
  const int largest = op.program->largest;
  if (largest <= 1024)
    launch<32, !kBack>(exec, op);
  else if (largest <= 4096)
    launch<128, !kBack>(exec, op);
  else
    launch<256, !kBack>(exec, op);
}

}  // namespace

CROSSTALK_BOTH_WAYS(cuda, RuleRead, run<kBack>)

}  // namespace crosstalk
