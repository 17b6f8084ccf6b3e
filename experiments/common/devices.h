// What --device says.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "experiments/training/training.h"

namespace crosstalk::program {

/// A GPU of this machine; capability: 10 major + minor.
struct OfferedGpu {
  std::string name;
  int capability = 0;
};

/// Whether code for these architectures, as CMake lists them ("80-real, 90a-real, 90-virtual"), runs on a GPU.
bool has_code(int capability, const std::string& architectures);

/// auto, cpu, cuda or cuda:N for one process; auto takes the first GPU for which this build has code, else the CPU. Returns
/// a sentence that says why auto left GPUs alone, or "". Throws UsageError and DeviceError.
std::string choose_device(const std::string& text, TrainingOptions& options);
/// The same of given GPUs and architectures.
std::string choose_device(const std::string& text, TrainingOptions& options,
                          const std::vector<OfferedGpu>& gpus, const std::string& architectures);

/// Leaves out the passes that --no-pass names (models/graph/passes.h). Throws UsageError for others.
void choose_passes(const std::vector<std::string>& names);

/// The devices of worker processes, one each: "cuda:all" and "cuda:0,1" name GPUs, "cpu:all:N" (for tests) N
/// processes on the CPU. GPUs without code are left out of all. Empty for what one process trains on. Throws UsageError and DeviceError.
std::vector<std::string> worker_devices(const std::string& text);

/// "cpu", or the GPU's name: as provenance has it.
std::string device_name(const TrainingOptions& options);

}  // namespace crosstalk::program
