// SPDX-License-Identifier: Apache-2.0
#include "experiments/program/rate_edges.h"

#include <stdexcept>

#include "experiments/common/stores.h"

namespace crosstalk::program {

std::vector<EdgeChoice> rate_edges(const std::string& name, const StoreHeads& heads,
                                   const Arguments& arguments, Console& console) {
  const std::string rate = "train.learning_rate";
  if (heads.contents.records.empty() || heads.contents.records.size() > kMostRatedRuns) return {};
  try {
    StoreContents contents;
    RecordReader reader(heads);
    for (const auto& [id, head] : heads.contents.records)
      contents.records.emplace(id, reader.record_without_series(id, false));
    const LabelledRecords rows =
        join_rows({name}, arguments, console,
                  [&](const std::filesystem::path&) -> const StoreContents& { return contents; });
    RecordList records;
    for (const auto& [key, record] : rows.rows) records.push_back(&record);
    return edge_choices(records, {rate}, rate);
  } catch (const StoreError&) {             // it was compacted away at this moment
  } catch (const UsageError&) {             // nothing that the study asks for is recorded yet
  } catch (const std::invalid_argument&) {  // records of somebody else, without a learning rate
  }
  return {};
}

}  // namespace crosstalk::program
