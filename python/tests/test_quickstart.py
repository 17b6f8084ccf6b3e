"""The first figure: `python -m crosstalk quickstart`."""
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import subprocess
import sys

import pytest


def quickstart(folder, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "crosstalk", "quickstart", *words], cwd=folder, capture_output=True, text=True,
        env={**os.environ, **environment},
    )


def test_figure_of_the_shipped_study(tmp_path):
    pytest.importorskip("matplotlib")
    # Whatever else the folder holds: the study is that of the program.
    (tmp_path / "experiments").mkdir()
    few = ("--set", "memory=linear,softmax", "--set", "task.associations=8,20", "--set", "seeds=1")
    done = quickstart(tmp_path, *few, "--set", "train.max_steps=20", "--set", "eval.every=10", PATH="/nowhere", CROSSTALK_PYTHON="")
    assert done.returncode == 0, done.stderr
    names = {f"figures/quickstart.{ending}" for ending in ("csv", "py", "pdf", "png", "caption.txt")}
    assert {line.split()[0] for line in done.stdout.splitlines()} >= names - {"figures/quickstart.caption.txt"}
    assert all((tmp_path / name).stat().st_size > 0 for name in names)
    assert "4 runs" in done.stderr


def test_says_what_is_missing(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['matplotlib'] = None\n")
    done = quickstart(tmp_path, PYTHONPATH=f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    assert done.returncode == 2
    assert done.stderr == "crosstalk: error: quickstart draws with matplotlib: pip install 'crosstalk-memory[plots]'\n"
    assert not (tmp_path / "runs").exists()
    done = quickstart(tmp_path, "--set", "seeds=1", "--set", "seeds=2")
    assert done.returncode == 2 and "seeds is set already" in done.stderr
