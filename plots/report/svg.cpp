// A drawing as SVG.
// SPDX-License-Identifier: Apache-2.0
#include "plots/report/svg.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "plots/report/html.h"

namespace crosstalk {
namespace {

constexpr double kWidth = 480, kHeight = 320, kLeft = 66, kRight = 14, kTop = 30, kBottom = 52;
constexpr const char* kGrey = "#555555";
constexpr std::size_t kMostTold = 60;  ///< points of a line that tell their numbers

std::string short_number(double value) { return fmt::format("{:.4g}", value); }

std::string dash_of(const std::string& dash) {
  if (dash == "--") return " stroke-dasharray=\"7 3\"";
  if (dash == "-.") return " stroke-dasharray=\"7 3 2 3\"";
  if (dash == ":") return " stroke-dasharray=\"2 3\"";
  return "";
}

/// An axis of the page: value -> place.
struct Axis {
  std::string scale;
  double low = 0, high = 1, first = 0, last = 1;

  double mapped(double value) const { return scale == "linear" ? value : std::log(std::max(value, 1e-300)); }
  double operator()(double value) const {
    return first + (mapped(value) - mapped(low)) / (mapped(high) - mapped(low)) * (last - first);
  }
  bool holds(double value) const { return value >= low && value <= high; }
};

/// matplotlib's markers, round a place.
std::string marker(const std::string& kind, double x, double y, const std::string& colour,
                   bool open = false) {
  static const std::map<std::string, std::string> paths = {
      {"s", "M-3.5-3.5h7v7h-7z"},
      {"^", "M0-4.5L4.5 3.5H-4.5z"},
      {"v", "M0 4.5L4.5-3.5H-4.5z"},
      {"D", "M-4.8 0L0-4.8L4.8 0L0 4.8z"},
      {"p", "M0-4.5L4.3-1.4L2.7 3.7H-2.7L-4.3-1.4z"},
      {"P", "M-1.6-4.5h3.2v2.9h2.9v3.2h-2.9v2.9h-3.2v-2.9h-2.9v-3.2h2.9z"},
      {"X", "M-4.5-2.5l2-2L0-2l2.5-2.5l2 2L2 0l2.5 2.5l-2 2L0 2l-2.5 2.5l-2-2L-2 0z"}};
  const std::string look = fmt::format(R"(fill="{}" stroke="{}")", open ? "#ffffff" : colour, colour);
  if (const auto path = paths.find(kind); path != paths.end())
    return fmt::format(R"svg(<path transform="translate({:.1f} {:.1f})" d="{}" {}/>)svg", x, y, path->second,
                       look);
  return fmt::format(R"(<circle cx="{:.1f}" cy="{:.1f}" r="3.8" {}/>)", x, y, look);
}

std::string cross(double x, double y, const std::string& colour) {
  return fmt::format(
      R"(<path d="M{0:.1f} {1:.1f}l7 7m0 -7l-7 7" stroke="{2}" stroke-width="1.6" fill="none"/>)", x - 3.5,
      y - 3.5, colour);
}

std::string stroke(double x1, double y1, double x2, double y2, const std::string& look) {
  return fmt::format(R"(<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" {}/>)", x1, y1, x2, y2, look);
}

/// One panel: its values of the facet's and of the metric's column, and its axes.
struct Panel {
  std::string facet, metric, title, ylabel;
  Axis x, y;
  double divisor = 1;  ///< of x: the figure probe shows pairs per dimension
};

class Picture {
 public:
  Picture(const Drawing& drawing, const std::map<std::string, LabelStyle>& styles, std::string id)
      : drawing_(drawing),
        styles_(styles),
        id_(std::move(id)),
        x_name_(drawing.figure.value("x", drawing.x_column)),
        points_(drawing.of_points()) {
    std::set<double> places;
    for (const FigureRow& row : drawing.rows)
      if (row.n > 0) places.insert(x_of(row));
    alone_ = places.size() == 1;
  }

  std::string text() {
    std::string text = "<div class=\"panels\">";
    for (const Panel& panel : panels()) text += panel_text(panel);
    return text + "</div>\n" + legend();
  }

 private:
  std::vector<Panel> panels() const {
    const auto& figure = drawing_.figure;
    const bool probe = drawing_.script == kProbeTemplate;
    nlohmann::ordered_json names = figure.value("panels", nlohmann::ordered_json::array());
    if (names.empty()) names.push_back({"", figure.value("title", std::string())});
    nlohmann::ordered_json rows = figure.value("rows", nlohmann::ordered_json::array());
    if (rows.empty()) rows.push_back({"", figure["ylabel"], figure["yscale"], figure["ylim"]});
    std::vector<Panel> list;
    for (const auto& row : rows)
      for (const auto& name : names) {
        Panel panel;
        panel.facet = name[0], panel.title = name[1];
        panel.metric = row[0], panel.ylabel = row[1];
        panel.x = {probe ? "log2" : figure.value("xscale", std::string("linear")), figure["xlim"][0],
                   figure["xlim"][1], kLeft, kWidth - kRight};
        panel.y = {row[2], row[3][0], row[3][1], kHeight - kBottom, kTop};
        if (probe) panel.divisor = std::stod(panel.facet);
        list.push_back(panel);
      }
    return list;
  }

  /// Where a row stands: the script may name another column of the CSV than the third.
  double x_of(const FigureRow& row) const {
    return x_name_ == "d_dot" ? static_cast<double>(row.d_dot) : row.x;
  }

  /// Lines of a single place stand side by side.
  double aside_of(std::size_t number_of_line) const {
    const auto lines = static_cast<double>(drawing_.lines.size());
    return alone_ ? (static_cast<double>(number_of_line) - (lines - 1) / 2) * std::min(11.0, 320 / lines) : 0;
  }

  /// The rows of a line or an overlay in a panel.
  std::vector<const FigureRow*> rows_of(const Panel& panel, const std::string& label,
                                        std::int64_t d_dot) const {
    const auto has = [&](std::int64_t size) {
      return std::ranges::any_of(
                 drawing_.lines,
                 [&](const LineEntry& line) { return line.label == label && line.d_dot == size; }) ||
             std::ranges::any_of(drawing_.overlays, [&](const Overlay& line) {
               return line.label == label && line.d_dot == size;
             });
    };
    std::vector<const FigureRow*> rows;
    for (const FigureRow& row : drawing_.rows) {
      const bool of_panel = (panel.facet.empty() || row.facet == panel.facet || row.facet.empty()) &&
                            (panel.metric.empty() || row.metric == panel.metric);
      const bool of_line =
          row.label == label && (points_ || row.d_dot == d_dot || (d_dot == 0 && !has(row.d_dot)));
      if (of_panel && of_line && !std::isnan(x_of(row))) rows.push_back(&row);
    }
    return rows;
  }

  std::string frame(const Panel& panel) const {
    std::string text;
    const bool whole = std::ranges::all_of(drawing_.rows, [&](const FigureRow& row) {
      return std::isnan(x_of(row)) || x_of(row) == std::round(x_of(row));
    });
    std::vector<double> xs = ticks_of(panel.x.low, panel.x.high, panel.x.scale);
    if (drawing_.figure.contains("xticks")) xs = drawing_.figure["xticks"].get<std::vector<double>>();
    for (const double x : xs) {
      if (!panel.x.holds(x) || (whole && panel.divisor == 1 && x != std::round(x))) continue;
      text += stroke(panel.x(x), kTop, panel.x(x), kHeight - kBottom, R"(class="grid")");
      text += fmt::format(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="middle">{}</text>)", panel.x(x),
                          kHeight - kBottom + 17, fmt::format("{:g}", x));
    }
    for (const double y : ticks_of(panel.y.low, panel.y.high, panel.y.scale)) {
      text += stroke(kLeft, panel.y(y), kWidth - kRight, panel.y(y), R"(class="grid")");
      text += fmt::format(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="end">{}</text>)", kLeft - 7,
                          panel.y(y) + 4, fmt::format("{:g}", y));
    }
    text += fmt::format(R"(<path d="M{0} {1}V{2}H{3}" fill="none" stroke="#222" stroke-width="1"/>)", kLeft,
                        kTop, kHeight - kBottom, kWidth - kRight);
    text += fmt::format(R"(<text x="{}" y="{}" text-anchor="middle" class="axis">{}</text>)",
                        (kLeft + kWidth - kRight) / 2, kHeight - 12, svg_of(drawing_.figure["xlabel"]));
    const double middle = (kTop + kHeight - kBottom) / 2;
    text += fmt::format(
        R"svg(<text x="0" y="0" transform="translate(16 {}) rotate(-90)" text-anchor="middle" class="axis">{}</text>)svg",
        middle, svg_of(panel.ylabel));
    if (!panel.title.empty())
      text += fmt::format(R"(<text x="{}" y="18" class="heading">{}</text>)", kLeft, svg_of(panel.title));
    return text;
  }

  std::string told(const std::string& name, const FigureRow& row) const {
    std::string text = fmt::format("{}: {} = {}: ", plain_of(name), x_name_, short_number(x_of(row)));
    text += std::isinf(row.median) ? "diverged" : short_number(row.median);
    if (std::isfinite(row.lo) && row.n > 1)
      text +=
          fmt::format(" [{}, {}]", short_number(row.lo), std::isinf(row.hi) ? "inf" : short_number(row.hi));
    if (row.p >= 0)
      text += fmt::format(", better in {} of {}, p = {:.2g} after Holm", row.wins, row.n, row.corrected);
    if (row.n > 0) text += fmt::format(", {} seed{}", row.n, row.n == 1 ? "" : "s");
    if (row.censored) text += ", at least: larger numbers were not tested";
    if (!row.selected.empty()) text += fmt::format(", {}", row.selected);
    return fmt::format("<title>{}</title>", html(text));
  }

  std::string line_text(const Panel& panel, const LineEntry& line, std::size_t number_of_line,
                        int& gone) const {
    const LabelStyle& style = styles_.at(line.label);
    const std::string name = legend_name(style.name, line.size, line.count);
    const auto rows = rows_of(panel, line.label, line.d_dot);
    if (rows.empty()) return "";
    const auto clamped = [&](double y) {
      return panel.y(std::clamp(y, panel.y.low, panel.y.scale == "linear" ? 2 * panel.y.high : panel.y.high));
    };
    std::string path, band, back, bands, bars, spots;
    const auto end_band = [&] {  // where a point has one seed
      if (!back.empty() && rows.size() > 1)
        bands += fmt::format(R"(<path d="{}{}Z" fill="{}" fill-opacity="0.18" stroke="none"/>)", band, back,
                             style.colour);
      band.clear(), back.clear();
    };
    bool pen = false;
    const std::size_t every = std::max<std::size_t>(1, (rows.size() + kMostTold - 1) / kMostTold);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const FigureRow& row = *rows[i];
      const double at = x_of(row) / panel.divisor, x = panel.x(at) + aside_of(number_of_line);
      if (std::isfinite(row.lo) && !std::isnan(row.hi) && row.hi > row.lo) {
        if (rows.size() > 1) {
          band += fmt::format("{}{:.1f} {:.1f}", band.empty() ? "M" : "L", x, clamped(row.hi));
          back = fmt::format("L{:.1f} {:.1f}", x, clamped(row.lo)) + back;
        } else {
          bars += stroke(x, clamped(row.lo), x, clamped(row.hi), fmt::format(R"(stroke="{}")", style.colour));
        }
      } else if (row.n == 1) {
        end_band();
      } else if (std::isfinite(row.median)) {
        band += fmt::format("{}{:.1f} {:.1f}", band.empty() ? "M" : "L", x, clamped(row.median));
        back = fmt::format("L{:.1f} {:.1f}", x, clamped(row.median)) + back;
      }
      if (std::isinf(row.median)) {
        spots +=
            fmt::format("<g>{}{}</g>", cross(x, kTop + 6 + 9 * (gone++ % 20), style.colour), told(name, row));
        pen = false;
        continue;
      }
      if (std::isnan(row.median)) {
        pen = false;
        continue;
      }
      path += fmt::format("{}{:.1f} {:.1f}", pen ? "L" : "M", x, clamped(row.median));
      pen = true;
      const bool shown = panel.x.holds(at) && (panel.y.scale != "linear" || panel.y.holds(row.median));
      if (shown && i % every == 0)
        spots +=
            fmt::format("<g class=\"spot\">{}{}</g>",
                        marker(style.marker, x, clamped(row.median), style.colour, row.p >= 0 && !row.told),
                        told(name, row));
    }
    std::string text =
        fmt::format("<g class=\"line\" data-line=\"{}\"><g clip-path=\"url(#{})\">", number_of_line, clip_);
    end_band();
    text += bands + bars;
    text += fmt::format(R"(<path d="{}" fill="none" stroke="{}" stroke-width="1.9"{}/></g>)", path,
                        style.colour, dash_of(line.dash));
    return text + spots + "</g>\n";
  }

  /// Markers that would cover each other stand side by side: how far each stands from its x, and the x that have several.
  struct Places {
    std::map<const FigureRow*, double> aside;
    std::set<double> shared;
  };

  Places beside(const Panel& panel) const {
    constexpr double kBeside = 10;
    std::vector<std::pair<double, const FigureRow*>> at;
    for (const LineEntry& line : drawing_.lines)
      for (const FigureRow* row : rows_of(panel, line.label, line.d_dot))
        if (const double x = panel.x(x_of(*row)); std::isfinite(x) && !std::isnan(row->median))
          at.emplace_back(x, row);
    std::ranges::stable_sort(at, [](const auto& one, const auto& other) { return one.first < other.first; });
    Places places;
    for (std::size_t begin = 0, end; begin < at.size(); begin = end) {
      for (end = begin + 1; end < at.size() && at[end].first - at[begin].first < kBeside;) ++end;
      const auto several = static_cast<double>(end - begin);
      for (std::size_t i = begin; i < end; ++i) {
        places.aside[at[i].second] =
            (static_cast<double>(i - begin) - (several - 1) / 2) * std::min(kBeside, 120 / several);
        if (several > 1) places.shared.insert(at[i].first);
      }
    }
    return places;
  }

  std::string point_text(const Panel& panel, const LineEntry& line, std::size_t number_of_line,
                         const Places& places) const {
    const LabelStyle& style = styles_.at(line.label);
    const std::string name = legend_name(style.name, line.size, line.count);
    std::string text = fmt::format("<g class=\"line\" data-line=\"{}\">", number_of_line);
    for (const FigureRow* row : rows_of(panel, line.label, line.d_dot)) {
      const auto aside = places.aside.find(row);
      const double x = panel.x(x_of(*row)) + (aside == places.aside.end() ? 0 : aside->second),
                   low = panel.y.low, high = panel.y.high;
      if (row->hi > std::max(row->lo, low))
        text += stroke(x, panel.y(std::max(row->lo, low)), x, panel.y(std::min(row->hi, high)),
                       fmt::format(R"(stroke="{}" stroke-width="1.3")", style.colour));
      if (row->median <= 0) {
        text += fmt::format("<g>{}{}</g>", cross(x, panel.y(low), style.colour), told(name, *row));
      } else if (!std::isnan(row->median)) {
        const double y = panel.y(row->median);
        text += fmt::format("<g class=\"spot\">{}{}", marker(style.marker, x, y, style.colour, row->censored),
                            told(name, *row));
        if (row->censored)
          text += fmt::format(R"(<path d="M{:.1f} {:.1f}v-14m-3 4l3 -4l3 4" fill="none" stroke="{}"/>)", x,
                              y - 5, style.colour);
        text += "</g>";
      }
    }
    return text + "</g>\n";
  }

  std::string overlay_text(const Panel& panel, const Overlay& overlay) const {
    const std::string kind = overlay.label.substr(0, overlay.label.find(':'));
    const std::string colour =
        points_ || overlay.colour.empty() || overlay.colour[0] != '#' ? kGrey : overlay.colour;
    std::string path, spots;
    for (const FigureRow* row : rows_of(panel, overlay.label, overlay.d_dot)) {
      if (!std::isfinite(row->median)) continue;
      const double x = panel.x(x_of(*row) / panel.divisor),
                   y = panel.y(std::clamp(row->median, panel.y.low, 2 * panel.y.high));
      if (kind == "published")
        spots += panel.x.holds(x_of(*row))
                     ? fmt::format("<g>{}{}</g>", marker("o", x, y, colour, true), told(overlay.label, *row))
                     : "";
      else
        path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", x, y);
    }
    if (path.empty()) return spots;
    return fmt::format(
               R"svg(<path d="{}" clip-path="url(#{})" fill="none" stroke="{}" stroke-width="1.2"{}/>)svg",
               path, clip_, colour, kind == "prefix-exact" ? "" : " stroke-dasharray=\"5 3\"") +
           spots;
  }

  /// Lines over the whole panel: what is solved, lengths of training, the fit.
  std::string guides(const Panel& panel) const {
    std::string text;
    const std::string dotted = fmt::format(R"(stroke="{}" stroke-dasharray="2 3")", kGrey);
    if (const auto solved = drawing_.figure.value("solved", nlohmann::ordered_json());
        solved.is_number() && panel.y.holds(solved.get<double>()))
      text += stroke(kLeft, panel.y(solved), kWidth - kRight, panel.y(solved), dotted);
    nlohmann::ordered_json vertical = drawing_.figure.value("vertical", nlohmann::ordered_json::array());
    if (vertical.is_object()) vertical = vertical.value(panel.facet, nlohmann::ordered_json::array());
    for (const auto& place : vertical) {
      const double x = place.is_array() ? place[0].get<double>() : place.get<double>();
      if (panel.x.holds(x)) text += stroke(panel.x(x), kTop, panel.x(x), kHeight - kBottom, dotted);
    }
    if (drawing_.figure.value("ticks_at_d_dot", false))
      for (const LineEntry& line : drawing_.lines)
        for (const FigureRow* row : rows_of(panel, line.label, line.d_dot))
          if (row->d_dot > 0 && panel.x.holds(static_cast<double>(row->d_dot))) {
            text += marker("^", panel.x(static_cast<double>(row->d_dot)), kHeight - kBottom,
                           styles_.at(line.label).colour);
            break;
          }
    if (!points_ || drawing_.figure.value("fit", std::string()).empty()) return text;
    std::optional<double> slope, intercept;
    for (const FigureRow& row : drawing_.rows) {
      if (!panel.facet.empty() && row.facet != panel.facet) continue;
      if (row.label == "fit: slope") slope = row.median;
      if (row.label == "fit: intercept") intercept = row.median;
    }
    if (!slope || !intercept) return text;
    std::string path;
    for (int i = 0; i <= 100; ++i) {
      const double x = panel.x.low * std::pow(panel.x.high / panel.x.low, i / 100.0),
                   y = *slope * x + *intercept;
      if (panel.y.holds(y))
        path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", panel.x(x), panel.y(y));
    }
    return text + fmt::format(R"(<path d="{}" fill="none" stroke="#000"/>)", path);
  }

  std::string panel_text(const Panel& panel) {
    const std::string name = plain_of(
        fmt::format("{}{}{} against {}; the numbers stand in the table of this figure", panel.title,
                    panel.title.empty() ? "" : ": ", panel.ylabel, std::string(drawing_.figure["xlabel"])));
    clip_ = fmt::format("{}-{}", id_, ++drawn_);
    std::string text = fmt::format("<svg viewBox=\"0 {0} {1} {2}\" role=\"img\" aria-label=\"{3}\">",
                                   panel.title.empty() ? kTop - 8 : 0, kWidth,
                                   kHeight - (panel.title.empty() ? kTop - 8 : 0), html(name));
    text += fmt::format(R"(<clipPath id="{}"><rect x="{}" y="{}" width="{}" height="{}"/></clipPath>)", clip_,
                        kLeft, kTop, kWidth - kLeft - kRight, kHeight - kTop - kBottom);
    text += frame(panel) + guides(panel);
    for (auto overlay = drawing_.overlays.rbegin(); overlay != drawing_.overlays.rend(); ++overlay)
      text += overlay_text(panel, *overlay);
    int gone = 0;
    const Places places = points_ ? beside(panel) : Places{};
    for (const double x : places.shared)
      text += stroke(x, kTop, x, kHeight - kBottom, R"(stroke="#aaa" stroke-dasharray="1 2")");
    shared_ = shared_ || !places.shared.empty();
    for (std::size_t i = 0; i < drawing_.lines.size(); ++i)
      text += points_ ? point_text(panel, drawing_.lines[i], i, places)
                      : line_text(panel, drawing_.lines[i], i, gone);
    return text + "</svg>\n";
  }

  static std::string entry(const std::string& swatch, const std::string& name,
                           const std::string& attributes = "") {
    return fmt::format(
        "<li{}><svg viewBox=\"0 0 34 14\" width=\"34\" height=\"14\" aria-hidden=\"true\">{}</svg> {}</li>\n",
        attributes, swatch, html_of(name));
  }

  std::string legend() const {
    std::string text = "<ul class=\"legend\">\n";
    for (std::size_t i = 0; i < drawing_.lines.size(); ++i) {
      const LineEntry& line = drawing_.lines[i];
      const LabelStyle& style = styles_.at(line.label);
      const std::string rule =
          points_
              ? ""
              : stroke(1, 7, 33, 7,
                       fmt::format(R"(stroke="{}" stroke-width="1.9"{})", style.colour, dash_of(line.dash)));
      text += entry(rule + marker(style.marker, 17, 7, style.colour),
                    legend_name(style.name, line.size, line.count), fmt::format(" data-line=\"{}\"", i));
    }
    const std::string dashes =
        stroke(1, 7, 33, 7, fmt::format(R"(stroke="{}" stroke-dasharray="5 3")", kGrey));
    const std::string dots = stroke(1, 7, 33, 7, fmt::format(R"(stroke="{}" stroke-dasharray="2 3")", kGrey));
    if (points_)
      for (const Overlay& overlay : drawing_.overlays) text += entry(dashes, overlay.colour);
    for (const auto& [kind, name] : drawing_.overlay_names) {
      std::string colour = kGrey;  // or that of the one line that it is
      for (const Overlay& overlay : drawing_.overlays)
        if (overlay.label == kind && overlay.colour.starts_with('#')) colour = overlay.colour;
      text += entry(kind.starts_with("published") ? marker("o", 17, 7, colour, true) : dashes, name);
    }
    const auto& figure = drawing_.figure;
    if (figure.value("solved", nlohmann::ordered_json()).is_number())
      text += entry(dots, fmt::format("Solved: at most {}", short_number(figure["solved"])));
    if (const std::string name = figure.value("vertical_name", std::string()); !name.empty())
      text += entry(dots, name);
    std::vector<std::string> limits;  // names of vertical lines
    const auto vertical = figure.value("vertical", nlohmann::ordered_json());
    for (const auto& [panel, places] : vertical.items())
      for (const auto& place : places.is_array() ? places : nlohmann::ordered_json::array())
        if (place.is_array()) {
          const auto name = place[1].get<std::string>();
          if (std::ranges::find(limits, name) == limits.end()) limits.push_back(name);
        }
    if (!limits.empty()) text += entry(dots, fmt::format("From the left: {}", fmt::join(limits, ", ")));
    if (figure.value("ticks_at_d_dot", false))
      text += entry(marker("^", 17, 8, kGrey), "$d_{dot}$ of the memories");
    if (points_) {
      if (const std::string fit = figure.value("fit", std::string()); !fit.empty())
        text += entry(stroke(1, 7, 33, 7, R"(stroke="#000")"), fit);
      const auto any = [&](auto test) {
        return std::ranges::any_of(drawing_.rows, [&](const FigureRow& row) {
          return test(row) && std::ranges::any_of(drawing_.lines, [&](const LineEntry& line) {
                   return line.label == row.label;
                 });
        });
      };
      if (any([](const FigureRow& row) { return row.censored; }))
        text += entry(marker("o", 17, 7, kGrey, true), "At least (largest number tested)");
      if (any([](const FigureRow& row) { return row.n > 0 && row.median <= 0; }))
        text += entry(cross(17, 7, kGrey), "Below the smallest number tested");
      if (shared_)
        text += entry(stroke(17, 0, 17, 14, R"(stroke="#aaa" stroke-dasharray="1 2")"),
                      "True x of the markers beside it");
    } else if (std::ranges::any_of(drawing_.rows,
                                   [](const FigureRow& row) { return std::isinf(row.median); })) {
      text += entry(cross(17, 7, kGrey), "Diverged");
    }
    return text + "</ul>\n";
  }

  const Drawing& drawing_;
  const std::map<std::string, LabelStyle>& styles_;
  std::string id_, clip_;  ///< of the figure, of what the panel's lines may cover
  std::string x_name_;
  int drawn_ = 0;
  bool shared_ = false;          ///< some panel has markers beside their x
  bool points_, alone_ = false;  ///< the template of points; all lines have one x
};

}  // namespace

std::vector<double> ticks_of(double low, double high, const std::string& scale) {
  std::vector<double> ticks;
  if (!(high > low)) return ticks;
  if (scale == "linear") {
    const double step = (high - low) / 5, decade = std::pow(10, std::floor(std::log10(step)));
    double by = 10 * decade;
    for (const double factor : {5.0, 2.5, 2.0, 1.0})
      if (factor * decade >= step) by = factor * decade;
    for (double i = std::ceil(low / by - 1e-9); i * by <= high + 1e-9 * by; ++i)
      ticks.push_back(i * by + 0.0);
    return ticks;
  }
  const double base = scale == "log2" ? 2 : 10;
  const int first = static_cast<int>(std::floor(std::log(low) / std::log(base) - 1e-9)),
            last = static_cast<int>(std::ceil(std::log(high) / std::log(base) + 1e-9));
  const int apart = std::max(1, (last - first + 7) / 8);
  for (int i = first; i <= last; ++i) {
    if (i % apart != 0) continue;
    const std::vector<double> within =
        base == 10 && last - first <= 3 ? std::vector<double>{1, 2, 5} : std::vector<double>{1};
    for (const double factor : within)
      if (const double tick = factor * std::pow(base, i);
          tick >= low * (1 - 1e-9) && tick <= high * (1 + 1e-9))
        ticks.push_back(tick);
  }
  return ticks;
}

std::string svg_figure(const Drawing& drawing, const std::map<std::string, LabelStyle>& styles,
                       const std::string& id) {
  return Picture(drawing, styles, id).text();
}

}  // namespace crosstalk
