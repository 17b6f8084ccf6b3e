// The CUDA version of a generator, the function of NAME_sequence.h run by one thread a sequence. The build compiles it for
// every task (tasks/CMakeLists.txt); without CUDA it throws DeviceError.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "tasks/task.h"

namespace crosstalk {

template <class Spec>
void draw_on_cuda(const Spec& spec, const Exec& exec, const DrawArgs& args);

/// The first argument of a generator.
template <class Spec>
Spec spec_of(void (*)(const Spec&, std::uint64_t, Split, std::uint64_t, const SequenceView&, std::int32_t*));
#define CROSSTALK_SPEC(name) decltype(::crosstalk::spec_of(::crosstalk::name##_sequence))

}  // namespace crosstalk
