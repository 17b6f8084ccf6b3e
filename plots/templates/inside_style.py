# What the figures of a memory that was looked into share.
# SPDX-License-Identifier: Apache-2.0
import os
import pathlib
import re
import sys

# This folder holds figures, not modules: one named numpy.py or matplotlib.py must not be imported.
sys.path[:] = [path for path in sys.path if os.path.realpath(path) != os.path.dirname(os.path.realpath(__file__))]

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib import ticker

GREY = "#555555"
STYLE = {
    "font.family": "DejaVu Sans", "mathtext.fontset": "dejavusans",  # for Times: "STIXGeneral" and "stix"
    "font.size": 8, "axes.labelsize": 8, "axes.titlesize": 8, "legend.fontsize": 7,
    "xtick.labelsize": 7, "ytick.labelsize": 7, "axes.linewidth": 0.6, "axes.axisbelow": True,
    "xtick.major.width": 0.6, "ytick.major.width": 0.6, "xtick.major.size": 2.5, "ytick.major.size": 2.5,
    "axes.unicode_minus": False, "lines.linewidth": 1.2, "pdf.fonttype": 42, "figure.dpi": 300,
}
# --- measure
# --- end of measure
def load(name):
    """An array of this folder, or None."""
    path = BASE.with_name(name + ".npy")
    return np.load(path) if path.exists() else None


def shortened(fig, names, inches, size):
    """Names of at most so many inches: of longer ones, the beginning."""
    def cut(name):
        while len(name) > 3 and measured(fig, name, size)[0] > inches:
            name = name[:-3].rstrip(".") + ".."
        return name
    return [cut(name) for name in names]


def maps(heads, xlabel, ylabel, names, rows, note=""):
    """Square axes in a row, one for each of at most four heads, with room for a colour bar at the right; and the names
    of columns and rows as far as they fit."""
    heads, size = min(heads, 4), 6.0
    fig = plt.figure(figsize=(WIDTH, 3))
    names, rows = shortened(fig, names, 0.6, size), shortened(fig, rows, 0.6, size)
    longest = lambda texts: max([measured(fig, text, size)[0] for text in texts if text] or [0])
    note, title = fitted(fig, note, WIDTH - 2 * PAD, 6), fitted(fig, TITLE, WIDTH - 2 * PAD, 8)
    left, right, between = 3.5 * PAD + 0.12 + longest(rows), 0.74, 0.12
    wide = (WIDTH - left - right - between * (heads - 1)) / heads
    under = measured(fig, note, 6)[1] + PAD if note else 0
    bottom = under + 0.22 + longest(names)
    top = PAD + (measured(fig, title, 8)[1] + PAD if title else 0) + (0.14 if heads > 1 else 0)
    total = bottom + wide + top
    fig.set_size_inches(WIDTH, total)
    axes = [fig.add_axes([(left + i * (wide + between)) / WIDTH, bottom / total, wide / WIDTH, wide / total])
            for i in range(heads)]
    fig.text((left + WIDTH - right) / 2 / WIDTH, (under + 0.05) / total, xlabel, ha="center", va="bottom")
    length = bottom + wide - under
    side = fig.text(PAD / WIDTH, (under + bottom + wide) / 2 / total, fitted(fig, ylabel, length, 8), rotation=90, ha="left",
                    va="center")
    shrink(side, length)
    fig.text(0.5, 0.6 * PAD / total, note, ha="center", va="bottom", fontsize=6, color=GREY, linespacing=1.1)
    shrink(fig.text(PAD / WIDTH, 1 - PAD / total, title, ha="left", va="top", fontsize=8, linespacing=1.1), WIDTH - 2 * PAD)
    for head, ax in enumerate(axes):
        if heads > 1:
            shrink(ax.set_title(f"Head {head}", loc="left", fontsize=7, pad=2), wide + 0.5 * between)
        name_ticks(ax.xaxis, names, wide)
        ax.tick_params(axis="x", rotation=90)
        ax.set_yticks([])
    name_ticks(axes[0].yaxis, rows, wide)
    return fig, axes, wide


def colour_bar(fig, ax, image, label):
    box = ax.get_position()
    cax = fig.add_axes([box.x1 + 0.06 / WIDTH, box.y0, 0.08 / WIDTH, box.height])
    bar = fig.colorbar(image, cax=cax)
    bar.outline.set_linewidth(0.5)
    bar.ax.tick_params(length=2, pad=2)
    bar.locator = ticker.MaxNLocator(4 if box.height * fig.get_figheight() > 0.7 else 2)
    bar.formatter = ticker.FuncFormatter(lambda x, _: f"{x:.3g}")
    bar.update_ticks()
    high = fig.get_figheight()
    middle = min(max(box.y0 + box.height / 2, 0.5 * measured(fig, label, 8)[0] / high), 1)
    shrink(fig.text(1 - PAD / WIDTH, middle, label, rotation=90, ha="right", va="center"), high - 2 * PAD)


def place(fig, grid, inches):
    """Sizes the page around rows of axes that are so many inches high, with what is written beside them."""
    renderer, wide = fig.canvas.get_renderer(), fig.get_figwidth()
    rows, columns = grid.shape
    title = fitted(fig, TITLE, wide - 2 * PAD, 8)
    across = 0.6 * wide / columns
    for _ in range(3):  # ticks follow the size, and the size follows the ticks
        sides = np.zeros((rows, columns, 4))  # how far texts reach: left, right, below, above
        for i, ax in enumerate(grid.flat):
            if not ax.get_visible():
                continue
            if not hasattr(ax, "words"):
                ax.words = ax.get_xlabel(), ax.get_ylabel()
            ax.set_xlabel(fitted(fig, ax.words[0], across, 8), labelpad=2, linespacing=1.1)
            ax.set_ylabel(fitted(fig, ax.words[1], inches, 8), labelpad=3, linespacing=1.1)
            shrink(ax.xaxis.label, across)
            shrink(ax.yaxis.label, inches)
            for axis in (ax.xaxis, ax.yaxis):
                thin_ticks(axis, renderer)
            box, tight = ax.get_window_extent(renderer), ax.get_tightbbox(renderer)
            sides[divmod(i, columns)] = np.array([box.x0 - tight.x0, tight.x1 - box.x1, box.y0 - tight.y0,
                                                  tight.y1 - box.y1]) / fig.dpi
        left, right = sides[:, :, 0].max(0) + PAD, sides[:, :, 1].max(0) + PAD
        below, above = sides[:, :, 2].max(1) + PAD, sides[:, :, 3].max(1) + PAD
        across = (wide - left.sum() - right.sum()) / columns
        over = measured(fig, title, 8)[1] + PAD if title else 0
        total = rows * inches + below.sum() + above.sum() + over
        fig.set_size_inches(wide, total)
        for i, ax in enumerate(grid.flat):
            row, column = divmod(i, columns)
            x = left[:column + 1].sum() + right[:column].sum() + column * across
            y = total - over - above[:row + 1].sum() - below[:row].sum() - (row + 1) * inches
            ax.set_position([x / wide, y / total, across / wide, inches / total])
    shrink(fig.text(PAD / wide, 1 - PAD / total, title, ha="left", va="top", fontsize=8, linespacing=1.1), wide - 2 * PAD)


def shades(values):
    """Colours and limits: white is 0; blue and red where there are both signs."""
    largest = float(np.max(np.abs(values))) or 1.0
    if values.min() < -0.02 * largest:
        return dict(cmap="RdBu_r", vmin=-largest, vmax=largest)
    return dict(cmap="Blues", vmin=0, vmax=largest)


def name_ticks(axis, names, inches, size=6.0):
    """As many names as fit, every one or every second, third, ... of them."""
    every = max(1, int(np.ceil(len(names) * (size + 1.2) / 72 / inches)))
    axis.set_ticks(range(0, len(names), every), names[::every], fontsize=size)
    axis.set_tick_params(length=0, pad=2)


plt.rcParams.update(STYLE)
