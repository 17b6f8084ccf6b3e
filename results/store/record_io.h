// Records as lines of JSON: {"v":1,"id":...,"config":{...},...,"crc":"xxxxxxxx"}, keys in a fixed order, so
// that equal records give equal bytes.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "results/store/record.h"

namespace crosstalk {

/// Version of a line's layout, its "v".
inline constexpr int record_version = 1;

/// One line without its newline. Numbers round-trip; NaN and infinite are written as null (the status tells
/// why); bytes of strings that are not UTF-8 are replaced by U+FFFD.
std::string to_line(const Record& record);

/// What a line holds: a record, or the reason why it has none ("checksum does not match").
struct ParsedLine {
  std::optional<Record> record;
  std::string problem;
};

/// Reads a line (without its newline). Never throws on bad content. null is read as NaN.
ParsedLine from_line(std::string_view line);

/// The head of a line that is known to be intact, without reading its JSON: id, study, label, status, seed;
/// or nothing where it does not look as this program writes it, to its end (from_intact_line() then tells): a line that
/// has a head has a record. Cheap.
std::optional<Record> head_of(std::string_view line);

/// What says the same in two lines of equal results: from "status" to the message, as text.
std::string_view result_text(std::string_view line);

/// Reads a line (without its newline) that is known to be intact. Never throws on bad content.
ParsedLine from_intact_line(std::string_view line);

/// Whether the line ends in a "crc" field that matches the rest. Cheap: the JSON is not read.
bool is_intact(std::string_view line);

/// Adds the "crc" field to a JSON object's text: `{...}` becomes `{...,"crc":"xxxxxxxx"}`.
std::string seal(std::string_view object);

/// Whether two records of one id hold the same result: every deterministic field that is not a name (study,
/// label) nor spelled out by the id (config). NaN equals NaN.
bool same_result(const Record& a, const Record& b);

/// Whether nothing that both of them know differs: a table may hold fewer columns than a store, and no curves.
bool agree_where_known(const Record& a, const Record& b);

}  // namespace crosstalk
