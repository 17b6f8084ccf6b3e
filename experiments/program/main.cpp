// The program `crosstalk`.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "experiments/common/command.h"
#include "experiments/common/exit_codes.h"
#include "experiments/sharing/signals.h"
#include "kernels/base/cuda_runtime.h"
#include "kernels/base/memory_reserve.h"

namespace {

/// Whoever trains is asked to stop by signals, also before it knows what to train.
bool trains(const std::vector<std::string>& words) {
  return !words.empty() && (words[0] == "run" || words[0] == "retry" || words[0] == "work") &&
         std::none_of(words.begin(), words.end(),
                      [](const std::string& word) { return word == "--help" || word == "-h"; });
}

}  // namespace

int main(int argc, char** argv) {
  using namespace crosstalk::program;
  const std::vector<std::string> words(argv + (argc > 0), argv + argc);
  if (trains(words)) {
    const bool has_parent = std::any_of(
        words.begin(), words.end(), [](const std::string& word) { return word.rfind("--worker", 0) == 0; });
    leave_on_early_signals(
        has_parent ? "" : "crosstalk: stopped before anything was trained; the same command trains it\n");
  }
  crosstalk::cuda_prepare_process();
  ensure_standard_descriptors();
  crosstalk::keep_memory_reserve();
  crosstalk::end_where_memory_is_lost(
      "crosstalk: error: out of memory; fewer --threads, or a smaller --pack, need less\n", exit_device);
  std::signal(SIGPIPE, SIG_IGN);  // a reader that leaves early (| head) is no error
  std::signal(SIGXFSZ, SIG_IGN);  // ulimit -f: the write fails, and says so, instead
  DescriptorBuffer out_buffer(1, true), err_buffer(2);
  std::ostream out(&out_buffer), err(&err_buffer);

  Console console{out, err, error_terminal(), false, "crosstalk", {}};
  console.color = use_color(ColorChoice::automatic, console.err_terminal);
  if (argc > 0) console.program = argv[0];
  console.arguments = words;

  int code = run_program(console);
  out.flush();
  if (out_buffer.error() != 0 && out_buffer.error() != EPIPE && code == exit_done) {
    print_error(console,
                fmt::format("cannot write to standard output: {}", std::strerror(out_buffer.error())));
    code = exit_store;
  }
  err.flush();
  // Whoever asked for a stop does not wait for the memory of 200,000 runs to be put in order, which takes a second.
  if (code == exit_stopped) ::_exit(code);
  return code;
}
