// FwmRead chunk by chunk on the tensor cores (fwm_chunk.cuh).
//
//   precision   float
//   values      ids, V <= 256
//   keys        one head, K <= 128, K % 4 == 0
//   queries     one a sequence, with a position
//   states      none before the sequence, none wanted after it
//   memory      that a block may share: about 46 KiB and 34 + 7 w, w = ceil(V / 16), where K <= 64, else 87 and 58 + 11 w
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "kernels/fused/fwm_chunk_backward.cuh"
#include "kernels/fused/fwm_chunk_forward.cuh"

namespace crosstalk {
namespace {
using namespace device;
using Op = FwmRead<float>;

bool covers(const Op& op) {
  if (op.v || op.start || op.end || !op.position || op.Q() != 1 || op.H() != 1 || op.K() % 4 != 0 ||
      op.K() > 128 || op.V() > 256)
    return false;
  std::size_t bytes = 0;
  with_fwm_chunks(op.K(), op.V(), [&](auto J, auto, int warps) {
    bytes = std::max(fwm_chunked_forward_bytes<J()>(warps), fwm_chunked_backward_bytes<J()>(warps));
  });
  return bytes <= shared_memory_limit();
}

/// Room for the fewest tokens a chunk. kept: v - S k of each token and the inverse of its divisor; and how
/// many tokens make a chunk.
void plan(Op& op) {
  const int R = op.k.value.R, chunks = (op.T() + kFwmFew - 1) / kFwmFew;
  op.states.value = shaped<float>(R, {op.B(), 1, chunks, op.V() * op.K()});
  op.kept.value = shaped<float>(R, {op.B(), op.T(), (op.V() + 3) / 4 * 4 + 4});
}

void forward(const Exec& exec, const Op& op) {
  with_fwm_chunks(op.K(), op.V(), [&](auto J, auto most, int warps) {
    launch(exec, "fast weight memory", fwm_forward_chunked<J(), most()>, per_replica(op.B(), op.k.value.R),
           32 * (warps + 1), fwm_chunked_forward_bytes<J()>(warps), op);
  });
}
void backward(const Exec& exec, const Op& op) {
  with_fwm_chunks(op.K(), op.V(), [&](auto J, auto most, int warps) {
    launch(exec, "fast weight memory backward", fwm_backward_chunked<J(), most()>,
           per_replica(op.B(), op.k.value.R), 32 * (warps + 1), fwm_chunked_backward_bytes<J()>(warps), op);
  });
}

}  // namespace

namespace forms {
void fwm_chunk() { add_form<Op>({"chunk", covers, plan, forward, backward}); }
}  // namespace forms

}  // namespace crosstalk
