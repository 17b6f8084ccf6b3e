#!/usr/bin/env python3
"""How good can a finite-dimensional linear attention be? Error, rank and loss of three against d_dot.

    python3 plots/figures/kernels.py CROSSTALK OUT [--runs STORE]

CROSSTALK is the program, which calculates every number: `apply` the products phi(q).phi(k) of 256 random queries and keys of
8 numbers with q.k of standard deviation 0.5, and `run` of experiments/kernels.toml the losses in STORE (without --runs, that
panel is left out). Writes OUT.csv, OUT.pdf and OUT.png. Needs numpy and matplotlib; seconds on one core.
"""
# SPDX-License-Identifier: Apache-2.0
import csv
import math
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

D, N, SETS = 8, 256, 4  # numbers a key, keys and queries of a set, sets
TOLERANCE = 1e-3  # singular values above this part of the largest count as rank
LOOKS = {  # colours that all readers can tell apart (Okabe and Ito 2008)
    "favor": ("FAVOR+", "#0072B2", "o"),
    "taylor": ("Taylor, degree $n$", "#D55E00", "s"),
    "power": (r"$(1 + q\cdot k/n)^n$", "#009E73", "^"),
}
SOFTMAX = ("Softmax attention", "#555555")
MOST = 3003  # features


def products(crosstalk, q, k, options):
    """phi(q_i).phi(k_j) [SETS,N,N]: keys first, with one-hot values; then the queries, whose keys have the value 0."""
    T = 2 * N
    tensors = {name: np.zeros((SETS, T, 1, D)) for name in "qk"}
    tensors["q"][:, N:, 0], tensors["k"][:, :N, 0] = q, k
    tensors["v"] = np.zeros((SETS, T, 1, N))
    tensors["v"][:, :N, 0] = np.eye(N)
    with tempfile.TemporaryDirectory() as folder:
        given, read = Path(folder) / "in", Path(folder) / "out"
        given.mkdir()
        for name, tensor in tensors.items():
            np.save(given / f"{name}.npy", tensor)
        settings = [word for option in options for word in ("--set", option)]
        subprocess.run([crosstalk, "apply", "linear_attention", "--in", given, "--out", read, *settings], check=True,
                       stdout=subprocess.DEVNULL)
        return np.load(read / "o.npy")[:, N:, 0]


def rank(scores):
    values = np.linalg.svd(scores, compute_uv=False)
    return int((values > TOLERANCE * values[0]).sum())


def kernel_rows(crosstalk):
    """Rows (panel, label, d_dot, median, lo, hi) of the first two panels."""
    random = np.random.default_rng(1)
    q, k = (random.normal(size=(SETS, N, D)) * (0.5**2 / D) ** 0.25 for _ in range(2))
    exact = np.exp(q @ k.transpose(0, 2, 1))
    rows = [("rank", "softmax", 0, *spread([rank(scores) for scores in exact]))]
    for label in LOOKS:
        for degree in range(1, 7):
            d_dot = math.comb(D + degree, degree)
            if d_dot > MOST:
                break
            even = d_dot - d_dot % 2  # FAVOR+ has two features a direction
            options = [f"features={even // 2}"] if label == "favor" else [f"degree={degree}"]
            got = products(crosstalk, q, k, [f"feature_map={label}", *options])
            errors = [np.linalg.norm(a - b) / np.linalg.norm(b) for a, b in zip(got, exact)]
            rows.append(("error", label, even if label == "favor" else d_dot, *spread(errors)))
            rows.append(("rank", label, even if label == "favor" else d_dot, *spread([rank(a) for a in got])))
    return rows


def spread(values):
    return statistics.median(values), min(values), max(values)


def loss_rows(crosstalk, store):
    told = subprocess.run([crosstalk, "export", store], check=True, capture_output=True, text=True).stdout
    losses = {}
    for row in csv.DictReader(told.splitlines()):
        if row["status"] == "done":
            losses.setdefault((row["label"], int(row["d_dot"] or 0)), []).append(float(row["best_eval_loss"]))
    return [("loss", label, d_dot, *spread(values)) for (label, d_dot), values in sorted(losses.items())]


def draw(rows, out):
    plt.rcParams.update({"font.size": 7.5, "axes.linewidth": 0.6, "pdf.fonttype": 42, "legend.fontsize": 7})
    panels = [panel for panel in ("error", "rank", "loss") if any(row[0] == panel for row in rows)]
    figure, axes = plt.subplots(len(panels), 1, figsize=(3.25, 0.55 + 1.32 * len(panels)))
    for axis, panel in zip(np.atleast_1d(axes), panels):
        lines = {}
        for _, label, d_dot, *values in [row for row in rows if row[0] == panel]:
            lines.setdefault(label, []).append((d_dot, *values))
        for label, (_, colour, marker) in LOOKS.items():
            x, y, low, high = (np.array(column) for column in zip(*sorted(lines[label])))
            axis.plot(x, y, color=colour, marker=marker, ms=3, lw=1)
            axis.fill_between(x, low, high, color=colour, alpha=0.2, lw=0)
        if "softmax" in lines:
            axis.axhline(lines["softmax"][0][1], color=SOFTMAX[1], lw=0.9, ls="--")
        axis.set(xscale="log", yscale="linear" if panel == "loss" else "log",
                 ylabel={"error": "error of $e^{q\\cdot k}$", "rank": "rank of scores", "loss": "loss"}[panel])
        if panel == "loss":
            axis.set_ylim(bottom=-0.01)
        ticks = {"error": [10, 100, 1000], "rank": [10, 100, 1000], "loss": [10, 20, 40, 80]}[panel]
        axis.set_xticks(ticks, [str(tick) for tick in ticks])
        axis.minorticks_off()
        axis.grid(True, lw=0.3, color="#dddddd")
        axis.spines[["top", "right"]].set_visible(False)
    np.atleast_1d(axes)[-1].set_xlabel(r"features, $d_{\mathrm{dot}}$")
    handles = [plt.Line2D([], [], color=c, marker=m, ms=3, lw=1, label=name) for name, c, m in LOOKS.values()]
    handles.append(plt.Line2D([], [], color=SOFTMAX[1], lw=0.9, ls="--", label=SOFTMAX[0]))
    height = figure.get_size_inches()[1]
    figure.subplots_adjust(left=0.17, right=0.98, top=1 - 0.42 / height, bottom=0.38 / height, hspace=0.3)
    figure.legend(handles=handles, loc="upper center", ncol=2, frameon=False, handlelength=1.8, columnspacing=1.2,
                  borderaxespad=0.2)
    figure.align_ylabels()
    for ending in (".pdf", ".png"):
        figure.savefig(out.with_name(out.name + ending), dpi=300)


def main():
    arguments = sys.argv[1:]
    store = arguments[arguments.index("--runs") + 1] if "--runs" in arguments else None
    if store:
        del arguments[arguments.index("--runs"):arguments.index("--runs") + 2]
    if len(arguments) != 2:
        sys.exit(__doc__)
    crosstalk, out = arguments[0], Path(arguments[1])
    rows = kernel_rows(crosstalk) + (loss_rows(crosstalk, store) if store else [])
    with open(out.with_name(out.name + ".csv"), "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["panel", "label", "d_dot", "median", "lo", "hi"])
        writer.writerows([*row[:3], *(f"{value:.6g}" for value in row[3:])] for row in rows)
    draw(rows, out)


if __name__ == "__main__":
    main()
