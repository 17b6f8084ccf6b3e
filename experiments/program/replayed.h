// The studies that ship with the program, as files of published numbers name them.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "results/replay/replayed_study.h"

namespace crosstalk::program {

/// The studies that the heads of these points' files name ("# Studies: experiments/mad.toml"), expanded with one seed, as they
/// were when the program was built; names that no such study has are left out.
std::vector<ReplayedStudy> replayed_studies(const std::vector<PublishedPoint>& points);

/// What is wrong with a key that no record and no option of this program has, which would be compared with nothing; else "".
std::string unknown_to_all(const std::string& key, const std::vector<const Record*>& records);

/// Refuses such columns of published points: misspelt keys, and keys without their section ("d_key"). Throws
/// std::invalid_argument.
void check_columns(const std::vector<PublishedPoint>& points, const std::vector<const Record*>& records);

}  // namespace crosstalk::program
