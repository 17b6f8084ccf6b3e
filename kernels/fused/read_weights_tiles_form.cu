// ReadWeights of many queries by blocks of tokens on the tensor cores (read_weights_tiles.cuh).
//
//   precision   float, products in bf16
//   recurrence  the key erases itself (delta, or tied without a key of its own) or nothing does, decays of one number a token
//               or none; or another key erases (free), without decays and gains of writes. One write a token
//   sizes       K <= 64, K % 4 == 0, two queries or more
//   queries     no variable of the keys
//   memory      that a block may share: 152 KiB
// SPDX-License-Identifier: Apache-2.0
#include "kernels/fused/read_weights_tiles_backward.cuh"

namespace crosstalk {
namespace {
using namespace device;

bool is_own(const TiledWeights& op) {
  return op.erase == Erase::none || op.erase == Erase::delta || (op.erase == Erase::tied && !op.erase_read);
}
void with_erase(const TiledWeights& op, auto&& f) { is_own(op) ? f(std::true_type()) : f(std::false_type()); }
bool covers(const TiledWeights& op) {
  const bool free =
      op.erase == Erase::free && op.erase_read && op.erase_write && !op.write_gain && !op.log_decay;
  const auto apart = [&](const In<float>& key) { return !op.q.memory || op.q.memory != key.memory; };
  if (op.products != Precision::bf16 || !(is_own(op) || free) || op.decay || op.writes != 1 ||
      op.K() > kWeightTile || op.K() % 4 != 0 || op.Q() < 2 || op.T() == 0 ||
      (op.log_decay && (op.log_decay.value.dim(3) != 1 || !op.decayed)) || !apart(op.k) ||
      !apart(op.erase_read) || !apart(op.erase_write))
    return false;
  bool fits = false;
  with_erase(op, [&](auto own) { fits = sizeof(WeightsBackward<own()>) <= shared_memory_limit(); });
  return fits;
}

void plan(TiledWeights& op) {
  const int R = op.k.value.R, groups = weight_groups(op), rows = kWeightRows * kWeightTile;
  op.kept.value = shaped<float>(R, {op.B(), op.H(), groups * weight_blocks(op), rows});
  op.kept.value.format = Format::bf16;
  op.history.value = shaped<float>(R, {op.B(), op.H(), groups, rows});
}

void forward(const Exec& exec, const TiledWeights& op) {
  with_erase(op, [&](auto own) {
    launch(exec, "read_weights by tiles", tiled_weights<own()>,
           per_replica(op.B() * op.H() * weight_groups(op), op.k.value.R), kWeightThreads,
           sizeof(WeightsForward<own()>), op);
  });
}
void backward(const Exec& exec, const TiledWeights& op) {
  with_erase(op, [&](auto own) {
    launch(exec, "read_weights backward by tiles", tiled_weights_backward<own()>,
           per_replica(op.B() * op.H(), op.k.value.R), kWeightThreads, sizeof(WeightsBackward<own()>), op);
  });
}

}  // namespace

namespace forms {
void read_weights_tiles() { add_form<TiledWeights>({"tiles", covers, plan, forward, backward}); }
}  // namespace forms

}  // namespace crosstalk
