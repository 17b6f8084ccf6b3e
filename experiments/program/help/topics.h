// What no registry knows: the parts of a study, a record and its columns, the loss. For `describe` and the
// reference.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

namespace crosstalk::program {

struct Topic {
  std::string name, summary, text = {};
};

/// study, memories, grid, zip, skip, seeds, record, store, loss, intervals, best, threshold, published-csv.
const std::vector<Topic>& topics();
/// The columns of an export that are no keys of a configuration.
const std::vector<Topic>& columns();

/// Whether 'crosstalk describe NAME' explains it.
bool is_described(const std::string& name);
/// What `crosstalk describe NAME` prints; "" where nothing is called so.
std::string described(const std::string& name);
/// What somebody may mean by a name that nothing has: "did you mean 'task.pairs'?"; "" where nothing is near.
std::string meant_by(const std::string& name);

}  // namespace crosstalk::program
