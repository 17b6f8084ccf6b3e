"""Draws what every memory holds (recall), replaces (reassign) and follows (swap) beside the size of its state, from
all_memories.csv: python3 all_memories_figure.py, which writes a PDF, a PNG and a Markdown table beside it.

recall, reassign: a number of associations is solved when the median evaluation loss over seeds is at most 2e-3, twice
train.stop_loss; the dot is the largest number such that it and every smaller one are solved, the line ends at the next
one, an arrow says that the largest number tried was solved. swap: accuracy at 16 operations on 5 keys, median and range
of the seeds; the dotted line is chance. Stand-alone: matplotlib and the standard library.
"""
# SPDX-License-Identifier: Apache-2.0
import os
import sys

sys.path[:] = [path for path in sys.path if os.path.realpath(path) != os.path.dirname(os.path.realpath(__file__))]

import csv
import pathlib
import statistics

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

HERE = pathlib.Path(__file__).resolve().parent
SOLVED = 2e-3  # twice train.stop_loss
TASKS = [("recall", "recall: pairs held"), ("reassign", "reassign: keys kept")]
COLOURS = {"recall": "#0072B2", "reassign": "#D55E00", "swap": "#009E73"}


def results():
    """(memory, task) -> {load: [losses]}, memory -> [accuracies at 16 swaps], memory -> floats for the longest recall."""
    losses, swaps, state = {}, {}, {}
    for row in csv.DictReader(open(HERE / "all_memories.csv", newline="")):
        memory, task = row["label"], row["task.name"]
        if task == "swap":
            if int(row["task.operations"]) == 16:
                swaps.setdefault(memory, []).append(float(row["eval_accuracy"]))
            continue
        at = losses.setdefault((memory, task), {}).setdefault(int(row["task.associations"]), [])
        at.append(float(row["eval_loss"]) if row["eval_loss"] else float("inf"))
        if task == "recall":
            state[memory] = max(state.get(memory, 0), int(row["state_size"]))
    return losses, swaps, state


def capacity(by_load):
    """The largest load solved with all smaller ones, and the next (None: the largest was solved)."""
    last = 0
    for load in sorted(by_load):
        if not statistics.median(by_load[load]) <= SOLVED:
            return last, load
        last = load
    return last, None


def main():
    losses, swaps, state = results()
    memories = sorted(state, key=lambda m: (state[m], m), reverse=True)
    lines = ["| memory | state, floats | recall | reassign | swap, accuracy |", "|---|--:|--:|--:|--:|"]
    for memory in reversed(memories):
        cells = [("≥ " if end is None else "") + str(begin)
                 for begin, end in (capacity(losses[memory, task]) for task, _ in TASKS)]
        lines.append(f"| `{memory}` | {state[memory]:,} | {cells[0]} | {cells[1]} | {statistics.median(swaps[memory]):.2f} |")
    (HERE / "all_memories_table.md").write_text("\n".join(lines) + "\n")

    plt.rcParams.update({"font.size": 6.5, "axes.linewidth": 0.5, "pdf.fonttype": 42})
    figure, axes = plt.subplots(1, 4, figsize=(6.75, 6.9), sharey=True, gridspec_kw={"width_ratios": [1.25, 2, 1.5, 1.5]})
    rows = range(len(memories))
    axes[0].barh(rows, [state[m] for m in memories], height=0.55, color="#bbbbbb")
    axes[0].set(xscale="log", xlabel="state, floats")
    axes[0].set_yticks(rows, [m.replace("_", " ") for m in memories])
    for axis, (task, title) in zip(axes[1:], TASKS):
        loads = sorted({load for (_, t), by in losses.items() if t == task for load in by})
        place = {load: i + 1 for i, load in enumerate(loads)} | {0: 0}
        for y, memory in zip(rows, memories):
            begin, end = capacity(losses[memory, task])
            colour = COLOURS[task]
            if end is None:
                axis.plot([place[begin], place[begin] + 0.55], [y, y], color=colour, lw=0.9)
                axis.plot(place[begin] + 0.55, y, ">", color=colour, ms=2.6)
            else:
                axis.plot([place[begin], place[end]], [y, y], color=colour, lw=0.9)
            axis.plot(place[begin], y, "o" if begin else "x", color=colour, ms=3)
        axis.set_xticks(range(len(loads) + 1), ["0"] + [str(load) for load in loads])
        axis.set(xlabel=title, xlim=(-0.4, len(loads) + 0.9))
    for y, memory in zip(rows, memories):
        axes[3].plot([min(swaps[memory]), max(swaps[memory])], [y, y], color=COLOURS["swap"], lw=0.9)
        axes[3].plot(statistics.median(swaps[memory]), y, "o", color=COLOURS["swap"], ms=3)
    axes[3].axvline(0.2, color="#555555", lw=0.6, ls=":")
    axes[3].set(xlabel="swap: accuracy at 16 swaps", xlim=(0, 1.03))
    for axis in axes:
        axis.set_ylim(-0.8, len(memories) - 0.2)
        axis.grid(True, axis="both", lw=0.25, color="#dddddd")
        axis.set_axisbelow(True)
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(length=2, width=0.5)
    figure.subplots_adjust(left=0.165, right=0.995, top=0.995, bottom=0.055, wspace=0.08)
    for suffix in ("pdf", "png"):
        figure.savefig(HERE / f"all_memories_figure.{suffix}", dpi=220, metadata={"CreationDate": None} if suffix == "pdf" else None)


main()
