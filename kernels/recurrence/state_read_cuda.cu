// The recurrence engine on CUDA: the chunk kernels where they cover an op, else token after token (state_read_law.h):
// any shape, mode and precision.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/law/law_team.cuh"
#include "kernels/recurrence/state_chunk.cuh"
#include "kernels/recurrence/state_read_law.h"

namespace crosstalk {
namespace {
using namespace device;

/// True if chunks run; what is kept has the shapes and formats that plan() gives it.
template <class Real>
bool by_chunks(const StateRead<Real>& op) {
  const bool chunks = chunk_read_covers(op);
  const KeptFormats kept = chunk_read_keeps(op);
  if (chunks == static_cast<bool>(op.work)) throw std::logic_error("[state_read] planned for another form");
  for (const auto& [field, format] :
       {std::pair{&op.states, kept.states}, {&op.inverse, kept.states}, {&op.solved, kept.solved}}) {
    if (*field && field->value.format != format)
      throw std::logic_error(
          "[state_read] states, inverse and solved are bf16 where plan() says so, and only there");
  }
  return chunks;
}

}  // namespace

template <class Real>
void forward_cuda(const Exec& exec, const StateRead<Real>& op) {
  if (op.B() == 0 || op.k.value.R == 0) return;
  if (by_chunks(op)) return chunk_read_forward(exec, op);
  law::run<law::State, false>(exec, op);
}

template <class Real>
void backward_cuda(const Exec& exec, const StateRead<Real>& op) {
  if (op.B() == 0 || op.k.value.R == 0) return;
  if (by_chunks(op)) return chunk_read_backward(exec, op);
  law::run<law::State, true>(exec, op);
}

CROSSTALK_INSTANTIATE(cuda, StateRead)

}  // namespace crosstalk
