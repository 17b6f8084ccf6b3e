// Colours, markers and names of labels: one label looks the same in every figure of a store.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <map>
#include <set>
#include <string>

namespace crosstalk {

/// How a label is drawn.
struct LabelStyle {
  std::size_t rank = 0;                 ///< order in legends: known labels first, then alphabetical
  std::string colour;                   ///< "#0072B2"
  std::string marker;                   ///< matplotlib's
  std::string dash = std::string("-");  ///< "-"; labels beyond the eighth colour share one and are dashed
};

/// Okabe-Ito colours (distinct for colour-blind readers), each with a marker of its own. Labels of the
/// shipped studies have fixed colours; others take what is free, in alphabetical order.
std::map<std::string, LabelStyle> label_styles(const std::set<std::string>& labels);

/// "dpfp1_delta" -> "DPFP-1 delta"; labels that start with an unknown word stay as they are. '$' is escaped
/// for matplotlib.
std::string pretty_name(const std::string& label);

}  // namespace crosstalk
