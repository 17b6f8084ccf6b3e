// What must hold of the reader of published results for any bytes.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdlib>
#include <stdexcept>
#include <string_view>

#include "results/replay/replay.h"

namespace crosstalk {

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
