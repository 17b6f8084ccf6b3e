// The recurrence engine on CUDA: a form of fused/ or the chunk kernels where they cover an op, else token after token
// (state_read_law.h): any shape, mode and precision.
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

template <bool kBack, class Real>
void run(const Exec& exec, const StateRead<Real>& op) {
  if (op.B() == 0 || op.k.value.R == 0) return;
  if (op.fused) return (kBack ? op.fused->backward : op.fused->forward)(exec, op);
  by_chunks(op) ? chunk_read<kBack>(exec, op) : law::run<law::State, kBack>(exec, op);
}

}  // namespace

CROSSTALK_BOTH_WAYS(cuda, StateRead, run<kBack>)

}  // namespace crosstalk
