#!/usr/bin/env python3
"""Draws the time of a memory's forms against the length of the sequence.

    python3 benchmarks/forms_figure.py FORMS.csv FIGURE.pdf [FIGURE.png]

FORMS.csv is what crosstalk_forms_benchmark prints (benchmarks/README.md has the command); one panel a memory, one line
a form and format, forward and backward together, at a constant number of tokens. Needs pandas and matplotlib.
"""

import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import pandas as pd

LOOKS = {  # colours that all readers can tell apart (Okabe and Ito 2008)
    ("chunk", "bf16"): ("#0072B2", "-", "o", "chunk, bf16"),
    ("chunk", "fp32"): ("#56B4E9", "--", "s", "chunk, fp32"),
    ("parallel", "fp32"): ("#D55E00", "-", "^", "parallel (T × T)"),
    ("recurrent", "fp32"): ("#000000", "-", "D", "recurrent"),
    ("query", "fp32"): ("#009E73", "-", "v", "query"),
}
TITLES = {
    "linear_attention": "Linear attention",
    "delta": "DeltaNet",
    "gated_delta": "Gated DeltaNet",
    "kda": "KDA",
    "softmax": "Softmax attention",
}


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    rows = pd.read_csv(sys.argv[1])
    memories = [m for m in dict.fromkeys(rows.memory) if m != "softmax"]
    plt.rcParams.update({"font.size": 7, "axes.linewidth": 0.6, "pdf.fonttype": 42})
    figure, axes = plt.subplots(1, len(memories), figsize=(6.75, 2.15), sharey=True)
    for axis, memory in zip(axes, memories):
        for (form, number), (colour, dash, marker, _) in LOOKS.items():
            line = rows[(rows.memory == memory) & (rows.form == form) & (rows.format == number)].sort_values("T")
            axis.plot(line["T"], line.both_us / 1e3, dash, color=colour, marker=marker, ms=2.8, lw=1)
        attention = rows[(rows.memory == "softmax") & (rows.format == "fp32")].sort_values("T")
        axis.plot(attention["T"], attention.both_us / 1e3, ":", color="#777777", lw=1)
        axis.set(title=TITLES.get(memory, memory), xscale="log", yscale="log", xlabel="tokens a sequence, $T$")
        axis.set_xticks([64, 256, 1024, 4096], ["64", "256", "1024", "4096"])
        axis.minorticks_off()
        axis.grid(True, which="major", lw=0.3, color="#dddddd")
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("forward + backward, ms")
    handles = [plt.Line2D([], [], color=c, ls=d, marker=m, ms=2.8, lw=1, label=text) for c, d, m, text in LOOKS.values()]
    handles.append(plt.Line2D([], [], color="#777777", ls=":", lw=1, label="softmax attention"))
    figure.subplots_adjust(left=0.07, right=0.99, top=0.9, bottom=0.31, wspace=0.1)
    figure.legend(handles=handles, loc="lower center", ncol=6, frameon=False, handlelength=2.2, columnspacing=1.4)
    for path in sys.argv[2:]:
        figure.savefig(path, dpi=300)


main()
