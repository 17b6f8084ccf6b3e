// crosstalk version: what this binary was built from.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/common/version.h"

#include <fmt/format.h>

#include "experiments/common/command.h"
#include "experiments/common/exit_codes.h"
#include "experiments/common/text.h"
#include "experiments/study/study.h"
#include "kernels/base/device/cuda_runtime.h"

namespace crosstalk::program {
namespace {

int run_version(const Arguments& arguments, Console& console) {
  const Version& built = version();
  if (arguments.has("json")) {
    console.out << dump({{"version", built.version},
                         {"commit", built.commit},
                         {"dirty", built.dirty},
                         {"compiler", built.compiler},
                         {"build_type", built.build_type},
                         {"flags", built.flags},
                         {"semantics", kSemantics},
                         {"devices", built_with_cuda() ? std::vector<std::string>{"cpu", "cuda"}
                                                       : std::vector<std::string>{"cpu"}}});
    return exit_done;
  }
  console.out << fmt::format(
      "crosstalk {}\ncommit     {}{}\ncompiler   {}\nbuild      {} ({})\nsemantics  {}\ndevices    {}\n",
      built.version, built.commit, built.dirty ? ", with local changes" : "", built.compiler,
      built.build_type, built.flags, kSemantics, built_with_cuda() ? "cpu, cuda" : "cpu");
  return exit_done;
}

}  // namespace

extern const Command version_command = {
    "version",
    "show version, commit, compiler and devices",
    "[--json]",
    "The semantics number is raised when results change on purpose; run ids contain it.\n\n"
    "Examples:\n"
    "  crosstalk version\n"
    "  crosstalk version --json | jq -r .commit\n",
    0,
    0,
    "",
    {{"json", "", "Print JSON"}},
    run_version,
};

}  // namespace crosstalk::program
