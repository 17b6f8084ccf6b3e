// SPDX-License-Identifier: Apache-2.0
#include "experiments/study/study.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <system_error>

#include "experiments/study/study_expand.h"

namespace crosstalk {

std::string read_study_text(const std::filesystem::path& path, const char* kind, const char* example) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  const auto refuse = [&](const std::string& why) {
    throw ConfigError(
        fmt::format("{}: {}; a {} is a TOML file such as {}", path.string(), why, kind, example));
  };
  if (!std::filesystem::exists(status))
    refuse(error && error != std::errc::no_such_file_or_directory ? error.message() : "no such file");
  if (std::filesystem::is_directory(status))
    throw ConfigError(fmt::format("{}: is a directory; name a {} file (*.toml) in it", path.string(), kind));
  if (!std::filesystem::is_regular_file(status)) refuse("is no regular file");  // a pipe may never end
  const auto fail = [&] {
    throw ConfigError(fmt::format("{}: cannot be read: {}", path.string(), std::strerror(errno)));
  };
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> stream(std::fopen(path.c_str(), "rb"), std::fclose);
  if (!stream) fail();
  std::string text;
  char buffer[1 << 16];
  while (const std::size_t got = std::fread(buffer, 1, sizeof buffer, stream.get())) {
    text.append(buffer, got);
    if (text.size() > (std::size_t{64} << 20)) break;  // the parser says what is too much
  }
  if (std::ferror(stream.get())) fail();
  return text;
}

Study parse_study(const Schema& schema, const std::string& text, const std::string& path,
                  const StudyOptions& options) {
  const Blame blame{path, options.set};
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) {
    blame.fail(Position{1, 1}, "the file is empty; a study begins with [study] and name = \"...\"");
  }
  TomlNode root;
  try {
    root = parse_toml(text);
  } catch (const TomlError& error) {
    blame.fail(error.at, error.what());
  }
  Study study = study_of_tree(schema, root, blame, options.max_runs);
  study.text = text;
  return study;
}

Study study_of_tree(const Schema& schema, const TomlNode& root, const Blame& blame, std::int64_t max_runs) {
  StudyFile file = read_study_file(schema, root, blame);
  blame.settle();
  const std::string narrower = conditions_instead(file, blame.sets);
  Study study;
  study.name = file.name;
  study.title = file.title;
  try {
    apply_sets(schema, blame, file);
    blame.settle();
    check_keys_apply(schema, blame, file);
    expand(schema, blame, file, max_runs, study);
  } catch (const ConfigError& error) {
    if (narrower.empty()) throw;
    throw ConfigError(error.what() + narrower);
  }
  return study;
}

}  // namespace crosstalk
