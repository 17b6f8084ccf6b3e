// What the name of an output file promises: endings of formats that nothing here writes.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "experiments/common/command.h"

namespace crosstalk::program {

/// The ending of `path` where people know it as a format other than those in `written`, else "". Any other ending may be
/// part of a name (runs.2024).
inline std::string foreign_ending(const std::filesystem::path& path, std::string_view written) {
  static constexpr std::array<std::string_view, 37> known = {
      ".arrow", ".bmp", ".csv",     ".db",   ".docx", ".eps",    ".feather", ".gif", ".gz",     ".h5",
      ".hdf5",  ".htm", ".html",    ".jpeg", ".jpg",  ".json",   ".jsonl",   ".md",  ".ndjson", ".npy",
      ".npz",   ".ods", ".parquet", ".pgf",  ".pdf",  ".pickle", ".pkl",     ".png", ".rst",    ".sqlite",
      ".svg",   ".tex", ".tiff",    ".toml", ".tsv",  ".xlsx",   ".zip"};
  const std::string ending = path.extension().string();
  const bool foreign = std::ranges::find(known, ending) != known.end() &&
                       (' ' + std::string(written) + ' ').find(' ' + ending + ' ') == std::string::npos;
  return foreign ? ending : "";
}

/// What --format says, or else the ending of --out, or else `standard`. Another format's ending is refused: "exports are ..., not {}".
inline std::string format_of(const Arguments& arguments, const std::map<std::string, std::string>& of_ending,
                             const std::string& standard, const std::string& what) {
  const std::filesystem::path path = arguments.get("out");
  const auto promised = of_ending.find(path.extension().string());
  const std::string asked = arguments.get("format");
  if (!asked.empty() && promised != of_ending.end() && promised->second != asked)
    throw UsageError(fmt::format("--out {}: its name says {}, --format {}; leave one of them out",
                                 path.string(), promised->second, asked));
  if (!asked.empty()) return asked;
  std::string written;
  for (const auto& [ending, format] : of_ending) written += ending + ' ';
  if (const std::string foreign = foreign_ending(path, written); !foreign.empty())
    throw UsageError(fmt::format("--out {}: {}", path.string(), fmt::format(fmt::runtime(what), foreign)));
  return promised == of_ending.end() ? standard : promised->second;
}

}  // namespace crosstalk::program
