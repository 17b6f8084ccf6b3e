// SPDX-License-Identifier: Apache-2.0
#include "experiments/program/planning/survey.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <stdexcept>

#include "experiments/common/text.h"
#include "experiments/inspect/evaluated_floor.h"
#include "results/printable.h"
#include "results/suspects.h"

namespace crosstalk::program {

StoreSurvey survey(const Study* study, const std::filesystem::path& store, const StoreHeads& heads) {
  const std::string rate = "train.learning_rate";
  StoreSurvey found;
  if (heads.contents.records.empty() || heads.contents.records.size() > kMostRatedRuns) return found;
  try {
    std::map<std::string, Record> whole;
    RecordReader reader(heads);
    std::map<std::string, Verdict> verdict_of_id;
    for (const auto& [id, head] : heads.contents.records) {
      Record record = reader.record(id);
      verdict_of_id.emplace(id, verdict_of(record));
      record.curves.clear(), record.profiles.clear();  // many: what is asked below suffices
      const nlohmann::json semantics = record.provenance.value("semantics", nlohmann::json());
      record.provenance = nlohmann::json::object();
      if (!semantics.is_null()) record.provenance["semantics"] = semantics;
      whole.emplace(id, std::move(record));
    }
    const LabelledRecords rows =
        study ? asked_rows(whole, asked_of(*study)) : all_rows(whole, read_asked(store));
    RecordList records;
    std::set<std::string> counted;
    std::map<std::string, VerdictCounts> by_label;
    for (const auto& [key, record] : rows.rows) {
      records.push_back(&record);
      const Verdict verdict = verdict_of_id.at(record.id);
      ++by_label[record.label][verdict];
      if (counted.insert(record.id).second) ++found.verdicts[verdict];
    }
    found.by_label.assign(by_label.begin(), by_label.end());
    found.suspects = suspects_text(records);
    found.chance = chance_of(records, "", evaluated_answers());
    found.edges = edge_choices(records, {rate}, rate);
  } catch (const StoreError&) {             // it was compacted away at this moment
  } catch (const std::invalid_argument&) {  // records of somebody else, without a learning rate
  }
  return found;
}

std::string outcome_text(const StoreSurvey& survey) {
  const std::string table = verdict_table(survey);
  return table.empty() || survey.chance.text.empty() ? table : table + "\n" + survey.chance.text + "\n";
}

std::string outcome_line(const StoreSurvey& survey) {
  if (survey.verdicts.empty()) return "";
  return join(counted(survey.verdicts), ", ") + "." +
         (survey.chance.text.empty() ? "" : " " + survey.chance.text);
}

std::string verdict_table(const StoreSurvey& survey) {
  if (survey.by_label.empty()) return "";
  std::vector<std::vector<std::string>> cells = {{"verdicts"}};
  for (const Verdict verdict : verdicts())
    if (survey.verdicts.contains(verdict)) cells[0].push_back(words_of(verdict));
  const auto row = [&](const std::string& label, const VerdictCounts& counts) {
    cells.push_back({printable_line(label)});
    for (const Verdict verdict : verdicts()) {
      if (!survey.verdicts.contains(verdict)) continue;
      const auto n = counts.find(verdict);
      cells.back().push_back(fmt::format("{}", n == counts.end() ? 0 : n->second));
    }
  };
  for (const auto& [label, counts] : survey.by_label) row(label, counts);
  if (survey.by_label.size() != 1) row("total", survey.verdicts);
  return table(cells);
}

}  // namespace crosstalk::program
