// The rows that commands were given, read one record at a time.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "experiments/common/command.h"
#include "results/export.h"

namespace crosstalk::program {

/// The rows that load_rows() gives, in the memory of their names: records of stores are read when they are needed.
class RowStream {
 public:
  /// Throws UsageError.
  RowStream(const std::vector<std::string>& names, const Arguments& arguments, Console& console);
  ~RowStream();
  RowStream(const RowStream&) = delete;
  RowStream& operator=(const RowStream&) = delete;

  bool empty() const;
  /// Of the records what is needed: the sooner, the less that is.
  enum class Part { results, results_and_provenance, all };
  RowSource source(Part part);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace crosstalk::program
