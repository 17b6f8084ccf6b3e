// NetworkRead with its state in registers (network_walk.cuh).
//
//   precision   float
//   network     linear (no hidden units), K <= 64, V <= 64; mini-batches of one token; momentum or LayerNorm,
//               not both
//   queries     one behind every token (no positions)
//   memory      98 KiB that a block may share
// SPDX-License-Identifier: Apache-2.0
#include "kernels/fused/network_walk_backward.cuh"

namespace crosstalk {
namespace {
using namespace device;

bool covers(const NetworkOp& op) {
  return op.hidden == 0 && op.mini_batch == 1 && !op.position && op.T() > 0 && op.K() <= kWalkColumns &&
         op.V() <= kWalkRows && !(op.gain && op.momentum) &&
         sizeof(float) * kWalkFloats <= shared_memory_limit();
}

void plan(NetworkOp& op) {
  const WalkPlan walk(op);
  op.states.value = shaped<float>(op.k.value.R, {op.B(), op.H(), walk.chunks, walk.kept});
  op.kept.value = shaped<float>(op.k.value.R, {op.B(), op.T(), op.H(), op.V()});
}

/// f(C, norm), both std::integral_constant.
template <class F>
void with_shape(const NetworkOp& op, F&& f) {
  with_row_cells(op.K(), [&](auto C) { op.gain ? f(C, std::true_type()) : f(C, std::false_type()); });
}

template <class Kernel>
void launch(const Exec& exec, const NetworkOp& op, const WalkPlan& walk, Kernel kernel, std::size_t bytes) {
  if (op.B() * op.H() == 0 || op.k.value.R == 0) return;
  allow_shared_memory(kernel, bytes);
  const dim3 grid(static_cast<unsigned>(op.B() * op.H()), static_cast<unsigned>(op.k.value.R));
  kernel<<<grid, static_cast<unsigned>(32 * walk.warps), bytes, stream_of(exec)>>>(op, walk);
  check_launch("network_read by registers");
}

void forward(const Exec& exec, const NetworkOp& op) {
  const WalkPlan walk(op);
  with_shape(op, [&](auto C, auto norm) { launch(exec, op, walk, network_walk_forward<C(), norm()>, 0); });
}
void backward(const Exec& exec, const NetworkOp& op) {
  const WalkPlan walk(op);
  with_shape(op, [&](auto C, auto norm) {
    launch(exec, op, walk, network_walk_backward<C(), norm()>, sizeof(float) * kWalkFloats);
  });
}

}  // namespace

namespace forms {
void network_walk() { add_form<NetworkOp>({"registers", covers, plan, forward, backward}); }
}  // namespace forms

}  // namespace crosstalk
