// NetworkRead with its state in registers (network_walk.cuh).
//
//   precision   float
//   network     linear (no hidden units), K <= 64, V <= 64; mini-batches of one token; momentum or LayerNorm,
//               not both
//   queries     any; with positions they are no variable of the keys or values
//   memory      up to 98 KiB that a block may share
// SPDX-License-Identifier: Apache-2.0
#include "kernels/fused/network_walk_backward.cuh"

namespace crosstalk {
namespace {
using namespace device;

bool covers(const NetworkOp& op) {
  return op.hidden == 0 && op.mini_batch == 1 && !(op.gain && op.momentum) && WalkPlan(op).covers(op);
}

void plan(NetworkOp& op) {
  const WalkPlan walk(op);
  op.states.value = shaped<float>(op.k.value.R, {op.B(), op.H(), walk.starts, walk.kept});
  op.work.value = shaped<float>(op.k.value.R, {op.B(), op.H(), walk.slot + kWalkRows});
  op.kept.value = shaped<float>(op.k.value.R, {op.B(), op.T(), op.H(), op.V()});
}

/// f(C, norm, listed), each a std::integral_constant.
void with_shape(const NetworkOp& op, auto&& f) {
  constexpr std::true_type yes;
  constexpr std::false_type no;
  with_row_cells(op.K(), [&](auto C) {
    if (op.position) return op.gain ? f(C, yes, yes) : f(C, no, yes);
    op.gain ? f(C, yes, no) : f(C, no, no);
  });
}

template <bool kBack>
void run(const Exec& exec, const NetworkOp& op) {
  const WalkPlan walk(op);
  with_shape(op, [&](auto C, auto norm, auto listed) {
    constexpr auto kernel =
        kBack ? network_walk_backward<C(), norm(), listed()> : network_walk_forward<C(), norm(), listed()>;
    launch(exec, kBack ? "network_read backward by registers" : "network_read by registers", kernel,
           per_replica(op.B() * op.H(), op.k.value.R), 32 * walk.warps, kBack ? walk.bytes : 0, op, walk);
  });
}

}  // namespace

namespace forms {
void network_walk() { add_form<NetworkOp>({"registers", covers, plan, run<false>, run<true>}); }
}  // namespace forms

}  // namespace crosstalk
