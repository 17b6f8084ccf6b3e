// Figures of a memory that was looked into: each a script over the arrays in its folder.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

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
  static const std::vector<InsideFigure> all = {{"read_weights", kReadWeightsTemplate, {"read_weights"}},
                                                {"key_overlap", kKeyOverlapTemplate, {"key_overlap"}},
                                                {"state", kStateTemplate, {"singular_values"}},
                                                {"gates", kGatesTemplate, {}}};
  return all;
}

}  // namespace

std::vector<std::filesystem::path> draw_inspection(const std::filesystem::path& folder,
                                                   const InspectedArrays& arrays, std::ostream& notes) {
  const auto has = [&](const std::string& name) {
    return std::ranges::find(arrays.names, name) != arrays.names.end();
  };
  const std::string settings =
      fmt::format("TITLE = {}\nWIDTH = {}  # inches, the final size in the paper\nTOKENS = {}\nGATES = {}\n",
                  python_text(arrays.title), arrays.width, python_text(nlohmann::ordered_json(arrays.tokens)),
                  python_text(nlohmann::ordered_json(arrays.gates)));
  std::vector<std::filesystem::path> written;
  for (const InsideFigure& figure : inside_figures()) {
    const bool possible = std::ranges::all_of(figure.needs, has);
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
