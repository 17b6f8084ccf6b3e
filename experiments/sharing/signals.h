// Signals ask a run to stop; what is unfinished is saved and goes on in the next run.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <string>

namespace crosstalk::program {

/// Catches SIGINT, SIGTERM, SIGUSR1, SIGUSR2 and SIGHUP (unless nohup has it ignored): the first sets the
/// stop flag, a second SIGINT ends the process at once. Clears the flag.
void catch_stop_signals();

/// The same from the very start of the program, whose libraries and arguments take tens of milliseconds: a signal says
/// `words`, which must live on, and ends the process with exit_stopped, until the next NothingBegun ends.
void leave_on_early_signals(const char* words);

/// Says that until the end of the object nothing is on its way that would have to be saved: a signal, or the end of the
/// time, says `words` and ends the process with exit_stopped, whatever it is busy with (a study of 250,000 runs is
/// expanded, a large store read). Only where signals are caught. At most one object at a time.
class NothingBegun {
 public:
  /// `seconds`: of the time that is left; 0: no limit.
  explicit NothingBegun(std::string words, double seconds = 0);
  ~NothingBegun();
  NothingBegun(const NothingBegun&) = delete;
  NothingBegun& operator=(const NothingBegun&) = delete;

 private:
  const std::string words_;
};

/// Set by the first signal, or by request_stop().
const std::atomic<bool>& stop_flag();
void request_stop();

/// "SIGTERM" after a signal, else "".
std::string stop_signal();

}  // namespace crosstalk::program
