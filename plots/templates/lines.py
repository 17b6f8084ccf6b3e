"""Draws this figure from the CSV beside it and writes a PDF and a PNG beside it: python3 lines.py

Stand-alone (matplotlib and the standard library) and yours to edit: every number is in the CSV.
"""
# SPDX-License-Identifier: Apache-2.0
import os
import sys

# This folder holds figures, not modules: one named csv.py or matplotlib.py must not be imported.
sys.path[:] = [path for path in sys.path if os.path.realpath(path) != os.path.dirname(os.path.realpath(__file__))]

import csv
import math
import pathlib
import textwrap

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib import ticker
from matplotlib.lines import Line2D
from matplotlib.transforms import ScaledTranslation

# --- style
WIDTH = 5.5  # inches, the final size in the paper; 3.25 for one column of two
AXES_HEIGHT = 2.3 if WIDTH > 4 else 1.9  # inches, without labels and legend
STYLE = {
    "font.family": "DejaVu Sans", "mathtext.fontset": "dejavusans",  # for Times: "STIXGeneral" and "stix"
    "font.size": 8, "axes.labelsize": 8, "axes.titlesize": 8.5, "legend.fontsize": 7.5 if WIDTH > 4 else 7,
    "xtick.labelsize": 7.5, "ytick.labelsize": 7.5,
    "axes.linewidth": 0.6, "xtick.major.width": 0.6, "ytick.major.width": 0.6, "axes.axisbelow": True,
    "xtick.minor.width": 0.4, "ytick.minor.width": 0.4, "xtick.minor.size": 1.5, "ytick.minor.size": 1.5,
    "axes.spines.top": False, "axes.spines.right": False, "axes.unicode_minus": False,
    "lines.linewidth": 1.3, "lines.markersize": 3.6, "pdf.fonttype": 42, "figure.dpi": 300,
}
GREY = "#555555"

# --- settings
FIGURE = {
    "title": "", "x": "associations", "xlabel": "Associations", "ylabel": "Loss",
    "xscale": "linear", "yscale": "linear", "xlim": [0.0, 100.0], "ylim": [0.0, 0.5],
    "ticks_at_d_dot": True, "vertical": [], "vertical_name": "", "solved": None,
    "footnote": "Line: median over 5 seeds; band: range.",
}
LINES = {  # (label, d_dot) in the CSV: legend, colour, marker, dash
    ("linear", 16): ("Linear ($d_{\\mathrm{dot}}$ = 16)", "#0072B2", "s", "-"),
}
OVERLAYS = {  # (label, d_dot) in the CSV: colour
    ("theory: rank bound, linear", 16): "#0072B2",
}
OVERLAY_NAMES = {"theory": "Theory: rank bound"}  # what stands before ':' in a label: legend
# --- end of settings

BASE = pathlib.Path(__file__).resolve()
MANY = 8  # so many lines are dashed in turn, and named at their ends
DASHES = ["-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (5, 1.5, 1.2, 1.5))]


def read_csv():
    """panel -> (label, d_dot) -> columns x, median, lo, hi; NaN where the CSV has no number."""
    panels = {}
    with open(BASE.with_suffix(".csv"), newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            point = [float(row[name] or "nan") for name in (FIGURE["x"], "median", "lo", "hi")]
            low, high = FIGURE["ylim"]
            if FIGURE["yscale"] == "log":  # what is solved stands on the axis
                point[1:] = [max(y, low) if y == y else y for y in point[1:]]
            point[2:] = [min(y, 2 * high) if y == y else y for y in point[2:]]
            key = (row["label"], int(row["d_dot"] or 0))
            panels.setdefault(row.get(FIGURE.get("facet"), ""), {}).setdefault(key, []).append(point)
    return {panel: {key: list(zip(*points)) for key, points in series.items()} for panel, series in panels.items()}


def draw(ax, series):
    handles, diverged = [], False
    many = len(LINES) >= MANY
    alone = len({x for key in LINES if key in series for x in series[key][0]}) == 1  # one place: side by side
    for rank, (key, (name, colour, marker, dash)) in enumerate(LINES.items()):
        # Lines that coincide lie in each other: the later, the narrower and the higher.
        look = dict(color=colour, marker=marker, linestyle=DASHES[rank % len(DASHES)] if many else dash,
                    linewidth=1.2 if many else 1.0 + 0.35 * min(len(LINES) - 1 - rank, 4),
                    markeredgecolor="white", markeredgewidth=0.4)
        handles.append(Line2D([], [], label=name, **look))
        if key not in series:
            continue
        x, median, lo, hi = series[key]
        shown = [y if math.isfinite(y) else math.nan for y in median]
        every = max(1, math.ceil(len(x) / 16))  # markers, not one a point
        aside = ScaledTranslation((rank - (len(LINES) - 1) / 2) * 7 / 72 if alone else 0, 0, ax.figure.dpi_scale_trans)
        ax.fill_between(x, lo, hi, color=colour, alpha=0.18, linewidth=0, zorder=2)
        for i, place in enumerate(x):  # a band has no width where there is no neighbour
            if hi[i] > lo[i] and not any(hi[j] == hi[j] for j in (i - 1, i + 1) if 0 <= j < len(x)):
                ax.plot([place] * 2, [lo[i], hi[i]], "_-", color=colour, linewidth=0.9, markersize=4, zorder=3,
                        transform=ax.transData + aside)
        ax.plot(x, shown, markevery=(rank % every, every), zorder=4 + 0.01 * rank, clip_on=FIGURE["yscale"] != "log",
                transform=ax.transData + aside, **look)
        gone = [place for place, y in zip(x, median) if math.isinf(y)]
        if gone:  # half or more of the runs diverged
            diverged = True
            ax.plot(gone, [1 - 0.03 * (rank % 3)] * len(gone), "x", color=colour, markersize=4, clip_on=False,
                    transform=ax.get_xaxis_transform(), zorder=6)
        if FIGURE["ticks_at_d_dot"] and 0 < key[1] <= FIGURE["xlim"][1]:
            ax.plot([key[1]], [0], "^", color=colour, markersize=5, markeredgewidth=0, clip_on=False,
                    transform=ax.get_xaxis_transform(), zorder=7 - 0.01 * rank)
    looks = {"theory": dict(linestyle="-" if many else (0, (4, 2)), linewidth=0.6 if many else 0.8),
             "prefix-exact": dict(linestyle="-", linewidth=0.6, zorder=3),
             "published": dict(linestyle="none", marker="o", markersize=4.5, markerfacecolor="none",
                               markeredgewidth=0.9, zorder=5)}
    for key, colour in reversed(OVERLAYS.items()):  # the first on top
        kind = key[0].split(":")[0]
        if key in series:
            ax.plot(*series[key][:2], color=colour, **{"zorder": 3 if key[1] else 5, **looks[kind]})
    for kind, name in OVERLAY_NAMES.items():
        own = [colour for key, colour in OVERLAYS.items() if key[0] == kind]  # of one label
        handles.append(Line2D([], [], color=own[0] if own else GREY, label=name, **looks[kind.split(":")[0]]))
    if FIGURE["solved"]:
        ax.axhline(FIGURE["solved"], color=GREY, linewidth=0.6, linestyle=":", zorder=1.5)
        handles.append(Line2D([], [], color=GREY, linewidth=0.6, linestyle=":", label="Solved"))
    for x in FIGURE["vertical"]:
        ax.axvline(x, color=GREY, linewidth=0.6, linestyle=":", zorder=1)
    if FIGURE["vertical"]:
        right = FIGURE["vertical"][0] > 0.6 * FIGURE["xlim"][1]  # no room for words to the right of the line
        ax.annotate(FIGURE["vertical_name"], (FIGURE["vertical"][0], 1), (-2 if right else 2, -1), color=GREY,
                    fontsize=7, xycoords=ax.get_xaxis_transform(), textcoords="offset points", va="bottom",
                    ha="right" if right else "left")
    if FIGURE["ticks_at_d_dot"]:
        handles.append(Line2D([], [], color=GREY, marker="^", linestyle="none", markersize=5,
                              markeredgewidth=0, label="$d_{\\mathrm{dot}}$ of each memory"))
    if diverged:
        handles.append(Line2D([], [], color=GREY, marker="x", linestyle="none", markersize=4, label="Diverged"))
    return handles


def direct_labels(ax, series):
    """[(end of the line, colour, name)] of lines that reach the right, where lines are many; the others, and
    all where they are few, are named by the legend."""
    labels = []
    for key, (name, colour, _, _) in LINES.items() if len(LINES) >= MANY else []:
        points = [(x, y) for x, y in zip(*series.get(key, [[], []])[:2]) if math.isfinite(y)]
        if points and points[-1][0] > 0.85 * FIGURE["xlim"][1]:
            labels.append((points[-1], colour, name))
    return labels


# --- page
def wrapped(text, inches, size):
    """`text` in lines that fit, for a font of so many points; formulas count as their letters and stay whole."""
    room = int(inches * 72 / (0.56 * size))
    parts = text.split("$")
    parts[1::2] = [formula.replace(" ", "\0") for formula in parts[1::2]]
    lines = [textwrap.fill(line, max(room, 20)) for line in "$".join(parts).split("\n")]
    return "\n".join(lines).replace("\0", " ")


def set_ticks(axis, scale, limits, places):
    """Labels that say where one is: at `places`, and on a logarithmic axis of few decades also between these."""
    low, high = limits
    upright = axis.axis_name == "y"  # where labels must be short
    if places:
        axis.set_major_locator(ticker.FixedLocator(places))
        axis.set_minor_locator(ticker.NullLocator())
    if scale != "log" or low <= 0 or (not places and high > (30 if upright else 1000) * low):
        return
    if not places:
        axis.set_major_locator(ticker.MaxNLocator(5) if high < 3 * low else
                               ticker.LogLocator(subs=(1, 2, 5) if high < 30 * low else (1, 3), numticks=12))
    axis.set_minor_formatter(ticker.NullFormatter())
    within = min(places or [low]) >= 6e-4 and max(places or [high]) < 2e4
    axis.set_major_formatter(plain if within else short if upright else scientific)


def plain(x, _):
    return f"{x:g}"


def short(x, _):
    digits, power = f"{x:.2e}".split("e")
    return f"{float(digits):g}e{int(power)}"


def scientific(x, _):
    digits, power = f"{x:.2e}".split("e")
    digits = f"{float(digits):g}"
    return f"$10^{{{int(power)}}}$" if digits == "1" else f"${digits}{{\\cdot}}10^{{{int(power)}}}$"


def power_of_two(x, _):
    if x >= 1 << 20:
        return f"{x / (1 << 20):g} Mi"
    return f"{x / 1024:g} Ki" if x >= 10_000 else f"{x:g}"


def set_scales(ax):
    for axis, scale, side in ((ax.xaxis, FIGURE["xscale"], "x"), (ax.yaxis, FIGURE["yscale"], "y")):
        options = {"base": 2} if scale == "log2" else {}
        (ax.set_xscale if axis is ax.xaxis else ax.set_yscale)(scale[:3] if options else scale, **options)
        if options:
            axis.set_major_formatter(power_of_two)
        set_ticks(axis, scale, FIGURE[side + "lim"], FIGURE.get(side + "ticks"))


def main():
    plt.rcParams.update(STYLE)
    panels = FIGURE.get("panels") or [["", ""]]
    columns = min(len(panels), 2 if WIDTH < 4 else 3 if len(panels) != 4 else 2)
    rows = -(-len(panels) // columns)
    fig, grid = plt.subplots(rows, columns, squeeze=False, sharex=True, sharey=True, figsize=(WIDTH, 3))
    data, handles, right = read_csv(), [], 0.18
    for ax, (panel, name) in zip(grid.flat, panels):
        set_scales(ax)
        ax.set(xlim=FIGURE["xlim"], ylim=FIGURE["ylim"])
        ax.grid(color="#E6E6E6", linewidth=0.5)
        for handle in draw(ax, data.get(panel, {})):
            if handle.get_label() not in [known.get_label() for known in handles]:
                handles.append(handle)
        if len(panels) > 1:
            ax.set_title(name, loc="left", fontsize=STYLE["font.size"], pad=3)
    for ax in grid.flat[len(panels):]:
        ax.set_visible(False)
        grid.flat[list(grid.flat).index(ax) - columns].tick_params(labelbottom=True)
    direct = direct_labels(grid[0, 0], data.get("", {})) if len(panels) == 1 else []
    if direct:  # names at the ends of the lines, and a margin for them
        handles = [handle for handle in handles if handle.get_label() not in [text for _, _, text in direct]]
    # Sizes in inches, from the bottom: footnote, legend, axis title, panels, title.
    note = wrapped(FIGURE["footnote"], WIDTH - 0.1, 6.5) if FIGURE["footnote"] else ""
    note_height = 0.125 * (note.count("\n") + 1) + 0.05 if note else 0.03
    legend, legend_height = None, 0
    for across in (4, 3, 2, 1, 0):  # as many as fit; 0: one, and long names in several lines
        if not handles:
            break
        for handle in handles if across == 0 else []:
            handle.set_label(wrapped(handle.get_label(), WIDTH - 0.7, plt.rcParams["legend.fontsize"]))
        legend = fig.legend(handles=handles, loc="lower center", ncol=max(across, 1), frameon=False, borderaxespad=0,
                            columnspacing=1.2, handlelength=2.1, handletextpad=0.5, labelspacing=0.35)
        extent = legend.get_window_extent(fig.canvas.get_renderer())
        legend_height = extent.height / fig.dpi
        if across == 0 or extent.width < 0.98 * fig.bbox.width:
            break
        legend.remove()
    title = wrapped(FIGURE["title"], WIDTH - 0.6, STYLE["axes.titlesize"]) if FIGURE["title"] else ""
    over = 0.14 if FIGURE.get("vertical") else 0.04  # words on a vertical line, or the top tick
    over += 0.16 if len(panels) > 1 else 0
    top = 0.06 + over + (0.15 * (title.count("\n") + 1) if title else 0)
    bottom = 0.42 + legend_height + note_height
    height_of_one = AXES_HEIGHT if rows == 1 else 0.7 * AXES_HEIGHT
    between = 0.22 if len(panels) > 1 else 0
    height = bottom + rows * height_of_one + (rows - 1) * between + top
    left = 0.58
    if direct:
        sizes = [len(text.replace("\\mathrm", "").replace("$", "")) for _, _, text in direct]
        right = min(0.30 + 0.058 * max(sizes), 0.42 * WIDTH)
    fig.set_size_inches(WIDTH, height)
    fig.subplots_adjust(left=left / WIDTH, right=1 - right / WIDTH, bottom=bottom / height, top=1 - top / height,
                        hspace=between / height_of_one, wspace=0.12)
    middle = (left + WIDTH - right) / 2 / WIDTH
    fig.text(middle, (bottom - 0.40) / height, FIGURE["xlabel"], ha="center", va="bottom")
    fig.text(0.04 / WIDTH, (bottom + height - top) / 2 / height, FIGURE["ylabel"], rotation=90, ha="left", va="center")
    if title:
        fig.text(left / WIDTH, 1 - 0.04 / height, title, ha="left", va="top", fontsize=STYLE["axes.titlesize"],
                 linespacing=1.1)
    if legend:
        legend.set_bbox_to_anchor((0.5, note_height / height), transform=fig.transFigure)
    if direct:
        write_labels(grid[0, 0], direct, height_of_one)
    if note:
        fig.text(0.5, 0.035 / height, note, ha="center", va="bottom", fontsize=6.5, color=GREY, linespacing=1.1)
    for kind, options in (("pdf", {"metadata": {"CreationDate": None}}), ("png", {})):
        temporary = BASE.with_suffix(f".{kind}.{os.getpid()}.tmp")
        try:
            fig.savefig(temporary, format=kind, **options)
            os.replace(temporary, BASE.with_suffix("." + kind))
        finally:
            temporary.unlink(missing_ok=True)


def write_labels(ax, labels, inches):
    """Names at the right of the axes, pushed apart, each with a thin line to the end of its line."""
    to_axes = lambda x, y: ax.transAxes.inverted().transform(ax.transData.transform((x, y)))
    ends = sorted(([*to_axes(x, y), colour, text] for (x, y), colour, text in labels), key=lambda end: -end[1])
    step = 0.118 / inches
    places = [min(max(end[1], 0), 1) for end in ends]
    for _ in range(200):
        for i in range(1, len(places)):
            if places[i - 1] - places[i] < step:
                push = (step - places[i - 1] + places[i]) / 2
                places[i - 1], places[i] = places[i - 1] + push, places[i] - push
    shift = max(0, (len(places) and -min(places) - 0.12) or 0)
    for (x, y, colour, text), place in zip(ends, places):
        ax.annotate(text, (x, min(max(y, 0), 1)), (1.05, place + shift), xycoords="axes fraction", va="center",
                    textcoords="axes fraction", fontsize=7, color=colour, annotation_clip=False,
                    arrowprops=dict(arrowstyle="-", color=colour, linewidth=0.5, shrinkA=1, shrinkB=1,
                                    relpos=(0, 0.5)))


if __name__ == "__main__":
    main()
