"""Examples of docs/python.md, and of docs/own_model.md what needs PyTorch, run in order in an empty folder."""
# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
import sys

import pytest

from conftest import SOURCE, examples_of
from crosstalk import studies

for package in ("torch", "jax", "pandas", "matplotlib"):
    pytest.importorskip(package, reason=f"{package} is not installed")


@pytest.mark.parametrize("name_of_page, first", [("python.md", "# Python"), ("own_model.md", "## A PyTorch model")])
def test_the_examples_of_the_page(tmp_path, monkeypatch, name_of_page, first):
    import matplotlib

    matplotlib.use("Agg")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "experiments").symlink_to(SOURCE / "experiments")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "crosstalk").symlink_to(studies.program())
    (tmp_path / "bin" / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (tmp_path / "bin" / "python").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("CROSSTALK_PYTHON", sys.executable)  # crosstalk work finds it
    page, names, ran = SOURCE / "docs" / name_of_page, {"__name__": "page"}, []
    whole = page.read_text()
    before = whole[: whole.index(first)].count("\n")
    for language, name, text, line in examples_of(page):
        if line < before:
            continue
        if name:
            (tmp_path / name).write_text(text)
        elif language == "python":
            exec(compile("\n" * line + text, str(page), "exec"), names)
        elif language == "sh" and "pip install" not in text:
            done = subprocess.run(["bash", "-euo", "pipefail", "-c", text], capture_output=True, text=True)
            assert done.returncode == 0, f"{text}\n{done.stdout}{done.stderr}"
        ran.append(name or language)
    if name_of_page == "python.md":
        assert ran.count("python") >= 6 and "mine.py" in ran and "own.toml" in ran
    else:
        assert ran == ["mean.py", "beside.toml", "sh", "fla_layer.py", "fla.toml", "sh"]
