"""Draws this figure from the CSV beside it and writes a PDF and a PNG beside it: python3 lines.py

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
    "x": "associations",
    "xlabel": "Associations $S$",
    "ylabel": "Evaluation loss $\\frac{1}{2}|y-\\hat{y}|^2$",
    "xscale": "linear",
    "yscale": "linear",
    "xlim": [0, 612],
    "ylim": [-0.01, 0.593],
    "ticks_at_d_dot": True,
    "vertical": [],
    "vertical_name": "",
    "solved": 0.002,
    "footnote": "Lines: median over 5 seeds; bands: range over 5 seeds (holds the median in 94 % of cases). Solved: median validation loss at most 0.002, twice train.stop_loss.",
}
LINES = {  # (label, d_dot) in the CSV, 0 for any d_dot: legend, colour, marker, dash
    ("softmax", 0): ("Softmax", "#000000", "o", "-"),
    ("linear", 64): ("Linear ($d_{\\mathrm{dot}}$ = 64)", "#0072B2", "s", "-"),
    ("dpfp1", 128): ("DPFP-1 ($d_{\\mathrm{dot}}$ = 128)", "#D55E00", "^", "-"),
    ("dpfp2", 256): ("DPFP-2 ($d_{\\mathrm{dot}}$ = 256)", "#009E73", "D", "-"),
    ("dpfp3", 384): ("DPFP-3 ($d_{\\mathrm{dot}}$ = 384)", "#CC79A7", "v", "-"),
    ("favor64", 128): ("FAVOR+ 64 ($d_{\\mathrm{dot}}$ = 128)", "#56B4E9", "P", "-"),
    ("favor128", 256): ("FAVOR+ 128 ($d_{\\mathrm{dot}}$ = 256)", "#E69F00", "X", "-"),
    ("favor512", 1024): ("FAVOR+ 512 ($d_{\\mathrm{dot}}$ = 1024)", "#882255", "p", "-"),
}
OVERLAYS = {  # (label, d_dot) in the CSV: colour
    ("theory: rank bound, linear", 64): "#0072B2",
    ("theory: rank bound, dpfp1", 128): "#D55E00",
    ("theory: rank bound, favor64", 128): "#56B4E9",
    ("published: softmax", 0): "#000000",
    ("published: linear", 64): "#0072B2",
    ("published: dpfp1", 128): "#D55E00",
    ("published: dpfp2", 256): "#009E73",
    ("published: dpfp3", 384): "#CC79A7",
    ("published: favor64", 128): "#56B4E9",
    ("published: favor128", 256): "#E69F00",
    ("published: favor512", 1024): "#882255",
}
OVERLAY_NAMES = {  # what stands before ':' in a label: legend
    "theory": "Theory: rank bound",
    "published": "Published",
}
# --- end of settings

MANY = 8  # so many lines are named at their ends where there is room
DASHES = {"--": (0, (5, 1.5)), ":": (0, (1.2, 1.2)), "-.": (0, (5, 1.5, 1.2, 1.5))}


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
    """panel -> (label, d_dot) of LINES -> columns x, median, lo, hi, d_dot; NaN where the CSV has no number."""
    panels = {}
    with open(BASE.with_suffix(".csv"), newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            point = [float(row[name] or "nan") for name in (FIGURE["x"], "median", "lo", "hi")]
            low, high = FIGURE["ylim"]
            if FIGURE["yscale"] == "log":  # what is solved stands on the axis
                point[1:] = [max(y, low) if y == y else y for y in point[1:]]
            point[2:] = [min(y, 2 * high) if y == y else y for y in point[2:]]
            d_dot = int(row["d_dot"] or 0)
            key = (row["label"], d_dot)
            key = key if key in LINES or key in OVERLAYS else (row["label"], 0)
            panels.setdefault(row.get(FIGURE.get("facet"), ""), {}).setdefault(key, []).append((*point, d_dot))
    return {panel: {key: list(zip(*points)) for key, points in series.items()} for panel, series in panels.items()}


def vertical_lines(panel):
    lines = FIGURE["vertical"]
    return lines.get(panel, []) if isinstance(lines, dict) else lines


def draw(ax, panel, series):
    handles, gone_at, marks = [], {}, {}
    alone = len({x for key in LINES if key in series for x in series[key][0]}) == 1  # one place: side by side
    step = min(7, 0.8 * 72 * (WIDTH - 0.8) / len(LINES))
    (left, right), (low, high) = FIGURE["xlim"], FIGURE["ylim"]
    for rank, (key, (name, colour, marker, dash)) in enumerate(LINES.items()):
        look = dict(color=colour, linestyle=DASHES.get(dash, dash))
        spot = dict(color=colour, marker=marker, markeredgecolor="white", markeredgewidth=0.4)
        handles.append(Line2D([], [], label=name, **{**spot, **look}))
        if key not in series:
            continue
        x, median, lo, hi, d_dot = series[key]
        shown = [y if math.isfinite(y) else math.nan for y in median]
        every = max(1, math.ceil(len(x) / 16))  # markers, not one a point
        aside = ScaledTranslation((rank - (len(LINES) - 1) / 2) * step / 72 if alone else 0, 0, ax.figure.dpi_scale_trans)
        place = ax.transData + aside
        ax.fill_between(x, lo, hi, color=colour, alpha=0.18, linewidth=0, zorder=2)
        for i, at in enumerate(x):  # a band has no width where there is no neighbour
            if hi[i] > lo[i] and not any(hi[j] == hi[j] for j in (i - 1, i + 1) if 0 <= j < len(x)):
                ax.plot([at] * 2, [lo[i], hi[i]], "_-", color=colour, linewidth=0.9, markersize=4, zorder=3,
                        transform=place)
        ax.plot(x, shown, zorder=4 + 0.01 * rank, transform=place, **look)
        whole = [(at, y) for at, y in list(zip(x, shown))[rank % every::every] if left <= at <= right and low <= y <= high]
        if whole:  # markers are whole where a line ends on the frame
            ax.plot(*zip(*whole), linestyle="none", clip_on=False, zorder=4.005 + 0.01 * rank, transform=place, **spot)
        for at, y in zip(x, median):
            if math.isinf(y):  # half or more of the runs diverged
                gone_at[at] = gone_at.get(at, 0) + 1
                ax.plot([at], [1 - 0.03 * (gone_at[at] - 1) % 0.9], "x", color=colour, markersize=4, clip_on=False,
                        transform=ax.get_xaxis_transform(), zorder=6)
        for size in set(d_dot) if FIGURE["ticks_at_d_dot"] else ():
            if 0 < size <= right and colour not in marks.setdefault(size, []):
                marks[size].append(colour)
    for size, colours in marks.items():  # grey where several memories have one
        ax.plot([size], [0], "^", color=colours[0] if len(colours) == 1 else GREY, markersize=5, markeredgewidth=0,
                clip_on=False, transform=ax.get_xaxis_transform(), zorder=7)
    looks = {"theory": dict(linestyle=(0, (4, 2)), linewidth=0.8),
             "prefix-exact": dict(linestyle="-", linewidth=0.6, zorder=3),
             "published": dict(linestyle="none", marker="o", markersize=4.5, markerfacecolor="none",
                               markeredgewidth=0.9, zorder=5)}
    for key, colour in reversed(list(OVERLAYS.items())):  # the first on top
        kind = key[0].split(":")[0]
        if key in series:
            whole = [(x, y) for x, y in zip(*series[key][:2]) if left <= x <= right and low <= y <= high]
            points = list(zip(*whole)) if kind == "published" else series[key][:2]
            if points:
                ax.plot(*points, color=colour, clip_on=kind != "published",
                        **{"zorder": 3 if key[1] else 5, **looks[kind]})
    for kind, name in OVERLAY_NAMES.items():
        handles.append(Line2D([], [], color=GREY, label=name, **looks[kind]))
    dotted = dict(color=GREY, linewidth=0.7, linestyle=":")
    if FIGURE["solved"] and low <= FIGURE["solved"] <= high:
        ax.axhline(FIGURE["solved"], zorder=1.5, **dotted)
        handles.append(Line2D([], [], label=f"Solved: at most {FIGURE['solved']:g}", **dotted))
    for x in vertical_lines(panel):
        ax.axvline(x, zorder=1, **dotted)
    if vertical_lines(panel):
        handles.append(Line2D([], [], label=FIGURE["vertical_name"], **dotted))
    if marks:
        handles.append(Line2D([], [], color=GREY, marker="^", linestyle="none", markersize=5,
                              markeredgewidth=0, label="$d_{\\mathrm{dot}}$ of the memories"))
    if gone_at:
        handles.append(Line2D([], [], color=GREY, marker="x", linestyle="none", markersize=4, label="Diverged"))
    return handles


def names_at_ends(fig, panels):
    """[(end of the line, colour, name)] where lines are many and each has room for its name at the right, or none."""
    labels = []
    if len(panels) > 1 or len(LINES) < MANY or len(LINES) * END_STEP > AXES_HEIGHT + 0.2:
        return labels
    for key, (name, colour, _, _) in LINES.items():
        columns = list(panels.values())[0].get(key, [[], []])
        points = [(x, y) for x, y in zip(*columns[:2]) if math.isfinite(y)]
        if not points or points[-1][0] < FIGURE["xlim"][1] - 0.15 * (FIGURE["xlim"][1] - FIGURE["xlim"][0]):
            return []
        if measured(fig, name, 7)[0] > 0.4 * WIDTH:
            return []
        labels.append((points[-1], colour, name))
    return labels


def write_names(ax, labels):
    """Names at the right of the axes, none over another, each with a thin line to the end of its line."""
    to_axes = lambda x, y: ax.transAxes.inverted().transform(ax.transData.transform((x, y)))
    ends = sorted(([*to_axes(x, y), colour, text] for (x, y), colour, text in labels), key=lambda end: -end[1])
    step = END_STEP / (ax.get_window_extent().height / ax.figure.dpi)
    blocks = []  # [mean of the place of the first name, names]: names that would meet stand around their mean
    for i, end in enumerate(ends):
        blocks.append([min(max(end[1], 0), 1) + i * step, 1])
        while len(blocks) > 1 and blocks[-2][0] < blocks[-1][0]:
            (a, n), (b, m) = blocks[-2:]
            blocks[-2:] = [[(a * n + b * m) / (n + m), n + m]]
    least, most = (len(ends) - 1) * step - 0.05, 1.05
    places = [max(least, min(place, most)) for place, names in blocks for _ in range(names)]
    places = [place - i * step for i, place in enumerate(places)]
    for (x, y, colour, text), place in zip(ends, places):
        ax.annotate(text, (x, min(max(y, 0), 1)), (1.09, place), xycoords="axes fraction", va="center",
                    textcoords="axes fraction", fontsize=7, color=colour, annotation_clip=False,
                    arrowprops=dict(arrowstyle="-", color=colour, linewidth=0.5, shrinkA=1, shrinkB=1,
                                    relpos=(0, 0.5)))


def main():
    plt.rcParams.update(STYLE)
    panels, data = FIGURE.get("panels") or [["", ""]], read_csv()
    fig, grid = panel_grid(panels)
    whole = all(x == round(x) for series in data.values() for key in LINES for x in series.get(key, [[]])[0] if x == x)
    handles = {}
    for ax, (panel, _) in zip(grid.flat, panels):
        set_scales(ax, whole)
        for handle in draw(ax, panel, data.get(panel, {})):
            handles.setdefault(handle.get_label(), handle)
    ends = names_at_ends(fig, data)
    for _, _, name in ends:
        handles.pop(name, None)
    set_page(fig, grid, [name for _, name in panels], [FIGURE["ylabel"]], list(handles.values()),
             AXES_HEIGHT if len(grid) == 1 else 0.7 * AXES_HEIGHT, [name for _, _, name in ends])
    if ends:
        write_names(grid[0, 0], ends)
    save(fig)


if __name__ == "__main__":
    main()
# Written by `crosstalk plot`, checksum ba2e95e63496b1bb (an edited script is kept when the figure is redrawn)
