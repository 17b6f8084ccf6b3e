// What must hold of the record reader for any bytes.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdlib>
#include <string>
#include <string_view>

#include "results/store/record_io.h"
#include "results/store/shard.h"

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

}  // namespace crosstalk
