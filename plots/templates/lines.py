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
from matplotlib.lines import Line2D

# --- style
WIDTH = 5.5  # inches, the final size in the paper; 3.25 for one column of two
AXES_HEIGHT = 2.3  # inches, without labels and legend
STYLE = {
    "font.family": "DejaVu Sans", "mathtext.fontset": "dejavusans",  # for Times: "STIXGeneral" and "stix"
    "font.size": 8, "axes.labelsize": 8, "axes.titlesize": 9, "legend.fontsize": 7.5,
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
    "ticks_at_d_dot": True, "vertical": [], "vertical_name": "",
    "footnote": "Line: median over 5 seeds; band: interquartile range.",
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


def read_csv():
    """(label, d_dot) -> columns x, median, lo, hi; NaN where the CSV has no number."""
    series = {}
    with open(BASE.with_suffix(".csv"), newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            point = [float(row[name] or "nan") for name in (FIGURE["x"], "median", "lo", "hi")]
            if FIGURE["yscale"] == "log":  # an exact zero stands on the axis
                point[1:] = [max(y, FIGURE["ylim"][0]) if y == y else y for y in point[1:]]
            series.setdefault((row["label"], int(row["d_dot"] or 0)), []).append(point)
    return {key: list(zip(*points)) for key, points in series.items()}


def draw(ax, series):
    handles = []
    for rank, (key, (name, colour, marker, dash)) in enumerate(LINES.items()):
        x, median, lo, hi = series[key]
        every = max(1, math.ceil(len(x) / 16))  # markers, not one a point
        ax.fill_between(x, lo, hi, color=colour, alpha=0.2, linewidth=0, zorder=2)
        ax.plot(x, median, dash, color=colour, marker=marker, markevery=(rank % every, every),
                markeredgecolor="white", markeredgewidth=0.4, zorder=4 - 0.01 * rank)
        handles.append(Line2D([], [], color=colour, marker=marker, linestyle=dash, label=name,
                              markeredgecolor="white", markeredgewidth=0.4))
        if FIGURE["ticks_at_d_dot"] and key[1] > 0:
            ax.plot([key[1]], [0], "^", color=colour, markersize=5, markeredgewidth=0, clip_on=False,
                    transform=ax.get_xaxis_transform(), zorder=7 - 0.01 * rank)
    looks = {"theory": dict(linestyle=(0, (4, 2)), linewidth=0.8),
             "prefix-exact": dict(linestyle="-", linewidth=0.6, zorder=3),
             "published": dict(linestyle="none", marker="o", markersize=4.5, markerfacecolor="none",
                               markeredgewidth=0.9, zorder=5)}
    for key, colour in reversed(OVERLAYS.items()):  # the first on top
        kind = key[0].split(":")[0]
        ax.plot(*series[key][:2], color=colour, **{"zorder": 3 if key[1] else 5, **looks[kind]})
    for kind, name in OVERLAY_NAMES.items():
        handles.append(Line2D([], [], color=GREY, label=name, **looks[kind]))
    for x in FIGURE["vertical"]:
        ax.axvline(x, color=GREY, linewidth=0.6, linestyle=":", zorder=1)
    if FIGURE["vertical"]:
        ax.annotate(FIGURE["vertical_name"], (FIGURE["vertical"][0], 1), (2, -1), color=GREY, fontsize=7,
                    xycoords=ax.get_xaxis_transform(), textcoords="offset points", va="bottom")
    if FIGURE["ticks_at_d_dot"]:
        handles.append(Line2D([], [], color=GREY, marker="^", linestyle="none", markersize=5,
                              markeredgewidth=0, label="$d_{\\mathrm{dot}}$ of each memory"))
    return handles


# --- page
def main():
    plt.rcParams.update(STYLE)
    fig, ax = plt.subplots(figsize=(WIDTH, AXES_HEIGHT))
    for axis, scale in ((ax.xaxis, FIGURE["xscale"]), (ax.yaxis, FIGURE["yscale"])):
        options = {"base": 2} if scale == "log2" else {}
        (ax.set_xscale if axis is ax.xaxis else ax.set_yscale)(scale[:3] if options else scale, **options)
        if options:
            axis.set_major_formatter("{x:g}")
    handles = draw(ax, read_csv())
    ax.set(xlabel=FIGURE["xlabel"], ylabel=FIGURE["ylabel"], xlim=FIGURE["xlim"], ylim=FIGURE["ylim"])
    ax.set_title(FIGURE["title"], loc="left", pad=6 if not FIGURE.get("vertical") else 14)
    ax.grid(color="#E6E6E6", linewidth=0.5)
    for columns in (4, 3, 2, 1):  # as many as fit
        legend = fig.legend(handles=handles, loc="lower center", ncol=columns, frameon=False,
                            borderaxespad=0, columnspacing=1.4, handlelength=2.3, handletextpad=0.6)
        extent = legend.get_window_extent(fig.canvas.get_renderer())
        if columns == 1 or extent.width < 0.98 * fig.bbox.width:
            break
        legend.remove()
    note = "\n".join(textwrap.fill(line, int(WIDTH * 20)) for line in FIGURE["footnote"].split("\n"))
    legend_height = extent.height / fig.dpi
    note_height = 0.12 * (note.count("\n") + 1) + 0.05 if note else 0.03
    bottom, top = 0.4 + legend_height + note_height, 0.12 + (0.2 if FIGURE["title"] else 0)
    if FIGURE["title"] and FIGURE.get("vertical"):
        top += 0.11  # the words on the vertical line stand below the title
    height = bottom + AXES_HEIGHT + top
    fig.set_size_inches(WIDTH, height)
    fig.subplots_adjust(left=0.55 / WIDTH, right=1 - 0.18 / WIDTH, bottom=bottom / height, top=1 - top / height)
    legend.set_bbox_to_anchor((0.5, note_height / height), transform=fig.transFigure)
    fig.text(0.5, 0.035 / height, note, ha="center", va="bottom", fontsize=6.5, color=GREY, linespacing=1.1)
    for kind, options in (("pdf", {"metadata": {"CreationDate": None}}), ("png", {})):
        temporary = BASE.with_suffix(f".{kind}.{os.getpid()}.tmp")
        try:
            fig.savefig(temporary, format=kind, **options)
            os.replace(temporary, BASE.with_suffix("." + kind))
        finally:
            temporary.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
