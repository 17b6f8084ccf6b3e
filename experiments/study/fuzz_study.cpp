// Fuzz targets of the reader of studies: any bytes give either runs or a ConfigError that says where.
//
// `study`: a study, then --set strings, separated by NUL. `set` (with CROSSTALK_FUZZ_SET): --set strings for
// a small study that has every part of the format, separated by NUL. bash scripts/fuzz.sh runs both;
// study_mutation_test.cpp calls the first in the ordinary test suite.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <string>
#include <vector>

#include "experiments/study/study_expand.h"
#include "experiments/study/study_fixture.h"

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

/// The text before the first NUL, and what stands between it and each further one.
std::vector<std::string> split_at_nul(const std::string& input) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0, end = 0; end < input.size(); begin = end + 1) {
    end = std::min(input.find('\0', begin), input.size());
    parts.push_back(input.substr(begin, end - begin));
  }
  if (parts.empty()) parts.emplace_back();
  return parts;
}

void check_runs(const crosstalk::Study& study, std::size_t most) {
  require(!study.runs.empty() && study.runs.size() <= most, "number of runs");
  std::set<std::string> known;
  for (const crosstalk::Run& run : study.runs) {
    require(run.id == run_id(crosstalk::fixture_schema(), run.config), "id");
    require(known.insert(run.id).second, "duplicate run");
  }
}

#ifdef CROSSTALK_FUZZ_SET
// Every part of the format in few bytes and few runs. Its text is read once: `study` fuzzes that.
constexpr const char* kSmallStudy = R"toml([study]
name = "s"
seeds = { range = [1, 2] }
[base]
task.name = "recall"
task.associations = 20
model.d_key = 64
train.learning_rate = 1e-3
[memories.softmax]
name = "softmax"
[memories.dpfp]
name = "delta"
feature_map = "dpfp"
nu = 2
[[grid]]
memory = ["softmax", "dpfp"]
"task.associations" = [20, 40]
[[grid.skip]]
memory = "softmax"
"task.associations" = 40
)toml";

void feed(const std::string& input) {
  using namespace crosstalk;
  constexpr std::int64_t kMost = 16;
  const Schema& schema = fixture_schema();
  static const StudyFile written = read_study_file(schema, parse_toml(kSmallStudy), Blame{"f.toml", {}});
  const Blame blame{"f.toml", split_at_nul(input)};
  StudyFile file = written;
  apply_sets(schema, blame, file);
  check_keys_apply(schema, blame, file);
  Study study;
  expand(schema, blame, file, kMost, study);
  check_runs(study, kMost);
}
#else
void feed(const std::string& input) {
  using namespace crosstalk;
  const std::vector<std::string> parts = split_at_nul(input);
  StudyOptions options;
  options.max_runs = 64;
  options.set.assign(parts.begin() + 1, parts.end());
  check_runs(parse_study(fixture_schema(), parts[0], "f.toml", options), 64);
}
#endif

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    feed(std::string(reinterpret_cast<const char*>(data), size));
  } catch (const crosstalk::ConfigError& error) {
    require(names_a_place(error.what()), std::string("message without a place: ") + error.what());
  }
  return 0;
}
