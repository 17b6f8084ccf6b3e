// Panels put together: one entry a label in the legend, and what is said once of all panels.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "plots/drawing/drawing.h"

namespace crosstalk {
namespace {

using LineKey = std::pair<std::string, std::int64_t>;
using PanelKey = std::pair<std::string, std::string>;  // metric, facet

constexpr double kLineWidth = 0.01;  // as a share of the axis: nobody tells lines apart that are so near

std::pair<double, double> union_of(const nlohmann::ordered_json& a, const nlohmann::ordered_json& b) {
  return {std::min(a[0].get<double>(), b[0].get<double>()), std::max(a[1].get<double>(), b[1].get<double>())};
}

/// Adds what is not there yet.
template <class List, class Same>
void add_new(List& to, const List& from, const Same& same) {
  for (const auto& one : from)
    if (std::ranges::none_of(to, [&](const auto& known) { return same(known, one); })) to.push_back(one);
}

/// Seeds that every point of a panel has; 0 where they differ.
int seeds_of(const Drawing& panel) {
  const int seeds = panel.lines.empty() ? 0 : panel.lines.front().count.expected;
  const bool alike = std::ranges::all_of(panel.lines, [&](const LineEntry& line) {
    return line.count.least == seeds && line.count.most == seeds && line.count.expected == seeds;
  });
  return alike ? seeds : 0;
}

/// True where panels differ in their seeds, and each has the same at all its points: then titles tell them.
bool seeds_differ_by_panel(const std::vector<std::pair<std::string, Drawing>>& panels) {
  std::set<int> seeds;
  for (const auto& [value, panel] : panels) seeds.insert(seeds_of(panel));
  return seeds.size() > 1 && seeds.count(0) == 0;
}

/// A label is one entry of the legend, with one dash in all panels. Its d_dot belongs to the panel, unless a
/// panel has several: then each is an entry.
std::vector<LineEntry> join_lines(const std::vector<std::pair<std::string, Drawing>>& panels) {
  std::vector<LineEntry> all;
  std::set<std::string> several;
  for (const auto& [value, panel] : panels) {
    std::set<std::string> seen;
    for (const LineEntry& line : panel.lines)
      if (!seen.insert(line.label).second) several.insert(line.label);
  }
  for (const auto& [value, panel] : panels)
    for (const LineEntry& line : panel.lines) {
      const auto known = std::ranges::find_if(all, [&](const LineEntry& one) {
        return one.label == line.label && (one.d_dot == line.d_dot || several.count(line.label) == 0);
      });
      if (known == all.end()) {
        all.push_back(line);
        continue;
      }
      known->count.add(line.count);
      if (known->d_dot != line.d_dot) known->d_dot = 0, known->size.clear();
      if (known->size.empty() && several.count(line.label) != 0) known->size = line.size;
    }
  static const char* const kDashes[] = {"-", "--", "-.", ":"};
  std::map<std::string, std::size_t> dashes;
  for (LineEntry& line : all)
    if (several.count(line.label) != 0) {
      line.dash = kDashes[dashes[line.label]++ % std::size(kDashes)];
      if (line.d_dot > 0) line.size = d_dot_text(line.d_dot);
    }
  return all;
}

/// Where a value stands on an axis, between 0 and 1; what is beyond its ends stands on them.
double place_of(double value, const nlohmann::ordered_json& limits, bool log) {
  double low = limits[0].get<double>(), high = limits[1].get<double>();
  value = std::clamp(value, low, high);
  if (log) low = std::log(low), high = std::log(high), value = std::log(value);
  return (value - low) / (high - low);
}

/// Lines by panel: x -> place on the page; diverged points stand above the axes.
std::map<PanelKey, std::map<LineKey, std::map<double, double>>> places_of(const Drawing& drawing) {
  std::map<PanelKey, std::map<LineKey, std::map<double, double>>> places;
  for (const FigureRow& row : drawing.rows) {
    const bool is_line = std::ranges::any_of(drawing.lines, [&](const LineEntry& line) {
      return line.label == row.label && (line.d_dot == row.d_dot || line.d_dot == 0);
    });
    if (!is_line || std::isnan(row.median) || std::isnan(row.x)) continue;
    if (row.metric == "solved") continue;  // shares are 0 or 1 in most places
    nlohmann::ordered_json limits = drawing.figure.value("ylim", nlohmann::ordered_json());
    bool log = drawing.figure.value("yscale", std::string()) == "log";
    for (const auto& rows : drawing.figure.value("rows", nlohmann::ordered_json::array()))
      if (rows[0] == row.metric) limits = rows[3], log = rows[2] == "log";
    if (limits.empty()) continue;
    places[{row.metric, row.facet}][{row.label, row.d_dot}][row.x] =
        std::isinf(row.median) ? 2 : place_of(row.median, limits, log);
  }
  return places;
}

bool same_places(const std::map<double, double>& a, const std::map<double, double>& b) {
  return a.size() > 1 && a.size() == b.size() &&
         std::equal(a.begin(), a.end(), b.begin(), [](const auto& one, const auto& other) {
           return one.first == other.first && std::abs(one.second - other.second) <= kLineWidth;
         });
}

/// "A, B and C"; in quotes where a comma or an "and" of a name would hide where it ends.
std::string listed(std::vector<std::string> names) {
  if (std::ranges::any_of(names, [](const std::string& name) {
        return name.find(',') != std::string::npos || name.find(" and ") != std::string::npos;
      }))
    for (std::string& name : names) name = "\"" + name + "\"";
  const std::string last = names.back();
  names.pop_back();
  return fmt::format("{} and {}", fmt::join(names, ", "), last);
}

/// "GLA and Sum (recall, d_key = 16)": lines of which only the last is seen.
std::vector<std::string> coinciding(const Drawing& drawing, const std::map<std::string, LabelStyle>& styles) {
  std::map<std::string, std::string> titles;  // of panels
  for (const auto& panel : drawing.figure.value("panels", nlohmann::ordered_json::array()))
    titles[panel[0].get<std::string>()] = panel[1].get<std::string>();
  const auto places = places_of(drawing);
  std::vector<std::pair<std::string, std::vector<std::string>>> groups;  // names -> panels
  for (const auto& [panel, lines] : places) {
    std::set<LineKey> done;
    std::vector<LineKey> order;
    for (const LineEntry& entry : drawing.lines)
      for (const auto& [key, line] : lines)
        if (key.first == entry.label && (entry.d_dot == 0 || entry.d_dot == key.second)) order.push_back(key);
    for (const LineKey& first : order) {
      if (!done.insert(first).second) continue;
      std::vector<std::string> names = {styles.at(first.first).name};
      for (const LineKey& other : order)
        if (done.count(other) == 0 && same_places(lines.at(first), lines.at(other))) {
          done.insert(other);
          if (other.first != first.first) names.push_back(styles.at(other.first).name);
        }
      if (names.size() < 2) continue;
      const std::string group = listed(std::move(names));
      auto known = std::ranges::find_if(groups, [&](const auto& one) { return one.first == group; });
      if (known == groups.end()) known = groups.insert(groups.end(), {group, {}});
      std::string where = panel.first;
      std::ranges::replace(where, '_', ' ');
      const auto title = titles.find(panel.second);
      if (title != titles.end() && titles.size() > 1) where += (where.empty() ? "" : ", ") + title->second;
      known->second.push_back(where);
    }
  }
  std::vector<std::string> texts;
  for (const auto& [group, where] : groups) {
    const bool everywhere = where.size() == places.size();
    texts.push_back(everywhere ? group : fmt::format("{} ({})", group, fmt::join(where, "; ")));
  }
  return texts;
}

}  // namespace

Drawing join_panels(std::vector<std::pair<std::string, Drawing>> panels, const std::string& key) {
  Drawing joined = panels.front().second;
  joined.rows.clear();
  const bool tell_seeds = seeds_differ_by_panel(panels);
  joined.lines = join_lines(panels);
  if (tell_seeds)
    for (LineEntry& line : joined.lines) line.count.expected = line.count.least;
  nlohmann::ordered_json titles = nlohmann::ordered_json::array(),
                         vertical = nlohmann::ordered_json::object();
  bool same_vertical = true;
  for (auto& [value, panel] : panels) {
    std::string title = key == "study" ? value : fmt::format("{} = {}", symbol_of(key), value);
    if (const int seeds = seeds_of(panel); tell_seeds)
      title += seeds == 1 ? ", one seed" : fmt::format(", {} seeds", seeds);
    if (const std::string fit = panel.figure.value("fit", std::string()); !fit.empty()) {
      title += fmt::format("; {}", fit.substr(fit.find("slope")));  // a slope of one panel is none of another
      joined.figure["fit"] = "Fit (slope above each panel)";
    }
    titles.push_back({value, title});
    for (FigureRow& row : panel.rows) {
      row.facet = value;
      joined.rows.push_back(row);
    }
    if (panel.figure.contains("vertical")) {
      vertical[value] = panel.figure["vertical"];
      same_vertical = same_vertical && panel.figure["vertical"] == joined.figure["vertical"];
    }
    if (&panel == &panels.front().second) continue;
    add_new(joined.overlays, panel.overlays,
            [](const Overlay& a, const Overlay& b) { return a.label == b.label && a.d_dot == b.d_dot; });
    add_new(joined.overlay_names, panel.overlay_names, [](const auto& a, const auto& b) { return a == b; });
    add_new(joined.footnotes, panel.footnotes, [](const auto& a, const auto& b) { return a == b; });
    for (const char* limits : {"xlim", "ylim"}) {
      const auto [low, high] = union_of(joined.figure[limits], panel.figure[limits]);
      joined.figure[limits] = {low, high};
    }
    if (joined.seeds && panel.seeds) {
      joined.seeds->add(panel.seeds->fewest), joined.seeds->add(panel.seeds->most);
      joined.diverged += panel.diverged;
    }
  }
  if (!same_vertical) joined.figure["vertical"] = vertical;
  joined.figure["facet"] = key;
  joined.figure["panels"] = titles;
  return joined;
}

namespace {

/// "Lines: median over {} seeds; bands and whiskers: {}.", by what is drawn: an interval is part of a band where its line has
/// another one beside it, else a whisker; a single place has markers and no lines.
std::string how_drawn(const Drawing& drawing) {
  constexpr double kSeen = 0.005;  // of an interval, as a share of the axis
  const nlohmann::ordered_json limits = drawing.figure.value("ylim", nlohmann::ordered_json({0, 1}));
  const bool log = drawing.figure.value("yscale", std::string()) == "log";
  std::set<double> places;
  std::map<std::tuple<std::string, std::string, std::int64_t>, std::map<double, double>> lines;
  for (const FigureRow& row : drawing.rows) {
    if (row.n <= 0) continue;
    places.insert(row.x);
    lines[{row.facet, row.label, row.d_dot}][row.x] =
        row.n > 1 && std::isfinite(row.hi) ? place_of(row.hi, limits, log) - place_of(row.lo, limits, log)
                                           : -1;
  }
  bool bands = false, whiskers = false;
  for (const auto& [line, intervals] : lines)
    for (auto at = intervals.begin(); at != intervals.end(); ++at) {
      if (at->second < kSeen) continue;
      const bool beside = (at != intervals.begin() && std::prev(at)->second >= 0) ||
                          (std::next(at) != intervals.end() && std::next(at)->second >= 0);
      (beside ? bands : whiskers) = true;
    }
  return fmt::format("{}: median over {{}} seeds; {}: {{}}.", places.size() == 1 ? "Markers" : "Lines",
                     bands && whiskers                ? "bands and whiskers"
                     : whiskers || places.size() == 1 ? "whiskers"
                                                      : "bands");
}

}  // namespace

void finish_footnotes(Drawing& drawing, const std::map<std::string, LabelStyle>& styles) {
  std::vector<std::string> texts;
  if (drawing.seeds) {
    const SeedRange& seeds = *drawing.seeds;
    const bool one = seeds.most <= 1;
    texts.push_back(one ? "One seed."
                        : fmt::format(fmt::runtime(how_drawn(drawing)), seeds.text(), seeds.interval()));
    drawing.brief[texts[0]] =
        one ? texts[0]
            : fmt::format("Median, {} of {} seeds.", seeds.most < seeds_of_an_interval ? "range" : "interval",
                          seeds.text());
    if (drawing.diverged > 0)
      texts.emplace_back("Diverged runs count as the worst; crosses: half or more diverged.");
  }
  drawing.footnotes.insert(drawing.footnotes.begin(), texts.begin(), texts.end());
  if (!drawing.lines_may_coincide) return;
  if (auto same = coinciding(drawing, styles); !same.empty()) {
    constexpr std::size_t most = 4;
    const std::size_t more = same.size() - std::min(most, same.size());
    same.resize(same.size() - more);
    drawing.footnotes.push_back(fmt::format("Lines that coincide, the last in front: {}{}.",
                                            fmt::join(same, "; "),
                                            more == 0 ? "" : fmt::format("; and {} more", more)));
  }
}

}  // namespace crosstalk
