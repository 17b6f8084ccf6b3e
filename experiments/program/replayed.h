// The studies that ship with the program, as files of published numbers name them.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "results/replayed_study.h"

namespace crosstalk::program {

/// The studies that the heads of these points' files name ("# Studies: experiments/mad.toml"), expanded with one seed, as they
/// were when the program was built; names that no such study has are left out.
std::vector<ReplayedStudy> replayed_studies(const std::vector<PublishedPoint>& points);

}  // namespace crosstalk::program
