#!/usr/bin/env python3
# What a call of ct.apply costs where there is little to calculate. SPDX-License-Identifier: Apache-2.0
"""usage: python3 benchmarks/apply_overhead.py [--rounds N] [--only MEMORY] [NAME=FOLDER ...]

Microseconds of processor time a call on one thread, as a Markdown table. FOLDER has the package (PYTHONPATH, such as
build/cpu/python), and several are measured in turn, round after round; without one it is the package that Python finds.
Beside each time stands what it is to numpy's causal linear attention of the same shape, tril(q k^T) v, in the same process:
machines and hours differ less in it. The least of all rounds counts. PyTorch's columns are empty where it is not installed.
"""
import argparse
import json
import os
import subprocess
import sys
import time

SHAPES = [(1, 16), (1, 128), (8, 128), (32, 128)]  # sequences, tokens; four heads of 16
KINDS = ["numpy", "numpy, d_o", "torch", "torch, backward"]


def timed(call, seconds=0.002, windows=20):
    """us of the processor a call, the least of so many windows of calls."""
    call()
    begin = time.process_time()
    call()
    n = max(1, int(seconds / max(1e-6, time.process_time() - begin)))
    least = float("inf")
    for _ in range(windows):
        begin = time.process_time()
        for _ in range(n):
            call()
        least = min(least, (time.process_time() - begin) / n)
    return least * 1e6


def measured(memory):
    """{kind: {shape: us}} of this process, the reference among the kinds."""
    import numpy as np

    import crosstalk as ct

    try:
        import torch

        torch.set_num_threads(1)
    except ImportError:
        torch = None
    ct.set_threads(1)
    found = {kind: {} for kind in ["reference", *KINDS]}
    for B, T in SHAPES:
        random = np.random.default_rng(0)
        x = {n: random.normal(size=(B, T, 4, 16)).astype("float32") for n in "qkv"}
        x["k"] /= np.linalg.norm(x["k"], axis=-1, keepdims=True)
        x["beta"], x["log_decay"] = random.uniform(size=(B, T, 4)), -random.uniform(0, 0.1, size=(B, T, 4))
        x = {n: x[n].astype("float32") for n in ct.describe(memory).inputs if n in x}
        q, k, v = (np.ascontiguousarray(x[n].swapaxes(1, 2)) for n in "qkv")
        mask, d_o = np.tril(np.ones((T, T), "float32")), np.ones_like(x["v"])
        calls = {
            "reference": lambda: ((q @ k.swapaxes(-1, -2)) * mask) @ v,
            "numpy": lambda: ct.apply(memory, **x),
            "numpy, d_o": lambda: ct.apply(memory, **x, d_o=d_o),
        }
        if torch:
            tensors = {n: torch.from_numpy(y) for n, y in x.items()}
            followed = {n: y.clone().requires_grad_() for n, y in tensors.items()}
            ones = torch.from_numpy(d_o)
            calls["torch"] = lambda: ct.apply(memory, **tensors)
            calls["torch, backward"] = lambda: ct.apply(memory, **followed)[0].backward(ones)
        for kind, call in calls.items():
            found[kind][f"{B} x {T}"] = timed(call)
    return found


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--only", default="gated_delta")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("folders", nargs="*")
    options = parser.parse_args()
    if options.child:
        print(json.dumps(measured(options.only)))
        return
    folders = dict(word.split("=", 1) for word in options.folders) or {"installed": os.environ.get("PYTHONPATH", "")}
    best = {}
    for _ in range(options.rounds):
        for name, folder in folders.items():
            environment = dict(os.environ, PYTHONPATH=folder, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
            words = [sys.executable, __file__, "--child", "--only", options.only]
            for kind, of in json.loads(subprocess.run(words, env=environment, check=True, capture_output=True).stdout).items():
                for shape, us in of.items():
                    at = name, kind, shape
                    best[at] = min(us, best.get(at, us))
    print("| package | tokens | reference, us | " + " | ".join(f"{kind}, us (times)" for kind in KINDS) + " |")
    print("|---|--:|--:|" + "--:|" * len(KINDS))
    for B, T in SHAPES:
        for name in folders:
            reference = best[name, "reference", f"{B} x {T}"]
            cells = [best.get((name, kind, f"{B} x {T}")) for kind in KINDS]
            shown = ["" if us is None else f"{us:.1f} ({us / reference:.2f})" for us in cells]
            print(f"| {name} | {B} x {T} | {reference:.1f} | " + " | ".join(shown) + " |")


if __name__ == "__main__":
    main()
