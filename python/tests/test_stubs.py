"""What editors know: stubs against the module and the registries, types of package, tests and pages, examples of docstrings."""
# SPDX-License-Identifier: Apache-2.0
import ast
import doctest
import importlib
import importlib.util
import json
import os
import subprocess
import sys

import pytest

import crosstalk as ct
from conftest import SOURCE, examples_of

PACKAGE = SOURCE / "python" / "crosstalk"
KEPT = ("__init__", "__cuda_array_interface__")


def names_of(nodes):
    kinds = (ast.FunctionDef, ast.ClassDef)
    named = {n.name for n in nodes if isinstance(n, kinds)}
    return named | {ast.unparse(n.target) for n in nodes if isinstance(n, ast.AnnAssign)}


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


def test_stubs_made_from_the_registries_are_current():
    done = subprocess.run([sys.executable, SOURCE / "scripts/python_stubs.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_stub_names_what_the_package_has():
    tree = ast.parse((PACKAGE / "__init__.pyi").read_text())
    shown = {a.asname for n in tree.body if isinstance(n, ast.ImportFrom) for a in n.names if a.asname}
    shown |= {n.name for n in tree.body if isinstance(n, ast.FunctionDef)}
    assert shown == set(ct.__all__)


def test_dir_has_what_is_looked_for_when_it_is_used_and_nothing_of_the_inside():
    public = {name for name in dir(ct) if not name.startswith("__")}
    assert public == set(ct.__all__) and {"torch", "jax", "train", "plot"} <= public
    assert not {"memories_", "arrays", "calls", "checks", "_core"} & public
    for name in ("torch", "jax"):
        if importlib.util.find_spec(name):
            inner = getattr(ct, name)
            assert {n for n in dir(inner) if not n.startswith("__")} == set(inner.__all__)


def test_types_of_pages_and_tests(tmp_path):
    for package in ("pyright", "torch", "jax", "pandas"):  # without their types calls are unknown
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    for page in ("python", "own_data", "own_model", "notebook", "apply"):
        text = "\n".join(text for language, _, text, _ in examples_of(SOURCE / f"docs/{page}.md") if language == "python")
        # The page shows what an editor underlines, too.
        (tmp_path / f"page_{page}.py").write_text(text.replace("vocabulry=64)", "vocabulry=64)  # pyright: ignore[reportCallIssue]"))
    (tmp_path / "tests").symlink_to(SOURCE / "python/tests")
    config = {"include": ["*.py", "tests"], "exclude": ["tests/test_wrong_calls.py"], "typeCheckingMode": "basic",
              "reportMissingImports": "warning",  # of packages that a page is about and that the tests do without
              "extraPaths": [str(SOURCE / "python"), str(SOURCE / "python/tests"), str(SOURCE / "scripts")]}  # fmt: skip
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(config))
    words = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "-p", str(tmp_path), "--outputjson"]
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"})
    if not done.stdout.startswith("{"):
        pytest.skip(f"pyright is not installed as a whole: {done.stderr.strip()[-200:]}")
    told = json.loads(done.stdout)
    errors = [d for d in told["generalDiagnostics"] if d["severity"] == "error"]
    wrong = [f"{d['file']}:{d['range']['start']['line'] + 1}: {d['message']}" for d in errors]
    assert told["summary"]["filesAnalyzed"] > 15 and wrong == []


@pytest.mark.parametrize("name", ["memories", "rules", "tasks", "stores", "studies", "plots", "conversion", "torch", "jax"])
def test_examples_of_docstrings(name, store, tmp_path, monkeypatch):
    for needs in ("pandas", "matplotlib", *({"jax", "torch"} & {name})):
        pytest.importorskip(needs, reason=f"{needs} is not installed")
    import numpy

    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "mqar").symlink_to(store)
    monkeypatch.chdir(tmp_path)

    module = importlib.import_module(f"crosstalk.{name}")
    done = doctest.testmod(module, extraglobs={"ct": ct, "np": numpy})
    assert done.failed == 0 and done.attempted > 0
