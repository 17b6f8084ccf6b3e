// What must hold of the readers of records, marks of stores, claims and published results for any bytes.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>

#include "results/replay/replay.h"
#include "results/store/claim_files.h"
#include "results/store/record_io.h"
#include "results/store/shard.h"
#include "results/store/store.h"
#include "results/store/store_path.h"

namespace crosstalk {

/// Aborts where the reader breaks a promise: it never throws, what it takes it writes back unchanged, and a line that has
/// a head has a record.
inline void check_record_reader(std::string_view bytes) {
  for (const ShardPiece& piece : split_shard(bytes).pieces) {
    if ((piece.kind == ShardPiece::Kind::intact) != is_intact(piece.text)) std::abort();
  }
  // A checksum would keep nearly all inputs from the reader behind it: give them a good one.
  const std::string sealed = bytes.empty() ? std::string() : seal(bytes);
  for (const std::string_view line : {bytes, std::string_view(sealed)}) {
    const ParsedLine parsed = from_line(line);
    if (parsed.record.has_value() == !parsed.problem.empty()) std::abort();
    if (head_of(line) && !from_intact_line(line).record) std::abort();
    if (!parsed.record) continue;
    const std::string written = to_line(*parsed.record);
    const ParsedLine again = from_line(written);
    if (!again.record || to_line(*again.record) != written || !same_result(*parsed.record, *again.record)) {
      std::abort();
    }
  }
}

/// Aborts where the reader breaks its promise: good, damaged, or refused with the path in front.
inline void check_mark_reader(std::string_view bytes) {
  try {
    if (mark_of(std::string(bytes), "s/store.json") == StoreMark::missing) std::abort();
  } catch (const StorePathError& error) {
    if (std::string_view(error.what()).substr(0, 14) != "s/store.json: ") std::abort();
  }
}

/// Aborts where a reader breaks its promise: it never throws, and no name leads out of the folder. `bytes` are a worker's
/// file, and a name.
inline void check_claim_readers(std::string_view bytes) {
  const std::string name(bytes);
  const std::filesystem::path folder = "store/claims", file = folder / name;
  if (is_worker_name(name) &&
      (file.parent_path() != folder || file.lexically_normal() != file || file.filename() != name))
    std::abort();
  if (process_of(name).size() > name.size()) std::abort();
  if (const auto worker = worker_of_text(bytes, "w");
      worker && (worker->name != "w" || !worker->activity.is_object()))
    std::abort();
}

/// Aborts where the reader breaks its promise: points, or std::invalid_argument that begins with the file's name. What is
/// read can be compared and printed.
inline void check_published_reader(std::string_view bytes) {
  try {
    const std::vector<PublishedPoint> points = parse_published(bytes, "p.csv");
    if (points.empty()) std::abort();
    Record record;
    record.id = "ct-1";
    record.label = points[0].label;
    record.config = {{"task.name", "recall"}, {"task.associations", points[0].associations}};
    comparison_table(compare(points, {{record.id, record}}));
    without_partner(points, {{record.id, record}});
  } catch (const std::invalid_argument& error) {
    if (std::string_view(error.what()).substr(0, 5) != "p.csv") std::abort();
  }
}

}  // namespace crosstalk
