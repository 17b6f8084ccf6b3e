// From a checked study file to runs.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "experiments/study/study.h"
#include "experiments/study/study_file.h"

namespace crosstalk {

/// Fills product and runs of `study`. Counts before it expands: 10^12 runs are refused at once.
void expand(const Schema& schema, const Blame& blame, const StudyFile& file, std::int64_t max_runs,
            Study& study);

/// The study that a file's tree says, without its text.
Study study_of_tree(const Schema& schema, const TomlNode& root, const Blame& blame, std::int64_t max_runs);

/// One combination, resolved: every key of every schema that applies, without the seeds. `settings` are what
/// [base], the memory's table, the grid and --set say, by dotted key; those that this task or memory does not
/// have are passed over (check_keys_apply has seen to it that some other has them). Task, memory and model first, for which train.*
/// and eval.* say nothing; then these. Both throw OptionError.
Run resolve_model_of(const Schema& schema, const std::map<std::string, Setting>& settings,
                     const std::string& memory);
void resolve_training_of(const Schema& schema, const std::map<std::string, Setting>& settings, Run& run);

}  // namespace crosstalk
