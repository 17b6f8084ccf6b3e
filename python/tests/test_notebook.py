"""docs/notebook.ipynb runs from its first cell to its last, and docs/notebook.md is its rendering."""
# SPDX-License-Identifier: Apache-2.0
import importlib.util
import json
import re

import pytest

from conftest import SOURCE

spec = importlib.util.spec_from_file_location("notebook", SOURCE / "scripts/notebook.py")
assert spec is not None and spec.loader is not None
notebook = importlib.util.module_from_spec(spec)
spec.loader.exec_module(notebook)
PATH = SOURCE / "docs/notebook.ipynb"


def test_the_page_is_made_from_the_notebook():
    cells, page = json.loads(PATH.read_text()), PATH.with_suffix(".md").read_text()
    assert notebook.code_of_page(page) == notebook.code_of(cells), "run scripts/notebook.py"
    for cell in cells["cells"]:
        assert not cell.get("outputs"), "the notebook holds outputs, which belong into the page alone"
        if cell["cell_type"] == "markdown":
            assert notebook.text_of(cell["source"]) in page, "run scripts/notebook.py"
    pictures = re.findall(r"\]\(([^)]+\.png)\)", page)
    assert pictures and all((PATH.parent / picture).stat().st_size < 100_000 for picture in pictures)


def test_the_notebook_runs():
    for package in ("torch", "pandas", "matplotlib", "nbclient", "ipykernel"):
        pytest.importorskip(package, reason=f"{package} is not installed")
    page, figures = notebook.page_of(notebook.executed(PATH, {"train.max_steps = 500": "train.max_steps = 40"}), "figures")
    assert len(figures) == 2 and "8 runs of built-in memories, 4 of the class" in page
