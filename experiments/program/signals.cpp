// Signal handlers. Only atomics and async-signal-safe calls in here.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/program/signals.h"

#include <csignal>
#include <utility>

namespace crosstalk::program {
namespace {

std::atomic<bool> stop{false};
std::atomic<int> caught{0};
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

constexpr std::pair<int, const char*> kStopSignals[] = {
    {SIGINT, "SIGINT"}, {SIGTERM, "SIGTERM"}, {SIGUSR1, "SIGUSR1"}, {SIGUSR2, "SIGUSR2"}, {SIGHUP, "SIGHUP"}};

void handle(int signal) {
  if (signal == SIGINT && caught.load() == SIGINT) {
    std::signal(SIGINT, SIG_DFL);
    std::raise(SIGINT);  // delivered when this handler returns
  }
  caught.store(signal);
  stop.store(true);
}

}  // namespace

void catch_stop_signals() {
  caught.store(0);
  stop.store(false);
  struct sigaction action = {};
  action.sa_handler = handle;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (const auto& [signal, name] : kStopSignals) {
    struct sigaction old = {};
    // nohup ignores SIGHUP on purpose. An ignored SIGINT is only what shells do to background jobs; whoever
    // sends one by hand means it.
    if (signal == SIGHUP && sigaction(signal, nullptr, &old) == 0 && old.sa_handler == SIG_IGN) continue;
    sigaction(signal, &action, nullptr);
  }
}

const std::atomic<bool>& stop_flag() { return stop; }
void request_stop() { stop.store(true); }

void withdraw_stop() {
  stop.store(false);
  if (caught.load() != 0) stop.store(true);  // in this order, no signal is missed
}

std::string stop_signal() {
  for (const auto& [signal, name] : kStopSignals)
    if (signal == caught.load()) return name;
  return "";
}

}  // namespace crosstalk::program
