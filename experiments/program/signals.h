// Signals ask a run to stop; what is unfinished is saved and goes on in the next run.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <string>

namespace crosstalk::program {

/// Catches SIGINT, SIGTERM, SIGUSR1, SIGUSR2 and SIGHUP (unless nohup has it ignored): the first sets the
/// stop flag, a second SIGINT ends the process at once. Clears the flag.
void catch_stop_signals();

/// Set by the first signal, or by request_stop().
const std::atomic<bool>& stop_flag();
void request_stop();
/// Takes request_stop() back; a signal stays.
void withdraw_stop();

/// "SIGTERM" after a signal, else "".
std::string stop_signal();

}  // namespace crosstalk::program
