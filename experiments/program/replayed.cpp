// The studies that ship with the program.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/program/replayed.h"

#include <optional>
#include <set>
#include <string>
#include <utility>

#include "experiments/study/schema.h"
#include "experiments/study/study.h"
#include "experiments/training/record_of.h"

namespace crosstalk::program {

/// Path and text of each, ended by an empty path (experiments/program/CMakeLists.txt).
extern const std::pair<const char*, const char*> kShippedStudies[];

namespace {

/// ReplayedStudy::default_of, by the options of this program. Defaults that a memory derives ("") are unknown.
std::optional<std::string> default_of(const std::string& task, const std::string& memory,
                                      const std::string& key) {
  const OptionSpec* spec = find_option(default_schema(), task, memory, key);
  if (!spec) return std::nullopt;
  const auto* text = std::get_if<std::string>(&spec->default_value);
  if (!text) return to_text(spec->default_value);
  return text->empty() ? std::nullopt : std::optional(*text);
}

}  // namespace

std::vector<ReplayedStudy> replayed_studies(const std::vector<PublishedPoint>& points) {
  std::set<std::string> wanted;
  for (const PublishedPoint& point : points)
    if (point.head) wanted.insert(point.head->studies.begin(), point.head->studies.end());
  std::vector<ReplayedStudy> studies;
  for (const auto* shipped = kShippedStudies; *shipped->first != '\0'; ++shipped) {
    if (wanted.count(shipped->first) == 0) continue;
    StudyOptions one_seed;
    one_seed.set = {"seeds=1"};
    const Study study = parse_study(shipped->second, shipped->first, one_seed);
    ReplayedStudy replayed{shipped->first, study.name, {}, default_of};
    for (const Run& run : study.runs)
      for (const std::string& label : run.labels) {
        replayed.runs.push_back(record_of(study.name, run, RunStatus::done));
        replayed.runs.back().label = label;
      }
    studies.push_back(std::move(replayed));
  }
  return studies;
}

}  // namespace crosstalk::program
