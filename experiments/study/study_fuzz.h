// Properties of the reader of studies for any bytes: either runs, or a ConfigError that says where.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/study/study_expand.h"
#include "experiments/study/study_fixture.h"

namespace crosstalk::study_fuzz {

inline void require(bool holds, const std::string& what) {
  if (holds) return;
  std::fprintf(stderr, "study_fuzz: %s\n", what.c_str());
  std::abort();
}

inline bool names_a_place(const std::string& message) {
  if (message.compare(0, 6, "--set ") == 0) return true;
  int line = 0, column = 0;
  return std::sscanf(message.c_str(), "f.toml:%d:%d: ", &line, &column) == 2 && line > 0 && column > 0;
}

/// The text before the first NUL, and what stands between it and each further one.
inline std::vector<std::string> split_at_nul(std::string_view input) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0, end = 0; end < input.size(); begin = end + 1) {
    end = std::min(input.find('\0', begin), input.size());
    parts.emplace_back(input.substr(begin, end - begin));
  }
  if (parts.empty()) parts.emplace_back();
  return parts;
}

inline void check_runs(const Study& study, std::size_t most) {
  require(!study.runs.empty() && study.runs.size() <= most, "number of runs");
  std::set<std::string> known;
  for (const Run& run : study.runs) {
    require(run.id == run_id(fixture_schema(), run.config), "id");
    require(known.insert(run.id).second, "duplicate run");
  }
}

/// Aborts where `feed` neither returns nor throws a ConfigError with a place.
template <class Feed>
void check(const Feed& feed) {
  try {
    feed();
  } catch (const ConfigError& error) {
    require(names_a_place(error.what()), std::string("message without a place: ") + error.what());
  }
}

// Every part of the format in few bytes and few runs. Its text is read once: `study` fuzzes that.
inline constexpr const char* kSmallStudy = R"toml([study]
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
memory = "softmaxtask.associations" = 40
)toml";

}  // namespace crosstalk::study_fuzz

namespace crosstalk {

/// Of a study, then --set strings, separated by NUL.
inline void check_study_reader(std::string_view bytes) {
  using namespace study_fuzz;
  check([&] {
    const std::vector<std::string> parts = split_at_nul(bytes);
    StudyOptions options;
    options.max_runs = 64;
    options.set.assign(parts.begin() + 1, parts.end());
    check_runs(parse_study(fixture_schema(), parts[0], "f.toml", options), 64);
  });
}

/// Of --set strings for kSmallStudy, separated by NUL.
inline void check_set_reader(std::string_view bytes) {
  using namespace study_fuzz;
  check([&] {
    constexpr std::int64_t kMost = 16;
    const Schema& schema = fixture_schema();
    static const StudyFile written = read_study_file(schema, parse_toml(kSmallStudy), Blame{"f.toml", {}});
    const Blame blame{"f.toml", split_at_nul(bytes)};
    StudyFile file = written;
    apply_sets(schema, blame, file);
    check_keys_apply(schema, blame, file);
    Study study;
    expand(schema, blame, file, kMost, study);
    check_runs(study, kMost);
  });
}

}  // namespace crosstalk
