// Exit codes of the program; scripts rely on them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace crosstalk::program {

enum ExitCode : int {
  exit_done = 0,         ///< all done
  exit_some_failed = 1,  ///< some runs failed, or a study was left out; the others are in the store
  exit_usage = 2,        ///< usage or configuration: nothing was run, nothing created
  exit_store = 3,        ///< reading or writing a store or file failed
  exit_device = 4,       ///< the device cannot be had, or memory ran out
  exit_internal = 70,    ///< a bug in Crosstalk
  exit_stopped = 75,     ///< stopped (signal, time limit); the same command goes on (EX_TEMPFAIL)
};

}  // namespace crosstalk::program
