// Looks into a record's line without reading its JSON as a whole: exports of large stores spend their time here.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "results/store/record.h"

namespace crosstalk {

/// Names of what a record holds, as they stand in its line (with JSON's escapes).
struct RecordKeys {
  std::vector<std::string_view> config, metrics, provenance;
  friend bool operator==(const RecordKeys&, const RecordKeys&) = default;
};
RecordKeys keys_of_line(std::string_view line);

/// What the members of a line hold, as text: {"train.batch", "64"}, {"memory.name", "\"delta\""}.
struct RecordTexts {
  using Members = std::vector<std::pair<std::string_view, std::string_view>>;
  Members fields, config, metrics, provenance, curves, profiles;  ///< fields: of the record itself
};
RecordTexts texts_of_line(std::string_view line);
/// A number of such a text, NaN for null; and a series, {"x":[1,2],"y":[0.5,null]}.
double number_of(std::string_view text);
Series series_in(std::string_view text);

/// Whether a line that is known to be intact is a record as this program writes it: its fields in their order, each of
/// its type. What it takes, from_intact_line() takes. False tells nothing (another order of fields, letters beyond
/// ASCII): from_intact_line() does. Cheap.
bool is_written_record(std::string_view line);

/// The line with empty curves and profiles, which are most of its bytes, and, where nobody wants it, an empty
/// provenance. The checksum at its end no longer fits.
std::string without_series(std::string_view line, bool provenance = true);

}  // namespace crosstalk
