// ReadWeights chunk by chunk on the tensor cores (read_weights_chunk.cuh).
//
//   precision   float, double
//   recurrence  the key erases itself (delta, or tied without a key of its own) with a gain; no decay; any
//   writes a token
//   keys        one head, K <= 512, K % 4 == 0
//   queries     one a sequence, with a position
//   backward    of what is contracting (a trail is kept); else write after write, from kept states
//   memory      that a block may share: 32 to 71 KiB, by K
// SPDX-License-Identifier: Apache-2.0
#include "kernels/fused/read_weights_chunk.cuh"

namespace crosstalk {
namespace {
using namespace device;

template <class Real>
bool covers(const ReadWeights<Real>& op) {
  const bool own = op.erase == Erase::delta || (op.erase == Erase::tied && !op.erase_read);
  if (!own || !chunked_erase(op) || op.log_decay || op.decay || !op.position || op.Q() != 1 || op.H() != 1 ||
      op.K() > kLargestChunked || op.K() % 4 != 0)
    return false;
  bool fits = false;
  with_chain(op.K(),
             [&](auto W) { fits = sizeof(ChunkMemory<Real, W(), kBuilders<W()>>) <= shared_memory_limit(); });
  return fits;
}

template <class Real>
void plan(ReadWeights<Real>&) {}

template <class Real>
void forward(const Exec& exec, const ReadWeights<Real>& op) {
  with_chain(op.K(), [&](auto W) { launch_chunks<false, W()>(exec, op); });
}
template <class Real>
void backward(const Exec& exec, const ReadWeights<Real>& op) {
  if (!op.by_trail()) {
    ReadWeights<Real> plain = op;
    plain.form = nullptr;
    return backward_cuda(exec, plain);
  }
  with_chain(op.K(), [&](auto W) { launch_chunks<true, W()>(exec, op); });
}

template <class Real>
void add() {
  add_form<ReadWeights<Real>>({"chunk", covers<Real>, plan<Real>, forward<Real>, backward<Real>});
}

}  // namespace

namespace forms {
void read_weights_chunk() { add<float>(), add<double>(); }
}  // namespace forms

}  // namespace crosstalk
