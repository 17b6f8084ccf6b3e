// The studies that ship with the program.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/program/replayed.h"

#include <set>
#include <string>
#include <utility>

#include "experiments/study/study.h"
#include "experiments/training/record_of.h"

namespace crosstalk::program {

/// Path and text of each, ended by an empty path (experiments/program/CMakeLists.txt).
extern const std::pair<const char*, const char*> kShippedStudies[];

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
    ReplayedStudy replayed{shipped->first, study.name, {}};
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
