# What the figures of a memory that was looked into share.
# SPDX-License-Identifier: Apache-2.0
import os
import pathlib
import sys
import textwrap

# This folder holds figures, not modules: one named numpy.py or matplotlib.py must not be imported.
sys.path[:] = [path for path in sys.path if os.path.realpath(path) != os.path.dirname(os.path.realpath(__file__))]

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

GREY = "#555555"
STYLE = {
    "font.family": "DejaVu Sans", "mathtext.fontset": "dejavusans",  # for Times: "STIXGeneral" and "stix"
    "font.size": 8, "axes.labelsize": 8, "axes.titlesize": 8, "legend.fontsize": 7,
    "xtick.labelsize": 7, "ytick.labelsize": 7, "axes.linewidth": 0.6, "axes.axisbelow": True,
    "xtick.major.width": 0.6, "ytick.major.width": 0.6, "xtick.major.size": 2.5, "ytick.major.size": 2.5,
    "axes.unicode_minus": False, "lines.linewidth": 1.2, "pdf.fonttype": 42, "figure.dpi": 300,
}
BASE = pathlib.Path(__file__).resolve()


def load(name):
    """An array of this folder, or None."""
    path = BASE.with_name(name + ".npy")
    return np.load(path) if path.exists() else None


def maps(heads, xlabel, names, note=""):
    """Square axes in a row, one for each of at most four heads, with room for a colour bar at the right."""
    heads = min(heads, 4)
    left, right, between = 0.62, 0.74, 0.12
    wide = (WIDTH - left - right - between * (heads - 1)) / heads
    note = textwrap.fill(note, int(WIDTH * 21)) if note else ""
    under = 0.11 * (note.count("\n") + 1) + 0.04 if note else 0
    bottom = under + 0.24 + 0.048 * max(map(len, names), default=0)
    top = (0.24 if TITLE else 0.06) + (0.12 if heads > 1 else 0)
    total = bottom + wide + top
    fig = plt.figure(figsize=(WIDTH, total))
    axes = [fig.add_axes([(left + i * (wide + between)) / WIDTH, bottom / total, wide / WIDTH, wide / total])
            for i in range(heads)]
    fig.text((left + WIDTH - right) / 2 / WIDTH, (under + 0.05) / total, xlabel, ha="center", va="bottom")
    if note:
        fig.text(0.05 / WIDTH, 0.035 / total, note, ha="left", va="bottom", fontsize=6, color=GREY, linespacing=1.1)
    if TITLE:
        fig.text(left / WIDTH, 1 - 0.06 / total, TITLE, ha="left", va="top", fontsize=8)
    if heads > 1:
        for head, ax in enumerate(axes):
            ax.set_title(f"Head {head + 1}", loc="left", fontsize=7, pad=2)
    return fig, axes, wide


def colour_bar(fig, ax, image, label):
    box = ax.get_position()
    cax = fig.add_axes([box.x1 + 0.06 / WIDTH, box.y0, 0.08 / WIDTH, box.height])
    bar = fig.colorbar(image, cax=cax)
    bar.outline.set_linewidth(0.5)
    bar.ax.tick_params(length=2, pad=2)
    bar.locator = matplotlib.ticker.MaxNLocator(4)
    bar.update_ticks()
    bar.set_label(label, labelpad=3)


def shades(values):
    """Colours and limits: white is 0; blue and red where there are both signs."""
    largest = float(np.max(np.abs(values))) or 1.0
    if values.min() < -0.02 * largest:
        return dict(cmap="RdBu_r", vmin=-largest, vmax=largest)
    return dict(cmap="Blues", vmin=0, vmax=largest)


def name_ticks(axis, names, inches, size=6.0):
    """As many names as fit, the same number of steps apart."""
    every = max(1, int(np.ceil(len(names) * (size + 1.2) / 72 / inches)))
    axis.set_ticks(range(0, len(names), every), names[::every], fontsize=size)
    axis.set_tick_params(length=0, pad=2)


def save(fig):
    for kind, options in (("pdf", {"metadata": {"CreationDate": None}}), ("png", {})):
        temporary = BASE.with_suffix(f".{kind}.{os.getpid()}.tmp")
        try:
            fig.savefig(temporary, format=kind, **options)
            os.replace(temporary, BASE.with_suffix("." + kind))
        finally:
            temporary.unlink(missing_ok=True)


plt.rcParams.update(STYLE)
