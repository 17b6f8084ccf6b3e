"""Draws what every memory holds (recall), replaces (reassign) and follows (swap) beside the size of its state.

    python3 plots/figures/all_memories.py results/published            writes all_memories_figure.pdf and .png there
    python3 plots/figures/all_memories.py --table results/published    prints its numbers as a table, which README.md there shows
    python3 plots/figures/all_memories.py --published results/published    the table of each memory in the layer of its authors

The first two read all_memories.csv of that folder (`crosstalk export` of experiments/all_memories.toml), the third all_memories_published.csv.
The learning rate is the one of the study's with the smallest median validation loss over the seeds that all rates have, for each memory, task
and number of associations (in the layers of their authors, whose runs end at an accuracy, with the largest median validation accuracy, then
the smallest loss); everything else is of the test split and of all seeds at that rate.

recall, reassign: a number of associations is solved when the median test loss over seeds is at most 2e-3 (twice the loss
at which training stops); the dot is the largest number solved with all smaller ones, the line ends at the next one tried,
an arrow says that the largest tried was solved. swap: accuracy after 16 operations on 5 keys, median and range of the
seeds; the dotted line is chance.
Stand-alone: matplotlib (of the figure alone) and the standard library.
"""
# SPDX-License-Identifier: Apache-2.0
import csv
import pathlib
import statistics
import sys

HERE = pathlib.Path((sys.argv[1:] or ["results/published"])[-1])
SOLVED = 2e-3
TASKS = [("recall", "recall: pairs held"), ("reassign", "reassign: keys kept")]
COLOURS = {"recall": "#0072B2", "reassign": "#D55E00", "swap": "#009E73"}


def number(text):
    return float(text) if text else float("inf")


def results():
    """(memory, task) -> {associations or operations: (rate, test losses, test accuracies)}, memory -> floats of the state
    after the longest recall, all rates."""
    runs, state = {}, {}
    for row in csv.DictReader(open(HERE / "all_memories.csv", newline="")):
        memory, task = row["label"], row["task.name"]
        load = int(row["task.operations" if task == "swap" else "task.associations"])
        at = runs.setdefault((memory, task), {}).setdefault(load, {}).setdefault(float(row["train.learning_rate"]), {})
        at[row["seed"]] = number(row["eval_loss"]), number(row["test_loss"]), float(row["test_accuracy"] or 0)
        if task == "recall":
            state[memory] = max(state.get(memory, 0), int(row["state_size"]))
    chosen = {}
    for key, loads in runs.items():
        for load, rates in loads.items():
            shared = set.intersection(*(set(seeds) for seeds in rates.values()))
            best = min(rates, key=lambda rate: (statistics.median(rates[rate][seed][0] for seed in shared), rate))
            of_best = rates[best].values()
            chosen.setdefault(key, {})[load] = (best, [run[1] for run in of_best], [run[2] for run in of_best])
    return chosen, state, sorted({rate for loads in runs.values() for rates in loads.values() for rate in rates})


def print_published():
    """A row a memory in the layer of its authors: test accuracy at the chosen rate (* at the edge of the rates) of each task and load."""
    tried, all_rates, guessing = {}, set(), {}
    for row in csv.DictReader(open(HERE / "all_memories_published.csv", newline="")):
        task = row["task.name"]
        column = {"mqar": (0, f"MQAR, {row['task.pairs']} pairs"), "reassign": (1, f"reassign, {row['task.associations']} keys"),
                  "swap": (2, "swap, 5 keys")}[task]
        load = int(row["task.pairs"] or row["task.associations"])
        rate = float(row["train.learning_rate"])
        all_rates.add(rate)
        guessing[(column[0], load, column[1])] = float(row["chance_accuracy"])
        tried.setdefault((column[0], load, column[1]), {}).setdefault(row["label"], {}).setdefault(rate, {})[row["seed"]] = (
            float(row["eval_accuracy"] or 0), number(row["eval_loss"]), float(row["test_accuracy"] or 0))
    columns = sorted(tried)
    print("| memory |" + "".join(f" {title} |" for _, _, title in columns) + "\n|---|" + "--:|" * len(columns))
    for memory in sorted({label for of in tried.values() for label in of}):
        cells = []
        for column in columns:
            rates = tried[column].get(memory)
            if rates is None:
                cells.append("--")
                continue
            shared = set.intersection(*(set(seeds) for seeds in rates.values()))
            best = min(rates, key=lambda rate: (-statistics.median(rates[rate][seed][0] for seed in shared),
                                                statistics.median(rates[rate][seed][1] for seed in shared), rate))
            accuracy = statistics.median(run[2] for run in rates[best].values())
            cells.append(f"{accuracy:.3f}" + ("*" if best in (min(all_rates), max(all_rates)) else ""))
        print(f"| `{memory}` |" + "".join(f" {cell} |" for cell in cells))
    print("| guessing |" + "".join(f" {guessing[column]:.3f} |" for column in columns))
    print(f"\nTest accuracy at the rate of the best validation accuracy among {', '.join(f'{rate:g}' for rate in sorted(all_rates))}; "
          "* the edge of these rates: beyond it the memory may do better.")


def capacity(by_load):
    """The largest load solved with all smaller ones, and the next (None: the largest was solved)."""
    last = 0
    for load in sorted(by_load):
        if not statistics.median(by_load[load][1]) <= SOLVED:
            return last, load
        last = load
    return last, None


def print_table(chosen, state, rates, swaps, memories):
    lines = ["| memory | state, floats | recall | reassign | swap, accuracy | learning rates |", "|---|--:|--:|--:|--:|---|"]
    edge = False
    for memory in reversed(memories):
        cells = [("≥ " if end is None else "") + str(begin)
                 for begin, end in (capacity(chosen[memory, task]) for task, _ in TASKS)]
        cells.append(f"{statistics.median(swaps[memory]):.2f}")
        used = []  # where it fails: would another rate do better?
        for task in ("recall", "reassign", "swap"):
            end = capacity(chosen[memory, task])[1] if task != "swap" else 16 if statistics.median(swaps[memory]) < 0.99 else None
            rate = chosen[memory, task][end][0] if end else None
            used.append(f"{rate:g}" + ("*" if rate in (rates[0], rates[-1]) else "") if end else "--")
        edge = edge or any(rate.endswith("*") for rate in used)
        lines.append(f"| `{memory}` | {state[memory]:,} | {cells[0]} | {cells[1]} | {cells[2]} | {', '.join(used)} |")
    lines.append("")
    lines.append(f"Learning rates: chosen on validation data among {', '.join(f'{rate:g}' for rate in rates)}; shown where a memory "
                 "fails: at the smallest number of associations that it does not solve, and at 16 swaps"
                 + ("; * the edge of these rates: beyond it the memory may do better." if edge else "."))
    print("\n".join(lines))


def draw(chosen, state, _, swaps, memories):
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    plt.rcParams.update({"font.size": 6.5, "axes.linewidth": 0.5, "pdf.fonttype": 42})
    figure, axes = plt.subplots(1, 4, figsize=(6.75, 6.9), sharey=True, gridspec_kw={"width_ratios": [1.25, 2, 1.5, 1.5]})
    rows = range(len(memories))
    axes[0].barh(rows, [state[m] for m in memories], height=0.55, color="#bbbbbb")
    axes[0].set(xscale="log", xlabel="state, floats")
    axes[0].set_yticks(rows, [m.replace("_", " ") for m in memories])
    for axis, (task, title) in zip(axes[1:], TASKS):
        loads = sorted({load for (_, t), by in chosen.items() if t == task for load in by})
        place = {load: i + 1 for i, load in enumerate(loads)} | {0: 0}
        for y, memory in zip(rows, memories):
            begin, end = capacity(chosen[memory, task])
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


def main():
    if "--published" in sys.argv:
        print_published()
        return
    chosen, state, rates = results()
    swaps = {memory: chosen[memory, "swap"][16][2] for memory in state}
    memories = sorted(state, key=lambda m: (state[m], m), reverse=True)
    (print_table if "--table" in sys.argv else draw)(chosen, state, rates, swaps, memories)


main()
