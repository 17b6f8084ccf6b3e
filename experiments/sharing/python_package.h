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
/// What a program prints, called in the root folder without its errors; it gets a minute. `here`: in this folder, errors shown, no limit.
Output output_of(const std::vector<std::string>& words, bool here = false);

/// --python PYTHON: what trains PyTorch models.
CommandOption python_option();

struct PackagePython {
  std::string path;      ///< "": there is none
  std::string versions;  ///< "torch 2.9.1, crosstalk 0.1.0"
  std::string why_none;  ///< "no Python with torch and crosstalk (...)", and what makes one
};
/// --python, or the first of figure_pythons() that has torch and crosstalk. Throws UsageError where the given one has not.
PackagePython package_python(const Arguments& arguments);

/// `python -m crosstalk WORDS`, which takes nothing from the current folder.
std::vector<std::string> package_call(const std::string& python, const std::vector<std::string>& words);

/// Runs a call to its end and returns its exit code, 128 + N after signal N. Where `stops` says so it gets SIGTERM, `grace` seconds later
/// SIGKILL. What it prints goes to stderr.
int run_call(std::vector<std::string> words, const std::function<bool()>& stops, double grace);

}  // namespace crosstalk::program
