// SPDX-License-Identifier: Apache-2.0
#include "experiments/search/journal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <cerrno>
#include <sstream>

#include "results/store/store.h"

namespace crosstalk::search {
namespace {

namespace fs = std::filesystem;

std::vector<nlohmann::json> lines_of(const std::string& text) {
  std::vector<nlohmann::json> lines;
  std::istringstream all(text);
  for (std::string line; std::getline(all, line);)
    if (nlohmann::json read = nlohmann::json::parse(line, nullptr, false); read.is_object())
      lines.push_back(std::move(read));
  return lines;
}

}  // namespace

fs::path journal_of(const fs::path& store) { return store / "search" / "candidates.jsonl"; }

Journal::Journal(const fs::path& path) : path_(path), file_(FileSystem::real(), -1) {
  make_folders(FileSystem::real(), path.parent_path());
  file_ = open_file(FileSystem::real(), path, O_WRONLY | O_APPEND | O_CREAT);
  if (!file_.is_open())
    throw StoreError(fmt::format("{}: cannot be opened: {}", path.string(), reason_of(errno)));
  if (::flock(file_.number(), LOCK_EX | LOCK_NB) != 0)
    throw StoreError(
        fmt::format("{}: another process searches here; wait for it, or give another --out", path.string()));
  const std::string text = read_file(FileSystem::real(), path);
  lines_ = lines_of(text);
  if (!text.empty() && text.back() != '\n') write("\n");  // a kill has torn the last line: it says nothing
}

void Journal::append(const nlohmann::json& line) {
  write(line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

void Journal::write(const std::string& text) {
  if (const int error = write_all(FileSystem::real(), file_, text); error != 0)
    throw StoreError(fmt::format("{}: cannot be written: {}", path_.string(), reason_of(error)));
}

std::string summary_of(const fs::path& store) {
  std::error_code error;
  if (!fs::exists(journal_of(store), error)) return "";
  std::int64_t laws = 0, whole = 0, generations = 0;
  nlohmann::json best;
  for (const nlohmann::json& line : lines_of(read_file(FileSystem::real(), journal_of(store)))) {
    generations += line.contains("training_seconds");
    if (!line.contains("law")) continue;
    ++laws;
    if (line.value("stage", "third") == "third") continue;
    ++whole;
    if (best.is_null() || line.value("score", 0.) < best.value("score", 0.)) best = line;
  }
  return fmt::format("search: {} laws in {} generation{}, {} of them to the end{}", laws, generations,
                     generations == 1 ? "" : "s", whole,
                     best.is_null() ? ""
                                    : fmt::format("; best {:.2f}, law{}: {}", best.value("score", 0.),
                                                  best.value("number", 0), best.value("law", "")));
}

}  // namespace crosstalk::search
