// What --device says.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "experiments/training/training.h"

namespace crosstalk::program {

/// auto, cpu, cuda or cuda:N for one process; auto takes the first GPU if this build and this machine have
/// one. Throws UsageError and DeviceError.
void choose_device(const std::string& text, TrainingOptions& options);

/// Leaves out the passes that --no-pass names (models/graph/passes.h). Throws UsageError for others.
void choose_passes(const std::vector<std::string>& names);

/// The devices of worker processes, one each: "cuda:all" and "cuda:0,1" name GPUs, "cpu:all:N" (for tests) N
/// processes on the CPU. Empty for what one process trains on. Throws UsageError and DeviceError.
std::vector<std::string> worker_devices(const std::string& text);

/// "cpu", or the GPU's name: as provenance has it.
std::string device_name(const TrainingOptions& options);

}  // namespace crosstalk::program
