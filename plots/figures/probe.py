#!/usr/bin/env python3
"""Probe: what memories recall of random keys, without training, beside theory.

    python3 plots/figures/probe.py CROSSTALK OUT [--keys random|orthonormal] [--loads 8,16,...]

n pairs of a random unit key and a random unit value, of D = 32 numbers each, are written one after the other with all gates
open (beta 1, no decay); then every key is asked. The program reads (`crosstalk apply`); from what is read o and the value v
here come

    squared error   |o - v|^2
    SNR             s^2 / |o - s v|^2, s = o.v
    recall          how often o is nearest to v, by angle, among the n values

Writes OUT.csv, all memories whose gates can be open at loads from D/4 to 4 D, and draws some of them (OUT.pdf, OUT.png) with
theory for random keys: the sum rule's error (n - 1) / D, the optimum 1 - D / n of any linear memory above n = D, and the loads
up to which all n are right, 8 n ln n = D^2 for the sum rule and 2 n ln n = D^2 for the optimum (arXiv 2605.05189, proposition 1). Needs numpy and
matplotlib; a minute on two cores.
"""
# SPDX-License-Identifier: Apache-2.0
import argparse
import csv
import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

D, READS = 32, 512  # numbers a key and a value; keys asked for a point, at least
LOADS = [8, 12, 16, 24, 32, 48, 64, 96, 128]
OPEN = {  # inputs of memories such that nothing is held back and nothing fades
    "log_decay": 0, "log_decay_v": 0, "beta": 1, "step": 1, "in_context_rate": 1, "bonus": 1, "slope": 0, "ridge": 1e-3,
    "erase_key": "k", "gate": 1, "sink": -30,
}
VARIANTS = {  # further rows: label -> memory, inputs that differ, options
    "delta, beta 0.5": ("delta", {"beta": 0.5}, []),
    "linear_attention, taylor": ("linear_attention", {}, ["feature_map=taylor"]),
    "softmax, scale D/2": ("softmax", {}, [f"scale={D // 2}"]),
}
LOOKS = {  # label -> legend, colour, marker (Okabe and Ito 2008)
    "linear_attention": ("Linear attention", "#0072B2", "o"),
    "delta": (r"Delta rule, $\beta$ = 1", "#D55E00", "s"),
    "delta, beta 0.5": (r"Delta rule, $\beta$ = 0.5", "#E69F00", "D"),
    "mesa": ("Ridge (MesaNet)", "#009E73", "^"),
    "softmax, scale D/2": ("Softmax, scale $d$/2", "#CC79A7", "v"),
}


def unit_rows(random, *shape):
    x = random.normal(size=shape)
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def told(crosstalk, *command):
    return json.loads(subprocess.run([crosstalk, *command, "--json"], check=True, capture_output=True, text=True).stdout)


def memories(crosstalk):
    """label -> (memory, numbers or "k" of its inputs, options); and the names of those that want other inputs."""
    found, left = {}, []
    listed = told(crosstalk, "list", "memories")
    for entry in listed if isinstance(listed, list) else next(v for v in listed.values() if isinstance(v, list)):
        name = entry["name"]
        inputs = [i for i in told(crosstalk, "describe", name)["inputs"] if i["name"] not in ("q", "k", "v", "s0")]
        wanted = {i["name"]: i["shape"] for i in inputs if not i["optional"]}
        if all(i in OPEN for i in wanted) and not any("N" in shape for shape in wanted.values()):
            found[name] = (name, {i: (OPEN[i], shape) for i, shape in wanted.items()}, [])
        else:
            left.append(name)
    for label, (name, changes, options) in VARIANTS.items():
        inputs = {i: (changes.get(i, value), shape) for i, (value, shape) in found[name][1].items()}
        found[label] = (name, inputs, options)
    return found, left


def read(crosstalk, memory, k, v):
    """What is read of every key once all are written, o [sets,n,D]: a sequence a key, asked at its last token."""
    name, inputs, options = memory
    sets, n, _ = k.shape
    sizes = {"B": sets * n, "T": n, "H": 1, "K": D, "V": D}
    keys = np.repeat(k, n, 0).reshape(sets * n, n, 1, D)
    tensors = {"k": keys, "v": np.repeat(v, n, 0).reshape(sets * n, n, 1, D), "q": np.zeros_like(keys)}
    tensors["q"][:, -1, 0] = k.reshape(sets * n, D)
    for i, (value, shape) in inputs.items():
        dims = [sizes[letter] for letter in shape.strip("[]").split(",")]
        tensors[i] = keys if isinstance(value, str) else np.full(dims, float(value))
    with tempfile.TemporaryDirectory() as folder:
        given, out = Path(folder) / "in", Path(folder) / "out"
        given.mkdir()
        for i, tensor in tensors.items():
            np.save(given / f"{i}.npy", tensor.astype(np.float32))
        settings = [word for option in options for word in ("--set", option)]
        done = subprocess.run([crosstalk, "apply", name, "--precision", "fp32", "--in", given, "--out", out, *settings],
                              capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{name}: {done.stderr}")
        return np.load(out / "o.npy")[:, -1, 0].reshape(sets, n, D).astype(float)


def measure(o, v):
    s = (o * v).sum(-1)
    noise = ((o - s[..., None] * v) ** 2).sum(-1)
    nearest = np.einsum("sid,sjd->sij", o, v).argmax(-1)
    right = nearest == np.arange(v.shape[1])
    quarter = max(1, v.shape[1] // 4)
    return {"squared_error": ((o - v) ** 2).sum(-1).mean(), "snr": (s**2).mean() / max(noise.mean(), 1e-30),
            "recall": right.mean(), "all_right": right.all(-1).mean(), "recall_oldest": right[:, :quarter].mean(),
            "recall_newest": right[:, -quarter:].mean()}


def transition(c):
    """n with c n ln n = D^2."""
    n = D * D / c
    for _ in range(200):
        n = D * D / c / math.log(n)
    return n


def draw(rows, out):
    plt.rcParams.update({"font.size": 7.5, "axes.linewidth": 0.6, "pdf.fonttype": 42, "legend.fontsize": 7})
    figure, axes = plt.subplots(2, 1, figsize=(3.25, 3.7), sharex=True)
    grey = "#555555"
    for axis, metric in zip(axes, ("squared_error", "recall")):
        for label, (_, colour, marker) in LOOKS.items():
            points = [(row["n"] / D, row[metric]) for row in rows if row["memory"] == label]
            axis.plot(*zip(*points), color=colour, marker=marker, ms=3, lw=1)
        axis.set_xscale("log")
        axis.grid(True, lw=0.3, color="#dddddd")
        axis.spines[["top", "right"]].set_visible(False)
    n = np.geomspace(LOADS[0], LOADS[-1], 100)
    axes[0].plot(n / D, (n - 1) / D, color=grey, lw=0.9, ls="--")
    above = np.geomspace(D * 1.02, LOADS[-1], 100)
    axes[0].plot(above / D, 1 - D / above, color=grey, lw=0.9, ls="--")
    axes[0].set(yscale="log", ylim=(1e-8, 20), ylabel="squared error")
    for c, name in ((8, "sum rule"), (2, "optimum")):
        x = transition(c) / D
        axes[1].axvline(x, color=grey, lw=0.8, ls=":")
        axes[1].annotate(f"all right,\n{name}", (x, 0.03), xytext=(-2, 0), textcoords="offset points", ha="right",
                         va="bottom", fontsize=6, color=grey)
    axes[1].set(ylim=(0, 1.03), ylabel="recall", xlabel="pairs stored, $n / d$")
    ticks = [0.25, 0.5, 1, 2, 4]
    axes[1].set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes[1].minorticks_off()
    handles = [plt.Line2D([], [], color=c, marker=m, ms=3, lw=1, label=name) for name, c, m in LOOKS.values()]
    handles.append(plt.Line2D([], [], color=grey, lw=0.9, ls="--", label="Theory"))
    figure.subplots_adjust(left=0.16, right=0.98, top=0.85, bottom=0.11, hspace=0.12)
    figure.legend(handles=handles, loc="upper center", ncol=2, frameon=False, handlelength=1.8, columnspacing=1.2,
                  borderaxespad=0.2)
    figure.align_ylabels()
    for ending in (".pdf", ".png"):
        figure.savefig(out.with_name(out.name + ending), dpi=300)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("crosstalk")
    parser.add_argument("out", type=Path)
    parser.add_argument("--keys", choices=["random", "orthonormal"], default="random")
    parser.add_argument("--loads", type=lambda text: [int(n) for n in text.split(",")], default=LOADS)
    arguments = parser.parse_args()
    crosstalk, out, orthonormal = arguments.crosstalk, arguments.out, arguments.keys == "orthonormal"
    found, left = memories(crosstalk)
    if left:
        print("left out, for they want other inputs:", ", ".join(left), file=sys.stderr)
    rows = []
    for n in arguments.loads:
        if orthonormal and n > D:
            break
        random = np.random.default_rng(n)
        sets = -(-READS // n)
        k = np.linalg.qr(random.normal(size=(sets, D, D)))[0][:, :n] if orthonormal else unit_rows(random, sets, n, D)
        v = unit_rows(random, sets, n, D)
        for label, memory in found.items():
            rows.append({"memory": label, "d": D, "n": n, **measure(read(crosstalk, memory, k, v), v)})
    rows.sort(key=lambda row: (list(found).index(row["memory"]), row["n"]))
    with open(out.with_name(out.name + ".csv"), "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows({key: f"{x:.5g}" if isinstance(x, float) else x for key, x in row.items()} for row in rows)
    draw(rows, out)


if __name__ == "__main__":
    main()
