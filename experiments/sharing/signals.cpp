// Signal handlers. Only atomics and async-signal-safe calls in here.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/sharing/signals.h"

#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstring>
#include <utility>

#include "experiments/common/exit_codes.h"

namespace crosstalk::program {
namespace {

std::atomic<bool> stop{false};
std::atomic<int> caught{0};
std::atomic<const char*> last_words{nullptr};  ///< while nothing has begun
static_assert(std::atomic<const char*>::is_always_lock_free);
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

constexpr std::pair<int, const char*> kStopSignals[] = {
    {SIGINT, "SIGINT"}, {SIGTERM, "SIGTERM"}, {SIGUSR1, "SIGUSR1"}, {SIGUSR2, "SIGUSR2"}, {SIGHUP, "SIGHUP"}};

void leave_if_nothing_has_begun() {
  const char* words = last_words.load();
  if (words == nullptr) return;
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, words, std::strlen(words));
  ::_exit(exit_stopped);
}

void time_is_up(int) { leave_if_nothing_has_begun(); }

void set_alarm(double seconds) {
  struct itimerval timer = {};
  timer.it_value.tv_sec = static_cast<time_t>(seconds);
  timer.it_value.tv_usec = static_cast<suseconds_t>(std::fmod(seconds, 1.0) * 1e6);
  setitimer(ITIMER_REAL, &timer, nullptr);
}

void handle(int signal) {
  leave_if_nothing_has_begun();
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

void leave_on_early_signals(const char* words) {
  last_words.store(words);
  catch_stop_signals();
}

NothingBegun::NothingBegun(std::string words, double seconds) : words_(std::move(words)) {
  last_words.store(words_.c_str());
  if (seconds <= 0) return;
  struct sigaction action = {};
  action.sa_handler = time_is_up;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGALRM, &action, nullptr);
  set_alarm(std::min(seconds, 1e8));
}

NothingBegun::~NothingBegun() {
  set_alarm(0);
  last_words.store(nullptr);
}

const std::atomic<bool>& stop_flag() { return stop; }
void request_stop() { stop.store(true); }

std::string stop_signal() {
  for (const auto& [signal, name] : kStopSignals)
    if (signal == caught.load()) return name;
  return "";
}

}  // namespace crosstalk::program
