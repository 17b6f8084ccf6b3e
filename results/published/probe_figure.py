"""Draws this figure from the CSV beside it and writes a PDF and a PNG beside it: python3 probe.py

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
PANEL_HEIGHT = 1.45  # inches
STYLE = {
    "font.family": "DejaVu Sans", "mathtext.fontset": "dejavusans",  # for Times: "STIXGeneral" and "stix"
    "font.size": 8, "axes.labelsize": 8, "axes.titlesize": 8, "legend.fontsize": 7.5 if WIDTH > 4 else 7,
    "xtick.labelsize": 7, "ytick.labelsize": 7,
    "axes.linewidth": 0.6, "xtick.major.width": 0.6, "ytick.major.width": 0.6, "axes.axisbelow": True,
    "xtick.minor.width": 0.4, "ytick.minor.width": 0.4, "xtick.minor.size": 1.5, "ytick.minor.size": 1.5,
    "axes.spines.top": False, "axes.spines.right": False, "axes.unicode_minus": False,
    "lines.linewidth": 1.1, "lines.markersize": 3.4, "pdf.fonttype": 42, "figure.dpi": 300,
}
GREY = "#555555"

# --- settings
FIGURE = {
    "title": "",
    "x": "associations",
    "xlabel": "Pairs stored per dimension, $n / d_{\\mathrm{key}}$",
    "facet": "model.d_key",
    "panels": [["32", "$d_{\\mathrm{key}}$ = 32"], ["64", "$d_{\\mathrm{key}}$ = 64"]],
    "rows": [["squared_error", "Squared error $|o - v|^2$", "log", [0.0001, 9.7]], ["recall", "Recall", "linear", [-0.02, 1.03]]],
    "vertical": {"32":[[1.118,"sum rule"],[3.41,"optimum"]],"64":[[1.705,"sum rule"],[5.464,"optimum"]]},
    "xlim": [0.2125, 6.8999999999999995],
    "footnote": "Dotted: loads up to which the sum rule ($8 n \\ln n = d^2$) and the best linear memory ($2 n \\ln n = d^2$) find every key, for large d. Smaller errors than 0.0001 stand on the axis. Lines: median over 3 seeds; bands: range over 3 seeds (holds the median in 75 % of cases).",
}
LINES = {  # (label, d_dot) in the CSV: legend, colour, marker, dash
    ("sum", 0): ("Sum rule", "#CC79A7", "v", "-"),
    ("delta", 0): ("Delta rule, $\\beta$ = 1", "#0072B2", "s", "-"),
    ("delta_half", 0): ("Delta rule, $\\beta$ = 0.5", "#D55E00", "^", "-"),
    ("mesa", 0): ("Least squares (MesaNet)", "#009E73", "D", "-"),
    ("softmax", 0): ("Softmax", "#000000", "o", "-"),
}
OVERLAYS = {  # (label, d_dot) in the CSV: colour
    ("theory: sum", 0): "#CC79A7",
    ("theory: delta", 0): "#0072B2",
    ("theory: delta_half", 0): "#D55E00",
    ("theory: mesa", 0): "#009E73",
    ("theory: softmax", 0): "#000000",
}
OVERLAY_NAMES = {  # what stands before ':' in a label: legend
    "theory": "Theory, random keys",
}
# --- end of settings

BASE = pathlib.Path(__file__).resolve()


def read_csv():
    """(metric, panel) -> label -> columns x / d_key, median, lo, hi; NaN where the CSV has no number."""
    panels = {}
    with open(BASE.with_suffix(".csv"), newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            point = [float(row[name] or "nan") for name in (FIGURE["x"], "median", "lo", "hi")]
            point[0] /= float(row[FIGURE["facet"]])
            series = panels.setdefault((row["metric"], row[FIGURE["facet"]]), {})
            series.setdefault(row["label"], []).append(point)
    return {panel: {label: list(zip(*points)) for label, points in series.items()} for panel, series in panels.items()}


def draw(ax, series, log, limits):
    low = limits[0]
    for rank, ((label, _), (name, colour, marker, dash)) in enumerate(LINES.items()):
        if label not in series:
            continue
        x, median, lo, hi = [[max(y, low) if log and i and y == y else y for y in column]
                             for i, column in enumerate(series[label])]
        ax.fill_between(x, lo, hi, color=colour, alpha=0.18, linewidth=0, zorder=2)
        ax.plot(x, [y if math.isfinite(y) else math.nan for y in median], color=colour, marker=marker, linestyle=dash,
                markeredgecolor="white", markeredgewidth=0.4, zorder=4 + 0.01 * rank, clip_on=log)
    for (label, _), colour in OVERLAYS.items():
        if label in series:
            ax.plot(*series[label][:2], color=colour, linestyle=(0, (4, 2)), linewidth=0.9, zorder=3)


def wrapped(text, inches, size):
    """`text` in lines that fit, for a font of so many points; formulas stay whole."""
    parts = text.split("$")
    parts[1::2] = [formula.replace(" ", "\0") for formula in parts[1::2]]
    return textwrap.fill("$".join(parts), max(int(inches * 72 / (0.56 * size)), 20)).replace("\0", " ")


def main():
    plt.rcParams.update(STYLE)
    panels, rows, data = FIGURE["panels"], FIGURE["rows"], read_csv()
    fig, grid = plt.subplots(len(rows), len(panels), squeeze=False, sharex=True, sharey="row", figsize=(WIDTH, 3))
    for axes, (metric, ylabel, scale, limits) in zip(grid, rows):
        for column, (ax, (panel, name)) in enumerate(zip(axes, panels)):
            ax.set_xscale("log", base=2)
            ax.set_yscale(scale)
            ax.set(xlim=FIGURE["xlim"], ylim=limits)
            ax.grid(color="#E6E6E6", linewidth=0.5)
            draw(ax, data.get((metric, panel), {}), scale == "log", limits)
            if metric == rows[0][0]:
                ax.set_title(name, loc="left", pad=3)
            if metric == rows[-1][0]:
                for x, words in FIGURE["vertical"].get(panel, []):
                    ax.axvline(x, color=GREY, linewidth=0.7, linestyle=":", zorder=1)
                    ax.annotate(words, (x, 1), (0, 1), xycoords=("data", "axes fraction"), textcoords="offset points",
                                ha="center", va="bottom", fontsize=6, color=GREY)
                ax.xaxis.set_major_formatter("{x:g}")
            if column == 0:
                ax.set_ylabel(ylabel)
    handles = [Line2D([], [], color=colour, marker=marker, linestyle=dash, markeredgecolor="white", markeredgewidth=0.4,
                      label=name) for name, colour, marker, dash in LINES.values()]
    handles += [Line2D([], [], color=GREY, linestyle=(0, (4, 2)), linewidth=0.9, label=name)
                for name in OVERLAY_NAMES.values()]
    # Sizes in inches, from the bottom: footnote, legend, axis title, panels, title.
    note = wrapped(FIGURE["footnote"], WIDTH - 0.1, 6.5) if FIGURE["footnote"] else ""
    note_height = 0.125 * (note.count("\n") + 1) + 0.05 if note else 0.03
    for across in (4, 3, 2, 1):  # as many as fit
        legend = fig.legend(handles=handles, loc="lower center", ncol=across, frameon=False, borderaxespad=0,
                            columnspacing=1.2, handlelength=2.1, handletextpad=0.5, labelspacing=0.35)
        extent = legend.get_window_extent(fig.canvas.get_renderer())
        if across == 1 or extent.width < 0.98 * fig.bbox.width:
            break
        legend.remove()
    title = wrapped(FIGURE["title"], WIDTH - 0.6, STYLE["axes.titlesize"]) if FIGURE["title"] else ""
    top = 0.24 + (0.16 * (title.count("\n") + 1) if title else 0)
    bottom = 0.44 + extent.height / fig.dpi + note_height
    between, left, right = 0.20, 0.60, 0.10
    height = bottom + len(rows) * PANEL_HEIGHT + (len(rows) - 1) * between + top
    fig.set_size_inches(WIDTH, height)
    fig.subplots_adjust(left=left / WIDTH, right=1 - right / WIDTH, bottom=bottom / height, top=1 - top / height,
                        hspace=between / PANEL_HEIGHT, wspace=0.08)
    fig.align_ylabels()
    fig.text((left + WIDTH - right) / 2 / WIDTH, (bottom - 0.40) / height, FIGURE["xlabel"], ha="center", va="bottom")
    if title:
        fig.text(left / WIDTH, 1 - 0.04 / height, title, ha="left", va="top", fontsize=STYLE["axes.titlesize"])
    legend.set_bbox_to_anchor((0.5, note_height / height), transform=fig.transFigure)
    if note:
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
# Written by `crosstalk plot`, checksum 74a4da0e557a9d52 (an edited script is kept when the figure is redrawn)
