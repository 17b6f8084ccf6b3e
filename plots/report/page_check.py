"""Draws figures without saving them and asks matplotlib where their texts and markers are: page_check.py SCRIPT.py...

A folder (FOLDER/) stands for the scripts in it, which are of a memory that was looked into; it gets arrays. Says what lies outside of the page, what overlaps and which markers are cut, and exits with 1 if anything does.
"""
# SPDX-License-Identifier: Apache-2.0
import itertools
import pathlib
import re
import runpy
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.figure
import matplotlib.pyplot as plt
from matplotlib.text import Text

WRONG_ANSWERS = 4  # of those that scripts_of() invents
found = []
script = ""


def complain(text):
    found.append(f"{script}: {text}")


def tick_labels(axis):
    low, high = sorted(axis.get_view_interval())
    slack = 1e-9 * (high - low)
    return [tick.label1 for tick in axis.get_major_ticks() + axis.get_minor_ticks()
            if low - slack <= tick.get_loc() <= high + slack and tick.label1.get_visible() and tick.label1.get_text()]


def texts_of(fig):
    """[(what it is, text)] of everything that is written and seen."""
    texts = [("text", text) for text in fig.texts]
    for legend in fig.legends:
        texts += [("legend", text) for text in legend.get_texts()]
    for ax in fig.axes:
        if not ax.get_visible():
            continue
        texts += [("x tick", text) for text in tick_labels(ax.xaxis)] if ax.axison else []
        texts += [("y tick", text) for text in tick_labels(ax.yaxis)] if ax.axison else []
        texts += [("label", ax.xaxis.label), ("label", ax.yaxis.label), ("offset", ax.xaxis.offsetText),
                  ("offset", ax.yaxis.offsetText)]
        texts += [("title", text) for text in (ax.title, ax._left_title, ax._right_title)]
        texts += [("annotation", text) for text in ax.texts]
        if ax.get_legend():
            texts += [("legend", text) for text in ax.get_legend().get_texts()]
    return [(what, text) for what, text in texts if text.get_visible() and text.get_text().strip()]


def cut_markers(fig, renderer):
    """Markers whose middle is within the axes, of which the frame cuts a part."""
    for ax in fig.axes:
        box = ax.get_window_extent(renderer)
        for line in ax.lines:
            if not line.get_clip_on() or line.get_marker() in (None, "None", "none", "", " ", "_"):
                continue
            radius = line.get_markersize() / 2 * fig.dpi / 72
            for x, y in line.get_transform().transform(line.get_xydata()):
                inside = box.x0 - 1 <= x <= box.x1 + 1 and box.y0 - 1 <= y <= box.y1 + 1
                whole = box.x0 + radius <= x <= box.x1 - radius and box.y0 + radius <= y <= box.y1 - radius
                if inside and not whole:
                    complain(f"a marker of {line.get_label()!r} is cut")
                    break


def look(fig, *_, **__):
    """Stands in for savefig."""
    if getattr(fig, "looked_at", False):
        return
    fig.looked_at = True
    fig.draw_without_rendering()
    renderer = fig.canvas.get_renderer()
    point = fig.dpi / 72
    texts = [(what, text.get_text(), Text.get_window_extent(text, renderer)) for what, text in texts_of(fig)]  # no arrows
    page = fig.bbox
    if not any(what == "x tick" for what, _, _ in texts) or not any(what == "y tick" for what, _, _ in texts):
        complain("an axis has no tick labels")
    for what, words, box in texts:
        if box.x0 < -0.5 or box.y0 < -0.5 or box.x1 > page.width + 0.5 or box.y1 > page.height + 0.5:
            complain(f"{what} {words!r} leaves the page: {box.extents / fig.dpi} of {page.size / fig.dpi}")
    for (what, words, a), (other, others, b) in itertools.combinations(texts, 2):
        wide, high = min(a.x1, b.x1) - max(a.x0, b.x0), min(a.y1, b.y1) - max(a.y0, b.y0)
        if wide > 0.5 * point and high > 0.8 * point:  # extents have room for accents
            complain(f"{what} {words!r} lies over {other} {others!r}")
    for ax in fig.axes:
        if not ax.get_visible():
            continue
        box = ax.get_window_extent(renderer)
        for what, words, a in texts:
            if what in ("annotation", "legend") and ax.get_legend() or what == "annotation":
                continue
            wide, high = min(a.x1, box.x1) - max(a.x0, box.x0), min(a.y1, box.y1) - max(a.y0, box.y0)
            if wide > point and high > point:
                complain(f"{what} {words!r} lies over the axes")
    for legend in fig.legends:
        box = legend.get_window_extent(renderer)
        if box.x0 < -0.5 or box.x1 > page.width + 0.5 or box.y0 < -0.5:
            complain(f"the legend leaves the page: {box.extents / fig.dpi} of {page.size / fig.dpi}")
    cut_markers(fig, renderer)
    if script.endswith("/read_weights.py"):  # every wrong answer is marked, whether or not its query has a label
        marked = [len(line.get_xdata()) for ax in fig.axes for line in ax.lines if line.get_marker() == "<"]
        if not marked or set(marked) != {WRONG_ANSWERS}:
            complain(f"{marked} wrong answers are marked, and there are {WRONG_ANSWERS}")


def scripts_of(argument):
    if not argument.endswith("/"):
        return [argument]
    import numpy as np
    folder, random = pathlib.Path(argument), np.random.default_rng(1)
    tokens = len(re.findall(r"\d+:", re.search(r"TOKENS = (.*)", (folder / "state.py").read_text()).group(1)))
    heads, queries, d = 4, tokens - 2, 8
    overlap = random.normal(size=(heads, tokens, d))
    answers = np.arange(queries)
    arrays = {
        "read_weights": random.normal(size=(heads, queries, tokens)) * 1e-4,
        "key_overlap": overlap @ overlap.transpose(0, 2, 1), "keys": np.arange(tokens), "values": np.arange(tokens),
        "query": answers, "query_position": np.full(queries, tokens), "answer": answers,
        "output": np.eye(tokens)[np.where(answers % 5 == 2, 0, answers)],
        "singular_values": random.random((tokens, heads, d)), "effective_rank": random.random((tokens, heads)) * d,
        "spectrum_positions": np.arange(1, tokens + 1), "half_life": 10 ** random.normal(size=500),
        "beta": random.random(500), "log_decay": -random.random(500),
        "a_gate_whose_name_is_longer_than_its_axis_by_far": random.random(500) * 1e5 + 1e6,
    }
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    return sorted(map(str, folder.glob("*.py")))


def main():
    global script
    matplotlib.figure.Figure.savefig = look
    for script in itertools.chain.from_iterable(map(scripts_of, sys.argv[1:])):
        try:
            runpy.run_path(script, run_name="__main__")
        except FileNotFoundError:  # nothing was saved that could be put in place
            pass
        plt.close("all")
    print("\n".join(found))
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
