// The parent of several worker processes.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/sharing/workers.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <unordered_map>

#include "experiments/common/exit_codes.h"
#include "experiments/common/stores.h"
#include "experiments/common/text.h"
#include "experiments/sharing/progress.h"
#include "experiments/sharing/shares.h"
#include "experiments/sharing/signals.h"
#include "experiments/training/pack.h"
#include "kernels/base/error.h"
#include "kernels/base/parallel.h"
#include "kernels/base/text/file_stamps.h"
#include "results/store/claims.h"
#include "results/store/follow.h"
#include "results/store/store.h"

namespace crosstalk::program {
namespace {

/// Time that a worker may take beyond the grace before it is killed, in seconds.
constexpr double kBeyondGrace = 10;

struct Worker {
  std::string device;
  pid_t process = -1;  ///< -1: has ended
  int errors = -1;     ///< read end of its stderr; -1: closed
  std::string text;    ///< of its stderr: the line that has no end yet
  int status = 0;      ///< as waitpid has it
};

/// The command line again, with another device and the hidden option --worker.
std::vector<std::string> worker_words(const std::string& command, const Arguments& arguments,
                                      const std::string& device, const std::string& worker, int threads) {
  std::vector<std::string> words = {command};
  for (const auto& [name, values] : arguments.options) {
    if (name == "device" || name == "worker" || name == "quiet" || name == "threads") continue;
    for (const std::string& value : values)
      words.push_back(value.empty() ? "--" + name : fmt::format("--{}={}", name, value));
  }
  words.insert(words.end(), {"--quiet", "--device=" + device, "--worker=" + worker});
  if (threads > 0) words.push_back(fmt::format("--threads={}", threads));
  words.push_back("--");
  words.insert(words.end(), arguments.positional.begin(), arguments.positional.end());
  return words;
}

DeviceError no_process(const std::string& reason) {
  return DeviceError(
      fmt::format("the worker processes could not be started: {}; use fewer devices, or raise the "
                  "limits on processes, open files and memory (ulimit -u, -n, -v)",
                  reason));
}

/// A file without a name that holds `text`; the workers inherit it.
int inherited_file(const std::string& text) {
  const int file = ::memfd_create("crosstalk-plan", 0);
  if (file < 0) throw no_process(std::strerror(errno));
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t n = ::write(file, text.data() + at, text.size() - at);
    if (n < 0 && errno != EINTR) {
      ::close(file);
      throw no_process(std::strerror(errno));
    }
    at += static_cast<std::size_t>(std::max<ssize_t>(0, n));
  }
  return file;
}

class Parent {
 public:
  Parent(const std::vector<Run>& runs, const std::filesystem::path& path, const SessionOptions& options,
         Console& console)
      : path_(path),
        options_(options),
        follower_(path, options.since),
        progress_(console.err, options.style, plan_of(runs), steady_seconds, terminal_width) {
    for (const Run& run : runs) missing_.emplace(run.id, estimated_work(run));
  }

  ~Parent() {  // after an exception: no process is left running
    for (Worker& worker : workers_) {
      if (worker.process > 0 && ::kill(worker.process, SIGKILL) == 0) ::waitpid(worker.process, nullptr, 0);
      if (worker.errors >= 0) ::close(worker.errors);
    }
  }

  void start(const std::string& device, const std::string& program, const std::vector<std::string>& words) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw no_process(std::strerror(errno));
    std::vector<char*> argv = {const_cast<char*>(program.c_str())};
    for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    const pid_t parent = ::getpid();
    const pid_t child = ::fork();
    if (child == 0) {
      // A parent that is killed takes its workers along; they save their runs.
      ::prctl(PR_SET_PDEATHSIG, SIGTERM);
      if (::getppid() != parent) ::_exit(exit_stopped);
      ::dup2(ends[1], STDERR_FILENO);
      ::execv("/proc/self/exe", argv.data());
      ::_exit(127);
    }
    const int error = errno;
    ::close(ends[1]);
    if (child < 0) {
      ::close(ends[0]);
      throw no_process(std::strerror(error));
    }
    ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
    workers_.push_back({device, child, ends[0], "", 0});
  }

  SessionResult wait() {
    progress_.tick();
    double next_count = 0;
    while (living() > 0) {
      wait_for_text();
      reap();
      mind_stops();
      if (steady_seconds() >= next_count) {
        const double before = steady_seconds();
        count();
        const double after = steady_seconds();
        next_count = after + std::max(1.0, 10 * (after - before));  // a large store takes a while to read
      }
      progress_.tick();
    }
    count();
    progress_.close();
    return result();
  }

 private:
  static ProgressPlan plan_of(const std::vector<Run>& runs) {
    ProgressPlan plan{static_cast<std::int64_t>(runs.size()), 0};
    for (const Run& run : runs) plan.cost += estimated_work(run);
    return plan;
  }

  std::int64_t living() const {
    return std::ranges::count_if(workers_, [](const Worker& w) { return w.process > 0; });
  }

  /// Whole lines of the workers go on to people, above the progress line.
  void wait_for_text() {
    std::vector<pollfd> polled;
    for (const Worker& worker : workers_)
      if (worker.errors >= 0) polled.push_back({worker.errors, POLLIN, 0});
    if (polled.empty()) {
      ::usleep(20000);
      return;
    }
    if (::poll(polled.data(), polled.size(), 100) <= 0) return;
    for (Worker& worker : workers_) read_text(worker);
  }

  void read_text(Worker& worker) {
    char buffer[4096];
    while (worker.errors >= 0) {
      const ssize_t n = ::read(worker.errors, buffer, sizeof buffer);
      if (n > 0) {
        worker.text.append(buffer, static_cast<std::size_t>(n));
      } else if (n < 0 && errno == EINTR) {
        continue;
      } else if (n < 0 && errno == EAGAIN) {
        break;
      } else {
        ::close(worker.errors);
        worker.errors = -1;
        if (!worker.text.empty()) worker.text += '\n';
      }
    }
    const std::size_t end = worker.text.rfind('\n');
    if (end == std::string::npos) return;
    if (worker.text.find_first_not_of('\n') < end) progress_.announce(worker.text.substr(0, end + 1));
    worker.text.erase(0, end + 1);
  }

  void reap() {
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      Worker& worker = workers_[i];
      if (worker.process <= 0 || ::waitpid(worker.process, &worker.status, WNOHANG) != worker.process)
        continue;
      worker.process = -1;
      read_text(worker);
      if (WIFEXITED(worker.status) && WEXITSTATUS(worker.status) == exit_done) continue;
      if (WIFEXITED(worker.status) && WEXITSTATUS(worker.status) == exit_store) {
        store_failed_ = true;
        request_stop();
      }
      if (stop_flag()) continue;
      const std::string how = WIFSIGNALED(worker.status)
                                  ? fmt::format("was killed by signal {}", WTERMSIG(worker.status))
                                  : fmt::format("ended with exit code {}", WEXITSTATUS(worker.status));
      progress_.announce(fmt::format("crosstalk: warning: worker {} ({}) {}{}\n", i, worker.device, how,
                                     living() > 0 ? "; the others take over its runs" : ""));
    }
  }

  void mind_stops() {
    const double now = progress_.elapsed();
    if (options_.time_limit > 0 && steady_seconds() - options_.started >= options_.time_limit &&
        !stop_flag()) {
      time_is_up_ = true;
      request_stop();
    }
    if (options_.max_failures > 0 && progress_.count(RunStatus::failed) >= options_.max_failures &&
        !stop_flag()) {
      too_many_failures_ = true;
      request_stop();
    }
    if (!stop_flag()) return;
    // Always SIGTERM: a terminal gives its SIGINT to the workers too, and a second one ends them.
    if (stop_seen_ < 0) {
      stop_seen_ = now;
      if (!store_failed_) progress_.announce("crosstalk: stopping; what is unfinished is saved\n");
      kill_all(SIGTERM);
    } else if (now - stop_seen_ > options_.grace + kBeyondGrace) {
      kill_all(SIGKILL);
    }
  }

  void kill_all(int signal) {
    for (const Worker& worker : workers_)
      if (worker.process > 0) ::kill(worker.process, signal);
  }

  void count() {
    for (const RecordHead& head : follower_.added()) {
      const auto run = missing_.find(head.id);
      if (run == missing_.end()) continue;
      progress_.stepped(head.steps);
      progress_.finished(head.status, run->second);
      missing_.erase(run);
    }
    double half_way = 0, beyond = 0;
    for (const ClaimingWorker& claiming : watch_.workers()) {
      const bool ours = std::ranges::any_of(workers_, [&](const Worker& worker) {
        return worker.process > 0 && worker.process == claiming.process.pid;
      });
      if (!ours || claiming.process.host != own_.host) continue;
      half_way += said(claiming.activity, "half_way");
      beyond += said(claiming.activity, "beyond");
    }
    progress_.half_way(half_way, beyond);
  }

  SessionResult result() {
    SessionResult result;
    result.done = progress_.count(RunStatus::done);
    result.diverged = progress_.count(RunStatus::diverged);
    result.failed = progress_.count(RunStatus::failed);
    result.seconds = progress_.elapsed();
    const auto ended_with = [](int code) {
      return [code](const Worker& worker) {
        return WIFEXITED(worker.status) && WEXITSTATUS(worker.status) == code;
      };
    };
    for (const Worker& worker : workers_)
      if (ended_with(exit_device)(worker)) result.lost.push_back(worker.device);
    if (missing_.empty()) return result;
    if (std::ranges::all_of(workers_, ended_with(exit_done))) {
      result.left_out = std::ssize(missing_);
      return result;
    }

    if (store_failed_) throw StoreError("a worker could not write to the store; the same command resumes");
    if (std::ranges::any_of(workers_, ended_with(exit_some_failed)))
      throw FilesChanged(
          "task.folder",
          fmt::format("files that runs train on were changed, see above; {} of {} are not in the store",
                      missing_.size(), plural(std::ssize(missing_) + progress_.ended(), "run")));
    const bool stopped = stop_flag() || std::ranges::any_of(workers_, ended_with(exit_stopped));
    if (!stopped)
      throw DeviceError(fmt::format(
          "every worker was lost; {} of {} are not in the store, and the same command trains them:\n  {}",
          missing_.size(), plural(std::ssize(missing_) + progress_.ended(), "run"), options_.resume));
    std::error_code ignored;
    for (const auto& [id, cost] : missing_)
      if (std::filesystem::exists(path_ / "checkpoints" / (id + ".state"), ignored)) ++result.saved;
    result.too_many_failures = too_many_failures_;
    result.stopped = !too_many_failures_;
    result.reason = time_is_up_ ? "the time limit" : stop_signal();
    return result;
  }

  const std::filesystem::path path_;
  const SessionOptions& options_;
  StoreFollower follower_;
  Progress progress_;
  std::vector<Worker> workers_;
  const ProcessIdentity own_ = this_process();
  WorkerWatch watch_{path_, {}};
  std::unordered_map<std::string, double> missing_;  ///< id -> cost
  double stop_seen_ = -1;
  bool store_failed_ = false, time_is_up_ = false, too_many_failures_ = false;
};

}  // namespace

SessionResult train_with_workers(const Study& study, const std::vector<Run>& runs,
                                 const std::filesystem::path& path, const SessionOptions& options,
                                 const std::vector<std::string>& devices, const Arguments& arguments,
                                 Console& console) {
  TrainingOptions training = options.training;
  const bool on_cpu = devices.at(0) == "cpu";
  training.device = on_cpu ? Device::cpu : Device::cuda;
  const auto workers = static_cast<int>(devices.size());
  WorkerPlan plan;
  plan.command = options.command;
  plan.since = options.since;
  plan.black_hole = options.black_hole;
  // Each of several launches that share the work has as many shares as this one has workers.
  const int launches = std::max(1, static_cast<int>(options.shares.size()));
  const int first = static_cast<int>(options.share) * workers;
  plan.shares = share_out(runs, launches * workers, training);

  int threads = training.threads;
  if (on_cpu) threads = std::max(1, (threads > 0 ? threads : available_cores()) / workers);
  const int file = inherited_file(plan_text(plan));
  Parent parent(runs, path, options, console);
  if (options.begins) options.begins();
  make_store(study, path, options);
  for (int i = 0; i < workers; ++i) {
    const std::string& device = devices[static_cast<std::size_t>(i)];
    parent.start(device, console.program,
                 worker_words(console.arguments.at(0), arguments, device,
                              fmt::format("{}/{}:{}", first + i, launches * workers, file), threads));
  }
  ::close(file);
  return parent.wait();
}

}  // namespace crosstalk::program
