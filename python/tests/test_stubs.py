"""The typed stub of the module against the module, and the package against mypy where that is installed."""
# SPDX-License-Identifier: Apache-2.0
import ast
import importlib.util
import subprocess
import sys

import pytest

import crosstalk as ct
from conftest import SOURCE

PACKAGE = SOURCE / "python" / "crosstalk"
KEPT = ("__init__", "__cuda_array_interface__")


def names_of(nodes):
    kinds = (ast.FunctionDef, ast.ClassDef)
    named = {n.name for n in nodes if isinstance(n, kinds)}
    return named | {n.target.id for n in nodes if isinstance(n, ast.AnnAssign)}


def test_the_stub_names_what_the_module_has():
    tree = ast.parse((PACKAGE / "_core.pyi").read_text())
    public = {n for n in dir(ct._core) if not n.startswith("_")}
    assert names_of(tree.body) == public
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not issubclass(getattr(ct._core, node.name), Exception):
            has = vars(getattr(ct._core, node.name))
            members = {n for n in has if not n.startswith("_") or (n in KEPT and n in names_of(node.body))}
            assert names_of(node.body) == members, node.name


def test_types():
    for package in ("mypy", "torch"):  # without torch's types its classes are Any
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    done = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--ignore-missing-imports", "--no-incremental",
                           "--follow-imports=silent", "--cache-dir=/dev/null", str(PACKAGE)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
