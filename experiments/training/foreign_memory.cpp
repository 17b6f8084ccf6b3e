// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/foreign_memory.h"

#include <fmt/format.h>

#include <sstream>

#include "kernels/base/error.h"
#include "kernels/base/text/digest.h"
#include "results/store/files.h"
#include "results/store/store.h"

namespace crosstalk {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 24;

std::string text_of(const std::string& path, const char* key) {
  try {
    return read_file(FileSystem::real(), path, kMostBytes);
  } catch (const StoreError& error) {
    throw OptionError(key,
                      fmt::format("{} (a path from the folder in which crosstalk is called)", error.what()));
  }
}

}  // namespace

const std::vector<OptionSpec>& foreign_options() {
  static const std::vector<OptionSpec> options = {
      {.name = "source",
       .default_value = std::string(),
       .help = "file and class of the model, \"mine.py:Mine\" (a path from where crosstalk is called)"},
      {.name = "files",
       .default_value = std::string(),
       .help = "further files that decide results, with spaces between them: \"layers.py scan.py\""},
      {.name = "arguments",
       .default_value = std::string(),
       .help = "what the class reads in config.arguments: \"gate = true, window = 8\""},
      {.name = "digest",
       .default_value = std::string(),
       .help = "hash of the bytes of source and files (derived; given, it must agree)"}};
  return options;
}

std::string source_digest(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) all += fmt::format("{} ", text.size()) + text;
  return digest_text(XXH3_128bits(all.data(), all.size()));
}

void resolve_foreign(Options& options) {
  const std::string source = options.get_string("memory.source"), given = options.get_string("memory.digest");
  if (source.empty()) {
    if (!options.get_string("memory.files").empty())
      throw OptionError("memory.files", "memory.files is beside memory.source, which is missing");
    return;
  }
  const auto colon = source.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == source.size())
    throw OptionError(
        "memory.source",
        fmt::format("memory.source = \"{}\" must be FILE:CLASS, for example \"mine.py:Mine\"", source));
  std::vector<std::string> texts = {text_of(source.substr(0, colon), "memory.source")};
  std::istringstream files(options.get_string("memory.files"));
  for (std::string file; files >> file;) texts.push_back(text_of(file, "memory.files"));
  texts.push_back(source.substr(colon + 1));  // another class of the same file is another model
  const std::string digest = source_digest(texts);
  if (!given.empty() && given != digest)
    throw OptionError(
        "memory.digest",
        fmt::format("the files of memory.source hold another text (digest {}) than this run's ({}): bring "
                    "that back, or leave out memory.digest, which makes runs of their own",
                    digest, given));
  options.set("memory.digest", digest);
}

bool is_foreign(const Options& config) {
  return config.has("memory.name") && config.get_string("memory.name") == kForeignMemory;
}

}  // namespace crosstalk
