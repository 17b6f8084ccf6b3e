// What no registry knows: the parts of a study, a record and its columns, the loss. For `describe` and the
// reference.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

namespace crosstalk::program {

struct Topic {
  std::string name, summary, text;
};

/// study, memories, grid, zip, skip, seeds, record, store, loss, intervals, best, threshold, published-csv.
const std::vector<Topic>& topics();
/// The columns of an export that are no keys of a configuration.
const std::vector<Topic>& columns();

/// Whether 'crosstalk describe NAME' explains it.
bool is_described(const std::string& name);

}  // namespace crosstalk::program
