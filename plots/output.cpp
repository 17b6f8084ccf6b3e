// Writing a figure's files and running its script.
// SPDX-License-Identifier: Apache-2.0
#include "plots/output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <ostream>
#include <stdexcept>
#include <utility>

#include "plots/figure.h"
#include "results/printable.h"
#include "results/store/files.h"

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

[[noreturn]] void fail(const fs::path& path, const std::string& why) {
  throw std::runtime_error(fmt::format("cannot write {}: {}", path.string(), why));
}

/// A file that appears whole or not at all: written beside its place, then renamed.
class NewFile {
 public:
  NewFile(fs::path path, const std::string& text)
      : path_(std::move(path)), temporary_(path_.string() + fmt::format(".{}.tmp", getpid())) {
    File file = open_file(FileSystem::real(), temporary_, O_WRONLY | O_CREAT | O_TRUNC);
    if (!file.is_open()) fail_for(errno);
    int error = write_all(FileSystem::real(), file, text);
    if (file.close() != 0 && error == 0) error = errno;
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

/// Whether a script was edited by hand since it was written, which a note says. Refuses a file that is no figure's script.
bool is_edited(const fs::path& path, std::ostream& notes) {
  if (!fs::exists(path)) return false;
  const std::string text = read_file(FileSystem::real(), path);
  const auto signature = text.rfind(kSignature);
  if (signature == std::string::npos) fail(path, "it exists and is not a figure's script; give another name");
  if (text == signed_script(text.substr(0, signature))) return false;
  notes << fmt::format("{} was edited by hand and is kept; delete it to get a fresh one\n", path.string());
  return true;
}

struct Outcome {
  int status = -1;
  std::string output;  ///< stdout and stderr
};

/// Runs a program in the root folder: its exit status (127 where it cannot be started) and all that it prints.
Outcome run_program(const std::vector<std::string>& words) {
  std::string command = "cd / && exec";
  for (const std::string& word : words) command += " " + shell_quote(word);
  Outcome outcome;
  std::FILE* pipe = ::popen((command + " </dev/null 2>&1").c_str(), "r");
  if (pipe == nullptr) return {127, std::strerror(errno)};
  std::array<char, 4096> buffer;
  while (const std::size_t n = std::fread(buffer.data(), 1, buffer.size(), pipe))
    outcome.output.append(buffer.data(), n);
  const int status = ::pclose(pipe);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome;
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
    for (const auto words : {isolated, with_settings})
      if (run_program(words(candidate, "import matplotlib")).status == 0) return {candidate, words};
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
  return fmt::format("python3 -m venv {0} && {0}/bin/pip install matplotlib", shell_quote(venv));
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
  if (fs::exists(csv_path) && !read_file(FileSystem::real(), csv_path).starts_with("label,d_dot,"))
    fail(csv_path, "it exists and is not a figure's table; give another name");
  const bool keeps_script = is_edited(script_path, notes);
  NewFile table(csv_path, csv), words(caption_path, caption);
  std::optional<NewFile> fresh;  // all, or none
  if (!keeps_script) fresh.emplace(script_path, signed_script(script));
  table.put_in_place();
  words.put_in_place();
  if (fresh) fresh->put_in_place();
}

void write_figure_script(const fs::path& base, const std::string& script, std::ostream& notes) {
  const fs::path path = with_extension(base, ".py");
  if (fs::is_directory(path)) fail(path, "it is a folder");
  if (!is_edited(path, notes)) NewFile(path, signed_script(script)).put_in_place();
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
        tried, matplotlib_command(), shell_quote(script.string()));
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
