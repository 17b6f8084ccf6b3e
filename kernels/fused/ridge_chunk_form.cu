// RidgeRead as products of matrices and a solution a warp or a block (ridge_solve.cuh).
//
//   precision   float; StateRead's products in 3xTF32
//   sizes       K, V <= 128
//   start       without positions
//   memory      what StateRead's chunkwise form asks for (state_chunk.cuh)
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "kernels/fused/ridge_solve.cuh"
#include "kernels/recurrence/state_chunk.cuh"

namespace crosstalk {
namespace {
using namespace device;

/// o = S x, x [R,B,Q,H,K] in memory or as a shape.
StateRead<float> values_of(const RidgeOp& op, const Tensor<float>& x) {
  StateRead<float> read;
  read.form = StateForm::chunkwise, read.device = Device::cuda;
  read.q.value = x, read.q.memory = &op.x;  // no variable of the op's, though neither may have memory yet
  read.k = op.k, read.v = op.v, read.write_gain = op.gain, read.log_decay = op.log_decay;
  read.start = op.start, read.position = op.position;
  read.o = op.o, read.end = op.end, read.states = op.states;
  return read;
}
/// H x, of which backward alone is run.
StateRead<float> keys_of(const RidgeOp& op, const Tensor<float>& x, const Tensor<float>& states) {
  StateRead<float> read = values_of(op, x);
  read.v = op.k, read.v.memory = &op;  // another field
  read.start = op.start_keys, read.end = op.end_keys, read.states.value = states;
  read.o = {};
  return read;
}

bool covers(const RidgeOp& op) {
  if (op.K() > kRidgeLargest || op.T() == 0 || op.Q() == 0) return false;
  const Tensor<float> x = shaped<float>(op.k.value.R, {op.B(), op.Q(), op.H(), op.K()});
  return chunk_read_covers(values_of(op, x)) && chunk_read_covers(keys_of(op, x, {}));
}

void plan(RidgeOp& op) {
  const int R = op.k.value.R, B = op.B(), Q = op.Q(), H = op.H(), K = op.K();
  op.x.value = shaped<float>(R, {B, Q, H, K});
  op.states.value = shaped<float>(R, {B, H, values_of(op, op.x.value).chunks(), op.V() * K});
  op.work_keys.value = shaped<float>(R, {B, H, keys_of(op, op.x.value, {}).chunks(), K * K});
  op.work.value = shaped<float>(R, {2, B, Q, H, K});
}

/// Half of `work`, [R,B,Q,H,K].
Tensor<float> half(const RidgeOp& op, int i) {
  Tensor<float> x = shaped<float>(op.k.value.R, {op.B(), op.Q(), op.H(), op.K()});
  x.data = op.work.value.data + i * x.size(), x.replica_stride = op.work.value.replica_stride;
  return x;
}

void make_states(const Exec& exec, RidgeOp op, bool with_end) {
  if (!with_end) op.end_keys = {};
  const int chunk = keys_of(op, half(op, 0), {}).chunk(), threads = (op.K() + 7) / 8 * 32;
  const auto with_cells = [&](auto&& f) {
    op.K() > 64 ? f(std::integral_constant<int, 32>()) : with_row_cells(op.K(), f);
  };
  with_cells([&](auto C) {
    launch(exec, "ridge_read, states", ridge_states<C()>, per_replica(op.B() * op.H(), op.k.value.R), threads,
           0, op, op.work_keys.value, chunk);
  });
}
void solve(const Exec& exec, const RidgeOp& op, const Tensor<float>& right, const Tensor<float>& solution,
           float sign, const In<float>& also) {
  const int chunk = keys_of(op, half(op, 0), {}).chunk();
  const std::int64_t groups = (op.T() + kRidgeGroup - 1) / kRidgeGroup;
  const auto run = [&](auto* kernel, int teams) {
    launch(exec, "ridge_read, solutions", kernel,
           per_replica(blocks_for(op.B() * op.H() * groups, teams), op.k.value.R), 32 * kRidgeWarps, 0, op,
           op.work_keys.value, chunk, right, solution, sign, also);
  };
  if (op.K() > 64)
    run(ridge_solve<1, kRidgeWarps>, 1);
  else
    op.K() <= 32 ? run(ridge_solve<1, 1>, kRidgeWarps) : run(ridge_solve<2, 1>, kRidgeWarps);
}

void forward(const Exec& exec, const RidgeOp& op) {
  if (op.B() * op.H() == 0 || op.k.value.R == 0) return;
  const Tensor<float> x = op.x ? op.x.value : half(op, 0);
  make_states(exec, op, true);
  solve(exec, op, op.q.value, x, 1, {});
  chunk_read<false>(exec, values_of(op, x));
}

void backward(const Exec& exec, const RidgeOp& op) {
  if (op.B() * op.H() == 0 || op.k.value.R == 0) return;
  const Tensor<float> d_x = half(op, 0), y = half(op, 1);  // y: times -1
  In<float> q = op.q;
  StateRead<float> values = values_of(op, op.x.value), keys = keys_of(op, op.x.value, op.work_keys.value);
  // q's gradient comes behind those of the values: of one variable in both, the first to come overwrites.
  for (In<float>* other : {&values.k, &values.v, &values.write_gain, &values.log_decay}) {
    if (q.wanted() && other->wanted() && other->gradient.data == q.gradient.data) {
      std::swap(q.write, other->write);
      break;
    }
  }
  values.q.gradient = d_x, values.q.write = Write::overwrite;
  chunk_read<true>(exec, values);
  make_states(exec, op, false);
  solve(exec, op, d_x, y, -1, q);
  keys.q.write = Write::none, keys.o.gradient = y;
  for (In<float>* again : {&keys.k, &keys.v, &keys.write_gain, &keys.log_decay})
    if (again->wanted()) again->write = Write::add;
  chunk_read<true>(exec, keys);
  if (!op.ridge.wanted()) return;
  launch(exec, "ridge_read, the ridge's gradient", ridge_gradient, per_replica(op.B() * op.H(), op.k.value.R),
         4 * kRidgeLargest, 0, op, y);
}

}  // namespace

namespace forms {
void ridge_chunk() { add_form<RidgeOp>({"chunk", covers, plan, forward, backward}); }
}  // namespace forms

}  // namespace crosstalk
