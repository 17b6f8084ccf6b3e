// Writing a figure's files and running its script.
// SPDX-License-Identifier: Apache-2.0
#include "plots/output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <optional>
#include <ostream>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "plots/figure.h"

extern char** environ;

namespace crosstalk {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSignature = "# Written by `crosstalk plot`, checksum ";

/// FNV-1a; tells an edited script from a fresh one.
std::string checksum(const std::string& text) {
  std::uint64_t hash = 14695981039346656037ull;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  return fmt::format("{:016x}", hash);
}

std::string signed_script(const std::string& script) {
  return script + kSignature + checksum(script) + " (an edited script is kept when the figure is redrawn)\n";
}

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

[[noreturn]] void fail(const fs::path& path, const std::string& why) {
  throw std::runtime_error(fmt::format("cannot write {}: {}", path.string(), why));
}

/// A file that appears whole or not at all: written beside its place, then renamed.
class NewFile {
 public:
  NewFile(fs::path path, const std::string& text)
      : path_(std::move(path)), temporary_(path_.string() + fmt::format(".{}.tmp", getpid())) {
    const int file = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (file < 0) fail_for(errno);
    std::size_t done = 0;
    int error = 0;
    while (done < text.size() && error == 0) {
      const ssize_t written = write(file, text.data() + done, text.size() - done);
      if (written >= 0)
        done += static_cast<std::size_t>(written);
      else if (errno != EINTR)
        error = errno;
    }
    if (close(file) != 0 && error == 0) error = errno;
    if (error == 0) return;
    unlink(temporary_.c_str());
    fail_for(error);
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  ~NewFile() {
    if (!in_place_) unlink(temporary_.c_str());
  }
  void put_in_place() {
    if (rename(temporary_.c_str(), path_.c_str()) != 0) fail_for(errno);
    in_place_ = true;
  }

 private:
  /// A place that was never good is the user's mistake; a disk that gives up is not.
  [[noreturn]] void fail_for(int error) const {
    const std::string what = fmt::format("cannot write {}: {}", path_.string(), std::strerror(error));
    if (error == ENOSPC || error == EDQUOT || error == EIO || error == EFBIG) throw FigureWriteError(what);
    throw std::runtime_error(what);
  }

  fs::path path_;
  std::string temporary_;
  bool in_place_ = false;
};

enum class ScriptState { absent, fresh, edited, foreign };

ScriptState script_state(const fs::path& path) {
  if (!fs::exists(path)) return ScriptState::absent;
  const std::string text = read_file(path);
  const auto signature = text.rfind(kSignature);
  if (signature == std::string::npos) return ScriptState::foreign;
  return text == signed_script(text.substr(0, signature)) ? ScriptState::fresh : ScriptState::edited;
}

struct Outcome {
  int status = -1;
  std::string output;  ///< stdout and stderr
};

/// Runs a program without a shell, in the root folder, and waits; status 127 if it cannot be started.
Outcome run_program(const std::vector<std::string>& arguments) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return {127, std::strerror(errno)};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
  posix_spawn_file_actions_addchdir_np(&actions, "/");
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  pid_t child = 0;
  const int error = posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  Outcome outcome;
  if (error != 0) {
    close(ends[0]);
    return {127, std::strerror(error)};
  }
  char buffer[4096];
  for (;;) {
    const ssize_t got = read(ends[0], buffer, sizeof buffer);
    if (got > 0)
      outcome.output.append(buffer, static_cast<std::size_t>(got));
    else if (got == 0 || errno != EINTR)
      break;
  }
  close(ends[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome;
}

/// As a POSIX shell takes it.
std::string shell_word(const std::string& text) {
  const bool plain = std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("_@%+=:,./-").find(static_cast<char>(c)) != std::string::npos;
  });
  if (plain && !text.empty()) return text;
  std::string word(1, '\'');
  for (const char c : text) {
    if (c == '\'')
      word.append("'\\''");
    else
      word.push_back(c);
  }
  word.push_back('\'');
  return word;
}

std::string last_line(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' ')) text.pop_back();
  const auto newline = text.rfind('\n');
  return newline == std::string::npos ? text : text.substr(newline + 1);
}

/// How Python runs code of ours: nothing from the current folder, the script's folder or the environment.
std::vector<std::string> isolated(const std::string& python, const std::string& code) {
  return {python, "-I", "-c", code};
}

/// With what the user's settings add (PYTHONPATH, packages of the user), but still nothing from these
/// folders.
std::vector<std::string> with_settings(const std::string& python, const std::string& code) {
  return {python, "-c", "import sys; sys.path[:] = [p for p in sys.path if p.startswith('/')]\n" + code};
}

struct Python {
  std::string name;  ///< "": none has matplotlib
  std::vector<std::string> (*words)(const std::string& python, const std::string& code) = isolated;
};

/// The Python to use, or none and in `tried` what was looked at.
Python find_python(std::string& tried) {
  for (const std::string& candidate : figure_pythons()) {
    for (const auto words : {isolated, with_settings}) {
      if (run_program(words(candidate, "import matplotlib")).status == 0) return {candidate, words};
    }
    tried += (tried.empty() ? "" : ", ") + candidate;
  }
  const char* chosen = std::getenv("CROSSTALK_PYTHON");
  if (chosen != nullptr && *chosen != '\0') tried += " ($CROSSTALK_PYTHON)";
  return {};
}

/// A string of Python.
std::string quoted(const std::string& text) {
  std::string all(1, '\'');
  for (const char c : text) {
    if (c == '\n' || c == '\r') {
      all.append(c == '\n' ? "\\n" : "\\r");
      continue;
    }
    if (c == '\'' || c == '\\') all.push_back('\\');
    all.push_back(c);
  }
  all.push_back('\'');
  return all;
}

}  // namespace

std::string matplotlib_command() {
  std::error_code error;
  fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  if (error) return "pip install matplotlib";
  // The program lies in build/PRESET of the sources, tests one folder below.
  for (int up = 0; up < 3 && !fs::exists(folder / "CMakeLists.txt", error); ++up)
    folder = folder.parent_path();
  if (!fs::exists(folder / "CMakeLists.txt", error)) return "pip install matplotlib";
  const std::string venv = (folder / ".venv").string();
  return fmt::format("python3 -m venv {0} && {0}/bin/pip install matplotlib", shell_word(venv));
}

std::vector<std::string> figure_pythons() {
  const char* chosen = std::getenv("CROSSTALK_PYTHON");
  if (chosen != nullptr && *chosen != '\0') {
    const std::string name = chosen;  // looked for on PATH, or a path from here
    return {name.find('/') == std::string::npos ? name : fs::absolute(name).string()};
  }
  std::vector<std::string> names = {"python3", "/usr/bin/python3"};
  // pip puts the program beside its Python. Set-up makes one beside the sources; the program lies in build/PRESET. Never one of the
  // current folder.
  std::error_code error;
  fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  const fs::path beside = folder / "python3";
  if (!error && beside != "/usr/bin/python3" && fs::exists(beside, error))
    names.insert(names.begin(), beside.string());
  for (int up = 0; up < 2; ++up) folder = folder.parent_path();
  const fs::path own = folder / ".venv" / "bin" / "python";
  if (!error && fs::exists(own, error)) names.push_back(own.string());
  return names;
}

fs::path with_extension(const fs::path& base, const std::string& extension) {
  return base.string() + extension;
}

void write_figure_files(const fs::path& base, const std::string& csv, const std::string& script,
                        const std::string& caption, std::ostream& notes) {
  const fs::path csv_path = with_extension(base, ".csv"), script_path = with_extension(base, ".py"),
                 caption_path = with_extension(base, ".caption.txt");
  if (base.has_parent_path()) {
    std::error_code error;
    fs::create_directories(base.parent_path(), error);
    if (error) fail(csv_path, error.message());
  }
  for (const fs::path& path : {csv_path, script_path, caption_path})
    if (fs::is_directory(path)) fail(path, "it is a folder");
  if (fs::exists(csv_path) && !read_file(csv_path).starts_with("label,d_dot,"))
    fail(csv_path, "it exists and is not a figure's table; give another name");
  const ScriptState state = script_state(script_path);
  if (state == ScriptState::foreign)
    fail(script_path, "it exists and is not a figure's script; give another name");
  NewFile table(csv_path, csv), words(caption_path, caption);
  if (state == ScriptState::edited) {
    table.put_in_place();
    words.put_in_place();
    notes << fmt::format("{} was edited by hand and is kept; delete it to get a fresh one\n",
                         script_path.string());
    return;
  }
  NewFile fresh(script_path, signed_script(script));  // both, or none
  table.put_in_place();
  words.put_in_place();
  fresh.put_in_place();
}

void write_figure_script(const fs::path& base, const std::string& script, std::ostream& notes) {
  const fs::path path = with_extension(base, ".py");
  if (fs::is_directory(path)) fail(path, "it is a folder");
  const ScriptState state = script_state(path);
  if (state == ScriptState::foreign) fail(path, "it exists and is not a figure's script; give another name");
  if (state == ScriptState::edited) {
    notes << fmt::format("{} was edited by hand and is kept; delete it to get a fresh one\n", path.string());
    return;
  }
  NewFile(path, signed_script(script)).put_in_place();
}

namespace {

/// When the file was written; nothing if it is not there.
std::optional<fs::file_time_type> time_of(const fs::path& path) {
  std::error_code error;
  const fs::file_time_type time = fs::last_write_time(path, error);
  return error ? std::nullopt : std::optional(time);
}

/// Whether Python's last words say that the disk is full, over its quota or broken.
bool tells_of_disk(const std::string& last_words) {
  for (const int number : {ENOSPC, EDQUOT, EIO, EFBIG})
    if (last_words.find(fmt::format("[Errno {}]", number)) != std::string::npos) return true;
  return false;
}

}  // namespace

std::vector<fs::path> render_figure(const fs::path& base, std::ostream& notes) {
  const fs::path script = with_extension(base, ".py");
  std::vector<fs::path> pictures = {with_extension(base, ".pdf"), with_extension(base, ".png")};
  std::map<fs::path, std::optional<fs::file_time_type>> before;
  for (const fs::path& picture : pictures) before[picture] = time_of(picture);
  bool drawn = false;
  std::string tried;
  const Python python = find_python(tried);
  if (python.name.empty()) {
    notes << fmt::format(
        "no Python with matplotlib (tried {}); the numbers and the script are written. To render: {} (once), then draw again or run the script {}\n",
        tried, matplotlib_command(), shell_word(script.string()));
  } else {
    // As a file on the command line it would bring its folder along, where a figure may be named csv.py.
    const Outcome outcome = run_program(
        python.words(python.name, fmt::format("import runpy; runpy.run_path({}, run_name='__main__')",
                                              quoted(fs::absolute(script).string()))));
    drawn = outcome.status == 0;
    if (!drawn) {
      std::error_code ignored;
      for (const fs::path& picture : pictures)  // one of two: a part
        if (time_of(picture) != before[picture]) fs::remove(picture, ignored);
      const std::string why =
          outcome.output.empty() ? fmt::format("exit status {}", outcome.status) : last_line(outcome.output);
      if (tells_of_disk(why))
        throw FigureWriteError(fmt::format("cannot write the pictures of {}: {}", script.string(), why));
      notes << fmt::format("{} could not be rendered by {}: {}\n", script.string(), python.name, why);
    }
  }
  for (auto picture = pictures.begin(); picture != pictures.end();) {
    if (drawn && fs::exists(*picture)) {
      ++picture;
      continue;
    }
    if (fs::exists(*picture)) notes << fmt::format("{} is from an earlier drawing\n", picture->string());
    picture = pictures.erase(picture);
  }
  return pictures;
}

}  // namespace crosstalk
