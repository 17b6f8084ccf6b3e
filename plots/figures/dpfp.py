#!/usr/bin/env python3
"""DPFP with nu = 1 as four surfaces over the plane: each feature lives in one quadrant.

    python3 plots/figures/dpfp.py CROSSTALK OUT

The program calculates phi: `apply` with the keys (1,1), (-1,1), (-1,-1) and (1,-1), whose features are the unit vectors, and
one-hot values reads phi(q) itself (Schlag, Irie, Schmidhuber 2021, figure 2). Writes OUT.csv, OUT.pdf and OUT.png. Needs
numpy and matplotlib; seconds on one core.
"""
# SPDX-License-Identifier: Apache-2.0
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

KEYS = [(1, -1), (1, 1), (-1, 1), (-1, -1)]  # phi of the i-th is the i-th unit vector
COLOURS = ["#D55E00", "#0072B2", "#009E73", "#CC79A7"]
SIDE = 41  # points along an axis


def features(crosstalk, points):
    T = 4 + len(points)
    tensors = {"q": np.zeros((1, T, 1, 2)), "k": np.zeros((1, T, 1, 2)), "v": np.zeros((1, T, 1, 4))}
    tensors["k"][0, :4, 0], tensors["v"][0, :4, 0], tensors["q"][0, 4:, 0] = KEYS, np.eye(4), points
    with tempfile.TemporaryDirectory() as folder:
        given, read = Path(folder) / "in", Path(folder) / "out"
        given.mkdir()
        for name, tensor in tensors.items():
            np.save(given / f"{name}.npy", tensor)
        subprocess.run([crosstalk, "apply", "linear_attention", "--in", given, "--out", read, "--set", "feature_map=dpfp",
                        "--set", "nu=1"], check=True, stdout=subprocess.DEVNULL)
        return np.load(read / "o.npy")[0, 4:, 0]


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    crosstalk, out = sys.argv[1], Path(sys.argv[2])
    x, y = np.meshgrid(np.linspace(-1, 1, SIDE), np.linspace(-1, 1, SIDE))
    points = np.stack([x.ravel(), y.ravel()], 1)
    phi = features(crosstalk, points)
    table = np.concatenate([points, phi], 1)
    np.savetxt(out.with_name(out.name + ".csv"), table, "%.6g", ",", header="x1,x2,phi1,phi2,phi3,phi4", comments="")

    plt.rcParams.update({"font.size": 7.5, "pdf.fonttype": 42, "legend.fontsize": 7})
    figure = plt.figure(figsize=(3.25, 2.6))
    axis = figure.add_axes([-0.06, 0.08, 1.06, 1.0], projection="3d", computed_zorder=False)
    axis.view_init(elev=28, azim=-60)
    centre = SIDE // 2
    first, second = slice(0, centre + 1), slice(centre, SIDE)
    quadrants = {0: (first, second), 1: (second, second), 2: (second, first), 3: (first, first)}  # rows are x2
    for i in (2, 3, 1, 0):  # from the back to the front
        where = quadrants[i]
        axis.plot_surface(x[where], y[where], phi[:, i].reshape(SIDE, SIDE)[where], color=COLOURS[i], rstride=2, cstride=2,
                          linewidth=0.25, edgecolor="white", shade=False)
    axis.set(xlim=(-1, 1), ylim=(-1, 1), zlim=(0, 1), xticks=[-1, 0, 1], yticks=[-1, 0, 1], zticks=[0, 0.5, 1])
    axis.tick_params(pad=-2)
    axis.set_xlabel("$x_1$", labelpad=-7)
    axis.set_ylabel("$x_2$", labelpad=-7)
    axis.set_zlabel("$\\phi_i$", labelpad=-6)
    handles = [plt.Rectangle((0, 0), 1, 1, color=colour, label=f"$\\phi_{i + 1}$") for i, colour in enumerate(COLOURS)]
    figure.legend(handles=handles, loc="lower center", ncol=4, frameon=False, handlelength=1, columnspacing=1.5)
    for ending in (".pdf", ".png"):
        figure.savefig(out.with_name(out.name + ending), dpi=300)


if __name__ == "__main__":
    main()
