// Fuzz targets of the reader of studies: any bytes give either runs or a ConfigError that says where.
//
// `study`: a study, then --set strings, separated by NUL. `set` (with CROSSTALK_FUZZ_SET): --set strings for
// the example study, separated by NUL. bash scripts/fuzz.sh runs both; study_mutation_test.cpp calls the
// first in the ordinary test suite. SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <string>

#include "experiments/study_fixture.h"

namespace {

void require(bool holds, const std::string& what) {
  if (holds) return;
  std::fprintf(stderr, "fuzz_study: %s\n", what.c_str());
  std::abort();
}

bool names_a_place(const std::string& message) {
  if (message.compare(0, 6, "--set ") == 0) return true;
  int line = 0, column = 0;
  return std::sscanf(message.c_str(), "f.toml:%d:%d: ", &line, &column) == 2 && line > 0 && column > 0;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace crosstalk;
#ifdef CROSSTALK_FUZZ_SET
  static const std::string example = example_study() + '\0';
  const std::string input = example + std::string(reinterpret_cast<const char*>(data), size);
#else
  const std::string input(reinterpret_cast<const char*>(data), size);
#endif
  const std::string text = input.substr(0, input.find('\0'));
  StudyOptions options;
  options.max_runs = 64;
  for (std::size_t end = text.size(); end < input.size();) {
    const std::size_t begin = end + 1;
    end = std::min(input.find('\0', begin), input.size());
    options.set.push_back(input.substr(begin, end - begin));
  }
  try {
    const Study study = parse_study(fixture_schema(), text, "f.toml", options);
    require(!study.runs.empty() && study.runs.size() <= 64, "number of runs");
    std::set<std::string> known;
    for (const Run& run : study.runs) {
      require(run.id == run_id(fixture_schema(), run.config), "id");
      require(known.insert(run.id).second, "duplicate run");
    }
  } catch (const ConfigError& error) {
    require(names_a_place(error.what()), std::string("message without a place: ") + error.what());
  }
  return 0;
}
