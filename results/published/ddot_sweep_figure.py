"""Draws this figure from the CSV beside it and writes a PDF and a PNG beside it: python3 points.py

Stand-alone (matplotlib and the standard library) and yours to edit: every number is in the CSV.
"""
# --- style
# What the figures of a study share: imports, sizes and fonts.
# SPDX-License-Identifier: Apache-2.0
import os
import sys

# This folder holds figures, not modules: one named csv.py or matplotlib.py must not be imported.
sys.path[:] = [path for path in sys.path if os.path.realpath(path) != os.path.dirname(os.path.realpath(__file__))]

import csv
import math
import pathlib
import re

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib import ticker
from matplotlib.lines import Line2D
from matplotlib.transforms import ScaledTranslation

WIDTH = 3.25  # inches, the final size in the paper; 3.25 for one column of two
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
    "title": "",
    "x": "d_dot",
    "xlabel": "$d_{\\mathrm{dot}}$",
    "ylabel": "Capacity (associations)",
    "xscale": "log2",
    "yscale": "log2",
    "xlim": [6.15, 576],
    "ylim": [4.61, 576],
    "fit": "Fit: slope 0.90 [0.86, 0.94]",
    "footnote": "Capacity: the largest number of associations such that it and every smaller tested number are solved (median validation loss at most 0.002, twice train.stop_loss). Bars: range over 5 seeds (holds the median in 94 % of cases), from the last solved number to the next tested one. Fit: interval regression over all memories, those solved at the largest tested number included; 95 % interval of the slope.",
}
LINES = {  # label in the CSV: legend, colour, marker
    "linear": ("Linear", "#0072B2", "s"),
    "dpfp1": ("DPFP-1", "#D55E00", "^"),
    "dpfp2": ("DPFP-2", "#009E73", "D"),
    "dpfp3": ("DPFP-3", "#CC79A7", "v"),
}
OVERLAYS = {  # label in the CSV: legend
    "theory: capacity of the rank bound": "Theory: rank bound",
}
BESIDE = 5.5  # points of the page from one marker to the next where several have one x
# --- end of settings


# --- page
# Texts are measured before they are placed, so that nothing is cut off and no two of them meet.
# SPDX-License-Identifier: Apache-2.0
BASE = pathlib.Path(__file__).resolve()
# What stays whole where a line is broken: a formula, an escaped dollar, letters.
WORD = re.compile(r"(?:\\\$|\$(?:\\\$|[^$])*\$|\S)+")
PAD = 0.05  # inches between one thing and the next
KNOWN_SIZES = {}  # of texts


def measured(fig, text, size):
    """Width and height of a text, in inches."""
    if (text, size) not in KNOWN_SIZES:
        probe = fig.text(0, 0, text, fontsize=size, linespacing=1.1)
        extent = probe.get_window_extent(fig.canvas.get_renderer())
        probe.remove()
        KNOWN_SIZES[text, size] = extent.width / fig.dpi, extent.height / fig.dpi
    return KNOWN_SIZES[text, size]


def fitted(fig, text, inches, size):
    """`text` in lines of at most so many inches; formulas stay whole, other words are broken where they must be."""
    fits = lambda line: measured(fig, line, size)[0] <= inches
    if "\n" not in text and fits(text):
        return text
    lines = []
    for paragraph in text.split("\n"):
        line = ""
        for word in WORD.findall(paragraph):
            longer = f"{line} {word}" if line else word
            if fits(longer):
                line = longer
                continue
            if line:
                lines.append(line)
            while "$" not in word and len(word) > 1 and not fits(word):
                most, beyond = 1, len(word)
                while beyond - most > 1:
                    middle = (most + beyond) // 2
                    most, beyond = (middle, beyond) if fits(word[:middle]) else (most, middle)
                lines.append(word[:most])
                word = word[most:]
            line = word
        lines.append(line)
    return "\n".join(lines)


def shrink(text, inches):
    """A text that cannot be broken (a long formula) is set smaller."""
    extent = text.get_window_extent(text.figure.canvas.get_renderer())
    wide = (extent.height if text.get_rotation() == 90 else extent.width) / text.figure.dpi
    if wide > inches:
        text.set_fontsize(text.get_fontsize() * max(inches / wide, 0.1))


def thin_ticks(axis, renderer):
    """Of the labels of an axis that would touch, every second, third, ... is kept."""
    axis.get_tightbbox(renderer)  # brings the ticks up to date
    low, high = sorted(axis.get_view_interval())
    gap = (3 if axis.axis_name == "x" else 0.5) * axis.figure.dpi / 72
    ticks = [tick for tick in axis.get_major_ticks()
             if low <= tick.get_loc() <= high and tick.label1.get_visible() and tick.label1.get_text()]
    extents = [tick.label1.get_window_extent(renderer) for tick in ticks]
    spans = [(e.x0, e.x1) if axis.axis_name == "x" else (e.y0, e.y1) for e in extents]
    for every in range(1, len(ticks) + 1):
        kept = spans[::every]
        if all(a[1] + gap <= b[0] for a, b in zip(kept, kept[1:])):
            break
    if ticks and every > 1:
        axis.set_major_locator(ticker.FixedLocator([tick.get_loc() for tick in ticks[::every]]))


def save(fig):
    for kind, options in (("pdf", {"metadata": {"CreationDate": None}}), ("png", {})):
        temporary = BASE.with_suffix(f".{kind}.{os.getpid()}.tmp")
        try:
            fig.savefig(temporary, format=kind, **options)
            os.replace(temporary, BASE.with_suffix("." + kind))
        finally:
            temporary.unlink(missing_ok=True)


# The page of a figure of a study: panels, names, legend, footnote.
# SPDX-License-Identifier: Apache-2.0
END_STEP = 0.118  # inches from a name at the end of a line to the next


def make_legend(fig, handles):
    """The lowest legend that is no wider than the page, names unbroken where that costs no line: it and its height."""
    size, inches = plt.rcParams["legend.fontsize"], WIDTH - 2 * PAD
    options = dict(loc="lower center", frameon=False, borderaxespad=0, borderpad=0.1, columnspacing=1.2,
                   handlelength=2.1, handletextpad=0.5, labelspacing=0.35)
    names = [handle.get_label() for handle in handles]

    def built(across, texts):
        legend = fig.legend(handles=handles, labels=texts, ncol=across, **options)
        extent = legend.get_window_extent(fig.canvas.get_renderer())
        return legend, extent.width / fig.dpi, extent.height / fig.dpi

    found = []
    for across in range(min(4, len(handles)), 0, -1):
        legend, width, height = built(across, names)
        legend.remove()
        if width <= inches:
            found.append((height, False, across, names))
            continue
        room = (inches - 1.2 * (across - 1) * size / 72) / across - 2.8 * size / 72
        texts = [fitted(fig, name, room, size) for name in names]
        legend, width, height = built(across, texts)
        legend.remove()
        if width <= inches or across == 1:
            found.append((height, True, across, texts))
    _, _, across, texts = min(found, key=lambda one: (round(one[0], 2), one[1]))
    legend, _, height = built(across, texts)
    for text in legend.get_texts() if across == 1 else []:
        shrink(text, inches - 2.8 * size / 72)
    return legend, height


def plain(x, _=None):
    return f"{x:.10g}" if x == 0 or 1e-4 <= abs(x) < 1e6 else short(x)


def short(x, _=None):
    digits, power = f"{x:.2e}".split("e")
    return f"{float(digits):g}e{int(power)}"


def scientific(x, _=None):
    digits, power = f"{x:.2e}".split("e")
    digits = f"{float(digits):g}"
    return f"$10^{{{int(power)}}}$" if digits == "1" else f"${digits}{{\\cdot}}10^{{{int(power)}}}$"


def binary(x, _=None):
    for size, unit in ((1 << 20, " Mi"), (1 << 10, " Ki")):
        if x >= size:
            return f"{x / size:.4g}{unit}"
    return f"{x:g}"


def set_ticks(axis, scale, limits, places, whole):
    """Labels that say where one is: at `places`, and on a logarithmic axis of few decades also between these."""
    low, high = limits
    upright = axis.axis_name == "y"  # where labels must be short
    axis.set_minor_formatter(ticker.NullFormatter())
    if scale == "linear":
        axis.set_major_locator(ticker.MaxNLocator(7 if upright else 9, integer=whole, steps=[1, 2, 2.5, 5, 10]))
        axis.set_major_formatter(plain)
    elif scale == "log2":  # one style along the axis
        axis.set_major_formatter(binary if high >= 10_000 else plain)
    if places:
        axis.set_major_locator(ticker.FixedLocator(places))
        axis.set_minor_locator(ticker.NullLocator())
    if scale != "log" or low <= 0 or (not places and high > (30 if upright else 1000) * low):
        return
    if not places:
        axis.set_major_locator(ticker.MaxNLocator(5) if high < 3 * low else
                               ticker.LogLocator(subs=(1, 2, 5) if high < 30 * low else (1, 3), numticks=12))
    within = min(places or [low]) >= 6e-4 and max(places or [high]) < 2e4
    axis.set_major_formatter(plain if within else short if upright else scientific)


def set_scales(ax, whole):
    for axis, scale, side in ((ax.xaxis, FIGURE["xscale"], "x"), (ax.yaxis, FIGURE["yscale"], "y")):
        options = {"base": 2} if scale == "log2" else {}
        (ax.set_xscale if side == "x" else ax.set_yscale)(scale[:3] if options else scale, **options)
        set_ticks(axis, scale, FIGURE[side + "lim"], FIGURE.get(side + "ticks"), whole and side == "x")
    ax.set(xlim=FIGURE["xlim"], ylim=FIGURE["ylim"])
    ax.grid(color="#E6E6E6", linewidth=0.5)


def panel_grid(panels):
    """Axes in rows for the panels; those that are left over are hidden."""
    columns = min(len(panels), 2 if WIDTH < 4 else 3 if len(panels) != 4 else 2)
    rows = -(-len(panels) // columns)
    fig, grid = plt.subplots(rows, columns, squeeze=False, sharex=True, sharey=True, figsize=(WIDTH, 3))
    for i, ax in enumerate(grid.flat):
        if i >= len(panels):
            ax.set_visible(False)
            grid.flat[i - columns].tick_params(labelbottom=True)
    return fig, grid


def overhang(ax, renderer):
    """How far the tick labels reach beyond their axes to the left, right, below and above, in inches."""
    box, most = ax.get_window_extent(renderer), [0.0] * 4
    for axis in (ax.xaxis, ax.yaxis) if ax.get_visible() else ():
        extent = axis.get_tightbbox(renderer)
        if extent is not None:
            beyond = (box.x0 - extent.x0, extent.x1 - box.x1, box.y0 - extent.y0, extent.y1 - box.y1)
            most = [max(one, by / ax.figure.dpi) for one, by in zip(most, beyond)]
    return most


def set_page(fig, grid, names, ylabels, handles, inches, ends=()):
    """Sizes the page from the bottom: footnote, legend, axis title, panels (each `inches` high), title. `names` of the
    panels; `ylabels`: one for all rows, or one a row; `ends`: texts that stand to the right of a single panel."""
    renderer, (rows, columns) = fig.canvas.get_renderer(), grid.shape
    size, room = plt.rcParams["axes.labelsize"], WIDTH - 2 * PAD
    note = fig.text(0.5, 0, fitted(fig, FIGURE["footnote"], room, 6.5), ha="center", va="bottom", fontsize=6.5,
                    color=GREY, linespacing=1.1)
    title = fig.text(0, 1, fitted(fig, FIGURE["title"], room, STYLE["axes.titlesize"]), ha="left", va="top",
                     fontsize=STYLE["axes.titlesize"], linespacing=1.1)
    xlabel = fig.text(0.5, 0, fitted(fig, FIGURE["xlabel"], 0.85 * WIDTH, size), ha="center", va="bottom", fontsize=size)
    legend, legend_height = make_legend(fig, handles) if handles else (None, 0)
    for text in (note, title, xlabel):
        shrink(text, room)
    high = lambda text: text.get_window_extent(renderer).height / fig.dpi if text.get_text() else 0
    headings = [ax.set_title(name, loc="left", fontsize=size, pad=3, linespacing=1.1)
                for ax, name in zip(grid.flat, names)] if len(names) > 1 else []
    side = [fig.text(0, 0, "", rotation=90, ha="left", va="center", fontsize=size, linespacing=1.1) for _ in ylabels]
    left, right, below, above, across, between = 0.58, 0.15, 0.2, 0.04, 0.12, [0.2] * (rows - 1)
    heading = [0.16 if headings else 0.0] * rows
    for _ in range(3):  # ticks follow the size, and the size follows the ticks
        wide = (WIDTH - left - right - (columns - 1) * across) / columns
        bottom = (high(note) + PAD if note.get_text() else 0.03) + (legend_height + PAD if legend else 0)
        bottom_of_axes = bottom + high(xlabel) + 1.6 * PAD + below
        over = high(title) + PAD if title.get_text() else 0
        total = bottom_of_axes + rows * inches + sum(between) + heading[0] + above + over + PAD
        fig.set_size_inches(WIDTH, total)
        top = total - over - PAD - above - heading[0]
        for i, row in enumerate(grid):
            low = top - (i + 1) * inches - sum(between[:i])
            for j, ax in enumerate(row):
                ax.set_position([(left + j * (wide + across)) / WIDTH, low / total, wide / WIDTH, inches / total])
        for ax in grid.flat:
            for axis in (ax.xaxis, ax.yaxis) if ax.get_visible() else ():
                thin_ticks(axis, renderer)
        for i, text in enumerate(headings):
            text.set_text(fitted(fig, names[i], wide, size))
            shrink(text, wide)
        heading = [max([high(text) + 0.06 for text in headings[i * columns:(i + 1) * columns]] or [0])
                   for i in range(rows)]
        for text, label in zip(side, ylabels):
            length = rows * inches + sum(between) if len(ylabels) == 1 else inches + min(between, default=0)
            text.set_text(fitted(fig, label, length, size))
            shrink(text, length)
        beside = max(text.get_window_extent(renderer).width for text in side) / fig.dpi
        reach = {ax: overhang(ax, renderer) for ax in grid.flat}
        most = lambda axes, side: max(reach[ax][side] for ax in axes)
        left = PAD + beside + PAD + most(grid[:, 0], 0)
        right = PAD + most(grid[:, -1], 1)
        if ends:
            right = 0.12 * wide + max(measured(fig, text, 7)[0] for text in ends) + PAD
        if columns > 1:
            across = PAD + most(grid[:, :-1].flat, 1) + most(grid[:, 1:].flat, 0)
        below, above = most(grid[-1], 2), most(grid[0], 3)
        if ends:
            above = max(above, len(ends) * END_STEP - inches)
        between = [PAD + heading[i + 1] + most(grid[i + 1], 3) + most(grid[i], 2) for i in range(rows - 1)]
    note.set_y(0.6 * PAD / total)
    if legend:
        legend.set_bbox_to_anchor((0.5, (bottom - PAD - legend_height) / total), transform=fig.transFigure)
    half = 0.5 * xlabel.get_window_extent(renderer).width / fig.dpi + PAD  # in the middle of the axes, on the page
    xlabel.set_position((min(max((left + WIDTH - right) / 2, half), WIDTH - half) / WIDTH,
                         (bottom + 0.6 * PAD) / total))
    title.set_position((min(left, WIDTH - title.get_window_extent(renderer).width / fig.dpi - PAD) / WIDTH,
                        1 - PAD / total))
    for i, text in enumerate(side):
        middle = (bottom_of_axes + top) / 2 if len(side) == 1 else top - (i + 0.5) * inches - sum(between[:i])
        text.set_position((PAD / WIDTH, middle / total))


def read_csv():
    """panel -> label -> rows x, capacity, lo, hi, censored; NaN where the CSV has no number."""
    panels = {}
    with open(BASE.with_suffix(".csv"), newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            numbers = [float(row[name] or "nan") for name in (FIGURE["x"], "median", "lo", "hi", "censored")]
            panels.setdefault(row.get(FIGURE.get("facet"), ""), {}).setdefault(row["label"], []).append(numbers)
    return panels


def beside(points, inches):
    """(label, row) -> how far, in points of the page, a marker stands from its x: markers that would cover each other
    stand side by side; the x that have several; and the first and last place on the page."""
    low, high = FIGURE["xlim"]
    scale = math.log if FIGURE["xscale"] != "linear" else float
    at = sorted(((scale(row[0]) - scale(low)) / (scale(high) - scale(low)) * 72 * inches, rank, label, i)
                for rank, label in enumerate(LINES) for i, row in enumerate(points.get(label, []))
                if math.isfinite(row[0]) and (row[0] > 0 or scale is float))
    groups = []
    for one in at:
        if groups and one[0] - groups[-1][-1][0] < BESIDE:
            groups[-1].append(one)
        else:
            groups.append([one])
    aside, shared, ends = {}, set(), [0.0, 72 * inches]
    for n, group in enumerate(groups):
        room = [abs(other[0][0] - group[0][0]) for other in groups[max(n - 1, 0):n + 2] if other is not group]
        step = max(min([BESIDE] + [0.8 * gap / len(group) for gap in room]), 2)
        for rank, (place, _, label, i) in enumerate(group):
            aside[label, i] = (rank - (len(group) - 1) / 2) * step
            ends = [min(ends[0], place + aside[label, i] - BESIDE), max(ends[1], place + aside[label, i] + BESIDE)]
            if len(group) > 1:
                shared.add(points[label][i][0])
    return aside, shared, ends


def make_room(panels, inches):
    """Widens the axis where markers that stand beside their x would leave it."""
    ends = [beside(points, inches)[2] for points in panels.values()] or [[0.0, 72 * inches]]
    first, last = min(end[0] for end in ends), max(end[1] for end in ends)
    low, high = FIGURE["xlim"]
    log = FIGURE["xscale"] != "linear"
    a, b = (math.log(low), math.log(high)) if log else (low, high)
    unit = (b - a) / max(72 * inches - (last - first - 72 * inches), 36)
    wider = [a + first * unit, b + (last - 72 * inches) * unit]
    FIGURE["xlim"] = [math.exp(x) for x in wider] if log else wider


def draw(ax, points, inches):
    handles, floor, ceiling = [], FIGURE["ylim"][0], FIGURE["ylim"][1]
    seen_censored = seen_zero = False
    aside, shared, _ = beside(points, inches)
    for x in shared:
        ax.axvline(x, color="#AAAAAA", linewidth=0.5, linestyle=(0, (1, 2)), zorder=0.6)
    for label, (name, colour, marker) in LINES.items():
        handles.append(Line2D([], [], color=colour, marker=marker, linestyle="none", label=name))
        for i, (x, y, lo, hi, censored) in enumerate(points.get(label, [])):
            place = ax.transData + ScaledTranslation(aside.get((label, i), 0) / 72, 0, ax.figure.dpi_scale_trans)
            if hi > max(lo, floor):  # capped, lest a bar on a triangle look like an arrow
                ends = [max(lo, floor), min(hi, ceiling)]
                ax.plot([x, x], ends, "-", color=colour, linewidth=0.9, zorder=3, transform=place)
                ax.plot([x] * (2 if hi < ceiling else 1), ends if hi < ceiling else ends[:1], "_", color=colour,
                        markersize=4, zorder=3, transform=place)
            if y <= 0:  # not even the smallest number of associations: a cross on the axis
                ax.plot([x], [floor], "x", color=colour, markersize=4.5, clip_on=False, zorder=6, transform=place)
                seen_zero = True
                continue
            if not y == y:
                continue
            ax.plot([x], [y], marker, color=colour, markerfacecolor="white" if censored else colour, zorder=4,
                    clip_on=False, transform=place)
            if censored:  # at least this: larger numbers were not tried
                ax.annotate("", (x, y), (0, 13), xycoords=place, textcoords="offset points", zorder=3,
                            annotation_clip=False, arrowprops=dict(arrowstyle="<-", color=colour, linewidth=0.9,
                                                                   shrinkA=0, shrinkB=2, mutation_scale=7))
                seen_censored = True
    for label, name in OVERLAYS.items():
        if label in points:
            x, y = zip(*((row[0], row[1]) for row in points[label]))
            handles += ax.plot(x, y, color=GREY, linestyle=(0, (4, 2)), linewidth=0.8, zorder=1, label=name)
    sizes = [row[0] for label in LINES for row in points.get(label, []) if row[0] > 0]
    if FIGURE["fit"] and "fit: slope" in points and sizes:
        slope, intercept, (low, high) = points["fit: slope"][0][1], points["fit: intercept"][0][1], (min(sizes), max(sizes))
        x = [low * (high / low) ** (i / 200) for i in range(201)]
        handles += ax.plot(x, [slope * value + intercept for value in x], color="black", linewidth=0.8,
                           zorder=2, label=FIGURE["fit"])
    if seen_censored:
        handles.append(Line2D([], [], color=GREY, marker="$\\uparrow$", linestyle="none", markersize=7,
                              label="At least (largest number tested)"))
    if seen_zero:
        handles.append(Line2D([], [], color=GREY, marker="x", linestyle="none", label="Below the smallest number tested"))
    if shared:
        handles.append(Line2D([], [], color="#AAAAAA", linewidth=0.5, linestyle=(0, (1, 2)),
                              label="True x of the markers beside it"))
    return handles


def main():
    plt.rcParams.update(STYLE)
    panels, data = FIGURE.get("panels") or [["", ""]], read_csv()
    fig, grid = panel_grid(panels)
    handles, inches = {}, 0.9 * (WIDTH - 0.75) / grid.shape[1]
    make_room(data, inches)
    for ax, (panel, _) in zip(grid.flat, panels):
        set_scales(ax, True)
        for handle in draw(ax, data.get(panel, {}), inches):
            handles.setdefault(handle.get_label(), handle)
    set_page(fig, grid, [name for _, name in panels], [FIGURE["ylabel"]], list(handles.values()),
             AXES_HEIGHT if len(grid) == 1 else 0.7 * AXES_HEIGHT)
    save(fig)


if __name__ == "__main__":
    main()
# Written by `crosstalk plot`, checksum 29fd992325b6b6ac (an edited script is kept when the figure is redrawn)
