"""Draws this figure from the CSV beside it and writes a PDF and a PNG beside it: python3 points.py

Stand-alone (matplotlib and the standard library) and yours to edit: every number is in the CSV.
"""
# SPDX-License-Identifier: Apache-2.0
import os
import sys

# This folder holds figures, not modules: one named csv.py or matplotlib.py must not be imported.
sys.path[:] = [path for path in sys.path if os.path.realpath(path) != os.path.dirname(os.path.realpath(__file__))]

import csv
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
    "title": "", "x": "d_dot", "xlabel": "$d_{\\mathrm{dot}}$", "ylabel": "Capacity (associations)",
    "xscale": "log2", "yscale": "log2", "xlim": [6.0, 600.0], "ylim": [6.0, 600.0],
    "fit": "Fit: slope 1.00 [0.90, 1.10]",
    "footnote": "Bars: 95 % bootstrap interval over seeds.",
}
LINES = {  # label in the CSV: legend, colour, marker
    "linear": ("Linear", "#0072B2", "s"),
}
OVERLAYS = {  # label in the CSV: legend
    "theory: capacity = d_dot": "Theory: capacity = $d_{\\mathrm{dot}}$",
}
DODGE = 0.05  # shifts labels apart where they share an x, as a factor
# --- end of settings

BASE = pathlib.Path(__file__).resolve()


def read_csv():
    """label -> rows x, capacity, lo, hi, censored; NaN where the CSV has no number."""
    points = {}
    with open(BASE.with_suffix(".csv"), newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            numbers = [float(row[name] or "nan") for name in (FIGURE["x"], "median", "lo", "hi", "censored")]
            points.setdefault(row["label"], []).append(numbers)
    return points


def draw(ax, points):
    handles, floor = [], FIGURE["ylim"][0]
    seen_censored = seen_zero = False
    for rank, (label, (name, colour, marker)) in enumerate(LINES.items()):
        handles.append(Line2D([], [], color=colour, marker=marker, linestyle="none", label=name))
        for x, y, lo, hi, censored in points[label]:
            x *= 1 + DODGE * (rank - (len(LINES) - 1) / 2)
            if hi > max(lo, floor):  # capped, lest a bar on a triangle look like an arrow
                ax.plot([x, x], [max(lo, floor), hi], "_-", color=colour, linewidth=0.9, markersize=4, zorder=3)
            if y <= 0:  # not even the smallest load: a cross on the axis
                ax.plot([x], [floor], "x", color=colour, markersize=4.5, clip_on=False, zorder=6)
                seen_zero = True
                continue
            ax.plot([x], [y], marker, color=colour, markerfacecolor="white" if censored else colour, zorder=4)
            if censored:  # at least this: the grid of loads ended
                ax.annotate("", (x, y), (0, 13), textcoords="offset points", zorder=3, arrowprops=dict(
                    arrowstyle="<-", color=colour, linewidth=0.9, shrinkA=0, shrinkB=2, mutation_scale=7))
                seen_censored = True
    for label, name in OVERLAYS.items():
        x, y = zip(*((row[0], row[1]) for row in points[label]))
        handles += ax.plot(x, y, color=GREY, linestyle=(0, (4, 2)), linewidth=0.8, zorder=1, label=name)
    if FIGURE["fit"]:
        slope, intercept = points["fit: slope"][0][1], points["fit: intercept"][0][1]
        low, high = FIGURE["xlim"]
        x = [low * (high / low) ** (i / 200) for i in range(201)]
        handles += ax.plot(x, [slope * value + intercept for value in x], color="black", linewidth=0.8,
                           zorder=2, label=FIGURE["fit"])
    if seen_censored:
        handles.append(Line2D([], [], color=GREY, marker="$\\uparrow$", linestyle="none", markersize=7,
                              label="At least (grid ended)"))
    if seen_zero:
        handles.append(Line2D([], [], color=GREY, marker="x", linestyle="none", label="Below the smallest load"))
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
