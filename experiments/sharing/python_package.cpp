// The Python that has the package, and calls of it.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/sharing/python_package.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <sstream>

#include "experiments/common/exit_codes.h"
#include "experiments/common/text.h"
#include "experiments/sharing/progress.h"
#include "kernels/base/error.h"
#include "plots/figure.h"

namespace crosstalk::program {
namespace {

/// The user's settings count (PYTHONPATH, say), the current folder never does.
constexpr const char* kElsewhere = "import sys; sys.path[:] = [p for p in sys.path if p.startswith('/')]\n";

/// Importing torch takes seconds, so it is looked for only.
constexpr const char* kLook =
    "import importlib.metadata as m, importlib.util as u\n"
    "print(sys.executable)\n"
    "print('torch ' + m.version('torch') if u.find_spec('torch') else '', flush=True)\n"
    "import crosstalk._core as c\n"
    "print('crosstalk', c.version)\n";

/// The whole path of a Python and its versions, or "" and in `lacks` what it has not.
PackagePython look_at(const std::string& python, std::string& lacks) {
  std::istringstream lines(output_of({python, "-c", std::string(kElsewhere) + kLook}).text);
  std::string path, torch, package;
  std::getline(lines, path);
  std::getline(lines, torch);
  std::getline(lines, package);
  if (!torch.empty() && !package.empty()) return {path, torch + ", " + package, ""};
  const std::string what = !torch.empty() ? "crosstalk" : package.empty() ? "both" : "torch";
  lacks = path.empty() ? "cannot be called" : "lacks " + what;
  return {};
}

}  // namespace

Output output_of(const std::vector<std::string>& words, bool here) {
  std::string command = shell_quote(words) + " </dev/null";
  if (!here) command = "cd / && timeout 60 " + command + " 2>/dev/null";
  Output output;
  std::FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return output;
  std::array<char, 4096> buffer;
  while (const std::size_t n = std::fread(buffer.data(), 1, buffer.size(), pipe))
    output.text.append(buffer.data(), n);
  output.status = ::pclose(pipe);
  return output;
}

CommandOption python_option() {
  return {
      "python", "PYTHON",
      "Train PyTorch models by this Python, which has torch and crosstalk (default: $CROSSTALK_PYTHON, that beside "
      "the program, python3); none: leave them"};
}

PackagePython package_python(const Arguments& arguments) {
  std::string given = arguments.get("python");
  if (given.find('/') != std::string::npos) given = std::filesystem::absolute(given).string();
  PackagePython found;
  if (given == "none") {
    found.why_none = "no Python (--python none)";
    return found;
  }
  std::vector<std::string> tried;
  for (const std::string& python : given.empty() ? figure_pythons() : std::vector<std::string>{given}) {
    std::string lacks;
    if (PackagePython one = look_at(python, lacks); !one.path.empty()) return one;
    tried.push_back(fmt::format("{} {}", python, lacks));
  }
  found.why_none = fmt::format(
      "no Python with torch and crosstalk ({}); 'pip install torch' and 'pip install .' in a clone make one, and "
      "$CROSSTALK_PYTHON or --python names it",
      join(tried, ", "));
  if (!given.empty()) throw UsageError(fmt::format("--python: {}", found.why_none));
  return found;
}

std::vector<std::string> package_call(const std::string& python, const std::vector<std::string>& words) {
  std::vector<std::string> call = {
      python, "-c",
      std::string(kElsewhere) + "from crosstalk.__main__ import main; sys.exit(main(sys.argv[1:]))"};
  call.insert(call.end(), words.begin(), words.end());
  return call;
}

int run_call(std::vector<std::string> words, const std::function<bool()>& stops, double grace) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const pid_t parent = ::getpid(), child = ::fork();
  if (child < 0) throw DeviceError(fmt::format("Python could not be started: {}", std::strerror(errno)));
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);  // a parent that is killed takes it along; it saves its runs
    if (::getppid() != parent) ::_exit(exit_stopped);
    ::dup2(STDERR_FILENO, STDOUT_FILENO);
    ::execvp(argv[0], argv.data());
    ::_exit(127);
  }
  int status = 0;
  for (double asked = -1; ::waitpid(child, &status, WNOHANG) != child; ::usleep(20000)) {
    if (asked < 0 && stops()) {
      asked = steady_seconds();
      ::kill(child, SIGTERM);
    }
    if (asked >= 0 && steady_seconds() - asked > grace) ::kill(child, SIGKILL);
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace crosstalk::program
