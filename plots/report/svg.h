// A drawing as SVG, one picture a panel, and its legend as HTML: for pages that are read in a browser. The numbers are those
// of the figure's CSV; matplotlib is not needed.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <string>
#include <vector>

#include "plots/drawing/drawing.h"

namespace crosstalk {

/// Panels and the legend, as HTML. `id`: a word that no other figure of the page has. Points tell their numbers on hover;
/// lines and names carry `data-line`, by which a script may put one in front.
std::string svg_figure(const Drawing& drawing, const std::map<std::string, LabelStyle>& styles,
                       const std::string& id);

/// Places of ticks on an axis ("linear", "log" or "log2") between two ends, in order.
std::vector<double> ticks_of(double low, double high, const std::string& scale);

}  // namespace crosstalk
