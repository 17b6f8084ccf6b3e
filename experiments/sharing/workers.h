// Several worker processes over one store, one a device: `run` and `retry` with --device cuda:all.
//
// The parent starts itself again for each device and gives each worker its share of the runs. A worker goes on with
// unclaimed runs of other shares, and with the runs of workers that died.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "experiments/common/command.h"
#include "experiments/sharing/session.h"
#include "experiments/study/study.h"

namespace crosstalk::program {

/// The parent: starts a worker on each device, shows progress, forwards stops, waits. Throws StoreError, and
/// DeviceError if runs are missing because every worker was lost.
SessionResult train_with_workers(const Study& study, const std::vector<Run>& runs,
                                 const std::filesystem::path& path, const SessionOptions& options,
                                 const std::vector<std::string>& devices, const Arguments& arguments,
                                 Console& console);

/// One worker, with the hidden option --worker of `arguments`. Returns its exit code.
int run_worker(const Study& study, const std::filesystem::path& path, SessionOptions options,
               const Arguments& arguments, Console& console);

}  // namespace crosstalk::program
