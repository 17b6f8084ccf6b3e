#!/usr/bin/env python3
"""Whether the figures that the program calculates are right: draws them, small, and holds their numbers against theory.

    figures_test.py CROSSTALK
"""
# SPDX-License-Identifier: Apache-2.0
import csv
import importlib.util
import math
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent


def rows_of(name, crosstalk, folder, *options):
    out = folder / name
    subprocess.run([sys.executable, HERE / f"{name}.py", crosstalk, out, *options], check=True)
    for ending in (".pdf", ".png"):
        assert out.with_name(name + ending).stat().st_size > 1000, name + ending
    with open(out.with_name(name + ".csv"), newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def check_dpfp(rows):
    """phi of (x1, x2): the product of two neighbours of relu(x1), relu(x2), relu(-x1), relu(-x2)."""
    for row in rows:
        x = [float(row["x1"]), float(row["x2"])]
        f = [max(e, 0) for e in x] + [max(-e, 0) for e in x]
        for i in range(4):
            assert math.isclose(float(row[f"phi{i + 1}"]), f[i] * f[i - 1], abs_tol=1e-5), row


def check_kernels(rows):
    value = {(row["panel"], row["label"], int(row["d_dot"])): float(row["median"]) for row in rows}
    sizes = [math.comb(8 + degree, degree) for degree in range(1, 6)]
    errors = [value["error", "taylor", size] for size in sizes]
    assert all(b < 0.6 * a for a, b in zip(errors, errors[1:])), errors
    for label in ("taylor", "power"):
        assert all(value["rank", label, size] == size for size in sizes[:2]), label  # full rank while there is room
    assert value["error", "taylor", sizes[0]] == value["error", "power", sizes[0]]  # 1 + q.k both


def main():
    if importlib.util.find_spec("matplotlib") is None:
        print("skipped: matplotlib is not installed")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as name:
        folder, crosstalk = Path(name), sys.argv[1]
        check_dpfp(rows_of("dpfp", crosstalk, folder))
        check_kernels(rows_of("kernels", crosstalk, folder))
    print("figures: as they should be")


if __name__ == "__main__":
    main()
