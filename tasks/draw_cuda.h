// CUDA versions of the generators: the functions of *_sequence.h, one thread a sequence. draw_cuda.cu
// implements them; a build without CUDA links draw_no_cuda.cpp. SPDX-License-Identifier: Apache-2.0
#pragma once
#include "tasks/reassign_sequence.h"
#include "tasks/recall_sequence.h"
#include "tasks/swap_sequence.h"
#include "tasks/task.h"

namespace crosstalk {

void draw_on_cuda(const RecallSpec& spec, const Exec& exec, const DrawArgs& args);
void draw_on_cuda(const ReassignSpec& spec, const Exec& exec, const DrawArgs& args);
void draw_on_cuda(const SwapSpec& spec, const Exec& exec, const DrawArgs& args);

}  // namespace crosstalk
