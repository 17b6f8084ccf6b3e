// Figures of a memory that was looked into: each a script over the arrays in its folder.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "plots/drawing/drawing.h"
#include "plots/figure.h"
#include "plots/output.h"

namespace crosstalk {
namespace {

struct InsideFigure {
  const char *name, *script;
  std::vector<std::string> needs;
};

const std::vector<InsideFigure>& inside_figures() {
  static const std::vector<InsideFigure> all = {
      {"read_weights", kReadWeightsTemplate, {"read_weights"}},
      {"key_overlap", kKeyOverlapTemplate, {"key_overlap"}},
      {"state", kStateTemplate, {"singular_values"}},
      {"gates", kGatesTemplate, {}},
  };
  return all;
}

/// `script` with what stands between two marker lines replaced.
std::string replaced(const std::string& script, const std::string& what, const std::string& by) {
  const std::string begin = "# --- " + what + "\n", end = "# --- end of " + what + "\n";
  const auto first = script.find(begin), last = script.find(end);
  if (first == std::string::npos || last == std::string::npos || last < first)
    throw std::logic_error("a figure template lacks its block of " + what);
  return script.substr(0, first + begin.size()) + by + script.substr(last);
}

}  // namespace

std::vector<std::filesystem::path> draw_inspection(const std::filesystem::path& folder,
                                                   const InspectedArrays& arrays, std::ostream& notes) {
  const auto has = [&](const std::string& name) {
    return std::find(arrays.names.begin(), arrays.names.end(), name) != arrays.names.end();
  };
  const std::string settings =
      fmt::format("TITLE = {}\nWIDTH = {}  # inches, the final size in the paper\nTOKENS = {}\nGATES = {}\n",
                  python_text(arrays.title), arrays.width, python_text(nlohmann::ordered_json(arrays.tokens)),
                  python_text(nlohmann::ordered_json(arrays.gates)));
  std::vector<std::filesystem::path> written;
  for (const InsideFigure& figure : inside_figures()) {
    const bool possible = std::all_of(figure.needs.begin(), figure.needs.end(), has);
    if (!possible || (std::string(figure.name) == "gates" && arrays.gates.empty())) continue;
    const std::filesystem::path base = folder / figure.name;
    write_figure_script(base, replaced(replaced(figure.script, "style", kInsideStyle), "settings", settings),
                        notes);
    written.push_back(with_extension(base, ".py"));
    for (const std::filesystem::path& picture : render_figure(base, notes)) written.push_back(picture);
  }
  return written;
}

}  // namespace crosstalk
