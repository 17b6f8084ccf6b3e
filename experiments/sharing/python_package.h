// The Python package, which trains PyTorch models (memory `python`): which Python has it, and calls of it.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "experiments/common/command.h"

namespace crosstalk::program {

struct Output {
  int status = -1;  ///< as pclose() has it; 0: success
  std::string text;
};
/// What a program prints, called in the root folder and without its errors; it gets a minute. `here`: in this folder, with its errors
/// shown, for as long as it takes.
Output output_of(const std::vector<std::string>& words, bool here = false);

/// --python PYTHON: what trains PyTorch models.
CommandOption python_option();

/// A Python with PyTorch and this package.
struct PackagePython {
  std::string path;      ///< "": there is none
  std::string versions;  ///< "torch 2.9.1, crosstalk 0.1.0"
  std::string why_none;  ///< "no Python with torch and crosstalk (tried python3): ..." with the remedy
};
/// --python if it is given, else the first of figure_pythons() that has both. Throws UsageError where the given one has not.
PackagePython package_python(const Arguments& arguments);

/// `python -m crosstalk WORDS`, which takes nothing from the current folder.
std::vector<std::string> package_call(const std::string& python, const std::vector<std::string>& words);

/// Runs several calls beside each other until all have ended, each with `threads` of OpenMP (0: as the environment says); what they
/// print goes to stderr. Where `stops` says so they get SIGTERM, and `grace` seconds later SIGKILL. Returns their exit codes, 128 + N after
/// signal N. Throws DeviceError where no process can be had.
std::vector<int> run_calls(const std::vector<std::vector<std::string>>& calls, int threads,
                           const std::function<bool()>& stops, double grace);

}  // namespace crosstalk::program
