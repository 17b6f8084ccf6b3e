"""What the tests of the Python package share: the program, and inputs of memories."""
# SPDX-License-Identifier: Apache-2.0
import os
import pathlib
import re
import signal
import subprocess
import zlib
from typing import Any

import numpy as np
import pytest

import crosstalk as ct
from crosstalk import studies

SOURCE = pathlib.Path(__file__).resolve().parents[2]
# A shell's background jobs begin with interrupts ignored, and Python leaves that so.
signal.signal(signal.SIGINT, signal.default_int_handler)


def examples_of(page):
    """(language, name of the file that it is, content, line) of every fenced block of a page."""
    text = page.read_text()
    pattern = r"(?:<!-- (?:file: (\S+)|not run: (needs a GPU)) -->\n)?^```(\w*)\n(.*?)^```"
    return [(m[3], m[1], m[4], text[: m.start(4)].count("\n")) for m in re.finditer(pattern, text, re.S | re.M) if not m[2]]


def call(*words):
    """What the program prints."""
    return subprocess.run([studies.program(), *map(str, words)], check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="session")
def source():
    return SOURCE


@pytest.fixture(scope="session")
def store(tmp_path_factory):
    """A small store of the study mqar: three memories, two loads, two seeds, with weights."""
    path = tmp_path_factory.mktemp("store") / "mqar"
    sets = {"seeds": [1, 2], "train.max_steps": 20, "eval.every": 10, "task.length": 64, "task.pairs": [4, 8],
            "train.keep_weights": True}
    ct.run(SOURCE / "experiments" / "mqar.toml", set=sets, out=path, quiet=True)
    return path


RANGES = {"log_decay": (-1.0, -0.01), "log_decay_a": (-1.0, -0.01), "log_decay_v": (-1.0, -0.01), "signed_decay": (-0.9, 0.9),
          "log_input": (-1.0, 1.0), "log_rate": (-1.0, 0.0)}


def inputs_of(memory, dtype: Any = np.float64, B=2, T=9, H=2, K=4, V=3, N=2, optional=False, **options) -> dict[str, Any]:
    """Numbers for which every memory makes sense: keys of length 1, gates inside (0, 1)."""
    random = np.random.default_rng(zlib.crc32(memory.encode()))
    H = 1 if memory in ("mamba1", "rwkv4") else H
    all = {}
    for name, dims, _, left_out in ct._core.inputs(memory, options, [B, T, H, K, V, N]):
        if left_out and not optional:
            continue
        if name in ("q", "k", "v", "a", "b", "erase_key") or name.endswith("0"):
            x = random.normal(size=dims)
            if name in ("k", "a", "b", "erase_key"):
                x = np.abs(x) / np.sqrt((x * x).sum(-1, keepdims=True)) * (-0.5 if name == "a" else 0.9)
        else:
            x = random.uniform(*RANGES.get(name, (0.05, 0.9)), size=dims)
        all[name] = x.astype(dtype)
    return all


OPTIONS: dict[str, dict[str, Any]] = {"rule": {"law": "beta = token; S += beta (v - S k) k^T; read S q"}}
os.environ.setdefault("OMP_NUM_THREADS", "1")
