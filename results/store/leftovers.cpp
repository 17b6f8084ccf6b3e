// Temporary files that processes left when they were killed.
// SPDX-License-Identifier: Apache-2.0
#include "results/store/leftovers.h"

#include <signal.h>
#include <sys/stat.h>

#include <cerrno>
#include <charconv>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>

#include "results/store/files.h"

namespace crosstalk {
namespace {

namespace fs = std::filesystem;

/// Two containers may have one name and numbers of their own: a file that is written now is younger than this.
constexpr double kMoment = 5, kDay = 86400;

/// Takes the last part of `name` behind `mark` away and returns it; nothing where there is none.
std::optional<std::string_view> cut_behind(std::string_view& name, char mark) {
  const std::size_t at = name.rfind(mark);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view part = name.substr(at + 1);
  name.remove_suffix(name.size() - at);
  return part;
}

bool is_hexadecimal(std::string_view text) {
  return text.size() == 8 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

/// The number of the process of this machine that made `.NAME.HOST-PID-CHANCE-N.tmp` or `.compact-HOST-PID-CHANCE.tmp`;
/// 0: another machine's; nothing: no temporary file of ours.
std::optional<pid_t> maker_of(std::string_view name) {
  constexpr std::string_view end = ".tmp";
  if (name.size() <= end.size() || name.front() != '.' || !name.ends_with(end)) return std::nullopt;
  name.remove_suffix(end.size());
  std::optional<std::string_view> chance = cut_behind(name, '-');
  if (chance && !is_hexadecimal(*chance)) chance = cut_behind(name, '-');
  if (!chance || !is_hexadecimal(*chance)) return std::nullopt;
  const std::optional<std::string_view> number = cut_behind(name, '-');
  pid_t pid = 0;
  if (!number || std::from_chars(number->data(), number->data() + number->size(), pid).ec != std::errc() ||
      pid <= 0)
    return std::nullopt;
  std::string own = process_name();
  own.resize(own.rfind('-', own.rfind('-') - 1));
  const bool here = name.ends_with("." + own) || name.ends_with("-" + own);
  return here ? pid : 0;
}

}  // namespace

std::size_t sweep_temporaries(const fs::path& store) {
  std::size_t gone = 0;
  for (const char* folder : {"", "studies", "shards", "checkpoints", "weights", "quarantine"}) {
    std::error_code error;
    for (fs::directory_iterator at(store / folder, error); !error && at != fs::directory_iterator();
         at.increment(error)) {
      const std::optional<pid_t> maker = maker_of(at->path().filename().string());
      struct stat status {};
      if (!maker || ::lstat(at->path().c_str(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
      const double age = std::difftime(std::time(nullptr), status.st_mtime);
      const bool is_dead = *maker > 0 && ::kill(*maker, 0) != 0 && errno == ESRCH;
      std::error_code ignored;
      if (age > (is_dead ? kMoment : kDay) && fs::remove(at->path(), ignored)) ++gone;
    }
  }
  return gone;
}

}  // namespace crosstalk
