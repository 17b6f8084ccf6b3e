// Sequences of mqar: a warp writes one (tasks/team.cuh).
// SPDX-License-Identifier: Apache-2.0
#include "tasks/kinds/mqar_sequence.h"
#include "tasks/team.cuh"

namespace crosstalk {
namespace {

struct MqarGenerator {
  __device__ void operator()(const drawing::Warp& warp, const MqarSpec& spec, std::uint64_t seed, Split split,
                             std::uint64_t n, const SequenceView& out, std::int32_t* scratch) const {
    mqar_write(warp, spec, seed, split, n, out, scratch);
  }
};

}  // namespace

template <>
void draw_on_cuda(const MqarSpec& spec, const Exec& exec, const DrawArgs& a) {
  drawing::launch_team<MqarGenerator>(spec, mqar_scratch_size(spec), exec, a);
}

}  // namespace crosstalk
