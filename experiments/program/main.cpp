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
#include "kernels/base/device/cuda_runtime.h"
#include "kernels/base/device/memory_reserve.h"

namespace {

bool has_word(char** begin, char** end, const char* word, std::size_t letters) {
  return std::any_of(begin, end, [&](const char* one) { return std::strncmp(one, word, letters) == 0; });
}

/// Whoever trains is asked to stop by signals, also before it knows what to train. This runs before the constructors of
/// libraries and of registries, which take milliseconds; nothing of C++ is there yet. A signal before it, while the system
/// loads the program, ends the process as it ends any.
void catch_early_signals(int argc, char** argv, char** /*environment*/) {
  char **const begin = argv + (argc > 0), **const end = argv + argc;
  if (begin == end || !(has_word(begin, begin + 1, "run", 4) || has_word(begin, begin + 1, "retry", 6) ||
                        has_word(begin, begin + 1, "work", 5)))
    return;
  if (has_word(begin, end, "--help", 7) || has_word(begin, end, "-h", 3)) return;
  const bool has_parent = has_word(begin, end, "--worker", 8);
  crosstalk::program::leave_on_early_signals(
      has_parent ? "" : "crosstalk: stopped before anything was trained; the same command trains it\n");
}
__attribute__((section(".preinit_array"), used)) void (*const kFirst)(int, char**,
                                                                      char**) = catch_early_signals;

}  // namespace

int main(int argc, char** argv) {
  using namespace crosstalk::program;
  const std::vector<std::string> words(argv + (argc > 0), argv + argc);
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
