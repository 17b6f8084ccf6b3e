// SPDX-License-Identifier: Apache-2.0
#include "experiments/program/survey.h"

#include <set>
#include <stdexcept>

#include "experiments/common/stores.h"

namespace crosstalk::program {

StoreSurvey survey(const std::string& name, const StoreHeads& heads, const Arguments& arguments,
                   Console& console) {
  const std::string rate = "train.learning_rate";
  StoreSurvey found;
  if (heads.contents.records.empty() || heads.contents.records.size() > kMostRatedRuns) return found;
  try {
    StoreContents contents;
    RecordReader reader(heads);
    for (const auto& [id, head] : heads.contents.records) {
      Record record = reader.record_without_series(id, false);
      if (verdict_needs_curve(record)) record = reader.record(id);
      contents.records.emplace(id, std::move(record));
    }
    const LabelledRecords rows =
        join_rows({name}, arguments, console,
                  [&](const std::filesystem::path&) -> const StoreContents& { return contents; });
    RecordList records;
    std::set<std::string> counted;
    std::map<std::string, VerdictCounts> by_label;
    for (const auto& [key, record] : rows.rows) {
      records.push_back(&record);
      const Verdict verdict = verdict_of(record);
      ++by_label[record.label][verdict];
      if (counted.insert(record.id).second) ++found.verdicts[verdict];
    }
    found.by_label.assign(by_label.begin(), by_label.end());
    found.edges = edge_choices(records, {rate}, rate);
  } catch (const StoreError&) {             // it was compacted away at this moment
  } catch (const UsageError&) {             // nothing that the study asks for is recorded yet
  } catch (const std::invalid_argument&) {  // records of somebody else, without a learning rate
  }
  return found;
}

}  // namespace crosstalk::program
