// SPDX-License-Identifier: Apache-2.0
#include "results/suspects.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <string_view>

namespace crosstalk {
namespace {

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// Whether a law has `name` as a word that `next` follows, and, for what it assigns, that begins a step.
bool has_name(std::string_view law, std::string_view name, char next) {
  for (std::size_t at = law.find(name); at != law.npos; at = law.find(name, at + 1)) {
    std::string_view before = law.substr(0, at), after = law.substr(at + name.size());
    if (!before.empty() && is_word(before.back())) continue;
    const std::size_t behind = after.find_first_not_of(' ');
    if (behind == after.npos || after[behind] != next) continue;
    if (next != '=') return true;
    const std::size_t step = before.find_last_not_of(' ');
    if (step == before.npos || before[step] == ';' || before[step] == '\n') return true;
  }
  return false;
}

bool has_any(const Record& record, const std::set<std::string>& names, char next) {
  const auto law = config_text(record, "memory.law");
  return law &&
         std::ranges::any_of(names, [&](const std::string& name) { return has_name(*law, name, next); });
}

}  // namespace

std::vector<std::string> suspects(const Record& record) {
  std::vector<std::string> all;
  const auto semantics = record.provenance.find("semantics");
  if (semantics == record.provenance.end() || !semantics->is_number_integer() ||
      semantics->get<std::int64_t>() > kLastSuspectSemantics)
    return all;
  if (has_any(record, {"fill", "ones", "sum", "mean"}, '('))
    all.emplace_back(
        "laws with sum, mean, fill or ones: where such a law ran token after token, some had wrong values and gradients");
  if (has_any(record, {"key", "query", "value", "output", "key_projection", "query_projection"}, '='))
    all.emplace_back(
        "laws with a learned quantity called key, query, value, output, key_projection or query_projection: it may have "
        "used the model's own weights of that name");
  const std::string task = config_text(record, "task.name").value_or("");
  if (task == "tokens" || task == "file")
    all.emplace_back(
        "tasks tokens and file: arrays that changed while a run trained were not noticed, and labels of uint8 or uint16 had 156 or 65436 for -100");
  return all;
}

std::vector<std::string> suspects_text(const RecordList& records) {
  std::map<std::string, std::set<std::string>> runs;  // a run under two labels counts once
  for (const Record* record : records)
    for (const std::string& fault : suspects(*record)) runs[fault].insert(record->id);
  std::vector<std::string> lines;
  for (const auto& [fault, ids] : runs)
    lines.push_back(fmt::format(
        "{} of semantics {} or less may be recorded wrongly ({}); a run of this version trains {} anew",
        ids.size() == 1 ? "1 run" : fmt::format("{} runs", ids.size()), kLastSuspectSemantics, fault,
        ids.size() == 1 ? "it" : "them"));
  return lines;
}

}  // namespace crosstalk
